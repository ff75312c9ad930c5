"""How each decision is carried out: promise (ours, before), write (AuthMe's row), confirm (ours, after).

On one MySQL or MariaDB server the three are one transaction. On SQLite each stands alone, so that a crash between two
leaves either nothing or a promise that the next look at this name fulfils. A step never assumes that it is the first
time it is tried.
"""

from dataclasses import replace
from typing import Any, Generic, TypeVar

from peewee import IntegrityError

from plugin_bridge.authme.players import (
    NameCollides,
    NewPlayer,
    PlayerExists,
    PlayerRefused,
    java_address,
    lock_text,
)
from regsvc.core.clock import epoch_ms
from regsvc.database.models import BANNED, GONE, OPEN, PASSWORD, PROVISION, UNVERIFIED, PluginState, Session, User
from regsvc.sync import decisions as d
from regsvc.sync.emails import find_real_email, is_email_free, is_email_refused, update_row, without_email
from regsvc.sync.records import Account, SyncRecord
from regsvc.sync.step_context import StepContext
from regsvc.sync.sync_records import NO_INTENT, NO_LOCK, base_columns
from regsvc.sync.tombstones import record_tombstone

D = TypeVar("D", bound=d.Decision)


class Step(Generic[D]):
    """One kind of decision, carried out. The default does nothing."""

    def promise(self, context: StepContext, account: Account, decision: D) -> None:
        """Commit on our side what is needed to finish, or to undo, what `write` is about to do."""

    def may_write(self, context: StepContext, account: Account, decision: D) -> bool:
        """Whether `write` may follow now. False: somebody else has it done later, as promised. Part of the promise."""
        return True

    def write(self, context: StepContext, account: Account, decision: D) -> bool:
        """Change AuthMe's row. False: it was not as seen, look again."""
        return True

    def confirm(self, context: StepContext, account: Account, decision: D) -> D | None:
        """Commit on our side that it is done. Comes back with what was done where that is not the decision itself."""
        return None


class ProvisionStep(Step[d.Provision]):
    def promise(self, context: StepContext, account: Account, decision: d.Provision) -> None:
        assert account.user is not None
        players = context.players
        if players.find_colliding(account.key) is not None and players.find(account.key) is None:
            raise NameCollides(_collision(account.user.username))
        context.sync_records.save(
            account.key,
            state="pending",
            user_id=account.user.id,
            intent=PROVISION,
            intent_hash=decision.password.hash,
            intent_salt=decision.password.salt,
            intent_regdate=self._regdate(account, decision),
        )

    def may_write(self, context: StepContext, account: Account, decision: d.Provision) -> bool:
        """Whoever is online under this name and unregistered must go first: AuthMe would log him in to the new row."""
        user = account.user
        assert user is not None
        return context.console.may_insert(user.username, user.id, self._regdate(account, decision))

    def write(self, context: StepContext, account: Account, decision: d.Provision) -> bool:
        user = account.user
        assert user is not None
        new = NewPlayer(
            realname=user.username,
            hash=decision.password.hash,
            salt=decision.password.salt,
            email=user.email,
            regdate=self._regdate(account, decision),
            regip=java_address(user.registration_ip),
            uuid=context.find_uuid(user.username) if user.platform == "java" else None,
        )
        try:
            self._insert(context, new)
        except PlayerExists:
            if context.players.find(account.key) is None:
                raise NameCollides(_collision(user.username)) from None
            return False
        return True

    @staticmethod
    def _insert(context: StepContext, new: NewPlayer) -> None:
        """With the e-mail, if AuthMe's table can hold it: who is approved plays, whatever the address looks like."""
        try:
            context.players.insert(new)
        except PlayerRefused:
            if new.email is None:
                raise
            context.players.insert(replace(new, email=None))

    def confirm(self, context: StepContext, account: Account, decision: d.Provision) -> None:
        row, user = context.players.find(account.key), account.user
        if row is None or user is None:
            return
        is_refused = user.email is not None and row.known_email is None
        if is_refused:
            detail = {"field": "email", "kept": "both"}
            context.audit.record("sync.conflict", "sync", user.username, detail)
        context.sync_records.save(
            account.key,
            state="conflict" if is_refused else "synced",
            conflict="email" if is_refused else None,
            **base_columns(row),
            **NO_LOCK,
        )

    @staticmethod
    def _regdate(account: Account, decision: d.Provision) -> int:
        """As promised already, where it was: two at once must make the same row, or one takes it for a stranger's."""
        known = account.sync_record
        if known is not None and known.intent_hash == decision.password.hash and known.intent_regdate is not None:
            return known.intent_regdate
        return epoch_ms(account.now)


