"""Closes the difference for one name: look, decide one step, carry it out, look again.

The API calls it for its own effects before it replies, the sync for every name that differs; it is the same function.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from peewee import Database

from plugin_bridge.players import PlayerRow
from regsvc.models import APPROVED, Installation, Player
from regsvc.sync.adoption import adopt_each
from regsvc.sync.agreements import NO_TOMBSTONE
from regsvc.sync.decisions import BRAKED, Adopt, Decision
from regsvc.sync.plan import decide, password_to_give
from regsvc.sync.records import ABSENT, OPEN, PASSWORD, PROVISION, UNASKED, Policy, Subject, UserRecord
from regsvc.sync.steps import STEPS, World, bury

_MAX_STEPS = 12
"""No name needs more; a row that changes faster than this is left to the next look."""


@dataclass
class Settled:
    """What was done for one name; `left` is the step a run must not take on its own (None: nothing is left)."""

    done: list[Decision] = field(default_factory=list)
    left: Decision | None = None


class Reconciler:
    """Brings one name to what should be. Blocking: runs on a worker thread."""

    def __init__(self, database: Database, world: World, policy: Policy, level_of: Callable[[str], int]) -> None:
        """`policy.first_started_at` is replaced by the installation's own, once there is a database to ask."""
        self._database = database
        self._world = world
        self._policy = policy
        self._is_policy_whole = False
        self._level_of = level_of

    @property
    def is_enabled(self) -> bool:
        """Whether there is an AuthMe to agree with."""
        return self._policy.is_bridge_on

    @property
    def is_one_transaction(self) -> bool:
        """Whether AuthMe's row can be written in the same transaction as ours."""
        return self._world.players.shares_transactions

    @property
    def policy(self) -> Policy:
        """What the host wants, and when this installation first started."""
        if not self._is_policy_whole:
            started = Installation.get_by_id(1).first_started_at
            self._policy = replace(self._policy, first_started_at=started)
            self._is_policy_whole = True
        return self._policy

    def look(self, key: str, *, is_held: bool = True) -> Subject:
        """Everything known of this lower-case name. `is_held`: our rows stay as they are until the transaction ends."""
        agreements = self._world.agreements
        user = agreements.find_user(key) if is_held else agreements.find_users([key]).get(key)
        agreement = agreements.find(key) if is_held else agreements.find_many([key]).get(key)
        return self.subject(key, user, agreement, self._world.players.find(key))

    def subject(self, key: str, user: UserRecord | None, agreement: object, player: PlayerRow | None) -> Subject:
        """What the plan reasons from, of rows that were read already."""
        return Subject(
            key=key,
            user=user,
            agreement=agreement,  # type: ignore[arg-type]
            player=player,
            is_operator=self._level_of(key) > 0,
            now=self._world.now(),
        )

    def settle(self, key: str, *, may_adopt: bool = True, is_braked: bool = False) -> Settled:
        """Take steps until both sides agree on this name.

        On SQLite never inside a transaction of ours: AuthMe's file is another one. Raises `PlayersAway`.
        """
        settled = Settled()
        for _step in range(_MAX_STEPS):
            with self._shared_transaction():
                if not self._take_step(key, settled, may_adopt, is_braked):
                    break
        return settled

    def settle_inside(self, key: str) -> None:
        """The same as part of the caller's transaction, where one transaction holds both sides; else nothing yet."""
        if self.is_one_transaction:
            self.settle(key)

    def settle_after(self, key: str) -> None:
        """The same after the caller's transaction, where the sides have one each; else it was done inside."""
        if not self.is_one_transaction:
            self.settle(key)

    def note_registration(self, key: str, user_id: int) -> None:
        """A new user: whether AuthMe could be asked for the name decides who was first."""
        presence = ABSENT if self.is_enabled else UNASKED
        state = "absent" if self.is_enabled else "off"
        self._world.agreements.forget(key)
        self._world.agreements.save(key, state=state, user_id=user_id, presence=presence, **NO_TOMBSTONE)  # type: ignore[arg-type]

    def inherit_row(self, key: str, user_id: int) -> None:
        """A new user under a name whose row a stranger registered, and we keep locked: it stays so."""
        self._world.agreements.save(key, user_id=user_id, presence=ABSENT)

    def wish_for_row(self, key: str) -> None:
        """Somebody who may ask for it wants this approved user to have a row with the user's own password."""
        if not self.is_enabled:
            return
        subject = self.look(key)
        user, agreement, player = subject.user, subject.agreement, subject.player
        if user is None or user.status != APPROVED or agreement is None:
            return
        if password_to_give(user, agreement, self.policy) is None:
            return
        if player is None:
            self._world.agreements.save(key, wish=PROVISION)
        elif agreement.is_of_another_row(player):
            self._world.agreements.save(key, wish=OPEN)

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
        if not self.is_enabled:
            return
        self.wish_for_row(key)
        changes = Player.update(wish=PASSWORD).where((Player.username_key == key) & Player.wish.is_null())
        changes.execute()

    def bury(self, key: str) -> None:
        """The user of this name is about to be deleted: note which row is to go."""
        if self.is_enabled:
            bury(self._world.agreements, self.look(key))
        else:
            self._world.agreements.forget(key)

    @contextmanager
    def _shared_transaction(self) -> Iterator[None]:
        if self.is_one_transaction:
            with self._database.atomic():
                yield
        else:
            yield

    def _take_step(self, key: str, settled: Settled, may_adopt: bool, is_braked: bool) -> bool:
        """One step; True when it is worth looking again."""
        with self._database.atomic():
            subject = self.look(key)
            decision = decide(subject, self.policy)
            if decision is None or (isinstance(decision, Adopt) and not may_adopt):
                return False
            if is_braked and isinstance(decision, BRAKED):
                settled.left = decision
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
        if not step.write(self._world, subject, decision):
            return True
        with self._database.atomic():
            if not self._has_changed(subject):
                step.confirm(self._world, subject, decision)
                settled.done.append(decision)
        return True

    def _has_changed(self, subject: Subject) -> bool:
        """Whether somebody else changed our side since: then what was written is looked at anew."""
        agreements = self._world.agreements
        user, agreement = agreements.find_user(subject.key), agreements.find(subject.key)
        return (user, agreement) != (subject.user, subject.agreement)
