"""Execution of each action in three phases: prepare (our database), write (AuthMe's row), confirm (our database).

On one MySQL or MariaDB server the three are one transaction. On SQLite each is a transaction of its own, so that a
crash between two of them leaves either nothing or a recorded intent, which the next reconciliation of the name carries
out. A step never assumes that it runs for the first time.
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
from regsvc.sync import actions
from regsvc.sync.emails import find_real_email, is_email_free
from regsvc.sync.records import Account, SyncRecord
from regsvc.sync.row_updates import is_email_refused, update_row, without_email
from regsvc.sync.step_context import StepContext
from regsvc.sync.sync_records import NO_INTENT, NO_LOCK, base_columns
from regsvc.sync.tombstones import record_tombstone

A = TypeVar("A", bound=actions.SyncAction)


class Step(Generic[A]):
    """Executor of one kind of action. The default methods do nothing."""

    def prepare(self, context: StepContext, account: Account, action: A) -> None:
        """Commit in our database what is needed to finish or undo what `write` is about to do."""

    def may_write(self, context: StepContext, account: Account, action: A) -> bool:
        """Return whether `write` may run now; False if something else runs it later. Part of the prepare phase."""
        return True

    def write(self, context: StepContext, account: Account, action: A) -> bool:
        """Change AuthMe's row. Returns False if it was not as loaded, so that the account must be loaded again."""
        return True

    def confirm(self, context: StepContext, account: Account, action: A) -> A | None:
        """Commit in our database that it is done. Returns what was done where that differs from `action`, else None."""
        return None


class ProvisionStep(Step[actions.Provision]):
    def prepare(self, context: StepContext, account: Account, action: actions.Provision) -> None:
        assert account.user is not None
        players = context.players
        if players.find_colliding(account.key) is not None and players.find(account.key) is None:
            raise NameCollides(_collision_sentence(account.user.username))
        context.sync_records.save(
            account.key,
            state="pending",
            user_id=account.user.id,
            intent=PROVISION,
            intent_hash=action.password.hash,
            intent_salt=action.password.salt,
            intent_regdate=self._chosen_regdate(account, action),
        )

    def may_write(self, context: StepContext, account: Account, action: actions.Provision) -> bool:
        """Wait until a player online under this name is kicked: AuthMe would log them in to the new row."""
        user = account.user
        assert user is not None
        return context.console.may_insert(user.username, user.id, self._chosen_regdate(account, action))

    def write(self, context: StepContext, account: Account, action: actions.Provision) -> bool:
        user = account.user
        assert user is not None
        new = NewPlayer(
            realname=user.username,
            hash=action.password.hash,
            salt=action.password.salt,
            email=user.email,
            regdate=self._chosen_regdate(account, action),
            regip=java_address(user.registration_ip),
            uuid=context.find_uuid(user.username) if user.platform == "java" else None,
        )
        try:
            self._insert(context, new)
        except PlayerExists:
            if context.players.find(account.key) is None:
                raise NameCollides(_collision_sentence(user.username)) from None
            return False
        return True

    @staticmethod
    def _insert(context: StepContext, new: NewPlayer) -> None:
        """Insert without the e-mail if AuthMe's table cannot hold it: no address keeps an approved user out."""
        try:
            context.players.insert(new)
        except PlayerRefused:
            if new.email is None:
                raise
            context.players.insert(replace(new, email=None))

    def confirm(self, context: StepContext, account: Account, action: actions.Provision) -> None:
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
    def _chosen_regdate(account: Account, action: actions.Provision) -> int:
        """Reuse the recorded time: two processes must insert the same row, or one would take it for a foreign row."""
        known = account.sync_record
        if known is not None and known.intent_hash == action.password.hash and known.intent_regdate is not None:
            return known.intent_regdate
        return epoch_ms(account.now)


class RecordSyncedStep(Step[actions.RecordSynced]):
    def confirm(self, context: StepContext, account: Account, action: actions.RecordSynced) -> None:
        assert account.user is not None
        context.sync_records.save(
            account.key,
            state="conflict" if action.conflict else "synced",
            user_id=account.user.id,
            conflict=action.conflict,
            **base_columns(action.player),
            **NO_LOCK,
        )


class LockStep(Step[actions.Lock]):
    def prepare(self, context: StepContext, account: Account, action: actions.Lock) -> None:
        user, sync_record = account.user, account.sync_record
        assert user is not None
        changes: dict[str, Any] = {
            "user_id": user.id,
            "lock_reason": action.reason,
            "locked_at": account.now,
            "kept_hash": action.player.hash,
            "kept_origin": action.origin,
        }
        if action.player.premium_uuid:
            changes["kept_premium_uuid"] = action.player.premium_uuid
        if action.origin != UNVERIFIED and sync_record is not None and sync_record.base_hash != action.player.hash:
            # the player changed the password in the last synced row: it is the player's own, and newer than ours
            changes |= {"base_hash": action.player.hash, "base_salt": action.player.salt}
            if sync_record.intent != PASSWORD:
                _delete_own_password(user.id)
            _end_sessions(user.id)
        context.sync_records.save(account.key, **changes)
        # the row was locked before, so the game has replaced our lock with another hash
        if sync_record is not None and sync_record.locked_at is not None:
            context.console.on_lock(user.username, user.id, is_ban=action.reason == BANNED)

    def write(self, context: StepContext, account: Account, action: actions.Lock) -> bool:
        locked: dict[str, str | int | None] = {
            "hash": lock_text(action.player.hash),
            "has_session": 0,
            "premium_uuid": None,
        }
        return context.players.update(action.player, locked)

    def confirm(self, context: StepContext, account: Account, action: actions.Lock) -> None:
        assert account.user is not None
        _record_state(context, account, action.state)
        _record_lock(context, account, action.reason)


