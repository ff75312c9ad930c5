"""Without two indexes and a column that nobody needs.

Nobody looks for wishes; a typed status is found by `changed_at`, which typing it sets; and whether a name left a bucket
is told by its number of rows and by the names that came. The digest is made anew by the next run.
"""

TABLES = """
DROP INDEX regsvc_player_wish ON regsvc_player;
DROP INDEX regsvc_user_edited ON regsvc_user;

DROP TABLE IF EXISTS regsvc_digest;
CREATE TABLE regsvc_digest (
  bucket    INTEGER PRIMARY KEY, -- neighbouring ids of the plugin's table, or names with the same CRC32 modulo 65536
  row_count INTEGER NOT NULL, -- rows of the plugin's table in it
  checksum  BIGINT NOT NULL -- over what the sync compares of them
);
"""
