"""Reconciliation of a page of accounts: load it, decide on each, and apply the decisions grouped by kind.

One name is a page of one: the API, logins and the sync run this code. Where one server has both tables, a page is one
transaction, and after each action the account is decided on again as it is in memory. On SQLite the promise, the
writes to AuthMe's file and the confirmation are transactions of their own; an account of which our rows changed
meanwhile, or whose row was not as loaded, is loaded again.

In SQL alone the first adoption of a million players took a sixth of the time, once in an installation's life; but it
would be a second description of who is adopted, as what, and with which address.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from plugin_bridge.authme.players import NameCollides, NewPlayer, PlayerRefused, PlayerRow, RowDelete, RowUpdate
from regsvc.database import failpoints
from regsvc.sync.actions import AccountAction, Case, Cases, MarkMissing, Provision, SyncAction
from regsvc.sync.bulk_actions import Adopt, BulkAction
from regsvc.sync.effects import NOTHING, Conflict, Effects, SyncContext, apply_in_memory, collision_effects
from regsvc.sync.records import Account, AccountLoader, Policy, pages_of
from regsvc.sync.rules import decide

log = logging.getLogger(__name__)

_MAX_ROUNDS: Final = 12
"""No name needs more; a row that changes faster than this is left to the next run."""


@dataclass(frozen=True)
class Scope:
    """Limits on the actions that are applied."""

    may_adopt: bool = True
    is_guarded: bool = False
    """Whether guarded actions, which must not be applied to many names at once, are postponed."""
    accept_empty_table: bool = False
    """Whether a row counts as removed even if the whole table is empty."""
    has_players: bool = True
    """Whether AuthMe's table can be read; if not, only what does not need it is done."""
    ends_memberships: bool = False
    """Whether memberships end that are due: by a sync run, which asks the mass-change guard first, and by no change of
    one account. If not, the rest is done as if they were not due."""
    is_told_before: bool = False
    """Whether what precedes an account's first guarded action is left out of its result."""


@dataclass
class ReconcileResult:
    """Outcome of the reconciliation of one name."""

    account: Account | None = None
    """The account as it is now; None if it is not known without loading it again."""
    applied: list[SyncAction] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    postponed: SyncAction | None = None
    """The guarded action that was not applied, or None."""
    refused: PlayerRefused | None = None
    """Why AuthMe's table refused a write, or None."""


