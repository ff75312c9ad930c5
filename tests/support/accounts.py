"""Records of Alice for tests of the plan: her user, sync record and row; a test names the fields that differ."""

from datetime import UTC, datetime, timedelta
from typing import Any

from plugin_bridge.authme.players import PlayerRow, lock_text
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import APPROVED, PRESENT, VERIFIED
from regsvc.sync.records import Account, Policy, SyncValues, UserRecord

FIRST_START = datetime(2031, 5, 1, tzinfo=UTC)
REGISTERED = datetime(2031, 5, 2, tzinfo=UTC)
NOW = datetime(2031, 5, 4, tzinfo=UTC)
REGDATE = epoch_ms(REGISTERED) + 60_000
"""When Alice's row was made: a minute after she registered with us."""

WEB = StoredPassword("$SHA$web$0", None, "SHA256")
"""The password she chose with her verified e-mail."""
GAME = "$SHA$game$0"
"""A hash that AuthMe made."""


def user(**changes: Any) -> UserRecord:
    """Alice, approved, with a verified e-mail and a password; `status` is applied unless `applied_status` is given."""
    status = changes.setdefault("status", APPROVED)
    usual: dict[str, Any] = {
        "id": 7,
        "username": "Alice",
        "username_key": "alice",
        "email": "alice@example.org",
        "email_key": "alice@example.org",
        "is_email_verified": True,
        "applied_status": status,
        "created_at": REGISTERED,
        "ban_expires_at": None,
        "registration_ip": None,
    }
    password: StoredPassword | None = changes.pop("password", WEB)
    if password is not None:
        columns = ("password_hash", "password_salt", "password_algorithm")
        usual |= zip(columns, (password.hash, password.salt, password.algorithm), strict=True)
    return UserRecord(**usual | changes)


def row(**changes: Any) -> PlayerRow:
    """Her row as she was provisioned."""
    usual: dict[str, Any] = {
        "username": "alice",
        "realname": "Alice",
        "hash": WEB.hash,
        "email": "alice@example.org",
        "regdate": REGDATE,
        "has_session": 0,
    }
    return PlayerRow(**usual | changes)


def locked_row(hash_: str = WEB.hash, **changes: Any) -> PlayerRow:
    return row(hash=lock_text(hash_), **changes)


def synced(**changes: Any) -> SyncValues:
    """Her sync record, last synced with `row()`."""
    usual: dict[str, Any] = {
        "username_key": "alice",
        "user_id": 7,
        "presence": PRESENT,
        "base_hash": WEB.hash,
        "base_email": "alice@example.org",
        "base_realname": "Alice",
        "base_regdate": REGDATE,
        "plugin_state": "synced",
    }
    return SyncValues(**usual | changes)


def locked(hash_: str = WEB.hash, **changes: Any) -> SyncValues:
    """Her sync record, last synced with a row that we then locked."""
    usual = {"lock_reason": "banned", "locked_at": NOW, "kept_hash": hash_, "kept_origin": VERIFIED}
    return synced(**usual | {"plugin_state": "locked"} | changes)


def never_seen(presence: str = "absent", **changes: Any) -> SyncValues:
    """Her sync record as a registration creates it: there was no row then, or AuthMe could not be asked."""
    usual: dict[str, Any] = {"user_id": 7, "presence": presence, "plugin_state": "absent"}
    return SyncValues("alice", **usual | changes)


def account(
    user: UserRecord | None = None,
    sync_record: SyncValues | None = None,
    player: PlayerRow | None = None,
    **changes: Any,
) -> Account:
    usual: dict[str, Any] = {"key": "alice", "is_operator": False, "now": NOW}
    return Account(user=user, sync_record=sync_record, player=player, **usual | changes)


def policy(**changes: Any) -> Policy:
    """The policy of the default config, on an AuthMe with SHA256."""
    usual: dict[str, Any] = {
        "existing_players": "approved",
        "new_players": "pending",
        "on_player_removed": "respect",
        "unapproved_players": "lock",
        "conflict": "plugin",
        "first_started_at": FIRST_START,
        "algorithms": frozenset({"SHA256"}),
        "is_bridge_on": True,
    }
    return Policy(**usual | changes)


def ago(**amount: float) -> datetime:
    return NOW - timedelta(**amount)
