"""Chat accounts: open authorization requests, and the links made from them."""

TABLES = """
CREATE TABLE regsvc_chat_request (
  id          {id}, -- in order
  state_hash  {text:64} NOT NULL UNIQUE, -- hash of the state, which itself is not stored
  token_hash  {text:64} NOT NULL, -- hash of the link token of the browser that started it
  session_jti {text:32} NULL REFERENCES regsvc_session (jti) ON DELETE CASCADE, -- session that started it; empty without a login
  created_at  {moment} NOT NULL -- when it was started
);
CREATE INDEX regsvc_chat_request_session_jti ON regsvc_chat_request (session_jti);
CREATE INDEX regsvc_chat_request_created_at ON regsvc_chat_request (created_at);

CREATE TABLE regsvc_chat_link (
  id              {id}, -- in order
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user; empty while unclaimed
  claimed_account {text:300} NULL UNIQUE, -- platform and account, unique among users; empty while unclaimed
  platform        {text:16} NOT NULL, -- chat platform
  account_id      {text:255} NOT NULL, -- its id there, which never changes
  username        {text:255} NOT NULL, -- its name there, when it was linked
  discriminator   {text:16} NOT NULL, -- the digits behind that name; 0 where there are none
  avatar          {text:255} NULL, -- the platform's id of its picture
  global_name     {text:255} NULL, -- its display name
  token_hash      {text:64} NOT NULL UNIQUE, -- hash of the link token that claims it
  linked_at       {moment} NOT NULL -- when the platform confirmed it; unclaimed, it expires an hour later
);
"""
