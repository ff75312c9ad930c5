"""The migrations of this version, in order.

They are listed here, not searched for: a module that another version left in the folder is never run.
"""

from typing import Final

MIGRATIONS: Final = (
    "m0001_first_tables",
    "m0002_views",
    "m0003_questionnaire",
    "m0004_chat_link",
    "m0005_outbox_payload",
    "m0006_sync_digest",
    "m0007_digest_names",
    "m0008_fewer_indexes",
    "m0009_adoption_marks",
    "m0010_dates",
    "m0011_earlier_hashes",
    "m0012_second_factor",
    "m0013_code_clients",
    "m0014_signing_key",
    "m0015_may_reapply",
    "m0016_passwordless_logins",
)
