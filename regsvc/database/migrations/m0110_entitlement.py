"""Columns that say by what things were made that work by a right."""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_token ADD COLUMN
  has_second_factor {bool} NOT NULL DEFAULT 0 -- whether its maker had shown a second factor;

ALTER TABLE regsvc_invitation ADD COLUMN
  has_second_factor {bool} NOT NULL DEFAULT 0 -- whether its maker had shown a second factor;

ALTER TABLE regsvc_invitation ADD COLUMN
  token_id BIGINT NULL -- id of the API token that it was made with; empty: by a person, or the host;

ALTER TABLE regsvc_link ADD COLUMN
  has_second_factor {bool} NOT NULL DEFAULT 0 -- whether its maker had shown a second factor;

ALTER TABLE regsvc_link ADD COLUMN
  token_id BIGINT NULL -- id of the API token that it was made with; empty: by a person, or the host;

ALTER TABLE regsvc_team_chat_link ADD COLUMN
  has_second_factor {bool} NOT NULL DEFAULT 0 -- whether its maker had shown a second factor;
"""
