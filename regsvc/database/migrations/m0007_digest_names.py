"""Which names the plugin's rows of a bucket had: whether somebody left is then known without asking for each user."""

TABLES = """
ALTER TABLE regsvc_digest
  ADD COLUMN names BIGINT NOT NULL DEFAULT 0 -- sum of the CRC32s of their names; 0 for a bucket not seen since
;
"""
