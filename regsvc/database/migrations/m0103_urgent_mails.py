"""An index for claiming messages that a person waits for before all others, however many wait."""

from typing import Final

TABLES: Final = """
CREATE INDEX regsvc_outbox_template ON regsvc_outbox (template, next_attempt_at);
"""
