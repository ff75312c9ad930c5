"""Tables for decisions in the team's chats."""

from typing import Final

TABLES: Final = """
CREATE TABLE regsvc_team_chat_message (
  id           {id}, -- the number by which people in the chat name the application
  chat         {text:64} NOT NULL, -- platform and channel
  user_id      BIGINT NOT NULL, -- id of the applicant; 0: a test
  username_key {text:255} NOT NULL, -- the applicant's name in lower case
  remote_id    {text:64} NULL, -- the platform's id of the message; empty: not sent yet
  shown        {text:64} NOT NULL, -- checksum of what it shows; of a test: who answered
  version      {text:16} NOT NULL, -- checksum of the answers when it was shown
  is_open      {bool} NOT NULL, -- offers to decide
  changed_at   {moment} NOT NULL, -- when it was last sent or changed
  UNIQUE (chat, user_id)
);

CREATE INDEX regsvc_team_chat_message_username_key ON regsvc_team_chat_message (username_key);

CREATE TABLE regsvc_team_chat_link (
  id         {id}, -- never reused
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the member of the team
  platform   {text:16} NULL, -- the chat platform; empty: the code was not used yet
  account    {text:300} NULL UNIQUE, -- platform and id of the account there
  name       {text:255} NULL, -- the account's name when it was linked
  code_hash  {text:64} NULL UNIQUE, -- keyed hash of the code; empty once used
  created_at {moment} NOT NULL, -- when the code was made
  linked_at  {moment} NULL -- when the account was linked
);

CREATE INDEX regsvc_team_chat_link_user_id ON regsvc_team_chat_link (user_id);

CREATE TABLE regsvc_team_chat_event (
  id          {text:80} PRIMARY KEY, -- platform and id of what it sent us, so that it counts once
  received_at {moment} NOT NULL -- when
);

CREATE INDEX regsvc_team_chat_event_received_at ON regsvc_team_chat_event (received_at);
"""
