"""Cases, which steps are applied to, and the services that steps act on."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar

from peewee import Database, Model

from plugin_bridge.authme.players import PlayerRow, Players, RowWrite, WriteResult
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import SYNC, Audit
from regsvc.database.bulk import insert_rows, update_rows
from regsvc.database.models import Session, SyncRecord, User
from regsvc.notifications.rcon import RconQueue
from regsvc.sync.actions import SyncAction
from regsvc.sync.effects import NOTHING, Effects, apply_in_memory, columns_of_user
from regsvc.sync.records import Account, SyncValues, UserRecord
from regsvc.users.password_notices import PasswordNotices
from regsvc.users.transitions import Transitions

A = TypeVar("A", bound=SyncAction)
_WRITTEN: Final = WriteResult(is_written=True)


@dataclass(frozen=True)
class SyncContext:
    """Everything a step reads and writes. Blocking.

    `find_uuid` returns the game's UUID for a Java player of this name, or None if it is unknown. `console` kicks
    players and sends game commands.
    """

    database: Database
    players: Players
    transitions: Transitions
    audit: Audit
    now: Clock
    find_uuid: Callable[[str], str | None]
    console: RconQueue
    notices: PasswordNotices

    def write(self, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        """Write the effects in the caller's transaction, and return the accounts as they are afterwards.

        It takes one statement for each kind of change.
        """
        if not cases:
            return []
        moment = self.now()
        changed, new_records, known_records, users, notes, kicks, logged_out = [], [], [], [], [], [], []
        passwords = [effects.password for _account, effects in cases if effects.password is not None]
        for account, effects in cases:
            now = apply_in_memory(account, effects, moment)
            changed.append(now)
            if effects.sync_record and now.sync_record is not None:
                if account.sync_record is None:
                    new_records.append(now.sync_record.columns() | {"changed_at": moment})
                else:
                    columns = _changed_columns(account.sync_record, now.sync_record, effects, moment)
                    known_records.append({"username_key": account.key, **columns})
            user = account.user
            if user is None:
                continue
            if columns := columns_of_user(user, effects):
                users.append({"id": user.id, **columns})
            if effects.ends_sessions:
                logged_out.append(user.id)
            if effects.kick is not None:
                kicks.append((user.username, user.id, effects.kick))
            for action, detail in effects.audit:
                notes.append((action, user.username, detail))
        insert_rows(self.database, SyncRecord, new_records)
        self._update(SyncRecord, known_records)
        self._update(User, users)
        if logged_out:
            Session.delete().where(Session.user.in_(logged_out)).execute()
        self.audit.record_all(SYNC, notes)
        self.notices.tell_each(passwords)
        if kicks:
            self.console.on_row_changes(kicks)
        return changed

    def _update(self, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
        by_columns: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            by_columns[tuple(row)].append(row)
        for group in by_columns.values():
            update_rows(self.database, model, group)


def _changed_columns(before: SyncValues, now: SyncValues, effects: Effects, moment: datetime) -> dict[str, Any]:
    """Return the columns of a sync record to be written."""
    if now == before:
        return {"changed_at": moment}  # the next run looks again: the row may be written back meanwhile
    columns = dict(effects.sync_record)
    for name in ("plugin_since", "earlier_hashes"):
        if getattr(now, name) != getattr(before, name):
            columns[name] = getattr(now, name)
    return columns


@dataclass(slots=True)
class Case(Generic[A]):
    """An account, the action decided for it, and how far that is done."""

    account: Account
    """The account as it is so far, with the effects that are not written yet."""
    action: A
    stored: Account
    """The account as our tables have it."""
    effects: Effects = NOTHING
    """Effects that are not written yet."""
    write: RowWrite | None = None
    """The write to AuthMe's row, or None if it needs none."""
    result: WriteResult = _WRITTEN
    """The result of that write."""
    email: EmailAddress | None = None
    """The e-mail of the row, if the user gets it."""
    is_email_handed_over: bool = False
    """Whether the e-mail of the row is another user's, and free once this page is written."""
    next: Literal["decide", "load", "nothing"] = "load"
    """Whether the account is decided on as it is now, or after it is loaded again, or needs nothing any more."""

    @property
    def key(self) -> str:
        """The lower-case name."""
        return self.account.key

    @property
    def user(self) -> UserRecord:
        """The account's user, where the action is for an account that has one."""
        assert self.account.user is not None
        return self.account.user

    @property
    def row(self) -> PlayerRow:
        """AuthMe's row, where the action leaves one."""
        assert self.account.player is not None
        return self.account.player

    def store(self, stored: Account) -> None:
        """Take the account as our tables have it now, with all effects written."""
        self.account, self.stored, self.effects = stored, stored, NOTHING

    def take_row(self, row: PlayerRow | None) -> None:
        """Take AuthMe's row as it is now into the accounts."""
        if row is not self.account.player:
            self.account, self.stored = replace(self.account, player=row), replace(self.stored, player=row)


Cases = Sequence[Case[A]]
