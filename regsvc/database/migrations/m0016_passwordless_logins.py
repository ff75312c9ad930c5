"""Columns for what a locked row loses beside its password, and for the login that was answered with a kick."""

TABLES = """
ALTER TABLE regsvc_player
  ADD COLUMN kept_group INT NULL -- group that the lock replaced, where AuthMe has a column of groups
;
ALTER TABLE regsvc_player
  ADD COLUMN kicked_login BIGINT NULL -- last login of the locked row for which its player was kicked, as AuthMe writes it; 0: unknown
;
"""
