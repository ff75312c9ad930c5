"""Chat accounts: open authorization requests, and the links made from them."""

TABLES = """
CREATE TABLE regsvc_chat_request (
  id          {id}, -- in order
  state_hash  {text:64} NOT NULL UNIQUE, -- knows the state again; the state itself is kept nowhere
  token_hash  {text:64} NOT NULL, -- knows the link token of the browser that began it
  session_jti {text:32} NULL REFERENCES regsvc_session (jti) ON DELETE CASCADE, -- whose login began it; empty: nobody's
  created_at  {moment} NOT NULL -- when it was begun
);
CREATE INDEX regsvc_chat_request_session_jti ON regsvc_chat_request (session_jti);
CREATE INDEX regsvc_chat_request_created_at ON regsvc_chat_request (created_at);

CREATE TABLE regsvc_chat_link (
  id              {id}, -- in order
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- whose; empty while unclaimed
  claimed_account {text:300} NULL UNIQUE, -- platform and account, which nobody else may have; empty while unclaimed
  platform        {text:16} NOT NULL, -- where the account is
  account_id      {text:255} NOT NULL, -- its id there, which never changes
  username        {text:255} NOT NULL, -- its name there, when it was linked
  discriminator   {text:16} NOT NULL, -- the digits behind that name; 0 where there are none
  avatar          {text:255} NULL, -- what the platform calls its picture
  global_name     {text:255} NULL, -- the name it shows to others
  token_hash      {text:64} NOT NULL UNIQUE, -- knows the link token that claims it
  linked_at       {moment} NOT NULL -- when the platform vouched for it; unclaimed, it dies an hour later
);
"""
