"""The digest of the last completed sync run, and marks on our rows that changed since a run looked at them.

`changed_at` is written by the database itself, whoever changes a row: MySQL's ON UPDATE, on SQLite a trigger.
"""

# ruff: noqa: S608 - names of our own tables alone

TABLES = """
CREATE TABLE regsvc_digest (
  bucket    INTEGER PRIMARY KEY, -- neighbouring ids of the plugin's table, or names with the same CRC32 modulo 65536
  row_count INTEGER NOT NULL, -- rows of the plugin's table in it
  checksum  BIGINT NOT NULL -- checksum of the columns that the sync compares
);

CREATE TABLE regsvc_sync_state (
  id          INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  policy      {text:64} NOT NULL, -- fingerprint of config and version; if it changes, every row is compared again
  operators   {long_text} NOT NULL, -- operators' names at that time, in lower case, one per line
  user_count  BIGINT NOT NULL, -- users at that time
  user_ids    BIGINT NOT NULL, -- the sum of their ids: changes if users were deleted with SQL
  newest_id   BIGINT NOT NULL, -- the newest user with a player: a newer one means that rows may have left as well
  compared_at {moment} NOT NULL -- when every row was last compared
);

ALTER TABLE regsvc_user
  ADD COLUMN changed_at {touched} NULL -- when the row last changed; empty once a sync run has processed it
;
CREATE INDEX regsvc_user_changed_at ON regsvc_user (changed_at);

ALTER TABLE regsvc_player
  ADD COLUMN changed_at {touched} NULL -- when the row last changed; empty once a sync run has processed it
;
CREATE INDEX regsvc_player_changed_at ON regsvc_player (changed_at);
"""

_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

# An update that sets changed_at itself is the sync's own; on MySQL the column does all of this alone.
TRIGGERS = {
    "sqlite": [
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_new AFTER INSERT ON regsvc_user WHEN NEW.changed_at IS NULL
        BEGIN UPDATE regsvc_user SET changed_at = {_NOW} WHERE id = NEW.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_changed AFTER UPDATE ON regsvc_user
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_user SET changed_at = {_NOW} WHERE id = NEW.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_gone AFTER DELETE ON regsvc_user
        BEGIN UPDATE regsvc_player SET changed_at = {_NOW} WHERE user_id = OLD.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_player_is_new AFTER INSERT ON regsvc_player WHEN NEW.changed_at IS NULL
        BEGIN UPDATE regsvc_player SET changed_at = {_NOW} WHERE username_key = NEW.username_key; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_player_is_changed AFTER UPDATE ON regsvc_player
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_player SET changed_at = {_NOW} WHERE username_key = NEW.username_key; END
        """,
    ],
}
