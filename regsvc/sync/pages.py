"""Reconciliation of a page of accounts: load it, decide on each, and apply the decisions grouped by kind.

One name is a page of one: the API, logins and the sync run this code. Where one server has both tables, a page is one
transaction, and after each action the account is decided on again as it is in memory. On SQLite the promise, the
writes to AuthMe's file and the confirmation are transactions of their own; an account of which our rows changed
meanwhile, or whose row was not as loaded, is loaded again.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from peewee import Database

from plugin_bridge.authme.players import (
    NameCollides,
    PlayerRefused,
    PlayerRow,
    RowDelete,
    RowInsert,
    RowUpdate,
    RowWrite,
    WriteResult,
)
from regsvc.database import failpoints
from regsvc.sync.accounts_loader import PAGE, AccountsLoader
from regsvc.sync.actions import GUARDED, Adopt, Conflict, MarkMissing, Provision, SyncAction
from regsvc.sync.effects import NOTHING, Effects, EffectWriter, apply_in_memory
from regsvc.sync.own_steps import OWN_STEPS, Case
from regsvc.sync.plan import decide
from regsvc.sync.records import Account, Policy
from regsvc.sync.step_context import StepContext
from regsvc.sync.steps import STEPS, Done, collision_effects

log = logging.getLogger(__name__)

_MAX_STEPS: Final = 12
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


@dataclass(frozen=True)
class _Pending:
    """A case whose row is to be written: the account before and after the promise."""

    before: Account
    account: Account
    action: SyncAction
    promise: Effects
    write: RowWrite | None


class Pages:
    """Reconciliation of pages of accounts. Blocking."""

    def __init__(self, database: Database, context: StepContext, loader: AccountsLoader, writer: EffectWriter) -> None:
        self._database = database
        self._context = context
        self._loader = loader
        self._writer = writer

    def is_due(self, account: Account, policy: Policy, scope: Scope) -> bool:
        """Return whether an action of this scope is due for the account."""
        return bool(_Page(policy, scope, self._context).due([account]))

    def reconcile(self, accounts: Sequence[Account], policy: Policy, scope: Scope) -> dict[str, ReconcileResult]:
        """Apply actions to these accounts, loaded without locks, until nothing is left.

        Returns the results by name, without those of names that are in sync already. With SQLite, call it outside our
        transactions: AuthMe's file is another one. Raises `PlayersUnavailable`.
        """
        page = _Page(policy, scope, self._context)
        due = page.due(accounts)
        # there is nothing to lock for a name that we know nothing of: the unique index keeps it from a second user
        new, todo = list[Case[Any]](), list[str]()
        for case in due:
            if isinstance(case.action, Adopt) and case.account.sync_record is None:
                new.append(case)
            else:
                todo.append(case.account.key)
        if new:
            todo += self._reconcile_once(page, [], new)
        for start in range(0, len(todo), PAGE):
            self._reconcile_keys(page, todo[start : start + PAGE])
        return page.results

    def _reconcile_keys(self, page: "_Page", keys: Sequence[str]) -> None:
        for _step in range(_MAX_STEPS):
            if not keys:
                return
            keys = self._reconcile_once(page, keys, [])
        for key in keys:
            page.results[key].refused = PlayerRefused(f"The row of {key} changes each time it is read.")

    def reconcile_locked(self, account: Account, intended: Effects, policy: Policy, scope: Scope) -> ReconcileResult:
        """Reconcile an account that the caller's transaction has locked. Only where it covers both sides.

        `intended` is not written yet: it goes with the first action, in the same statement.
        """
        page = _Page(policy, scope, self._context)
        if intended is not NOTHING:
            page.unsaved[account.key] = account, intended
        wanted = apply_in_memory(account, intended, self._context.now())
        todo = self._apply(page, page.due([wanted]))
        self._save(page)
        if todo:
            page.results |= self.reconcile(self._loader.lock(todo), policy, scope)
        return page.results.get(account.key) or ReconcileResult(wanted)

    def _reconcile_once(self, page: "_Page", keys: Sequence[str], new: Sequence[Case[Any]]) -> list[str]:
        """Lock the accounts and apply what is due, also the new cases. Returns the names to be loaded again."""
        page.settled.clear()
        with self._database.atomic():
            locked = self._loader.lock(keys, with_players=page.scope.has_players) if keys else []
            again = self._apply(page, [*new, *page.due(locked)])
        return again + self._write_promised(page)

    def _apply(self, page: "_Page", cases: Sequence[Case[Any]]) -> list[str]:
        """Apply these and further actions until none is due, in the current transaction.

        Returns the names to be loaded again.

        Where the transaction does not cover AuthMe's table, the cases whose row is to be written are put aside.
        """
        again: list[str] = []
        for _step in range(_MAX_STEPS):
            by_kind: dict[type, list[Case[Any]]] = defaultdict(list)
            for case in cases:
                by_kind[type(case.action)].append(case)
            accounts: list[Account] = []
            for kind, group in by_kind.items():
                done = self._apply_own(page, kind, group) if kind in OWN_STEPS else self._apply_step(page, kind, group)
                accounts += done
                again += {case.account.key for case in group} - {a.key for a in done} - page.settled
            cases = page.due(accounts)
            if not cases:
                return again
        return again + [case.account.key for case in cases]

    def _save(self, page: "_Page") -> None:
        """Write what was intended and went with no action."""
        unsaved, page.unsaved = list(page.unsaved.values()), {}
        self._writer.write(unsaved)

    def _apply_own(self, page: "_Page", kind: type, cases: list[Case[Any]]) -> list[Account]:
        self._save(page)
        applied = OWN_STEPS[kind].apply(self._database, self._context, cases)
        action_of = {case.account.key: case.action for case in cases}
        for one in applied:
            page.record(one.account.key, action_of[one.account.key], one.effects)
            if one.next == "settled":
                page.settled.add(one.account.key)
        return self._writer.write([(one.account, one.effects) for one in applied if one.next == "decide"])

    def _apply_step(self, page: "_Page", kind: type, cases: list[Case[Any]]) -> list[Account]:
        """Prepare the cases, and finish those that need no write outside this transaction."""
        step, moment, pending, held = STEPS[kind], self._context.now(), [], []
        for case in cases:
            account, action = case.account, case.action
            if self._still_collides(account, action):
                page.refuse_collision(account)
                continue
            before, intended = page.unsaved.get(account.key, (account, NOTHING))
            promise = intended | step.promise(account, action)
            promised = apply_in_memory(account, promise, moment)
            if step.may_write(self._context, promised, action):
                write = step.write(self._context, promised, action)
                pending.append(_Pending(before, promised, action, promise, write))
            else:
                held.append((before, promise))
                page.settled.add(account.key)
                page.unsaved.pop(account.key, None)
        self._writer.write(held)
        if self._context.players.shares_transactions:
            return self._write_and_confirm(page, kind, pending)
        promised_accounts = self._writer.write([(one.before, one.promise) for one in pending if one.write is not None])
        page.promised += [
            (kind, replace(one, account=account))
            for one, account in zip([one for one in pending if one.write is not None], promised_accounts, strict=True)
        ]
        page.settled |= {one.before.key for one in pending if one.write is not None}
        return self._confirm(page, kind, [(one, WriteResult(is_written=True)) for one in pending if one.write is None])

    def _write_promised(self, page: "_Page") -> list[str]:
        """Write the rows of the committed promises, and confirm. Returns the names to be loaded again."""
        promised, page.promised = page.promised, []
        if not promised:
            return []
        results = self._write_rows([one for _kind, one in promised])
        with self._database.atomic():
            changed = self._loader.find_changed([one.account for _kind, one in promised])
            by_kind: dict[type, list[tuple[_Pending, WriteResult]]] = defaultdict(list)
            for (kind, one), result in zip(promised, results, strict=True):
                if one.before.key not in changed:
                    by_kind[kind].append((replace(one, before=one.account, promise=Effects()), result))
            accounts: list[Account] = []
            for kind, cases in by_kind.items():
                accounts += self._confirm(page, kind, cases)
        finished = {account.key for account in accounts} - {case.account.key for case in page.due(accounts)}
        return [key for _kind, one in promised if (key := one.before.key) not in finished and not page.is_refused(key)]

    def _write_and_confirm(self, page: "_Page", kind: type, pending: Sequence[_Pending]) -> list[Account]:
        results = self._write_rows(pending)
        return self._confirm(page, kind, list(zip(pending, results, strict=True)))

    def _write_rows(self, pending: Sequence[_Pending]) -> list[WriteResult]:
        writes = [one.write for one in pending if one.write is not None]
        written: Iterator[WriteResult] = iter(())
        if writes:
            failpoints.reach("before player write")
            written = iter(self._context.players.write_many(writes))
            failpoints.reach("after player write")
        return [WriteResult(is_written=True) if one.write is None else next(written) for one in pending]

    def _confirm(self, page: "_Page", kind: type, cases: Sequence[tuple[_Pending, WriteResult]]) -> list[Account]:
        """Record the writes that succeeded. Returns these accounts as they are now."""
        rows = self._context.players.find_many(
            [one.before.key for one, _result in cases if isinstance(one.write, RowInsert)]
        )
        done: list[tuple[_Pending, Done[Any]]] = []
        for one, result in cases:
            key = one.before.key
            if result.refused is not None:
                page.refuse(key, result.refused)
            elif isinstance(one.write, RowInsert) and key not in rows:
                page.refuse_collision(one.before)
                page.unsaved.pop(key, None)
                self._writer.write([(one.before, collision_effects(one.before))])
            elif result.is_written:
                row = rows.get(key) if isinstance(one.write, RowInsert) else _row_after(one, result)
                done.append((one, Done(one.account, one.action, row, result.is_email_refused)))
        confirmed = STEPS[kind].confirm([case for _one, case in done])
        effects = [one.promise | confirmation for (one, _case), confirmation in zip(done, confirmed, strict=True)]
        for (one, case), effect in zip(done, effects, strict=True):
            page.record(one.before.key, case.action, effect)
            page.unsaved.pop(one.before.key, None)
        return self._writer.write(
            [(replace(one.before, player=case.row), effect) for (one, case), effect in zip(done, effects, strict=True)]
        )

    def _still_collides(self, account: Account, action: SyncAction) -> bool:
        """Return whether AuthMe's table still has the equal name that it had at the last attempt."""
        known = account.sync_record
        if not isinstance(action, Provision) or known is None or known.conflict != "name":
            return False
        return self._context.players.find_colliding(account.key) is not None


