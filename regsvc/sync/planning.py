"""The plan of a sync run: the run itself, on accounts in memory.

`pages` decides and applies as in a run; only the context, which stores what actions entail, and the loader are others.
Accounts are kept for a page alone: what a page changes, no later one reads again. Only who has which address, and users
who get their names back, are remembered for the whole plan.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import count
from typing import Any, Final, TypeVar

from plugin_bridge.authme.players import NewPlayer, PlayerRow, RowUpdate, RowWrite, WriteResult
from regsvc.allowlist.planning import PlannedUser, PlannedUsers
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import SilentAudit
from regsvc.database.models import PRESENT, User
from regsvc.sync.effects import Effects, SyncContext, apply_in_memory, find_real_emails
from regsvc.sync.pages import ReconcileResult, Scope
from regsvc.sync.reconciler import FULL_SCOPE, Reconciler
from regsvc.sync.records import USER_COLUMNS, Account, AccountLoader, SyncValues, UserRecord
from regsvc.users.credential_rules import Claimant, grant_unverified
from regsvc.users.membership import Memberships, PlannedMemberships
from regsvc.users.transitions import PlannedTransitions

T = TypeVar("T")
_OF_NEW_USERS: Final = {"is_email_verified": False, "ban_expires_at": None, "registration_ip": None}


@dataclass(frozen=True)
class PlannedLoader(AccountLoader):
    """Loader of accounts as a plan has changed them. It locks nothing."""

    lapses: Mapping[str, datetime | None] = field(default_factory=dict)
    """When members lapse, by name, of whom the run would note another moment first."""
    renamed: dict[str, UserRecord | None] = field(default_factory=dict)
    """Users by the name that they have got back, and None for the name that they had."""
    users: dict[str, UserRecord | None] = field(default_factory=dict)
    records: dict[str, SyncValues | None] = field(default_factory=dict)
    rows: dict[str, PlayerRow | None] = field(default_factory=dict)

    def load_for_update(self, keys: Collection[str], *, with_players: bool = True) -> list[Account]:
        if not with_players:
            return self.load(keys, None)
        rows = self.players.find_many(keys) | self.rows
        return self.load(keys, {key: row for key, row in rows.items() if row is not None})

    def find_changed(self, accounts: Sequence[Account]) -> set[str]:
        return set()

    def keep(self, account: Account) -> None:
        """Keep the account as it is now."""
        self.users[account.key], self.records[account.key] = account.user, account.sync_record
        if account.is_player_known:
            self.rows[account.key] = account.player

    def forget(self) -> None:
        """Forget the accounts of the page before."""
        for kept in (self.users, self.records, self.rows):
            kept.clear()

    def _find(
        self, keys: Collection[str], *, is_locking: bool = False
    ) -> tuple[dict[str, UserRecord], dict[str, SyncValues]]:
        users, records = super()._find(keys)
        for key in self.lapses.keys() & users.keys():
            at = self.lapses[key]
            users[key] = replace(users[key], lapses_at=at, lapse=None if at is None else "idle")
        return _with_changes(users, self.renamed | self.users, keys), _with_changes(records, self.records, keys)


def _with_changes(found: dict[str, T], changed: Mapping[str, T | None], keys: Collection[str]) -> dict[str, T]:
    for key in changed.keys() & keys:
        found.pop(key, None)
        if (now := changed[key]) is not None:
            found[key] = now
    return found


@dataclass(frozen=True)
class PlannedContext(SyncContext):
    """Context that stores nothing, and keeps in its loader what actions entail.

    What only AuthMe's table itself can tell stays out of a plan: values that do not fit its columns or their charset.
    """

    loader: PlannedLoader
    for_list: PlannedUsers | None
    """What the plan of the allowlist starts from; None: no list is kept."""
    moved_emails: dict[str, int | str | None] = field(default_factory=dict)
    """Who has an address now, by address: a user's id, or the name of an adopted player; None: nobody any more."""
    unstored: Counter[str] = field(default_factory=Counter)
    """See `Reconciler.unstored`."""
    ids: "count[int]" = field(default_factory=lambda: count(-1, -1))
    """Ids of users who are adopted."""

    @property
    def memberships(self) -> Memberships:
        return PlannedMemberships(self.transitions)

    def atomic(self) -> AbstractContextManager[object]:
        return nullcontext()

    def claim_unverified(self, wanted: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
        return grant_unverified(find_real_emails(wanted), self.moved_emails)

    def may_insert(self, user: UserRecord, regdate: int) -> bool:
        return not self.console.list_unkicked(user.username, regdate)

    def lock_rows(self, keys: Sequence[str]) -> None:
        pass

    def write_rows(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        taken = self.players.find_taken([write.username for write in writes if isinstance(write, NewPlayer)])
        lacks_email = self.players.find_missing_email_column() is not None
        results = []
        for write in writes:
            if isinstance(write, NewPlayer):
                is_written, email = write.username not in taken, None if lacks_email else write.email
                row = PlayerRow(write.username, write.realname, write.hash, write.salt, email, write.regdate)
                results.append(WriteResult(is_written, inserted=row if is_written else None))
            else:
                has_email = isinstance(write, RowUpdate) and write.changes.get("email") is not None
                results.append(WriteResult(is_written=True, is_email_refused=lacks_email and has_email))
        return results

    def load_users(self, records: Sequence[UserRecord]) -> list[User]:
        users = []
        for record in records:
            user = User(__no_default__=True)
            user.__data__.update({name: getattr(record, name) for name in USER_COLUMNS})
            users.append(user)
        return users

    def insert_users(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        ids = {}
        for row in rows:
            key, columns = row["username_key"], {name: value for name, value in row.items() if name in USER_COLUMNS}
            ids[key] = next(self.ids)
            user = self.loader.users[key] = UserRecord(**_OF_NEW_USERS | columns | {"id": ids[key]})
            self._tell_list(key, user)
            if row["email_key"] is not None:
                self.moved_emails[row["email_key"]] = key
        return ids

    def insert_records(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            record = SyncValues(**{name: value for name, value in row.items() if name != "changed_at"})
            self.loader.records[record.username_key] = record
            self._count(None, record)

    def replace_records(self, records: Sequence[tuple[str, SyncValues | None]]) -> None:
        self.loader.records.update(records)

    def rename_users(self, renamed: Sequence[tuple[UserRecord, UserRecord]]) -> None:
        for user, now in renamed:
            self.loader.renamed.setdefault(user.username_key, None)
            self.loader.renamed[now.username_key] = now
            for key in (user.username_key, now.username_key):
                self._tell_list(key, self.loader.renamed[key])

    def write(self, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        moment, changed = self.now(), []
        for account, effects in cases:
            now = apply_in_memory(account, effects, moment)
            changed.append(now)
            self.loader.keep(now)
            self._tell_list(now.key, now.user)
            self._count(account.sync_record, now.sync_record)
            if account.user is not None and "email_key" in effects.user:
                self._move_email(account.user, effects.user["email_key"])
        return changed

    def _tell_list(self, key: str, user: UserRecord | None) -> None:
        if self.for_list is not None:
            known = user and (user.username, user.applied_access, user.status, user.platform, user.id)
            self.for_list.users[key] = PlannedUser(*known or ())

    def _count(self, before: SyncValues | None, now: SyncValues | None) -> None:
        for record, number in ((before, -1), (now, 1)):
            if record is not None:
                self.unstored["rows"] += number * (record.presence == PRESENT)
                self.unstored["users"] += number * (record.user_id is not None)

    def _move_email(self, user: UserRecord, email_key: str | None) -> None:
        was = user.email_key
        if was is not None and was != email_key and self.moved_emails.get(was, user.id) == user.id:
            self.moved_emails[was] = None
        if email_key is not None:
            self.moved_emails[email_key] = user.id


class PlannedReconciler(Reconciler):
    """Reconciler of a plan: what it does stays in memory."""

    def __init__(self, reconciler: Reconciler, lapses: Mapping[str, datetime | None]) -> None:
        context, found = reconciler._context, PlannedUsers()
        self._planned_loader = PlannedLoader(**_fields_of(reconciler.loader), lapses=lapses)
        audit = SilentAudit(context.now)
        transitions = _fields_of(context.transitions) | {"audit": audit, "decided": found.decided}
        same = _fields_of(context) | {"audit": audit, "transitions": PlannedTransitions(**transitions)}
        for_list = found if context.transitions.gates.keeps_list() else None
        same |= {"find_uuid": lambda name: None, "loader": self._planned_loader, "for_list": for_list}
        planned = PlannedContext(**same)
        super().__init__(planned, reconciler._live, reconciler._operators)
        self.loader, self.unstored, self.for_list = self._planned_loader, planned.unstored, for_list

    def reconcile_many(self, accounts: Collection[Account], scope: Scope = FULL_SCOPE) -> dict[str, ReconcileResult]:
        self._planned_loader.forget()
        return super().reconcile_many(accounts, scope)


def _fields_of(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}