class AgreeStep(Step[d.Agree]):
    def confirm(self, context: StepContext, account: Account, decision: d.Agree) -> None:
        assert account.user is not None
        context.sync_records.save(
            account.key,
            state="conflict" if decision.conflict else "synced",
            user_id=account.user.id,
            conflict=decision.conflict,
            **base_columns(decision.player),
            **NO_LOCK,
        )


class LockStep(Step[d.Lock]):
    def promise(self, context: StepContext, account: Account, decision: d.Lock) -> None:
        user, sync_record = account.user, account.sync_record
        assert user is not None
        changes: dict[str, Any] = {
            "user_id": user.id,
            "lock_reason": decision.reason,
            "locked_at": account.now,
            "kept_hash": decision.player.hash,
            "kept_origin": decision.origin,
        }
        if decision.player.premium_uuid:
            changes["kept_premium_uuid"] = decision.player.premium_uuid
        if decision.origin != UNVERIFIED and sync_record is not None and sync_record.base_hash != decision.player.hash:
            # they changed it in the row we agreed on: it is theirs, and newer than what we had
            changes |= {"base_hash": decision.player.hash, "base_salt": decision.player.salt}
            if sync_record.intent != PASSWORD:
                _drop_own_password(user.id)
            _end_sessions(user.id)
        context.sync_records.save(account.key, **changes)
        if (
            sync_record is not None and sync_record.locked_at is not None
        ):  # the game put another hash in the lock's place
            context.console.on_lock(user.username, user.id, is_ban=decision.reason == BANNED)

    def write(self, context: StepContext, account: Account, decision: d.Lock) -> bool:
        locked: dict[str, str | int | None] = {
            "hash": lock_text(decision.player.hash),
            "has_session": 0,
            "premium_uuid": None,
        }
        return context.players.update(decision.player, locked)

    def confirm(self, context: StepContext, account: Account, decision: d.Lock) -> None:
        assert account.user is not None
        _note_state(context, account, decision.state)
        _tell_of_lock(context, account, decision.reason)


class RestoreStep(Step[d.Restore]):
    def write(self, context: StepContext, account: Account, decision: d.Restore) -> bool:
        return context.players.update(decision.player, self.written(account, decision))

    def confirm(self, context: StepContext, account: Account, decision: d.Restore) -> None:
        assert account.user is not None
        base = base_columns(decision.player, **self.written(account, decision))
        # what else they changed while the row was locked is merged next
        del base["base_email"], base["base_realname"]
        state: PluginState = (
            "conflict" if account.sync_record is not None and account.sync_record.conflict else "synced"
        )
        context.sync_records.save(account.key, state=state, user_id=account.user.id, **base, **NO_LOCK)

    @staticmethod
    def written(account: Account, decision: d.Restore | d.Unlock) -> dict[str, str | int | None]:
        written: dict[str, str | int | None] = {
            "hash": decision.password.hash,
            "salt": decision.password.salt,
            "has_session": 0,
        }
        if account.sync_record is not None and account.sync_record.kept_premium_uuid:
            written["premium_uuid"] = account.sync_record.kept_premium_uuid
        return written


