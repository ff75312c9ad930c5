"""A table of the names on the game's allowlist, as far as they are users' or were."""

from typing import Final

TABLES: Final = """
CREATE TABLE regsvc_allowlist (
  username_key {text:255} PRIMARY KEY, -- the name in lower case
  username     {text:255} NOT NULL, -- the name as it is, or was, on the list
  state        {text:16} NOT NULL, -- add and remove: is to be; listed; taken_off: by somebody in the game
  uuid         {text:36} NULL, -- the player's in the game; empty: not known yet
  reason       {text:16} NULL, -- what it waits for: no_uuid, uuid_in_doubt, restart, refused, held_back
  since        {moment} NOT NULL -- when this became so
);

CREATE INDEX regsvc_allowlist_state ON regsvc_allowlist (state);
"""
