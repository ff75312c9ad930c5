"""Effects of actions on our side as plain data; `SyncContext.write` writes those of a whole page in few statements."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from regsvc.database.models import OPEN, PROVISION, PluginState
from regsvc.notifications.rcon import Cause
from regsvc.sync.actions import Conflict
from regsvc.sync.records import NO_INTENT, Account, SyncValues, UserRecord
from regsvc.users.password_notices import PasswordChange

NO_PASSWORD: Final = dict.fromkeys(("password_hash", "password_salt", "password_algorithm", "password_set_at"))


AuditNote = tuple[str, Mapping[str, Any] | None]
"""Action and details of an audit entry by the sync about an account's user."""


@dataclass(frozen=True)
class Effects:
    """Changes on our side that an action entails: columns of sync record and user, and more that goes with them."""

    sync_record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ends_sessions: bool = False
    audit: tuple[AuditNote, ...] = ()
    kick: Cause | None = None
    """Why the player is kicked from the game; None: the player may stay."""
    password: PasswordChange | None = None
    """The change of the user's password by it, of which they are told."""
    conflicts: tuple[Conflict, ...] = ()
    """Conflicts met while the action was applied, for the report."""

    def __or__(self, later: "Effects") -> "Effects":
        """Return both effects as one; where both write a column, the later one stays."""
        if self is NOTHING or later is NOTHING:
            return later if self is NOTHING else self
        return Effects(
            {**self.sync_record, **later.sync_record},
            {**self.user, **later.user},
            self.ends_sessions or later.ends_sessions,
            self.audit + later.audit,
            self.kick or later.kick,
            later.password or self.password,
            self.conflicts + later.conflicts,
        )


NOTHING: Final = Effects()


def intent_effects(intent: str | None, taken_hash: str | None = None) -> Effects:
    """Return the effects of recording what is requested of the row; None: nothing is.

    `taken_hash`, with `OPEN`: the hash in the row, which counts; None: the row gets the user's own password.
    """
    if intent is None:
        return NOTHING
    if intent == PROVISION:
        return Effects({"intent": intent})  # the hash of a row being inserted stays: by it we know the row as ours
    return Effects({**NO_INTENT, "intent": intent, "intent_hash": taken_hash})


def state_effects(account: Account, state: PluginState) -> Effects:
    """Return the effects of a state shown in the user list. A player's return or conflict is audited once."""
    user, was = account.user, account.sync_record.plugin_state if account.sync_record is not None else None
    audit: tuple[AuditNote, ...] = ()
    if was != state and user is not None and state == "returned":
        audit = (("sync.player_returned", None),)
    elif was != state and user is not None and state == "conflict":
        audit = (("sync.conflict", {"field": "name", "kept": "both"}),)
    changes: dict[str, Any] = {"plugin_state": state, "user_id": user.id if user is not None else None}
    known = account.sync_record
    if state == "returned" and known is not None and known.intent in (OPEN, PROVISION):
        changes |= NO_INTENT  # it was requested of another row
    return Effects(changes, audit=audit)


def apply_in_memory(account: Account, effects: Effects, moment: datetime) -> Account:
    """Return the account as it is once the effects are written at `moment`."""
    if not effects.sync_record and not effects.user and not effects.ends_sessions:
        return account
    user, sync_record = account.user, account.sync_record
    if user is not None and (effects.user or effects.ends_sessions):
        user = user.with_columns(columns_of_user(user, effects))
    if effects.sync_record:
        known = sync_record or SyncValues(account.key, plugin_since=moment)
        sync_record = replace(known, **effects.sync_record)
        if known.base_hash is not None and known.base_hash != sync_record.base_hash:
            sync_record = sync_record.with_earlier_hash(known.base_hash)
        if sync_record.plugin_state != known.plugin_state:
            sync_record = replace(sync_record, plugin_since=moment)
    return replace(account, user=user, sync_record=sync_record)


def columns_of_user(user: UserRecord, effects: Effects) -> dict[str, Any]:
    """Return the columns of the user that the effects change."""
    ended = {"token_generation": user.token_generation + 1} if effects.ends_sessions else {}
    return {**effects.user, **ended}