class RestorePasswordStep(Step[actions.RestorePassword]):
    def write(self, context: StepContext, account: Account, action: actions.RestorePassword) -> bool:
        return context.players.update(action.player, self.row_changes(account, action))

    def confirm(self, context: StepContext, account: Account, action: actions.RestorePassword) -> None:
        assert account.user is not None
        base = base_columns(action.player, **self.row_changes(account, action))
        # other fields that the player changed while the row was locked are merged next
        del base["base_email"], base["base_realname"]
        has_conflict = account.sync_record is not None and account.sync_record.conflict
        state: PluginState = "conflict" if has_conflict else "synced"
        context.sync_records.save(account.key, state=state, user_id=account.user.id, **base, **NO_LOCK)

    @staticmethod
    def row_changes(
        account: Account, action: actions.RestorePassword | actions.RemoveLock
    ) -> dict[str, str | int | None]:
        """Return the fields of the row that open it again, as named in `PlayerRow`."""
        row_changes: dict[str, str | int | None] = {
            "hash": action.password.hash,
            "salt": action.password.salt,
            "has_session": 0,
        }
        if account.sync_record is not None and account.sync_record.kept_premium_uuid:
            row_changes["premium_uuid"] = account.sync_record.kept_premium_uuid
        return row_changes


class RemoveLockStep(Step[actions.RemoveLock]):
    def write(self, context: StepContext, account: Account, action: actions.RemoveLock) -> bool:
        return context.players.update(action.player, RestorePasswordStep.row_changes(account, action))

    def confirm(self, context: StepContext, account: Account, action: actions.RemoveLock) -> None:
        context.sync_records.save(account.key, state="conflict", **NO_LOCK)


class ReclaimRowStep(Step[actions.ReclaimRow]):
    def write(self, context: StepContext, account: Account, action: actions.ReclaimRow) -> bool:
        return update_row(context.players, action.player, self.row_changes(account, action))

    def confirm(self, context: StepContext, account: Account, action: actions.ReclaimRow) -> None:
        assert account.user is not None
        base = base_columns(action.player, **self.row_changes(account, action))
        context.sync_records.save(
            account.key, state="synced", user_id=account.user.id, conflict=None, **base, **NO_LOCK
        )

    @staticmethod
    def row_changes(account: Account, action: actions.ReclaimRow) -> dict[str, str | int | None]:
        """Return new values for every field by which the other player could log in, or the owner be kept out."""
        user = account.user
        assert user is not None
        row_changes: dict[str, str | int | None] = {
            "hash": action.password.hash,
            "salt": action.password.salt,
            "realname": user.username,
            "has_session": 0,
            "premium_uuid": None,
            "totp": None,
        }
        if user.email is not None:
            row_changes["email"] = user.email
        return row_changes


class MergeStep(Step[actions.Merge]):
    def write(self, context: StepContext, account: Account, action: actions.Merge) -> bool:
        return update_row(context.players, action.player, action.to_player)

    def confirm(self, context: StepContext, account: Account, action: actions.Merge) -> actions.Merge:
        user, sync_record = account.user, account.sync_record
        assert user is not None
        row_changes, conflicts = action.to_player, list(action.conflicts)
        if is_email_refused(context.players, account.key, row_changes):
            row_changes = without_email(row_changes)
            conflicts.append(actions.Conflict("email", "both"))
        if action.takes_password:
            _delete_own_password(user.id)
            _end_sessions(user.id)
            context.audit.record("user.password_changed", "sync", user.username, {"where": "in the game"})
        if action.takes_realname is not None:
            User.update(username=action.takes_realname).where(User.id == user.id).execute()
        if action.takes_email is not None and not _accept_email(context, account, action.takes_email):
            conflicts.append(actions.Conflict("email", "both"))
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
            **base_columns(action.player, **row_changes),
            **NO_LOCK,
        )
        return replace(action, conflicts=tuple(conflicts))


class MarkMissingStep(Step[actions.MarkMissing]):
    def confirm(self, context: StepContext, account: Account, action: actions.MarkMissing) -> None:
        assert account.user is not None
        changes: dict[str, Any] = {"presence": GONE, **NO_LOCK}
        if account.sync_record is None or account.sync_record.intent not in (PROVISION, PASSWORD):
            changes |= NO_INTENT  # else the row was requested again before we noticed that it was gone
        context.sync_records.save(account.key, state="absent", **changes)
        context.audit.record("sync.player_removed", "sync", account.user.username)


