"""How each decision is carried out: promise (ours, before), write (AuthMe's row), confirm (ours, after).

On one MySQL or MariaDB server the three are one transaction. On SQLite each stands alone, so that a crash between two
leaves either nothing or a promise that the next look at this name fulfils. A step never assumes that it is the first
time it is tried.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from peewee import IntegrityError

from plugin_bridge.authme.players import (
    NameCollides,
    NewPlayer,
    PlayerExists,
    PlayerRefused,
    Players,
    java_address,
    lock_text,
)
from regsvc.core.clock import Clock, epoch_ms
from regsvc.database.audit import Audit
from regsvc.database.models import BANNED, GONE, OPEN, PASSWORD, PROVISION, UNVERIFIED, PluginState, Session, User
from regsvc.notifications.rcon.console import GameConsole, NoGameConsole
from regsvc.sync import decisions as d
from regsvc.sync.emails import find_real_email, is_email_free, is_email_refused, update_row, without_email
from regsvc.sync.records import Account, SyncRecord
from regsvc.sync.sync_records import NO_LOCK, NO_WISH, SyncRecords, base_of
from regsvc.sync.tombstones import record_tombstone
from regsvc.users.transitions import Transitions

D = TypeVar("D", bound=d.Decision)


@dataclass(frozen=True)
class StepContext:
    """What the steps act on. `find_uuid`: what the game calls a Java player of this name, None if nobody knows.

    `console` is told whom to kick.
    """

    players: Players
    agreements: SyncRecords
    transitions: Transitions
    audit: Audit
    now: Clock
    find_uuid: Callable[[str], str | None] = lambda name: None
    console: GameConsole = field(default_factory=NoGameConsole)


class Step(Generic[D]):
    """One kind of decision, carried out. The default does nothing."""

    def promise(self, world: StepContext, subject: Account, decision: D) -> None:
        """Commit on our side what is needed to finish, or to undo, what `write` is about to do."""

    def may_write(self, world: StepContext, subject: Account, decision: D) -> bool:
        """Whether `write` may follow now. False: somebody else has it done later, as promised. Part of the promise."""
        return True

    def write(self, world: StepContext, subject: Account, decision: D) -> bool:
        """Change AuthMe's row. False: it was not as seen, look again."""
        return True

    def confirm(self, world: StepContext, subject: Account, decision: D) -> D | None:
        """Commit on our side that it is done. Comes back with what was done where that is not the decision itself."""
        return None


class ProvisionStep(Step[d.Provision]):
    def promise(self, world: StepContext, subject: Account, decision: d.Provision) -> None:
        assert subject.user is not None
        players = world.players
        if players.find_colliding(subject.key) is not None and players.find(subject.key) is None:
            raise NameCollides(_collision(subject.user.username))
        world.agreements.save(
            subject.key,
            state="pending",
            user_id=subject.user.id,
            wish=PROVISION,
            wish_hash=decision.password.hash,
            wish_salt=decision.password.salt,
            wish_regdate=self._regdate(subject, decision),
        )

    def may_write(self, world: StepContext, subject: Account, decision: d.Provision) -> bool:
        """Whoever is online under this name and unregistered must go first: AuthMe would log him in to the new row."""
        user = subject.user
        assert user is not None
        return world.console.may_insert(user.username, user.id, self._regdate(subject, decision))

    def write(self, world: StepContext, subject: Account, decision: d.Provision) -> bool:
        user = subject.user
        assert user is not None
        new = NewPlayer(
            realname=user.username,
            hash=decision.password.hash,
            salt=decision.password.salt,
            email=user.email,
            regdate=self._regdate(subject, decision),
            regip=java_address(user.registration_ip),
            uuid=world.find_uuid(user.username) if user.platform == "java" else None,
        )
        try:
            self._insert(world, new)
        except PlayerExists:
            if world.players.find(subject.key) is None:
                raise NameCollides(_collision(user.username)) from None
            return False
        return True

    @staticmethod
    def _insert(world: StepContext, new: NewPlayer) -> None:
        """With the e-mail, if AuthMe's table can hold it: who is approved plays, whatever the address looks like."""
        try:
            world.players.insert(new)
        except PlayerRefused:
            if new.email is None:
                raise
            world.players.insert(replace(new, email=None))

    def confirm(self, world: StepContext, subject: Account, decision: d.Provision) -> None:
        row, user = world.players.find(subject.key), subject.user
        if row is None or user is None:
            return
        is_refused = user.email is not None and row.known_email is None
        if is_refused:
            detail = {"field": "email", "kept": "both"}
            world.audit.record("sync.conflict", "sync", user.username, detail)
        world.agreements.save(
            subject.key,
            state="conflict" if is_refused else "synced",
            conflict="email" if is_refused else None,
            **base_of(row),
            **NO_LOCK,
        )

    @staticmethod
    def _regdate(subject: Account, decision: d.Provision) -> int:
        """As promised already, where it was: two at once must make the same row, or one takes it for a stranger's."""
        known = subject.agreement
        if known is not None and known.wish_hash == decision.password.hash and known.wish_regdate is not None:
            return known.wish_regdate
        return epoch_ms(subject.now)


