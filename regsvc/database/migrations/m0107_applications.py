"""Tables and columns for applications: signals, conversations, invitations."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_user ADD COLUMN
  look_key {text:255} GENERATED ALWAYS AS (REPLACE(REPLACE(REPLACE(username_key, 'i', 'l'), '1', 'l'), '0', 'o')) VIRTUAL -- the same for names that look alike: I, l and 1, 0 and O;

CREATE INDEX regsvc_user_look_key ON regsvc_user (look_key);

CREATE INDEX regsvc_user_status_ip ON regsvc_user (status, registration_ip);

CREATE TABLE regsvc_player_address (
  id      {id}, -- in order
  user_id BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the player's user
  source  {text:8} NOT NULL CHECK (source IN ('ip', 'regip')), -- column of AuthMe's table: of the last login, or of the registration in the game
  address {text:45} NOT NULL, -- the address there
  seen_at {moment} NOT NULL, -- when the player logged in, or registered
  UNIQUE (user_id, source)
);

CREATE INDEX regsvc_player_address_address ON regsvc_player_address (address);

CREATE INDEX regsvc_player_address_seen_at ON regsvc_player_address (seen_at);

ALTER TABLE regsvc_questionnaire_result ADD COLUMN
  answer_seconds INTEGER NULL -- from the proof of the address to the answers; empty: not known;

CREATE TABLE regsvc_reader (
  reader       {text:255} PRIMARY KEY, -- member of the team, in lower case
  name         {text:255} NOT NULL, -- as shown
  username_key {text:255} NOT NULL, -- the user who is open at theirs
  seen_at      {moment} NOT NULL -- when their page last said so
);

CREATE TABLE regsvc_invitation (
  id         {id}, -- never reused
  nonce      {text:32} NOT NULL, -- from which its token is derived, which is not stored
  grants     {text:64} NOT NULL, -- what the invited need not do, separated by spaces
  uses       INTEGER NOT NULL, -- for how many registrations it is
  used       INTEGER NOT NULL, -- how many it was used for
  made_by    {text:255} NULL, -- its maker in lower case, with whose right it ends; empty: the host, on the command line
  maker      {text:255} NOT NULL, -- its maker as the audit log shows them
  created_at {moment} NOT NULL, -- when it was made
  expires_at {moment} NOT NULL, -- when it ends
  revoked_at {moment} NULL -- when it was revoked, or its maker lost the right
);

ALTER TABLE regsvc_user ADD COLUMN
  invited_by {text:255} NULL -- who invited them, as the audit log shows that; empty: nobody;
"""
