"""Reconciliation of one account: load it, decide on one action, apply it, and repeat until nothing is left.

The API calls it for the effects of a request before it replies, and the sync for every name that differs.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from peewee import Database, InternalError, OperationalError

from plugin_bridge.authme.players import NameCollides, PlayerRefused, PlayerRow, PlayersUnavailable
from regsvc.auth.hashing import StoredPassword
from regsvc.config.live import AuthMeRules, LiveConfig
from regsvc.database import failpoints
from regsvc.database.engine import is_retryable
from regsvc.database.models import ABSENT, APPROVED, OPEN, PASSWORD, PROVISION, UNASKED, Installation, Player
from regsvc.sync.actions import GUARDED, Adopt, ApplySqlEdit, EndBan, MarkMissing, SyncAction
from regsvc.sync.adoption import adopt_each
from regsvc.sync.merge import has_conflict
from regsvc.sync.plan import decide, password_for_row, row_intent
from regsvc.sync.policy import make_policy
from regsvc.sync.records import Account, Policy, SyncRecord, UserRecord
from regsvc.sync.rehash import replace_hash
from regsvc.sync.step_context import StepContext
from regsvc.sync.steps import STEPS, record_collision, unseen_row_intent
from regsvc.sync.sync_records import NO_INTENT, NO_TOMBSTONE
from regsvc.sync.tombstones import record_tombstone, record_unseen_tombstone

log = logging.getLogger(__name__)

_MAX_STEPS = 12
"""No name needs more; a row that changes faster than this is left to the next run."""

USER_ONLY = (ApplySqlEdit, EndBan)
"""Actions that do not need AuthMe's row; what they entail for the row follows when it can be read."""


@dataclass
class ReconcileResult:
    """Outcome of the reconciliation of one name."""

    applied: list[SyncAction] = field(default_factory=list)
    postponed: SyncAction | None = None
    """The guarded action that was not applied, or None."""
    refused: PlayerRefused | None = None
    """Why AuthMe's table refused a write, or None."""


