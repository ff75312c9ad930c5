"""Marks of the hashes that a player had before: many passwords that become earlier ones again are a restored backup."""

TABLES = """
ALTER TABLE regsvc_player
  ADD COLUMN earlier_hashes {text:64} NULL -- short checksums of the last synced hashes before this one, newest last
;
"""
