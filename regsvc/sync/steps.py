"""Effects of each action that concerns AuthMe's row, in three parts: promise, write and confirm.

The promise (our database) holds what is needed to finish or undo the write; the write changes AuthMe's row by
compare-and-set; the confirmation (our database) records that it is done. On one MySQL or MariaDB server the three are
one transaction. On SQLite each is a transaction of its own, so that a crash between two of them leaves either nothing
or a recorded intent, which the next reconciliation of the name carries out. A step never assumes that it runs for the
first time, and writes nothing itself: `pages` does, for a whole page of accounts.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from plugin_bridge.authme.players import (
    NewPlayer,
    PlayerRow,
    RowDelete,
    RowInsert,
    RowUpdate,
    RowWrite,
    java_address,
    lock_text,
)
from regsvc.core.clock import epoch_ms
from regsvc.database.models import BANNED, GONE, PASSWORD, PROVISION, UNVERIFIED
from regsvc.notifications.rcon.queue import Cause
from regsvc.sync import actions
from regsvc.sync.effects import NO_PASSWORD, NOTHING, AuditNote, Effects, state_effects
from regsvc.sync.emails import claim_unverified, find_real_email
from regsvc.sync.records import Account, UserRecord
from regsvc.sync.step_context import StepContext
from regsvc.sync.sync_records import NO_INTENT, NO_LOCK, base_columns

A = TypeVar("A", bound=actions.SyncAction)


@dataclass(frozen=True)
class Done(Generic[A]):
    """An action whose write succeeded: the account after the promise, and AuthMe's row as it is now."""

    account: Account
    action: A
    row: PlayerRow | None
    is_email_refused: bool = False
    """Whether the row was written without the e-mail, which AuthMe's table does not accept."""

    @property
    def user(self) -> UserRecord:
        """The account's user."""
        assert self.account.user is not None
        return self.account.user


class Step(Generic[A]):
    """The three parts of one kind of action. The default methods do nothing."""

    def promise(self, account: Account, action: A) -> Effects:
        """Return what is committed on our side before the row is written."""
        return NOTHING

    def may_write(self, context: StepContext, account: Account, action: A) -> bool:
        """Return whether the row may be written now; False if something else has it written later."""
        return True

    def write(self, context: StepContext, account: Account, action: A) -> RowWrite | None:
        """Return the write to AuthMe's table, or None if the action needs none."""
        return None

    def confirm(self, cases: Sequence[Done[A]]) -> list[Effects]:
        """Return what is written on our side once the rows are, for each case."""
        return [self.confirm_one(case) for case in cases]

    def confirm_one(self, case: Done[A]) -> Effects:
        """Return what is written on our side once the row is."""
        return NOTHING


class ProvisionStep(Step[actions.Provision]):
    def promise(self, account: Account, action: actions.Provision) -> Effects:
        assert account.user is not None
        known = account.sync_record
        collides = known is not None and known.conflict == "name"
        intended = {
            "intent": PROVISION,
            "intent_hash": action.password.hash,
            "intent_salt": action.password.salt,
            "intent_regdate": self.chosen_regdate(account, action),
        }
        return Effects({"plugin_state": "conflict" if collides else "pending", "user_id": account.user.id, **intended})

    def may_write(self, context: StepContext, account: Account, action: actions.Provision) -> bool:
        """Wait until a player online under this name is kicked: AuthMe would log them in to the new row."""
        user = account.user
        assert user is not None
        return context.console.may_insert(user.username, user.id, self.chosen_regdate(account, action))

    def write(self, context: StepContext, account: Account, action: actions.Provision) -> RowInsert:
        user = account.user
        assert user is not None
        return RowInsert(
            NewPlayer(
                realname=user.username,
                hash=action.password.hash,
                salt=action.password.salt,
                email=user.email,
                regdate=self.chosen_regdate(account, action),
                regip=java_address(user.registration_ip),
                uuid=context.find_uuid(user.username) if user.platform == "java" else None,
            )
        )

    def confirm_one(self, case: Done[actions.Provision]) -> Effects:
        assert case.row is not None
        is_refused = case.user.email is not None and case.row.known_email is None
        changes = {**base_columns(case.row), **NO_LOCK, "conflict": "email" if is_refused else None}
        if not is_refused:
            return Effects({"plugin_state": "synced", **changes})
        note = AuditNote("sync.conflict", {"field": "email", "kept": "both"})
        return Effects({"plugin_state": "conflict", **changes}, audit=(note,))

    @staticmethod
    def chosen_regdate(account: Account, action: actions.Provision) -> int:
        """Reuse the recorded time: two processes must insert the same row, or one would take it for a foreign row."""
        known = account.sync_record
        if known is not None and known.intent_hash == action.password.hash and known.intent_regdate is not None:
            return known.intent_regdate
        return epoch_ms(account.now)


