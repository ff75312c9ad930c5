"""Indexes of users by the time of their registration, and the devices of sessions."""

from typing import Final

TABLES: Final = """
CREATE INDEX regsvc_user_time ON regsvc_user (created_at DESC, id DESC);

CREATE INDEX regsvc_user_status_time ON regsvc_user (status, created_at DESC, id DESC);

DROP INDEX regsvc_user_status_newest ON regsvc_user;

CREATE INDEX regsvc_user_queue ON regsvc_user (status, is_asked, created_at, id, username_key);

DROP INDEX regsvc_user_waiting ON regsvc_user;

ALTER TABLE regsvc_session ADD COLUMN
  device {text:64} NULL -- browser and system of the login, Firefox/Windows; empty: not known;
"""