class Page:
    """Reconciliation of a page of accounts, and what it came to. Blocking."""

    def __init__(self, context: SyncContext, loader: AccountLoader, policy: Policy, scope: Scope) -> None:
        self._context = context
        self._loader = loader
        self._policy = policy
        self._scope = scope
        self.results: dict[str, ReconcileResult] = defaultdict(ReconcileResult)
        """By name, without those of names that were in sync already."""
        self._promised: list[Case] = []
        """Cases whose rows are written after this transaction."""
        self._unsaved: dict[str, tuple[Account, Effects]] = {}
        """Accounts as they are stored, with what is intended for them and not written yet."""

    def reconcile(self, accounts: Sequence[Account]) -> dict[str, ReconcileResult]:
        """Apply actions to these accounts, loaded without locks, until nothing is left. Returns the results.

        With SQLite, call it outside our transactions: AuthMe's file is another one. Raises `PlayersUnavailable`.
        """
        # there is nothing to lock for a name that we know nothing of: the unique index keeps it from a second user
        new, todo = list[Case](), list[str]()
        for case in self._due(accounts):
            if isinstance(case.action, Adopt) and case.account.sync_record is None:
                new.append(case)
            else:
                todo.append(case.key)
        if new:
            todo += self._reconcile_once([], new)
        for keys in pages_of(todo):
            self._reconcile_keys(keys)
        return self.results

    def reconcile_locked(self, account: Account, intended: Effects) -> ReconcileResult:
        """Reconcile an account that the caller's transaction has locked. Only where it covers both sides.

        `intended` is not written yet: it goes with the first action, in the same statement.
        """
        if intended is not NOTHING:
            self._unsaved[account.key] = account, intended
        wanted = apply_in_memory(account, intended, self._context.now())
        todo = self._apply(self._due([wanted]))
        self._save()
        self._reconcile_keys(todo)
        return self.results.get(account.key) or ReconcileResult(wanted)

    def _reconcile_keys(self, keys: Sequence[str]) -> None:
        for _round in range(_MAX_ROUNDS):
            if not keys:
                return
            keys = self._reconcile_once(keys, [])
        for key in keys:
            self.results[key].refused = PlayerRefused(f"The row of {key} changes each time it is read.")

    def _reconcile_once(self, keys: Sequence[str], new: Cases) -> list[str]:
        """Lock the accounts and apply what is due, also the new cases. Returns the names to be loaded again."""
        with self._context.atomic():
            locked = self._loader.load_for_update(keys, with_players=self._scope.has_players) if keys else []
            again = self._apply([*new, *self._due(locked)])
        return again + self._write_promised()

    def _apply(self, cases: Cases) -> list[str]:
        """Apply these and further actions until none is due, in the current transaction.

        Returns the names to be loaded again. Where the transaction does not cover AuthMe's table, the cases whose row
        is to be written are put aside.
        """
        again: list[str] = []
        rows = [case.key for case in cases if case.account.player and not isinstance(case.action, Adopt)]
        self._context.lock_rows(rows)
        for _round in range(_MAX_ROUNDS):
            accounts: list[Account] = []
            for kind, group in _by_kind(cases).items():
                if issubclass(kind, BulkAction):
                    accounts += self._apply_at_once(kind, group)
                else:
                    accounts += self._promise(kind, group)
                again += [case.key for case in group if case.next == "load"]
            cases = self._due(accounts)
            if not cases:
                return again
        return again + [case.key for case in cases]

    def _apply_at_once(self, kind: type[BulkAction], cases: Cases) -> list[Account]:
        self._save()
        applied = kind.apply(self._context, cases)
        self._record(applied)
        return self._write([case for case in applied if case.next == "decide"])

    def _promise(self, kind: type[AccountAction], cases: Cases) -> list[Account]:
        """Promise what the cases entail, and finish those that need no write outside this transaction."""
        moment, here, outside, held = self._context.now(), [], [], []
        shares_transactions = self._context.players.shares_transactions
        for case in cases:
            case.next = "nothing"
            known = case.account.sync_record
            has_collided = isinstance(case.action, Provision) and known is not None and known.conflict == "name"
            if has_collided and self._context.players.find_colliding(case.key) is not None:
                self._refuse_collision(case)
                continue
            case.effects |= case.action.promise(case)
            case.account = apply_in_memory(case.stored, case.effects, moment)
            if not case.action.may_write(case, self._context):
                held.append(case)
                continue
            case.write = case.action.write(case, self._context)
            if case.write is None or shares_transactions:
                here.append(case)
            else:
                outside.append(case)
        stored = self._write([*held, *outside])[len(held) :]
        for case, account in zip(outside, stored, strict=True):
            case.store(account)
        self._promised += outside
        self._write_rows(here)
        return self._confirm(kind, here)

    def _write_promised(self) -> list[str]:
        """Write the rows of the committed promises, and confirm. Returns the names to be loaded again."""
        promised, self._promised = self._promised, []
        if not promised:
            return []
        self._write_rows(promised)
        with self._context.atomic():
            again = self._loader.find_changed([case.account for case in promised])
            accounts: list[Account] = []
            for kind, group in _by_kind([case for case in promised if case.key not in again]).items():
                accounts += self._confirm(kind, group)
        for case in self._due(accounts):
            again.add(case.key)
        return [case.key for case in promised if case.key in again or case.next == "load"]

    def _write_rows(self, cases: Cases) -> None:
        """Write AuthMe's rows, and keep the results in the cases."""
        written, writes = [], []
        for case in cases:
            if case.write is not None:
                written.append(case)
                writes.append(case.write)
        if not writes:
            return
        failpoints.reach("before player write")
        results = self._context.write_rows(writes)
        failpoints.reach("after player write")
        for case, result in zip(written, results, strict=True):
            case.result = result

    def _confirm(self, kind: type[AccountAction], cases: Cases) -> list[Account]:
        """Record the writes that succeeded. Returns these accounts as they are now."""
        unread = [case.key for case in cases if isinstance(case.write, NewPlayer) and case.result.inserted is None]
        rows = self._context.players.find_many(unread)
        done = list[Case]()
        for case in cases:
            row = rows.get(case.key) or _row_after(case)
            case.next = "nothing"
            if case.result.refused is not None:
                self._refuse(case.key, case.result.refused)
            elif row is None and isinstance(case.write, NewPlayer):
                self._refuse_collision(case)
                case.effects = collision_effects(case.stored)
                self._write([case])
            elif case.result.is_written:
                case.take_row(row)
                case.next = "decide"
                done.append(case)
            else:
                case.next = "load"
        kind.compare(done, self._context)
        for case in done:
            case.effects |= case.action.confirm(case)
        self._record(done)
        return self._write(done)

    def _write(self, cases: Cases) -> list[Account]:
        """Write the effects of the cases. Returns the accounts as our tables have them now."""
        for case in cases:
            self._unsaved.pop(case.key, None)  # it is among these effects
        return self._context.write([(case.stored, case.effects) for case in cases])

    def _save(self) -> None:
        """Write what was intended and went with no action."""
        unsaved, self._unsaved = list(self._unsaved.values()), {}
        self._context.write(unsaved)

    def _due(self, accounts: Sequence[Account]) -> list[Case]:
        """Decide on the accounts, and return those with an action that may be applied now."""
        cases = []
        for account in accounts:
            action = decide(account, self._policy, may_end=self._scope.ends_memberships)
            if action is None and account.key not in self.results:
                continue
            self.results[account.key].account = account
            if action is not None and self._may_apply(account.key, action):
                stored, intended = self._unsaved.get(account.key, (account, NOTHING))
                cases.append(Case(account, action, stored, intended))
        return cases

    def _record(self, cases: Cases) -> None:
        """Record that the actions were applied."""
        for case in cases:
            result = self.results[case.key]
            result.account = None
            if self._scope.is_told_before and not result.applied and not case.action.is_guarded:
                continue
            result.applied.append(case.action)
            result.conflicts += case.effects.conflicts

    def _refuse(self, key: str, refused: PlayerRefused) -> None:
        """Record that AuthMe's table refused a write."""
        self.results[key].refused = refused
        log.warning("a player could not be updated, the sync will try again: %s", refused)

    def _refuse_collision(self, case: Case) -> None:
        """Record that AuthMe's table considers the name equal to another one."""
        sentence = f"AuthMe's table considers {case.user.username} equal to another name that it already holds."
        self._refuse(case.key, NameCollides(sentence))

    def _may_apply(self, key: str, action: SyncAction) -> bool:
        if self.results[key].refused is not None:
            return False
        if isinstance(action, Adopt):
            return self._scope.may_adopt
        is_missing = isinstance(action, MarkMissing)
        is_too_much = is_missing and not self._scope.accept_empty_table and self._is_table_empty
        if is_too_much or (self._scope.is_guarded and action.is_guarded):
            self.results[key].postponed = action
            return False
        return True

    @cached_property
    def _is_table_empty(self) -> bool:
        return self._context.players.is_empty()


def _by_kind(cases: Cases) -> dict[type[Any], list[Case]]:
    by_kind: dict[type[Any], list[Case]] = defaultdict(list)
    for case in cases:
        by_kind[type(case.action)].append(case)
    return by_kind


def _row_after(case: Case) -> PlayerRow | None:
    """Return AuthMe's row after the write; None if it was deleted, or is to be read as it was inserted."""
    if isinstance(case.write, NewPlayer):
        return case.result.inserted
    if isinstance(case.write, RowDelete):
        return None
    if not isinstance(case.write, RowUpdate):
        return case.account.player
    changes: dict[str, Any] = dict(case.write.changes)
    if case.result.is_email_refused:
        changes.pop("email", None)
    return replace(case.write.seen, **changes)