class RecordSyncedStep(Step[actions.RecordSynced]):
    def confirm_one(self, case: Done[actions.RecordSynced]) -> Effects:
        action = case.action
        state = {"plugin_state": "conflict" if action.conflict else "synced", "conflict": action.conflict}
        return Effects({**state, "user_id": case.user.id, **base_columns(action.player), **NO_LOCK})


class LockStep(Step[actions.Lock]):
    def promise(self, account: Account, action: actions.Lock) -> Effects:
        user, known, player = account.user, account.sync_record, action.player
        assert user is not None
        changes: dict[str, Any] = {
            "user_id": user.id,
            "lock_reason": action.reason,
            "locked_at": account.now,
            "kept_hash": player.hash,
            "kept_origin": action.origin,
        }
        if player.premium_uuid:
            changes["kept_premium_uuid"] = player.premium_uuid
        # the row was locked before, so the game has replaced our lock with another hash
        is_locked_again = known is not None and known.locked_at is not None
        effects = Effects(changes, kick=_lock_kick(action.reason) if is_locked_again else None)
        if action.origin != UNVERIFIED and known is not None and known.base_hash != player.hash:
            # the player changed the password in the last synced row: it is the player's own, and newer than ours
            own = NO_PASSWORD if known.intent != PASSWORD else {}
            effects |= Effects({"base_hash": player.hash, "base_salt": player.salt}, own, ends_sessions=True)
        return effects

    def write(self, context: StepContext, account: Account, action: actions.Lock) -> RowUpdate:
        return RowUpdate(action.player, {"hash": lock_text(action.player.hash), "has_session": 0, "premium_uuid": None})

    def confirm_one(self, case: Done[actions.Lock]) -> Effects:
        return state_effects(case.account, case.action.state) | _lock_effects(case.account, case.action.reason)


class RestorePasswordStep(Step[actions.RestorePassword]):
    def write(self, context: StepContext, account: Account, action: actions.RestorePassword) -> RowUpdate:
        return RowUpdate(action.player, unlocked_row(account, action))

    def confirm_one(self, case: Done[actions.RestorePassword]) -> Effects:
        assert case.row is not None
        base = base_columns(case.row)
        # other fields that the player changed while the row was locked are merged next
        del base["base_email"], base["base_realname"]
        has_conflict = case.account.sync_record is not None and case.account.sync_record.conflict
        state = "conflict" if has_conflict else "synced"
        return Effects({"plugin_state": state, "user_id": case.user.id, **base, **NO_LOCK})


class RemoveLockStep(Step[actions.RemoveLock]):
    def write(self, context: StepContext, account: Account, action: actions.RemoveLock) -> RowUpdate:
        return RowUpdate(action.player, unlocked_row(account, action))

    def confirm_one(self, case: Done[actions.RemoveLock]) -> Effects:
        return Effects({"plugin_state": "conflict", **NO_LOCK})


class ReclaimRowStep(Step[actions.ReclaimRow]):
    def write(self, context: StepContext, account: Account, action: actions.ReclaimRow) -> RowUpdate:
        """Write every field by which the other player could log in, or the owner be kept out."""
        user = account.user
        assert user is not None
        changes: dict[str, str | int | None] = {
            "hash": action.password.hash,
            "salt": action.password.salt,
            "realname": user.username,
            "has_session": 0,
            "premium_uuid": None,
            "totp": None,
        }
        return RowUpdate(action.player, changes if user.email is None else {**changes, "email": user.email})

    def confirm_one(self, case: Done[actions.ReclaimRow]) -> Effects:
        assert case.row is not None
        changes = {**base_columns(case.row), **NO_LOCK, "conflict": None}
        is_open = not case.action.player.is_locked  # the other player may be in the game with it
        return Effects(
            {"plugin_state": "synced", "user_id": case.user.id, **changes}, kick="approved" if is_open else None
        )


