"""A column for AuthMe's table, so that another game server's companion does not take the database for its own."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_installation ADD COLUMN
  authme_table {text:255} NULL -- AuthMe's table, as database.table; empty: it is not on this database server;
"""
