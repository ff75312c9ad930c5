"""Effects of actions on our side as plain data, and the writer that applies those of a whole page in few statements."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from peewee import Database, Model

from regsvc.core.clock import Clock
from regsvc.database.audit import Audit
from regsvc.database.bulk import insert_rows, update_rows
from regsvc.database.models import OPEN, PROVISION, Player, PluginState, Session, User
from regsvc.notifications.rcon import Cause, RconQueue
from regsvc.sync.actions import Conflict
from regsvc.sync.records import NO_INTENT, Account, SyncRecord, UserRecord

NO_PASSWORD: Final = dict.fromkeys(("password_hash", "password_salt", "password_algorithm", "password_set_at"))


class AuditNote(NamedTuple):
    """Action and details of an audit entry by the sync about an account's user."""

    action: str
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Effects:
    """Changes on our side that an action entails: columns of sync record and user, and more that goes with them."""

    sync_record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ends_sessions: bool = False
    audit: tuple[AuditNote, ...] = ()
    kick: Cause | None = None
    """Why the player is kicked from the game; None: the player may stay."""
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
        audit = (AuditNote("sync.player_returned"),)
    elif was != state and user is not None and state == "conflict":
        audit = (AuditNote("sync.conflict", {"field": "name", "kept": "both"}),)
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
        user = user.with_columns(_columns_of_user(user, effects))
    if effects.sync_record:
        known = sync_record or SyncRecord(account.key, plugin_since=moment)
        sync_record = replace(known, **effects.sync_record)
        if known.base_hash is not None and known.base_hash != sync_record.base_hash:
            sync_record = sync_record.with_earlier_hash(known.base_hash)
        if sync_record.plugin_state != known.plugin_state:
            sync_record = replace(sync_record, plugin_since=moment)
    return replace(account, user=user, sync_record=sync_record)


def _columns_of_user(user: UserRecord, effects: Effects) -> dict[str, Any]:
    ended = {"token_generation": user.token_generation + 1} if effects.ends_sessions else {}
    return {**effects.user, **ended}


class EffectWriter:
    """Writer of effects: one statement for each kind of change. Runs inside the caller's transaction."""

    def __init__(self, database: Database, audit: Audit, console: RconQueue, now: Clock) -> None:
        self._database = database
        self._audit = audit
        self._console = console
        self._now = now

    def write(self, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        """Write the effects, and return the accounts as they are afterwards."""
        if not cases:
            return []
        moment = self._now()
        changed = [apply_in_memory(account, effects, moment) for account, effects in cases]
        new, columns_of_known = [], []
        for (account, effects), now in zip(cases, changed, strict=True):
            if not effects.sync_record or now.sync_record is None:
                continue
            if account.sync_record is None:
                new.append(now.sync_record.columns() | {"changed_at": moment})
                continue
            columns = {name: getattr(now.sync_record, name) for name in effects.sync_record}
            for name in ("plugin_since", "earlier_hashes"):
                if getattr(now.sync_record, name) != getattr(account.sync_record, name):
                    columns[name] = getattr(now.sync_record, name)
            if now.sync_record == account.sync_record:
                columns = {"changed_at": moment}  # the next run looks again: the row may be written back meanwhile
            columns_of_known.append({"username_key": account.key, **columns})
        insert_rows(self._database, Player, new)
        self._update(Player, columns_of_known)
        users = [(a.user, _columns_of_user(a.user, e)) for a, e in cases if a.user is not None]
        self._update(User, [{"id": user.id, **columns} for user, columns in users if columns])
        self._end_sessions([a.user.id for a, e in cases if e.ends_sessions and a.user is not None])
        self._record(cases)
        return changed

    def _update(self, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
        by_columns: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            by_columns[tuple(row)].append(row)
        for group in by_columns.values():
            update_rows(self._database, model, group)

    def _end_sessions(self, user_ids: Sequence[int]) -> None:
        if user_ids:
            Session.delete().where(Session.user.in_(user_ids)).execute()

    def _record(self, cases: Sequence[tuple[Account, Effects]]) -> None:
        """Record the audit entries, and kick the players."""
        notes = [
            (note.action, account.user.username, note.detail)
            for account, effects in cases
            if account.user is not None
            for note in effects.audit
        ]
        self._audit.record_all("sync", notes)
        kicks = [(a.user.username, a.user.id, e.kick) for a, e in cases if a.user is not None and e.kick is not None]
        if kicks:
            self._console.on_row_changes(kicks)