class MergeStep(Step[actions.Merge]):
    def write(self, context: StepContext, account: Account, action: actions.Merge) -> RowUpdate | None:
        return RowUpdate(action.player, action.to_player) if action.to_player else None

    def confirm(self, cases: Sequence[Done[actions.Merge]]) -> list[Effects]:
        wanted = {case.user.id: case.action.takes_email for case in cases if case.action.takes_email is not None}
        claimed = claim_unverified(wanted)
        given_up = {case.user.email_key for case in cases if case.user.id in claimed}
        return [self._confirm(case, claimed.get(case.user.id), given_up) for case in cases]

    def _confirm(self, case: Done[actions.Merge], email: Any, given_up: Collection[str | None]) -> Effects:
        action, known, conflicts = case.action, case.account.sync_record, list(case.action.conflicts)
        user: dict[str, Any] = {}
        audit: list[AuditNote] = []
        taken = find_real_email(action.takes_email) if email is None else None
        is_handed_over = taken is not None and taken.key in given_up  # it is free once this page is written
        if case.is_email_refused:
            conflicts.append(actions.Conflict("email", "both"))
        if action.takes_password:
            user |= NO_PASSWORD
            audit.append(AuditNote("user.password_changed", {"where": "in the game"}))
        if action.takes_realname is not None:
            user["username"] = action.takes_realname
        if email is not None:
            user |= {"email": email.display, "email_key": email.key, "is_email_verified": False}
            audit.append(AuditNote("user.email_changed", {"where": "in the game"}))
        elif action.takes_email is not None and not is_handed_over:
            conflicts.append(actions.Conflict("email", "both"))
        audit += [AuditNote("sync.conflict", {"field": one.field, "kept": one.kept}) for one in conflicts]
        standing: set[str] = {conflict.field for conflict in conflicts if conflict.kept == "both"}
        if known is not None and known.conflict:
            standing |= set(known.conflict.split(","))
        assert case.row is not None
        changes = {
            "plugin_state": "conflict" if standing else "synced",
            "conflict": ",".join(sorted(standing)) or None,
            **base_columns(case.row),
            **NO_LOCK,
        }
        if is_handed_over:
            del changes["base_email"]  # so that the account is merged once more
        return Effects(changes, user, action.takes_password, tuple(audit), conflicts=tuple(conflicts))


class MarkMissingStep(Step[actions.MarkMissing]):
    def confirm_one(self, case: Done[actions.MarkMissing]) -> Effects:
        known = case.account.sync_record
        changes: dict[str, Any] = {"presence": GONE, "plugin_state": "absent", **NO_LOCK}
        if known is None or known.intent not in (PROVISION, PASSWORD):
            changes |= NO_INTENT  # else the row was requested again before we noticed that it was gone
        return Effects(changes, audit=(AuditNote("sync.player_removed"),))


class UpdateStateStep(Step[actions.UpdateState]):
    def confirm_one(self, case: Done[actions.UpdateState]) -> Effects:
        account, action, known = case.account, case.action, case.account.sync_record
        effects = state_effects(account, action.state)
        if action.presence is not None:
            effects |= Effects({"presence": action.presence})
        is_new = known is not None and known.plugin_state != action.state
        if account.player is not None and account.player.is_locked and known is not None and is_new:
            effects |= _lock_effects(account, known.lock_reason)  # a crash prevented it at the time
        if action.state == "conflict":
            effects |= Effects(conflicts=(actions.Conflict("name", "both"),))
        return effects


class RemoveStep(Step[actions.Remove]):
    def write(self, context: StepContext, account: Account, action: actions.Remove) -> RowDelete:
        return RowDelete(action.player)

    def confirm_one(self, case: Done[actions.Remove]) -> Effects:
        return Effects({"plugin_state": "absent"})


STEPS: Final[dict[type, Step[Any]]] = {
    actions.Provision: ProvisionStep(),
    actions.RecordSynced: RecordSyncedStep(),
    actions.Lock: LockStep(),
    actions.RestorePassword: RestorePasswordStep(),
    actions.ReclaimRow: ReclaimRowStep(),
    actions.RemoveLock: RemoveLockStep(),
    actions.Merge: MergeStep(),
    actions.MarkMissing: MarkMissingStep(),
    actions.UpdateState: UpdateStateStep(),
    actions.Remove: RemoveStep(),
}
"""Actions on one side alone, which come as lists, are in `own_steps`."""


def collision_effects(account: Account) -> Effects:
    """Return the effects of a name that AuthMe's table considers equal to another one that it has. Audited once."""
    return Effects({"conflict": "name", **NO_INTENT}) | state_effects(account, "conflict")


def unlocked_row(account: Account, action: actions.RestorePassword | actions.RemoveLock) -> dict[str, str | int | None]:
    """Return the fields of the row that open it again, as named in `PlayerRow`."""
    row: dict[str, str | int | None] = {"hash": action.password.hash, "salt": action.password.salt, "has_session": 0}
    if account.sync_record is not None and account.sync_record.kept_premium_uuid:
        row["premium_uuid"] = account.sync_record.kept_premium_uuid
    return row


def _lock_effects(account: Account, reason: str | None) -> Effects:
    """Audit a lock that is no ban, which has its own entry, and kick the player if the row is a foreign one.

    A player who registered another user's name in the game may be playing at this moment.
    """
    known = account.sync_record
    audit = () if reason in (None, BANNED) else (AuditNote("sync.player_locked", {"reason": reason}),)
    is_foreign = known is not None and known.kept_origin == UNVERIFIED
    return Effects(audit=audit, kick=_lock_kick(reason) if is_foreign else None)


def _lock_kick(reason: str | None) -> Cause:
    return "banned" if reason == BANNED else "locked"
