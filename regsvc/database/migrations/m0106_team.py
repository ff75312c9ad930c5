"""Tables and columns for a team that decides."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_user ADD COLUMN
  role {text:16} NULL CHECK (role IN ('reviewer', 'moderator')) -- role in the team; empty for players; operators may edit it;

ALTER TABLE regsvc_user ADD COLUMN
  applied_role {text:16} NULL -- role noted so far; written by the daemon only;

CREATE INDEX regsvc_user_role ON regsvc_user (role, applied_role);

CREATE INDEX regsvc_user_registration_ip ON regsvc_user (registration_ip, status);

CREATE TABLE regsvc_token (
  id           {id}, -- never reused
  name         {text:40} NOT NULL, -- as the audit log shows it
  active_name  {text:40} NULL UNIQUE, -- the name in lower case; empty once revoked
  public_part  {text:10} NOT NULL UNIQUE, -- the part after cmp_, by which it is found
  hash         {text:64} NOT NULL, -- SHA-256 of the token, which is not stored
  permissions  {text:255} NOT NULL, -- what it may do, separated by spaces
  made_by      {text:255} NULL, -- its maker in lower case, whose rights limit it; empty: the host, on the command line
  maker        {text:255} NOT NULL, -- its maker as the audit log shows them
  created_at   {moment} NOT NULL, -- when it was made
  expires_at   {moment} NULL, -- when it ends; empty: never
  last_used_at {moment} NULL, -- when it was last used, to the hour
  revoked_at   {moment} NULL -- when it was revoked, or its maker lost the right
);

ALTER TABLE regsvc_review ADD COLUMN
  answers {long_text} NULL -- JSON of the answers that a rejection is about, to compare when the player applies again;

CREATE TABLE regsvc_note (
  id           {id}, -- in order
  user_id      BIGINT NOT NULL, -- id of the user at that time
  username_key {text:255} NOT NULL, -- in lower case
  email_key    {text:320} NULL, -- the user's proven address at that time, normalized
  author       {text:255} NOT NULL, -- who wrote it
  text         {long_text} NOT NULL, -- what the team wrote; never shown to players, but in their export
  created_at   {moment} NOT NULL -- when
);

CREATE INDEX regsvc_note_username_key ON regsvc_note (username_key);

CREATE INDEX regsvc_note_email_key ON regsvc_note (email_key);

CREATE TABLE regsvc_setting (
  name       {text:40} PRIMARY KEY, -- registration or announcement
  value      {long_text} NOT NULL, -- JSON
  changed_by {text:255} NOT NULL, -- who changed it
  changed_at {moment} NOT NULL -- when
);
"""
