"""Without two indexes and a column that nobody needs.

Nobody looks for wishes; a typed status is found by `changed_at`, which typing it sets; and whether a name left a bucket
is told by its number of rows and by the names that came.
"""

TABLES = """
DROP INDEX regsvc_player_wish ON regsvc_player;
DROP INDEX regsvc_user_edited ON regsvc_user;

ALTER TABLE regsvc_digest DROP COLUMN names;
"""
