"""Indexes for lists: of users by the player's state, and by status and name; of audit entries in the order of time."""

from typing import Final

TABLES: Final = """
CREATE INDEX regsvc_sync_record_plugin_state ON regsvc_sync_record (plugin_state, user_id, username_key);

CREATE INDEX regsvc_user_status_name ON regsvc_user (status, username_key);

CREATE INDEX regsvc_audit_action_time ON regsvc_audit (action, created_at, id);

CREATE INDEX regsvc_audit_operator_time ON regsvc_audit (operator, created_at, id, action);

DROP INDEX regsvc_audit_action ON regsvc_audit;

DROP INDEX regsvc_audit_operator ON regsvc_audit;
"""
