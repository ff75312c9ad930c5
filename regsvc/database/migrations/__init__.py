"""The migrations of this version, in order.

They are listed here, not searched for: a module that another version left in the folder is never run. Those below 100
were of preview versions, whose database `upgrade_from_preview` brings to the baseline.
"""

from typing import Final

MIGRATIONS: Final = (
    "m0100_baseline",
    "m0101_rights",
    "m0102_players_table",
    "m0103_urgent_mails",
    "m0104_lists",
    "m0105_allowlist",
    "m0106_team",
    "m0107_applications",
    "m0108_team_chat",
    "m0109_operators",
    "m0110_entitlement",
    "m0111_undo_links",
    "m0112_mailboxes",
    "m0113_equal_tables",
    "m0114_membership",
    "m0115_order_by_time",
)
