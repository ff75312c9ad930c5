"""A column for the name of AuthMe's table, so that another game server's companion does not take the database for its own."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_installation ADD COLUMN
  players_table {text:255} NULL -- table of the game's players, as database.table; empty: not on this database server;
"""