class UnlockStep(Step[d.Unlock]):
    def write(self, context: StepContext, account: Account, decision: d.Unlock) -> bool:
        return context.players.update(decision.player, RestoreStep.written(account, decision))

    def confirm(self, context: StepContext, account: Account, decision: d.Unlock) -> None:
        context.sync_records.save(account.key, state="conflict", **NO_LOCK)


class OpenStep(Step[d.Open]):
    def write(self, context: StepContext, account: Account, decision: d.Open) -> bool:
        return update_row(context.players, decision.player, self.written(account, decision))

    def confirm(self, context: StepContext, account: Account, decision: d.Open) -> None:
        assert account.user is not None
        base = base_columns(decision.player, **self.written(account, decision))
        context.sync_records.save(
            account.key, state="synced", user_id=account.user.id, conflict=None, **base, **NO_LOCK
        )

    @staticmethod
    def written(account: Account, decision: d.Open) -> dict[str, str | int | None]:
        """Everything the stranger set that would let him in, or keep the owner out."""
        user = account.user
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
    def write(self, context: StepContext, account: Account, decision: d.Merge) -> bool:
        return update_row(context.players, decision.player, decision.to_player)

    def confirm(self, context: StepContext, account: Account, decision: d.Merge) -> d.Merge:
        user, sync_record = account.user, account.sync_record
        assert user is not None
        written, conflicts = decision.to_player, list(decision.conflicts)
        if is_email_refused(context.players, account.key, written):
            written = without_email(written)
            conflicts.append(d.Conflict("email", "both"))
        if decision.takes_password:
            _drop_own_password(user.id)
            _end_sessions(user.id)
            context.audit.record("user.password_changed", "sync", user.username, {"where": "in the game"})
        if decision.takes_realname is not None:
            User.update(username=decision.takes_realname).where(User.id == user.id).execute()
        if decision.takes_email is not None and not _take_email(context, account, decision.takes_email):
            conflicts.append(d.Conflict("email", "both"))
        for conflict in conflicts:
            detail = {"field": conflict.field, "kept": conflict.kept}
            context.audit.record("sync.conflict", "sync", user.username, detail)
        standing: set[str] = {conflict.field for conflict in conflicts if conflict.kept == "both"}
        if sync_record is not None and sync_record.conflict:
            standing |= set(sync_record.conflict.split(","))
        context.sync_records.save(
            account.key,
            state="conflict" if standing else "synced",
            conflict=",".join(sorted(standing)) or None,
            **base_columns(decision.player, **written),
            **NO_LOCK,
        )
        return replace(decision, conflicts=tuple(conflicts))


class NoteGoneStep(Step[d.MarkMissing]):
    def confirm(self, context: StepContext, account: Account, decision: d.MarkMissing) -> None:
        assert account.user is not None
        changes: dict[str, Any] = {"presence": GONE, **NO_LOCK}
        if account.sync_record is None or account.sync_record.intent not in (PROVISION, PASSWORD):
            changes |= NO_INTENT  # else somebody wanted it back before we saw that it was gone
        context.sync_records.save(account.key, state="absent", **changes)
        context.audit.record("sync.player_removed", "sync", account.user.username)


class NoteStateStep(Step[d.UpdateState]):
    def confirm(self, context: StepContext, account: Account, decision: d.UpdateState) -> None:
        if decision.presence is not None:
            context.sync_records.save(account.key, presence=decision.presence)
        _note_state(context, account, decision.state)
        sync_record, player = account.sync_record, account.player
        was = sync_record.plugin_state if sync_record is not None else None
        if player is not None and player.is_locked and sync_record is not None and was != decision.state:
            _tell_of_lock(context, account, sync_record.lock_reason)  # a crash kept us from telling it at once


class MarkDeletedStep(Step[d.MarkDeleted]):
    def confirm(self, context: StepContext, account: Account, decision: d.MarkDeleted) -> None:
        context.transitions.record_deletion(account.key)
        record_tombstone(context.sync_records, account)


