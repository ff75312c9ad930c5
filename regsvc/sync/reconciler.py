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
from regsvc.database import failpoints
from regsvc.database.engine import is_retryable
from regsvc.database.models import ABSENT, APPROVED, OPEN, PASSWORD, PROVISION, UNASKED, Installation, Player
from regsvc.sync.adoption import adopt_each
from regsvc.sync.decisions import BRAKED, Adopt, ApplySqlEdit, Decision, EndBan, MarkMissing
from regsvc.sync.merge import has_conflict
from regsvc.sync.plan import decide, password_to_give, row_wish
from regsvc.sync.records import Account, Policy, SyncRecord, UserRecord
from regsvc.sync.rehash import replace_hash
from regsvc.sync.steps import STEPS, StepContext, blind_wish, note_collision
from regsvc.sync.sync_records import NO_TOMBSTONE, NO_WISH
from regsvc.sync.tombstones import record_tombstone, record_unseen_tombstone

log = logging.getLogger(__name__)

_MAX_STEPS = 12
"""No name needs more; a row that changes faster than this is left to the next look."""

OUR_SIDE = (ApplySqlEdit, EndBan)
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
        self, database: Database, world: StepContext, policy: Policy, operators: Callable[[], Collection[str]]
    ) -> None:
        """`policy.first_started_at` is replaced by the installation's own, once there is a database to ask."""
        self._database = database
        self._world = world
        self._policy = policy
        self._is_policy_whole = False
        self._operators = operators

    @property
    def is_enabled(self) -> bool:
        """Whether there is an AuthMe to agree with."""
        return self._policy.is_bridge_on

    @property
    def is_one_transaction(self) -> bool:
        """Whether AuthMe's row can be written in the same transaction as ours."""
        return self._world.players.shares_transactions

    @property
    def world(self) -> StepContext:
        """What the steps act on."""
        return self._world

    @property
    def operators(self) -> frozenset[str]:
        """The lower-case names of the operators at this moment."""
        return frozenset(self._operators())

    @property
    def policy(self) -> Policy:
        """What the host wants, and when this installation first started."""
        if not self._is_policy_whole:
            started = Installation.get_by_id(1).first_started_at
            self._policy = replace(self._policy, first_started_at=started)
            self._is_policy_whole = True
        return self._policy

    def take_over(self, algorithms: frozenset[str], *, may_provision: bool) -> None:
        """AuthMe is configured with others from now on."""
        self._policy = replace(self._policy, algorithms=algorithms, may_provision=may_provision)

    def look(self, key: str, *, is_held: bool = True) -> Account:
        """Everything known of this lower-case name. `is_held`: our rows stay as they are until the transaction ends."""
        agreements = self._world.agreements
        if not is_held:
            return self.subjects([key], self._world.players.find_many([key]))[0]
        user, agreement = agreements.find_user(key), agreements.find(key)
        users, known = {key: user} if user else {}, {key: agreement} if agreement else {}
        return self._subjects([key], users, known, self._world.players.find_many([key]))[0]

    def subjects(self, keys: Collection[str], players: Mapping[str, PlayerRow]) -> list[Account]:
        """The same for many names, none of them held; `players` are those of them that AuthMe has."""
        agreements = self._world.agreements
        return self._subjects(keys, agreements.find_users(keys), agreements.find_many(keys), players)

    def hold(self, keys: Collection[str]) -> list[Account]:
        """The same, all of them held until the transaction ends. Only then are AuthMe's rows read, not to be older."""
        agreements = self._world.agreements
        users, known = agreements.find_users(keys, is_held=True), agreements.find_many(keys, is_held=True)
        return self._subjects(keys, users, known, self._world.players.find_many(keys))

    def _subjects(
        self,
        keys: Collection[str],
        users: Mapping[str, UserRecord],
        agreements: Mapping[str, SyncRecord],
        players: Mapping[str, PlayerRow],
    ) -> list[Account]:
        orphans = {known.user_id for key, known in agreements.items() if key not in users and known.user_id is not None}
        strays = {user.id for key, user in users.items() if key not in agreements or agreements[key].user_id != user.id}
        renamed = self._world.agreements.find_users_by_id(orphans)
        names = self._world.agreements.find_names(strays)
        moment, operators, found = self._world.now(), self._operators(), []
        for key in keys:
            user, agreement = users.get(key), agreements.get(key)
            owner = agreement.user_id if agreement is not None and user is None else None
            found.append(
                Account(
                    key=key,
                    user=user,
                    agreement=agreement,
                    player=players.get(key),
                    is_operator=key in operators,
                    now=moment,
                    renamed=renamed.get(owner) if owner is not None else None,
                    known_as=names.get(user.id) if user is not None else None,
                )
            )
        return found

    def reconcile(
        self, key: str, *, may_adopt: bool = True, is_braked: bool = False, believes_empty: bool = False
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
                if not self._may_take(self._next_step(key), settled, may_adopt, is_braked, believes_empty):
                    break
                with self._shared_transaction():
                    if not self._take_step(key, settled, may_adopt, is_braked, believes_empty):
                        break
            else:
                raise PlayerRefused(f"The row of {key} is another one each time it is looked at.")
        except PlayerRefused as refused:
            settled.refused = refused
            log.warning("the player of a user waits: %s", refused)
            if isinstance(refused, NameCollides):
                with self._database.atomic():
                    note_collision(self._world, self.look(key))
        return settled

    def reconcile_without_player(self, key: str, *, is_braked: bool = False) -> ReconcileResult:
        """While AuthMe is away: carry out what needs no look at its row. The wish for the row is kept until then."""
        settled, agreements = ReconcileResult(), self._world.agreements
        for _step in range(_MAX_STEPS):
            with self._database.atomic():
                user, agreement = agreements.find_user(key), agreements.find(key)
                users, known = {key: user} if user else {}, {key: agreement} if agreement else {}
                subject = self._subjects([key], users, known, {})[0]
                decision = decide(subject, self.policy)
                if not isinstance(decision, OUR_SIDE) or not self._may_take(decision, settled, False, is_braked, False):
                    break
                if isinstance(decision, ApplySqlEdit) and decision.wish is not None and agreement is not None:
                    decision = ApplySqlEdit(blind_wish(agreement))
                STEPS[type(decision)].confirm(self._world, subject, decision)
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
        self._world.players.find(key)  # a busy file is waited for before our own database is held
        try:
            with self._database.atomic():
                return replace_hash(self._world, self.look(key), stored, rehashed)
        except PlayerRefused as refused:
            log.warning("the hash of a player stays as it is: %s", refused)
            return False
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the next login rehashes.") from error

    def note_registration(self, key: str, user_id: int) -> None:
        """A new user: whether AuthMe could be asked for the name decides who was first."""
        presence = ABSENT if self.is_enabled else UNASKED
        state = "absent" if self.is_enabled else "off"
        self._world.agreements.forget(key)
        self._world.agreements.save(key, state=state, user_id=user_id, presence=presence, **NO_TOMBSTONE)  # type: ignore[arg-type]

    def inherit_row(self, key: str, user_id: int) -> None:
        """A new user under a name whose row a stranger registered, and we keep locked: it stays so.

        Nothing else is inherited: what was agreed on with the user before is none of this one's.
        """
        agreed = {"base_hash": None, "base_salt": None, "base_email": None, "base_realname": None, "base_regdate": None}
        agreements = self._world.agreements
        agreements.save(key, user_id=user_id, presence=ABSENT, conflict=None, **agreed, **NO_WISH, **NO_TOMBSTONE)

    def wish_for_row(self, key: str) -> None:
        """Somebody who may ask for it wants this approved user to have a row with the user's own password.

        Raises `PlayersUnavailable`, and keeps the wish for when the table is there again.
        """
        user, agreement = self._world.agreements.find_user(key), self._world.agreements.find(key)
        if not self.is_enabled or user is None or user.status != APPROVED or agreement is None:
            return
        try:
            player = self._world.players.find(key)
        except PlayersUnavailable:
            self._world.agreements.save(key, wish=blind_wish(agreement))
            raise
        wish = row_wish(user, agreement, player, self.policy)
        if wish is not None:
            self._world.agreements.save(key, wish=wish)

    def may_bring_row(self, key: str) -> bool:
        """Whether `wish_for_row` would be news: the row left or is a stranger's, and nobody has asked for it yet."""
        user, agreement = self._world.agreements.find_user(key), self._world.agreements.find(key)
        if user is None or agreement is None or agreement.wish in (PROVISION, OPEN):
            return False
        is_missed = agreement.plugin_state in ("absent", "returned")
        return is_missed and password_to_give(user, agreement, self.policy) is not None

    def wish_to_open(self, key: str) -> None:
        """The user showed the password set through us: a row that came back is to be opened with it."""
        subject = self.look(key)
        if (
            subject.player is not None
            and subject.agreement is not None
            and subject.agreement.plugin_state == "returned"
        ):
            self.wish_for_row(key)

    def wish_for_password(self, key: str) -> None:
        """A password was set through us: it is the newest word, whatever the row says."""
        if self.is_enabled:
            Player.update(wish=PASSWORD).where((Player.username_key == key) & Player.wish.is_null()).execute()

    def forget_email_conflict(self, key: str) -> None:
        """The user has another e-mail: that the two sides could not agree on the one before is over."""
        agreement = self._world.agreements.find(key)
        if agreement is None or not has_conflict(agreement, "email"):
            return
        others = [name for name in str(agreement.conflict).split(",") if name != "email"]
        self._world.agreements.save(key, conflict=",".join(others) or None)

    def record_tombstone(self, key: str) -> None:
        """The user of this name is about to be deleted: note which row is to go. May raise `PlayersUnavailable`."""
        agreements = self._world.agreements
        if not self.is_enabled:
            agreements.forget(key)
            return
        try:
            subject = self.look(key)
        except PlayersUnavailable:
            user, agreement = agreements.find_user(key), agreements.find(key)
            record_unseen_tombstone(agreements, Account(key, user, agreement, None, False, self._world.now()))
            raise
        record_tombstone(agreements, subject)

    @contextmanager
    def _shared_transaction(self) -> Iterator[None]:
        if self.is_one_transaction:
            with self._database.atomic():
                yield
        else:
            yield

    def _take_step(
        self, key: str, settled: ReconcileResult, may_adopt: bool, is_braked: bool, believes_empty: bool
    ) -> bool:
        """One step; True when it is worth looking again."""
        with self._database.atomic():
            subject = self.look(key)
            decision = decide(subject, self.policy)
            if decision is None or not self._may_take(decision, settled, may_adopt, is_braked, believes_empty):
                return False
            if isinstance(decision, Adopt):
                adopted = adopt_each(self._database, self._world.audit, [decision], subject.now)
                settled.done += [decision] * adopted.count
                return True
            step = STEPS[type(decision)]
            step.promise(self._world, subject, decision)
            subject = replace(
                subject,
                user=self._world.agreements.find_user(key),
                agreement=self._world.agreements.find(key),
            )
            may_write = step.may_write(self._world, subject, decision)
        if not may_write:
            return False
        failpoints.reach("before player write")
        is_written = step.write(self._world, subject, decision)
        failpoints.reach("after player write")
        if not is_written:
            return True
        with self._database.atomic():
            if not self._has_changed(subject):
                done = step.confirm(self._world, subject, decision)
                settled.done.append(done or decision)
        return True

    def _next_step(self, key: str) -> Decision | None:
        return decide(self.look(key, is_held=False), self.policy)

    def _may_take(
        self,
        decision: Decision | None,
        settled: ReconcileResult,
        may_adopt: bool,
        is_braked: bool,
        believes_empty: bool,
    ) -> bool:
        """Whether there is a step and it is ours to take; one that is not is noted in `settled.left`."""
        if decision is None or (isinstance(decision, Adopt) and not may_adopt):
            return False
        is_too_much = isinstance(decision, MarkMissing) and not believes_empty and self._world.players.is_empty()
        if is_too_much or (is_braked and isinstance(decision, BRAKED)):
            settled.left = decision
            return False
        return True

    def _has_changed(self, subject: Account) -> bool:
        """Whether somebody else changed our side since: then what was written is looked at anew."""
        agreements = self._world.agreements
        user, agreement = agreements.find_user(subject.key), agreements.find(subject.key)
        return (user, agreement) != (subject.user, subject.agreement)
