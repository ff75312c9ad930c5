"""Drops two indexes and a column that are not needed.

No query searches for pending intents. A status typed in SQL is found by `changed_at`, which the edit sets. A row
deleted from a bucket is found by its number of rows and by the new names.
"""

TABLES = """
DROP INDEX regsvc_player_wish ON regsvc_player;
DROP INDEX regsvc_user_edited ON regsvc_user;

ALTER TABLE regsvc_digest DROP COLUMN names;
"""