class _Page:
    """State of one page while it is reconciled."""

    def __init__(self, policy: Policy, scope: Scope, context: StepContext) -> None:
        self._policy = policy
        self.scope = scope
        self._context = context
        self._is_table_empty: bool | None = None
        self.results: dict[str, ReconcileResult] = defaultdict(ReconcileResult)
        self.promised: list[tuple[type, _Pending]] = []
        self.unsaved: dict[str, tuple[Account, Effects]] = {}
        """Accounts as they are stored, with what is intended for them and not written yet."""
        self.settled: set[str] = set()
        """Names for which nothing more is done in this transaction."""

    def due(self, accounts: Sequence[Account]) -> list[Case[Any]]:
        """Decide on the accounts, and return those with an action that may be applied now."""
        cases = []
        for account in accounts:
            action = decide(account, self._policy)
            if action is None and account.key not in self.results:
                continue
            self.results[account.key].account = account
            if action is not None and self._may_apply(account.key, action):
                cases.append(Case(account, action))
        return cases

    def record(self, key: str, action: SyncAction, effects: Effects) -> None:
        """Record that the action was applied."""
        self.results[key].account = None
        self.results[key].applied.append(action)
        self.results[key].conflicts += effects.conflicts

    def refuse(self, key: str, refused: PlayerRefused) -> None:
        """Record that AuthMe's table refused a write."""
        self.results[key].refused = refused
        self.settled.add(key)
        log.warning("a player could not be updated, the sync will try again: %s", refused)

    def is_refused(self, key: str) -> bool:
        """Return whether AuthMe's table refused a write for this name."""
        return key in self.results and self.results[key].refused is not None

    def refuse_collision(self, account: Account) -> None:
        """Record that AuthMe's table considers the name equal to another one."""
        assert account.user is not None
        username = account.user.username
        sentence = f"AuthMe's table considers {username} equal to another name that it already holds."
        self.refuse(account.key, NameCollides(sentence))

    def _may_apply(self, key: str, action: SyncAction) -> bool:
        if self.is_refused(key):
            return False
        if isinstance(action, Adopt):
            return self.scope.may_adopt
        is_too_much = isinstance(action, MarkMissing) and not self.scope.accept_empty_table and self._is_empty()
        if is_too_much or (self.scope.is_guarded and isinstance(action, GUARDED)):
            self.results[key].postponed = action
            return False
        return True

    def _is_empty(self) -> bool:
        if self._is_table_empty is None:
            self._is_table_empty = self._context.players.is_empty()
        return self._is_table_empty


def _row_after(one: _Pending, result: WriteResult) -> PlayerRow | None:
    """Return AuthMe's row after the write; None if it was deleted."""
    if isinstance(one.write, RowDelete):
        return None
    if not isinstance(one.write, RowUpdate):
        return one.account.player
    changes: dict[str, Any] = dict(one.write.changes)
    if result.is_email_refused:
        changes.pop("email", None)
    return replace(one.write.seen, **changes)