class UpdateStateStep(Step[actions.UpdateState]):
    def confirm(self, context: StepContext, account: Account, action: actions.UpdateState) -> None:
        if action.presence is not None:
            context.sync_records.save(account.key, presence=action.presence)
        _record_state(context, account, action.state)
        sync_record, player = account.sync_record, account.player
        was = sync_record.plugin_state if sync_record is not None else None
        if player is not None and player.is_locked and sync_record is not None and was != action.state:
            _record_lock(context, account, sync_record.lock_reason)  # a crash prevented it at the time


class MarkDeletedStep(Step[actions.MarkDeleted]):
    def confirm(self, context: StepContext, account: Account, action: actions.MarkDeleted) -> None:
        context.transitions.record_deletions([account.key])
        record_tombstone(context.sync_records, account)


class RemoveStep(Step[actions.Remove]):
    def write(self, context: StepContext, account: Account, action: actions.Remove) -> bool:
        return context.players.delete(action.player)


class EndBanStep(Step[actions.EndBan]):
    def confirm(self, context: StepContext, account: Account, action: actions.EndBan) -> None:
        context.transitions.end_bans([_user_row(account)])


class ApplySqlEditStep(Step[actions.ApplySqlEdit]):
    def confirm(self, context: StepContext, account: Account, action: actions.ApplySqlEdit) -> None:
        context.transitions.apply_sql_edits([_user_row(account)])
        if action.intent is not None:
            context.sync_records.save(account.key, intent=action.intent)


class RevertRenameStep(Step[actions.RevertRename]):
    def confirm(self, context: StepContext, account: Account, action: actions.RevertRename) -> None:
        user, sync_record = action.user, context.sync_records.find(action.key)
        spellings = (user.username, sync_record.base_realname if sync_record is not None else None)
        username = next((name for name in spellings if name and name.lower() == action.key), action.key)
        User.update(username=username, username_key=action.key).where(User.id == user.id).execute()
        context.audit.record("sync.edit_refused", "sql", username, {"username": user.username})


class RejectNameConflictStep(Step[actions.RejectNameConflict]):
    def confirm(self, context: StepContext, account: Account, action: actions.RejectNameConflict) -> None:
        context.transitions.reject_name_conflicts([_user_row(account)])
        # the player registered first: we have no intent for the row, and it stays as it is
        _record_state(context, account, "conflict")


STEPS: dict[type, Step[Any]] = {
    actions.Provision: ProvisionStep(),
    actions.RecordSynced: RecordSyncedStep(),
    actions.Lock: LockStep(),
    actions.RestorePassword: RestorePasswordStep(),
    actions.ReclaimRow: ReclaimRowStep(),
    actions.RemoveLock: RemoveLockStep(),
    actions.Merge: MergeStep(),
    actions.MarkMissing: MarkMissingStep(),
    actions.UpdateState: UpdateStateStep(),
    actions.MarkDeleted: MarkDeletedStep(),
    actions.Remove: RemoveStep(),
    actions.EndBan: EndBanStep(),
    actions.ApplySqlEdit: ApplySqlEditStep(),
    actions.RevertRename: RevertRenameStep(),
    actions.RejectNameConflict: RejectNameConflictStep(),
}
"""Adoption is not among them: it comes by the thousand and has its own module (`adoption.py`)."""


def record_collision(context: StepContext, account: Account) -> None:
    """Record a name conflict: AuthMe's table holds another name that it considers equal. Audited once."""
    if account.user is None:
        return
    context.sync_records.save(account.key, conflict="name", **NO_INTENT)
    _record_state(context, account, "conflict")


def unseen_row_intent(sync_record: SyncRecord) -> str:
    """Return the intent to record for a requested row while AuthMe's table cannot be read."""
    return OPEN if sync_record.kept_origin == UNVERIFIED else PROVISION


def _collision_sentence(username: str) -> str:
    return f"AuthMe's table considers {username} equal to another name that it already holds."


def _accept_email(context: StepContext, account: Account, raw: str) -> bool:
    """Give the user the game's address, as unverified. Returns False if it is invalid or another user's."""
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


def _delete_own_password(user_id: int) -> None:
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


def _record_state(context: StepContext, account: Account, state: PluginState) -> None:
    """Save the state shown in the user list, and audit once that a player came back or has a conflicting name."""
    was = account.sync_record.plugin_state if account.sync_record is not None else None
    user_id = account.user.id if account.user is not None else None
    context.sync_records.save(account.key, state=state, user_id=user_id)
    if was == state or account.user is None:
        return
    if state == "returned":
        context.audit.record("sync.player_returned", "sync", account.user.username)
    elif state == "conflict":
        context.audit.record("sync.conflict", "sync", account.user.username, {"field": "name", "kept": "both"})


def _record_lock(context: StepContext, account: Account, reason: str | None) -> None:
    """Audit a lock that is no ban, which has its own entry, and kick the player if the row is a foreign one.

    A player who registered another user's name in the game may be playing at this moment.
    """
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