class RemoveStep(Step[d.Remove]):
    def write(self, context: StepContext, account: Account, decision: d.Remove) -> bool:
        return context.players.delete(decision.player)


class EndBanStep(Step[d.EndBan]):
    def confirm(self, context: StepContext, account: Account, decision: d.EndBan) -> None:
        context.transitions.end_ban(_user_row(account))


class CarryOutEditStep(Step[d.ApplySqlEdit]):
    def confirm(self, context: StepContext, account: Account, decision: d.ApplySqlEdit) -> None:
        context.transitions.apply_sql_edit(_user_row(account))
        if decision.intent is not None:
            context.sync_records.save(account.key, intent=decision.intent)


class PutNameBackStep(Step[d.RevertRename]):
    def confirm(self, context: StepContext, account: Account, decision: d.RevertRename) -> None:
        user, sync_record = decision.user, context.sync_records.find(decision.key)
        spellings = (user.username, sync_record.base_realname if sync_record is not None else None)
        username = next((name for name in spellings if name and name.lower() == decision.key), decision.key)
        User.update(username=username, username_key=decision.key).where(User.id == user.id).execute()
        context.audit.record("sync.edit_refused", "sql", username, {"username": user.username})


class RejectTakenStep(Step[d.RejectNameConflict]):
    def confirm(self, context: StepContext, account: Account, decision: d.RejectNameConflict) -> None:
        context.transitions.reject_name_conflict(_user_row(account))
        # the player was first: the row is nobody's wish of ours, and stays as it is
        _note_state(context, account, "conflict")


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


def record_collision(context: StepContext, account: Account) -> None:
    """AuthMe's table has another name that it takes for this one: a conflict, told once."""
    if account.user is None:
        return
    context.sync_records.save(account.key, conflict="name", **NO_INTENT)
    _note_state(context, account, "conflict")


def unseen_row_intent(sync_record: SyncRecord) -> str:
    """What is asked of the row by somebody who may, while nobody can look at it."""
    return OPEN if sync_record.kept_origin == UNVERIFIED else PROVISION


def _collision(username: str) -> str:
    return f"AuthMe's table takes {username} for another name that it has already."


def _take_email(context: StepContext, account: Account, raw: str) -> bool:
    """Give an unproven user the address the game has. False: it is somebody else's, or no address."""
    user = account.user
    assert user is not None
    address = find_real_email(raw)
    if address is None or not is_email_free(address, user.id):
        return False
    changes = {"email": address.display, "email_key": address.key, "is_email_verified": False}
    try:
        User.update(changes).where(User.id == user.id).execute()
    except IntegrityError:
        return False
    context.audit.record("user.email_changed", "sync", user.username, {"where": "in the game"})
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


def _note_state(context: StepContext, account: Account, state: PluginState) -> None:
    """What the user list shows; a player who came back, or is in the way, is told of once."""
    was = account.sync_record.plugin_state if account.sync_record is not None else None
    user_id = account.user.id if account.user is not None else None
    context.sync_records.save(account.key, state=state, user_id=user_id)
    if was == state or account.user is None:
        return
    if state == "returned":
        context.audit.record("sync.player_returned", "sync", account.user.username)
    elif state == "conflict":
        context.audit.record("sync.conflict", "sync", account.user.username, {"field": "name", "kept": "both"})


def _tell_of_lock(context: StepContext, account: Account, reason: str | None) -> None:
    """A ban has an entry of its own. Who registered an account that is another's may be playing in it."""
    user, sync_record = account.user, account.sync_record
    if user is None:
        return
    if reason not in (None, BANNED):
        context.audit.record("sync.player_locked", "sync", user.username, {"reason": reason})
    if sync_record is not None and sync_record.kept_origin == UNVERIFIED:
        context.console.on_lock(user.username, user.id, is_ban=reason == BANNED)


def _user_row(account: Account) -> User:
    assert account.user is not None
    row: User = User.get_by_id(account.user.id)
    return row