class AgreeStep(Step[d.Agree]):
    def confirm(self, world: StepContext, subject: Account, decision: d.Agree) -> None:
        assert subject.user is not None
        world.agreements.save(
            subject.key,
            state="conflict" if decision.conflict else "synced",
            user_id=subject.user.id,
            conflict=decision.conflict,
            **base_of(decision.player),
            **NO_LOCK,
        )


class LockStep(Step[d.Lock]):
    def promise(self, world: StepContext, subject: Account, decision: d.Lock) -> None:
        user, agreement = subject.user, subject.agreement
        assert user is not None
        changes: dict[str, Any] = {
            "user_id": user.id,
            "lock_reason": decision.reason,
            "locked_at": subject.now,
            "kept_hash": decision.player.hash,
            "kept_origin": decision.origin,
        }
        if decision.player.premium_uuid:
            changes["kept_premium_uuid"] = decision.player.premium_uuid
        if decision.origin != UNVERIFIED and agreement is not None and agreement.base_hash != decision.player.hash:
            # they changed it in the row we agreed on: it is theirs, and newer than what we had
            changes |= {"base_hash": decision.player.hash, "base_salt": decision.player.salt}
            if agreement.wish != PASSWORD:
                _drop_own_password(user.id)
            _end_sessions(user.id)
        world.agreements.save(subject.key, **changes)
        if agreement is not None and agreement.locked_at is not None:  # the game put another hash in the lock's place
            world.console.on_lock(user.username, user.id, is_ban=decision.reason == BANNED)

    def write(self, world: StepContext, subject: Account, decision: d.Lock) -> bool:
        locked: dict[str, str | int | None] = {
            "hash": lock_text(decision.player.hash),
            "has_session": 0,
            "premium_uuid": None,
        }
        return world.players.update(decision.player, locked)

    def confirm(self, world: StepContext, subject: Account, decision: d.Lock) -> None:
        assert subject.user is not None
        _note_state(world, subject, decision.state)
        _tell_of_lock(world, subject, decision.reason)


class RestoreStep(Step[d.Restore]):
    def write(self, world: StepContext, subject: Account, decision: d.Restore) -> bool:
        return world.players.update(decision.player, self.written(subject, decision))

    def confirm(self, world: StepContext, subject: Account, decision: d.Restore) -> None:
        assert subject.user is not None
        base = base_of(decision.player, **self.written(subject, decision))
        # what else they changed while the row was locked is merged next
        del base["base_email"], base["base_realname"]
        state: PluginState = "conflict" if subject.agreement is not None and subject.agreement.conflict else "synced"
        world.agreements.save(subject.key, state=state, user_id=subject.user.id, **base, **NO_LOCK)

    @staticmethod
    def written(subject: Account, decision: d.Restore | d.Unlock) -> dict[str, str | int | None]:
        written: dict[str, str | int | None] = {
            "hash": decision.password.hash,
            "salt": decision.password.salt,
            "has_session": 0,
        }
        if subject.agreement is not None and subject.agreement.kept_premium_uuid:
            written["premium_uuid"] = subject.agreement.kept_premium_uuid
        return written


class UnlockStep(Step[d.Unlock]):
    def write(self, world: StepContext, subject: Account, decision: d.Unlock) -> bool:
        return world.players.update(decision.player, RestoreStep.written(subject, decision))

    def confirm(self, world: StepContext, subject: Account, decision: d.Unlock) -> None:
        world.agreements.save(subject.key, state="conflict", **NO_LOCK)


