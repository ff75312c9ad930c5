"""A table of the operators that the daemon knows, so that a restart forgets none whose op AuthMe holds."""

from typing import Final

TABLES: Final = """
CREATE TABLE regsvc_operator (
  username_key {text:255} PRIMARY KEY, -- the name in lower case
  username     {text:255} NOT NULL, -- the name as in ops.json
  uuid         {text:36} NULL, -- the player's in ops.json; empty: it has none
  level        INTEGER NOT NULL, -- the level that counts here: beside AuthMe the lowest since they became an operator
  note         {text:120} NULL, -- mark of a note of AuthMe that was there while they were in ops.json: it holds nothing
  left_at      {moment} NULL -- when they had ceased to be an operator for certain; empty: they are one
);
"""
