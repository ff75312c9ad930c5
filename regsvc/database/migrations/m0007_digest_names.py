"""The names of each bucket's rows, so that a run sees which players left without a query per user."""

TABLES = """
ALTER TABLE regsvc_digest
  ADD COLUMN names BIGINT NOT NULL DEFAULT 0 -- sum of the CRC32s of their names; 0 until the bucket is next read
;
"""