class OpenStep(Step[d.Open]):
    def write(self, world: StepContext, subject: Account, decision: d.Open) -> bool:
        return update_row(world.players, decision.player, self.written(subject, decision))

    def confirm(self, world: StepContext, subject: Account, decision: d.Open) -> None:
        assert subject.user is not None
        base = base_of(decision.player, **self.written(subject, decision))
        world.agreements.save(subject.key, state="synced", user_id=subject.user.id, conflict=None, **base, **NO_LOCK)

    @staticmethod
    def written(subject: Account, decision: d.Open) -> dict[str, str | int | None]:
        """Everything the stranger set that would let him in, or keep the owner out."""
        user = subject.user
        assert user is not None
        written: dict[str, str | int | None] = {
            "hash": decision.password.hash,
            "salt": decision.password.salt,
            "realname": user.username,
            "has_session": 0,
            "premium_uuid": None,
            "totp": None,
        }
        if user.email is not None:
            written["email"] = user.email
        return written


class MergeStep(Step[d.Merge]):
    def write(self, world: StepContext, subject: Account, decision: d.Merge) -> bool:
        return update_row(world.players, decision.player, decision.to_player)

    def confirm(self, world: StepContext, subject: Account, decision: d.Merge) -> d.Merge:
        user, agreement = subject.user, subject.agreement
        assert user is not None
        written, conflicts = decision.to_player, list(decision.conflicts)
        if is_email_refused(world.players, subject.key, written):
            written = without_email(written)
            conflicts.append(d.Conflict("email", "both"))
        if decision.takes_password:
            _drop_own_password(user.id)
            _end_sessions(user.id)
            world.audit.record("user.password_changed", "sync", user.username, {"where": "in the game"})
        if decision.takes_realname is not None:
            User.update(username=decision.takes_realname).where(User.id == user.id).execute()
        if decision.takes_email is not None and not _take_email(world, subject, decision.takes_email):
            conflicts.append(d.Conflict("email", "both"))
        for conflict in conflicts:
            detail = {"field": conflict.field, "kept": conflict.kept}
            world.audit.record("sync.conflict", "sync", user.username, detail)
        standing: set[str] = {conflict.field for conflict in conflicts if conflict.kept == "both"}
        if agreement is not None and agreement.conflict:
            standing |= set(agreement.conflict.split(","))
        world.agreements.save(
            subject.key,
            state="conflict" if standing else "synced",
            conflict=",".join(sorted(standing)) or None,
            **base_of(decision.player, **written),
            **NO_LOCK,
        )
        return replace(decision, conflicts=tuple(conflicts))


class NoteGoneStep(Step[d.MarkMissing]):
    def confirm(self, world: StepContext, subject: Account, decision: d.MarkMissing) -> None:
        assert subject.user is not None
        changes: dict[str, Any] = {"presence": GONE, **NO_LOCK}
        if subject.agreement is None or subject.agreement.wish not in (PROVISION, PASSWORD):
            changes |= NO_WISH  # else somebody wanted it back before we saw that it was gone
        world.agreements.save(subject.key, state="absent", **changes)
        world.audit.record("sync.player_removed", "sync", subject.user.username)


class NoteStateStep(Step[d.UpdateState]):
    def confirm(self, world: StepContext, subject: Account, decision: d.UpdateState) -> None:
        if decision.presence is not None:
            world.agreements.save(subject.key, presence=decision.presence)
        _note_state(world, subject, decision.state)
        agreement, player = subject.agreement, subject.player
        was = agreement.plugin_state if agreement is not None else None
        if player is not None and player.is_locked and agreement is not None and was != decision.state:
            _tell_of_lock(world, subject, agreement.lock_reason)  # a crash kept us from telling it at once


class MarkDeletedStep(Step[d.MarkDeleted]):
    def confirm(self, world: StepContext, subject: Account, decision: d.MarkDeleted) -> None:
        world.transitions.note_deletion(subject.key)
        record_tombstone(world.agreements, subject)


class RemoveStep(Step[d.Remove]):
    def write(self, world: StepContext, subject: Account, decision: d.Remove) -> bool:
        return world.players.delete(decision.player)


class EndBanStep(Step[d.EndBan]):
    def confirm(self, world: StepContext, subject: Account, decision: d.EndBan) -> None:
        world.transitions.end_ban(_user_row(subject))


class CarryOutEditStep(Step[d.ApplySqlEdit]):
    def confirm(self, world: StepContext, subject: Account, decision: d.ApplySqlEdit) -> None:
        world.transitions.carry_out_edit(_user_row(subject))
        if decision.wish is not None:
            world.agreements.save(subject.key, wish=decision.wish)


