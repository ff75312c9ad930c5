"""A column that says which links undo a change that may be a thief's."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_link ADD COLUMN
  undoes {bool} NOT NULL DEFAULT 0 -- whether it takes the account back for the address that it was mailed to;
"""
