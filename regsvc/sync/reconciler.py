"""Closes the difference for one name: look, decide one step, carry it out, look again.

The API calls it for its own effects before it replies, the sync for every name that differs; it is the same function.
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
from regsvc.sync.adoption import adopt_each
from regsvc.sync.decisions import GUARDED, Adopt, ApplySqlEdit, Decision, EndBan, MarkMissing
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
"""No name needs more; a row that changes faster than this is left to the next look."""

USER_ONLY = (ApplySqlEdit, EndBan)
"""Steps that need no look at AuthMe's row; it follows when it can be looked at."""


@dataclass
class ReconcileResult:
    """What was done for one name."""

    done: list[Decision] = field(default_factory=list)
    left: Decision | None = None
    """The step that must not be taken for many names at once; None: nothing is left."""
    refused: PlayerRefused | None = None
    """Why AuthMe's table did not take what should be written; None: it did."""


class Reconciler:
    """Brings one name to what should be. Blocking: runs on a worker thread."""

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
        """Whether there is an AuthMe to agree with."""
        return self._context.players.is_enabled

    @property
    def is_one_transaction(self) -> bool:
        """Whether AuthMe's row can be written in the same transaction as ours."""
        return self._context.players.shares_transactions

    @property
    def context(self) -> StepContext:
        """What the steps act on."""
        return self._context

    @property
    def operators(self) -> frozenset[str]:
        """The lower-case names of the operators at this moment."""
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
        """Return everything known of this lower-case name, without locking any row."""
        return self.load_many([key], self._context.players.find_many([key]))[0]

    def load_for_update(self, key: str) -> Account:
        """Return everything known of this lower-case name; our rows stay locked until the transaction ends."""
        sync_records = self._context.sync_records
        user, sync_record = sync_records.find_user(key), sync_records.find(key)
        users, known = {key: user} if user else {}, {key: sync_record} if sync_record else {}
        return self._build_accounts([key], users, known, self._context.players.find_many([key]))[0]

    def load_many(self, keys: Collection[str], players: Mapping[str, PlayerRow]) -> list[Account]:
        """The same for many names, none of them held; `players` are those of them that AuthMe has."""
        sync_records = self._context.sync_records
        return self._build_accounts(keys, sync_records.find_users(keys), sync_records.find_many(keys), players)

    def load_many_for_update(self, keys: Collection[str]) -> list[Account]:
        """The same, all of them held until the transaction ends. Only then are AuthMe's rows read, not to be older."""
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
        orphans = {
            known.user_id for key, known in sync_records.items() if key not in users and known.user_id is not None
        }
        strays = {
            user.id for key, user in users.items() if key not in sync_records or sync_records[key].user_id != user.id
        }
        renamed = self._context.sync_records.find_users_by_id(orphans)
        names = self._context.sync_records.find_names(strays)
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
        """Take steps until both sides agree on this name.

        `is_braked`: leave a step that must not be taken for many names at once. `believes_empty`: take a row for
        removed even where the whole table is empty.

        On SQLite never inside a transaction of ours: AuthMe's file is another one. Raises `PlayersUnavailable`.
        """
        settled = ReconcileResult()
        try:
            for _step in range(_MAX_STEPS):
                # mostly there is nothing to do, and then nothing is locked, neither our database nor a busy file
                if not self._may_take(self._next_step(key), settled, may_adopt, is_guarded, accept_empty_table):
                    break
                with self._shared_transaction():
                    if not self._take_step(key, settled, may_adopt, is_guarded, accept_empty_table):
                        break
            else:
                raise PlayerRefused(f"The row of {key} is another one each time it is looked at.")
        except PlayerRefused as refused:
            settled.refused = refused
            log.warning("the player of a user waits: %s", refused)
            if isinstance(refused, NameCollides):
                with self._database.atomic():
                    record_collision(self._context, self.load_for_update(key))
        return settled

    def reconcile_without_player(self, key: str, *, is_guarded: bool = False) -> ReconcileResult:
        """While AuthMe is away: carry out what needs no look at its row. The wish for the row is kept until then."""
        settled, sync_records = ReconcileResult(), self._context.sync_records
        for _step in range(_MAX_STEPS):
            with self._database.atomic():
                user, sync_record = sync_records.find_user(key), sync_records.find(key)
                users, known = {key: user} if user else {}, {key: sync_record} if sync_record else {}
                account = self._build_accounts([key], users, known, {})[0]
                decision = decide(account, self.policy)
                if not isinstance(decision, USER_ONLY) or not self._may_take(
                    decision, settled, False, is_guarded, False
                ):
                    break
                if isinstance(decision, ApplySqlEdit) and decision.intent is not None and sync_record is not None:
                    decision = ApplySqlEdit(unseen_row_intent(sync_record))
                STEPS[type(decision)].confirm(self._context, account, decision)
            settled.done.append(decision)
        return settled

    def reconcile_in_transaction(self, key: str) -> ReconcileResult | None:
        """The same as part of the caller's transaction, where one transaction holds both sides; else None yet."""
        return self.reconcile(key) if self.is_one_transaction else None

    def reconcile_after_commit(self, key: str) -> ReconcileResult | None:
        """The same after the caller's transaction, where the sides have one each; else None: it was done inside.

        Raises `PlayersUnavailable` also when our own database is busy: what was committed must not be done again.
        """
        if self.is_one_transaction:
            return None
        try:
            return self.reconcile(key)
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the wish is committed.") from error

    def rehash(self, key: str, stored: StoredPassword, rehashed: StoredPassword) -> bool:
        """What AuthMe does at a login: the same password, in the place of a hash of a legacy algorithm.

        True if it was done. False if the row, or what was agreed on, is not as `stored` says; then it is left as it
        is. Nobody's sessions end. Raises `PlayersUnavailable`, also when our own database is busy: the login must not
        be done again.
        """
        self._context.players.find(key)  # a busy file is waited for before our own database is held
        try:
            with self._database.atomic():
                return replace_hash(self._context, self.load_for_update(key), stored, rehashed)
        except PlayerRefused as refused:
            log.warning("the hash of a player stays as it is: %s", refused)
            return False
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the next login rehashes.") from error

    def record_registration(self, key: str, user_id: int) -> None:
        """A new user: whether AuthMe could be asked for the name decides who was first."""
        presence = ABSENT if self.is_enabled else UNASKED
        state = "absent" if self.is_enabled else "off"
        self._context.sync_records.forget(key)
        self._context.sync_records.save(key, state=state, user_id=user_id, presence=presence, **NO_TOMBSTONE)  # type: ignore[arg-type]

    def inherit_lock(self, key: str, user_id: int) -> None:
        """A new user under a name whose row a stranger registered, and we keep locked: it stays so.

        Nothing else is inherited: what was agreed on with the user before is none of this one's.
        """
        agreed = {"base_hash": None, "base_salt": None, "base_email": None, "base_realname": None, "base_regdate": None}
        sync_records = self._context.sync_records
        sync_records.save(key, user_id=user_id, presence=ABSENT, conflict=None, **agreed, **NO_INTENT, **NO_TOMBSTONE)

    def request_row(self, key: str) -> None:
        """Somebody who may ask for it wants this approved user to have a row with the user's own password.

        Raises `PlayersUnavailable`, and keeps the wish for when the table is there again.
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
        """Whether `wish_for_row` would be news: the row left or is a stranger's, and nobody has asked for it yet."""
        user, sync_record = self._context.sync_records.find_user(key), self._context.sync_records.find(key)
        if user is None or sync_record is None or sync_record.intent in (PROVISION, OPEN):
            return False
        is_missed = sync_record.plugin_state in ("absent", "returned")
        return is_missed and password_for_row(user, sync_record, self.policy) is not None

    def request_reclaim(self, key: str) -> None:
        """The user showed the password set through us: a row that came back is to be opened with it."""
        account = self.load_for_update(key)
        if (
            account.player is not None
            and account.sync_record is not None
            and account.sync_record.plugin_state == "returned"
        ):
            self.request_row(key)

    def request_password_write(self, key: str) -> None:
        """A password was set through us: it is the newest word, whatever the row says."""
        if self.is_enabled:
            Player.update(intent=PASSWORD).where((Player.username_key == key) & Player.intent.is_null()).execute()

    def clear_email_conflict(self, key: str) -> None:
        """The user has another e-mail: that the two sides could not agree on the one before is over."""
        sync_record = self._context.sync_records.find(key)
        if sync_record is None or not has_conflict(sync_record, "email"):
            return
        others = [name for name in str(sync_record.conflict).split(",") if name != "email"]
        self._context.sync_records.save(key, conflict=",".join(others) or None)

    def record_tombstone(self, key: str) -> None:
        """Record which row goes with the user about to be deleted. Raises `PlayersUnavailable` after recording it."""
        sync_records = self._context.sync_records
        if not self.is_enabled:
            sync_records.forget(key)
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

    def _take_step(
        self, key: str, settled: ReconcileResult, may_adopt: bool, is_guarded: bool, accept_empty_table: bool
    ) -> bool:
        """One step; True when it is worth looking again."""
        with self._database.atomic():
            account = self.load_for_update(key)
            decision = decide(account, self.policy)
            if decision is None or not self._may_take(decision, settled, may_adopt, is_guarded, accept_empty_table):
                return False
            if isinstance(decision, Adopt):
                adopted = adopt_each(self._database, self._context.audit, [decision], account.now)
                settled.done += [decision] * adopted.count
                return True
            step = STEPS[type(decision)]
            step.promise(self._context, account, decision)
            account = replace(
                account,
                user=self._context.sync_records.find_user(key),
                sync_record=self._context.sync_records.find(key),
            )
            may_write = step.may_write(self._context, account, decision)
        if not may_write:
            return False
        failpoints.reach("before player write")
        is_written = step.write(self._context, account, decision)
        failpoints.reach("after player write")
        if not is_written:
            return True
        with self._database.atomic():
            if not self._has_changed(account):
                done = step.confirm(self._context, account, decision)
                settled.done.append(done or decision)
        return True

    def _next_step(self, key: str) -> Decision | None:
        return decide(self.load(key), self.policy)

    def _may_take(
        self,
        decision: Decision | None,
        settled: ReconcileResult,
        may_adopt: bool,
        is_guarded: bool,
        accept_empty_table: bool,
    ) -> bool:
        """Whether there is a step and it is ours to take; one that is not is noted in `settled.left`."""
        if decision is None or (isinstance(decision, Adopt) and not may_adopt):
            return False
        is_too_much = isinstance(decision, MarkMissing) and not accept_empty_table and self._context.players.is_empty()
        if is_too_much or (is_guarded and isinstance(decision, GUARDED)):
            settled.left = decision
            return False
        return True

    def _has_changed(self, account: Account) -> bool:
        """Whether somebody else changed our side since: then what was written is looked at anew."""
        sync_records = self._context.sync_records
        user, sync_record = sync_records.find_user(account.key), sync_records.find(account.key)
        return (user, sync_record) != (account.user, account.sync_record)
