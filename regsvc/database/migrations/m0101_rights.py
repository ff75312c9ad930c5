"""Columns for what ends with a right: whether a session showed a second factor, and who hands a link over."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_session ADD COLUMN
  has_second_factor {bool} NOT NULL DEFAULT 0 -- whether its user showed a second factor;

ALTER TABLE regsvc_link ADD COLUMN
  issued_by {text:255} NULL -- operator who hands it over, in lower case; empty for a mailed one and for the command line's;
"""