class Reconciler:
    """Service that brings user and player of one name in sync. Blocking: runs on a worker thread."""

    def __init__(
        self, database: Database, context: StepContext, live: LiveConfig, operators: Callable[[], Collection[str]]
    ) -> None:
        """`operators` returns the lower-case names of the operators at this moment."""
        self._database = database
        self._context = context
        self._live = live
        self._derived: tuple[AuthMeRules, Policy] | None = None
        self._operators = operators

    @property
    def is_enabled(self) -> bool:
        """Return whether there is an AuthMe to sync with."""
        return self._context.players.is_enabled

    @property
    def is_one_transaction(self) -> bool:
        """Return whether AuthMe's row can be written in the same transaction as ours."""
        return self._context.players.shares_transactions

    @property
    def context(self) -> StepContext:
        """The services that steps act on."""
        return self._context

    @property
    def operators(self) -> frozenset[str]:
        """The lower-case names of the current operators."""
        return frozenset(self._operators())

    @property
    def policy(self) -> Policy:
        """The host's choices with AuthMe's current rules, derived again when those rules have been replaced."""
        rules, derived = self._live.authme, self._derived
        if derived is None or derived[0] is not rules:
            started = Installation.get_by_id(1).first_started_at
            derived = rules, make_policy(self._live.current, rules, started, is_bridge_on=self.is_enabled)
            self._derived = derived
        return derived[1]

    def load(self, key: str) -> Account:
        """Return the account of this lower-case name without locking any row."""
        return self.load_many([key], self._context.players.find_many([key]))[0]

    def load_for_update(self, key: str) -> Account:
        """Return the account of this lower-case name; our rows stay locked until the transaction ends."""
        sync_records = self._context.sync_records
        user, sync_record = sync_records.find_user(key), sync_records.find(key)
        users, known = {key: user} if user else {}, {key: sync_record} if sync_record else {}
        return self._build_accounts([key], users, known, self._context.players.find_many([key]))[0]

    def load_many(self, keys: Collection[str], players: Mapping[str, PlayerRow]) -> list[Account]:
        """Return the accounts of these names without locking any row; `players` are AuthMe's rows by name."""
        sync_records = self._context.sync_records
        return self._build_accounts(keys, sync_records.find_users(keys), sync_records.find_many(keys), players)

    def load_many_for_update(self, keys: Collection[str]) -> list[Account]:
        """Return the accounts of these names; our rows stay locked until the transaction ends.

        AuthMe's rows are read after ours are locked, so that they are not older.
        """
        sync_records = self._context.sync_records
        users, known = sync_records.find_users(keys, for_update=True), sync_records.find_many(keys, for_update=True)
        return self._build_accounts(keys, users, known, self._context.players.find_many(keys))

    def _build_accounts(
        self,
        keys: Collection[str],
        users: Mapping[str, UserRecord],
        sync_records: Mapping[str, SyncRecord],
        players: Mapping[str, PlayerRow],
    ) -> list[Account]:
        without_user = {
            known.user_id for key, known in sync_records.items() if key not in users and known.user_id is not None
        }
        without_record = {
            user.id for key, user in users.items() if key not in sync_records or sync_records[key].user_id != user.id
        }
        renamed = self._context.sync_records.find_users_by_id(without_user)
        names = self._context.sync_records.find_names(without_record)
        moment, operators, found = self._context.now(), self._operators(), []
        for key in keys:
            user, sync_record = users.get(key), sync_records.get(key)
            owner = sync_record.user_id if sync_record is not None and user is None else None
            found.append(
                Account(
                    key=key,
                    user=user,
                    sync_record=sync_record,
                    player=players.get(key),
                    is_operator=key in operators,
                    now=moment,
                    renamed=renamed.get(owner) if owner is not None else None,
                    known_as=names.get(user.id) if user is not None else None,
                )
            )
        return found

    def reconcile(
        self, key: str, *, may_adopt: bool = True, is_guarded: bool = False, accept_empty_table: bool = False
    ) -> ReconcileResult:
        """Apply actions until both sides of this name are in sync.

        `is_guarded` postpones guarded actions, which must not be applied to many names at once. `accept_empty_table`
        counts a row as removed even if the whole table is empty.

        With SQLite, call it outside our transactions: AuthMe's file is another one. Raises `PlayersUnavailable`.
        """
        result = ReconcileResult()
        try:
            for _step in range(_MAX_STEPS):
                # usually there is nothing to do, and then neither our database nor a busy file is locked
                if not self._may_apply(self._next_action(key), result, may_adopt, is_guarded, accept_empty_table):
                    break
                with self._shared_transaction():
                    if not self._apply_next(key, result, may_adopt, is_guarded, accept_empty_table):
                        break
            else:
                raise PlayerRefused(f"The row of {key} changes each time it is read.")
        except PlayerRefused as refused:
            result.refused = refused
            log.warning("a player could not be updated, the sync will try again: %s", refused)
            if isinstance(refused, NameCollides):
                with self._database.atomic():
                    record_collision(self._context, self.load_for_update(key))
        return result

    def reconcile_without_player(self, key: str, *, is_guarded: bool = False) -> ReconcileResult:
        """Apply what does not need AuthMe's row while its table is unavailable; intents for the row are recorded."""
        result, sync_records = ReconcileResult(), self._context.sync_records
        for _step in range(_MAX_STEPS):
            with self._database.atomic():
                user, sync_record = sync_records.find_user(key), sync_records.find(key)
                users, known = {key: user} if user else {}, {key: sync_record} if sync_record else {}
                account = self._build_accounts([key], users, known, {})[0]
                action = decide(account, self.policy)
                if not isinstance(action, USER_ONLY) or not self._may_apply(action, result, False, is_guarded, False):
                    break
                if isinstance(action, ApplySqlEdit) and action.intent is not None and sync_record is not None:
                    action = ApplySqlEdit(unseen_row_intent(sync_record))
                STEPS[type(action)].confirm(self._context, account, action)
            result.applied.append(action)
        return result

    def reconcile_in_transaction(self, key: str) -> ReconcileResult | None:
        """Reconcile as part of the caller's transaction, if it covers both sides; else do nothing and return None."""
        return self.reconcile(key) if self.is_one_transaction else None

    def reconcile_after_commit(self, key: str) -> ReconcileResult | None:
        """Reconcile after the caller's transaction, if each side has its own; else do nothing and return None.

        Raises `PlayersUnavailable` also when our own database is busy: the committed work must not be repeated.
        """
        if self.is_one_transaction:
            return None
        try:
            return self.reconcile(key)
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the intent is recorded.") from error

    def rehash(self, key: str, stored: StoredPassword, rehashed: StoredPassword) -> bool:
        """Replace a hash of a legacy algorithm with a new hash of the same password, as AuthMe does at a login.

        Returns False, having changed nothing, if row and sync record do not hold `stored`. No session ends. Raises
        `PlayersUnavailable`, also when our own database is busy: the login must not be repeated.
        """
        self._context.players.find(key)  # waits for a busy file before our own database is locked
        try:
            with self._database.atomic():
                return replace_hash(self._context, self.load_for_update(key), stored, rehashed)
        except PlayerRefused as refused:
            log.warning("a player's legacy hash could not be replaced: %s", refused)
            return False
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the next login rehashes.") from error

    def record_registration(self, key: str, user_id: int) -> None:
        """Create the sync record of a new user; `presence` says whether AuthMe was asked and had no such player."""
        presence = ABSENT if self.is_enabled else UNASKED
        state = "absent" if self.is_enabled else "off"
        row = {"username_key": key, "user_id": user_id, "presence": presence, "plugin_state": state}
        Player.insert(row | {"plugin_since": self._context.now()}).on_conflict("REPLACE").execute()

    def inherit_lock(self, key: str, user_id: int) -> None:
        """Give a new user the sync record of a name whose row, registered by another player, we keep locked.

        Only the lock is inherited: the base belongs to the previous user.
        """
        base = {"base_hash": None, "base_salt": None, "base_email": None, "base_realname": None, "base_regdate": None}
        sync_records = self._context.sync_records
        sync_records.save(key, user_id=user_id, presence=ABSENT, conflict=None, **base, **NO_INTENT, **NO_TOMBSTONE)

    def request_row(self, key: str) -> None:
        """Record the intent to give an approved user a row with the user's own password. The caller has checked rights.

        Raises `PlayersUnavailable` after recording an intent for when the table can be read again.
        """
        user, sync_record = self._context.sync_records.find_user(key), self._context.sync_records.find(key)
        if not self.is_enabled or user is None or user.status != APPROVED or sync_record is None:
            return
        try:
            player = self._context.players.find(key)
        except PlayersUnavailable:
            self._context.sync_records.save(key, intent=unseen_row_intent(sync_record))
            raise
        intent = row_intent(user, sync_record, player, self.policy)
        if intent is not None:
            self._context.sync_records.save(key, intent=intent)

    def can_request_row(self, key: str) -> bool:
        """Return whether `request_row` would change anything: the row is gone or foreign, and not requested yet."""
        user, sync_record = self._context.sync_records.find_user(key), self._context.sync_records.find(key)
        if user is None or sync_record is None or sync_record.intent in (PROVISION, OPEN):
            return False
        is_missed = sync_record.plugin_state in ("absent", "returned")
        return is_missed and password_for_row(user, sync_record, self.policy) is not None

    def request_reclaim(self, key: str) -> None:
        """Request a returned row for a user who has just proven to know the password set through us."""
        account = self.load_for_update(key)
        if (
            account.player is not None
            and account.sync_record is not None
            and account.sync_record.plugin_state == "returned"
        ):
            self.request_row(key)

    def request_password_write(self, key: str) -> None:
        """Record that the password just set through us goes to the row, whatever the row holds."""
        if self.is_enabled:
            Player.update(intent=PASSWORD).where((Player.username_key == key) & Player.intent.is_null()).execute()

    def clear_email_conflict(self, key: str) -> None:
        """End an e-mail conflict, because the user now has another e-mail."""
        sync_record = self._context.sync_records.find(key)
        if sync_record is None or not has_conflict(sync_record, "email"):
            return
        others = [name for name in str(sync_record.conflict).split(",") if name != "email"]
        self._context.sync_records.save(key, conflict=",".join(others) or None)

    def record_tombstone(self, key: str) -> None:
        """Record which row goes with the user about to be deleted. Raises `PlayersUnavailable` after recording it."""
        sync_records = self._context.sync_records
        if not self.is_enabled:
            sync_records.delete(key)
            return
        try:
            account = self.load_for_update(key)
        except PlayersUnavailable:
            user, sync_record = sync_records.find_user(key), sync_records.find(key)
            record_unseen_tombstone(sync_records, Account(key, user, sync_record, None, False, self._context.now()))
            raise
        record_tombstone(sync_records, account)

    @contextmanager
    def _shared_transaction(self) -> Iterator[None]:
        if self.is_one_transaction:
            with self._database.atomic():
                yield
        else:
            yield

    def _apply_next(
        self, key: str, result: ReconcileResult, may_adopt: bool, is_guarded: bool, accept_empty_table: bool
    ) -> bool:
        """Apply the next action; return whether there may be another one."""
        with self._database.atomic():
            account = self.load_for_update(key)
            action = decide(account, self.policy)
            if action is None or not self._may_apply(action, result, may_adopt, is_guarded, accept_empty_table):
                return False
            if isinstance(action, Adopt):
                adopted = adopt_each(self._database, self._context.audit, [action], account.now)
                result.applied += [action] * adopted.count
                return True
            step = STEPS[type(action)]
            step.prepare(self._context, account, action)
            account = replace(
                account,
                user=self._context.sync_records.find_user(key),
                sync_record=self._context.sync_records.find(key),
            )
            may_write = step.may_write(self._context, account, action)
        if not may_write:
            return False
        failpoints.reach("before player write")
        is_written = step.write(self._context, account, action)
        failpoints.reach("after player write")
        if not is_written:
            return True
        with self._database.atomic():
            if not self._has_changed(account):
                done = step.confirm(self._context, account, action)
                result.applied.append(done or action)
        return True

    def _next_action(self, key: str) -> SyncAction | None:
        return decide(self.load(key), self.policy)

    def _may_apply(
        self,
        action: SyncAction | None,
        result: ReconcileResult,
        may_adopt: bool,
        is_guarded: bool,
        accept_empty_table: bool,
    ) -> bool:
        """Return whether the action may be applied; a guarded one that may not becomes `result.postponed`."""
        if action is None or (isinstance(action, Adopt) and not may_adopt):
            return False
        is_too_much = isinstance(action, MarkMissing) and not accept_empty_table and self._context.players.is_empty()
        if is_too_much or (is_guarded and isinstance(action, GUARDED)):
            result.postponed = action
            return False
        return True

    def _has_changed(self, account: Account) -> bool:
        """Return whether our rows changed since they were loaded: then the account is loaded and decided on anew."""
        sync_records = self._context.sync_records
        user, sync_record = sync_records.find_user(account.key), sync_records.find(account.key)
        return (user, sync_record) != (account.user, account.sync_record)
