"""Indexes for the list of users: by the state of the player, and by status in the order of names."""

from typing import Final

TABLES: Final = """
CREATE INDEX regsvc_sync_record_plugin_state ON regsvc_sync_record (plugin_state, user_id, username_key);

CREATE INDEX regsvc_user_status_name ON regsvc_user (status, username_key);
"""
