"""Rejections after which the applicant may apply again at once."""

TABLES = """
ALTER TABLE regsvc_user
  ADD COLUMN may_reapply {bool} NOT NULL DEFAULT 0 -- rejected, but may apply again at once, under the same name, too
;
"""
