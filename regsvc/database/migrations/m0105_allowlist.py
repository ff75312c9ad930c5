"""A table of the names on the game's allowlist, as far as they are users' or were."""

from typing import Final

TABLES: Final = """
CREATE TABLE regsvc_allowlist (
  username_key {text:255} PRIMARY KEY, -- the name in lower case
  username     {text:255} NOT NULL, -- the name as it is, or was, on the list
  state        {text:16} NOT NULL, -- add and remove: is to be; listed; taken_off: by somebody in the game
  uuid         {text:36} NULL, -- the player's in the game; empty: not known yet
  reason       {text:16} NULL, -- what it waits for: no_uuid, no_profile, uuid_in_doubt, restart, refused, held_back
  since        {moment} NOT NULL, -- when this became so
  user_id      BIGINT NULL, -- id of the user; empty once deleted
  shown_as     {text:16} GENERATED ALWAYS AS (CASE WHEN state = 'taken_off' THEN 'removed' WHEN state = 'add' AND reason = 'uuid_in_doubt' THEN 'conflict' WHEN state = 'listed' AND reason IS NULL THEN 'listed' ELSE 'waiting' END) {generated} -- state shown in the user list as `allowlist`
);

CREATE INDEX regsvc_allowlist_state ON regsvc_allowlist (state, reason);
CREATE INDEX regsvc_allowlist_shown_as ON regsvc_allowlist (shown_as, user_id, username_key);
"""