class PutNameBackStep(Step[d.RevertRename]):
    def confirm(self, world: StepContext, subject: Account, decision: d.RevertRename) -> None:
        user, agreement = decision.user, world.agreements.find(decision.key)
        spellings = (user.username, agreement.base_realname if agreement is not None else None)
        username = next((name for name in spellings if name and name.lower() == decision.key), decision.key)
        User.update(username=username, username_key=decision.key).where(User.id == user.id).execute()
        world.audit.record("sync.edit_refused", "sql", username, {"username": user.username})


class RejectTakenStep(Step[d.RejectNameConflict]):
    def confirm(self, world: StepContext, subject: Account, decision: d.RejectNameConflict) -> None:
        world.transitions.reject_taken(_user_row(subject))
        # the player was first: the row is nobody's wish of ours, and stays as it is
        _note_state(world, subject, "conflict")


STEPS: dict[type, Step[Any]] = {
    d.Provision: ProvisionStep(),
    d.Agree: AgreeStep(),
    d.Lock: LockStep(),
    d.Restore: RestoreStep(),
    d.Open: OpenStep(),
    d.Unlock: UnlockStep(),
    d.Merge: MergeStep(),
    d.MarkMissing: NoteGoneStep(),
    d.UpdateState: NoteStateStep(),
    d.MarkDeleted: MarkDeletedStep(),
    d.Remove: RemoveStep(),
    d.EndBan: EndBanStep(),
    d.ApplySqlEdit: CarryOutEditStep(),
    d.RevertRename: PutNameBackStep(),
    d.RejectNameConflict: RejectTakenStep(),
}
"""Adoption is a step of its own (`adoption.py`): it comes by the thousand."""


def note_collision(world: StepContext, subject: Account) -> None:
    """AuthMe's table has another name that it takes for this one: a conflict, told once."""
    if subject.user is None:
        return
    world.agreements.save(subject.key, conflict="name", **NO_WISH)
    _note_state(world, subject, "conflict")


def blind_wish(agreement: SyncRecord) -> str:
    """What is asked of the row by somebody who may, while nobody can look at it."""
    return OPEN if agreement.kept_origin == UNVERIFIED else PROVISION


def _collision(username: str) -> str:
    return f"AuthMe's table takes {username} for another name that it has already."


def _take_email(world: StepContext, subject: Account, raw: str) -> bool:
    """Give an unproven user the address the game has. False: it is somebody else's, or no address."""
    user = subject.user
    assert user is not None
    address = find_real_email(raw)
    if address is None or not is_email_free(address, user.id):
        return False
    changes = {"email": address.display, "email_key": address.key, "is_email_verified": False}
    try:
        User.update(changes).where(User.id == user.id).execute()
    except IntegrityError:
        return False
    world.audit.record("user.email_changed", "sync", user.username, {"where": "in the game"})
    return True


def _drop_own_password(user_id: int) -> None:
    nothing = {
        "password_hash": None,
        "password_salt": None,
        "password_algorithm": None,
        "password_set_at": None,
    }
    User.update(nothing).where(User.id == user_id).execute()


def _end_sessions(user_id: int) -> None:
    User.update(token_generation=User.token_generation + 1).where(User.id == user_id).execute()
    Session.delete().where(Session.user == user_id).execute()


def _note_state(world: StepContext, subject: Account, state: PluginState) -> None:
    """What the user list shows; a player who came back, or is in the way, is told of once."""
    was = subject.agreement.plugin_state if subject.agreement is not None else None
    user_id = subject.user.id if subject.user is not None else None
    world.agreements.save(subject.key, state=state, user_id=user_id)
    if was == state or subject.user is None:
        return
    if state == "returned":
        world.audit.record("sync.player_returned", "sync", subject.user.username)
    elif state == "conflict":
        world.audit.record("sync.conflict", "sync", subject.user.username, {"field": "name", "kept": "both"})


def _tell_of_lock(world: StepContext, subject: Account, reason: str | None) -> None:
    """A ban has an entry of its own. Who registered an account that is another's may be playing in it."""
    user, agreement = subject.user, subject.agreement
    if user is None:
        return
    if reason not in (None, BANNED):
        world.audit.record("sync.player_locked", "sync", user.username, {"reason": reason})
    if agreement is not None and agreement.kept_origin == UNVERIFIED:
        world.console.on_lock(user.username, user.id, is_ban=reason == BANNED)


def _user_row(subject: Account) -> User:
    assert subject.user is not None
    row: User = User.get_by_id(subject.user.id)
    return row
