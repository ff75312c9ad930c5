"""The actions that `rules.decide` chooses from. Each class has all that is to know about its kind of action.

What concerns AuthMe's row has three parts. The promise (our database) holds what is needed to finish or undo the write;
the write changes AuthMe's row by compare-and-set; the confirmation (our database) records that it is done. On one MySQL
or MariaDB server the three are one transaction. On SQLite each is a transaction of its own, so that a crash between two
of them leaves either nothing or a recorded intent, which the next reconciliation of the name carries out. No action
assumes that it is applied for the first time. `pages` applies them, to a whole page of accounts at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

from plugin_bridge.authme.players import (
    NO_EMAIL,
    NewPlayer,
    PlayerRow,
    RowDelete,
    RowUpdate,
    RowWrite,
    WriteResult,
    java_address,
    lock_text,
)
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.models import BANNED, GONE, PASSWORD, PROVISION, UNVERIFIED, PluginState, SyncRecord
from regsvc.notifications.rcon import Cause
from regsvc.sync.effects import (
    NO_PASSWORD,
    NOTHING,
    AuditNote,
    Conflict,
    Effects,
    SyncContext,
    email_conflict,
    find_real_email,
    state_effects,
)
from regsvc.sync.records import NO_INTENT, NO_LOCK, Account, SyncValues, UserRecord, base_columns
from regsvc.users.password_notices import PasswordChange

_WRITTEN: Final = WriteResult(is_written=True)


@dataclass(slots=True)
class Case:
    """An account, the action decided for it, and how far that is done."""

    account: Account
    """The account as it is so far, with the effects that are not written yet."""
    action: Any
    """The `SyncAction`."""
    stored: Account
    """The account as our tables have it."""
    effects: Effects = NOTHING
    """Effects that are not written yet."""
    write: RowWrite | None = None
    """The write to AuthMe's row, or None if it needs none."""
    result: WriteResult = _WRITTEN
    """The result of that write."""
    email: EmailAddress | None = None
    """The e-mail of the row, if the user gets it."""
    is_email_handed_over: bool = False
    """Whether the e-mail of the row is another user's, and free once this page is written."""
    next: Literal["decide", "load", "nothing"] = "load"
    """Whether the account is decided on as it is now, or after it is loaded again, or needs nothing any more."""

    @property
    def key(self) -> str:
        """The lower-case name."""
        return self.account.key

    @property
    def user(self) -> UserRecord:
        """The account's user, where the action is for an account that has one."""
        assert self.account.user is not None
        return self.account.user

    @property
    def row(self) -> PlayerRow:
        """AuthMe's row, where the action leaves one."""
        assert self.account.player is not None
        return self.account.player

    def store(self, stored: Account) -> None:
        """Take the account as our tables have it now, with all effects written."""
        self.account, self.stored, self.effects = stored, stored, NOTHING

    def take_row(self, row: PlayerRow | None) -> None:
        """Take AuthMe's row as it is now into the accounts."""
        if row is not self.account.player:
            self.account, self.stored = replace(self.account, player=row), replace(self.stored, player=row)


Cases = Sequence[Case]


class Label(NamedTuple):
    """A kind of change in a plan: its name in JSON, and words for one and for several."""

    name: str
    one: str
    several: str


LOCKED: Final = Label("locked", "player is locked", "players are locked")
_RESTORED: Final = Label("restored", "player is unlocked", "players are unlocked")
REMOVED: Final = Label("removed", "player of a deleted user is removed", "players of deleted users are removed")


@dataclass(frozen=True)
class SyncAction:
    """An action towards both sides being in sync."""

    label: ClassVar[Label | None] = None
    """How a plan shows the action; None: not at all, as nobody notices it."""
    counter: ClassVar[str | None] = None
    """The count of the report that the action raises."""
    is_guarded: ClassVar[bool] = False
    """Whether the mass-change guard may hold it back: due for many names at once, it may mean that a table is wrong."""


class AccountAction(SyncAction, ABC):
    """An action on one account, in three parts, of which none writes anything itself."""

    def promise(self, case: Case) -> Effects:
        """Return the effects on our side that are committed before the row is written."""
        return NOTHING

    def may_write(self, case: Case, context: SyncContext) -> bool:
        """Return whether the row may be written now; False if something else has it written later."""
        return True

    def write(self, case: Case, context: SyncContext) -> RowWrite | None:
        """Return the write to AuthMe's table, or None if the action needs none."""
        return None

    @classmethod
    def compare(cls, cases: Cases, context: SyncContext) -> None:
        """Decide what depends on all actions of the kind in a page, once their rows are written."""

    @abstractmethod
    def confirm(self, case: Case) -> Effects:
        """Return the effects on our side once the row is written."""


@dataclass(frozen=True)
class RowAction(AccountAction):
    """An action decided for a row of AuthMe's table as it was read."""

    player: PlayerRow


@dataclass(frozen=True)
class PasswordAction(RowAction):
    """An action that gives the row this password."""

    label = _RESTORED
    counter = "restored"
    password: StoredPassword

    def write(self, case: Case, context: SyncContext) -> RowUpdate:
        return unlock(self.player, self.password, case.account.sync_record)


# --- Rows that are inserted, deleted, gone, or as they should be ---


@dataclass(frozen=True)
class Provision(AccountAction):
    """Insert the row of an approved user."""

    label = Label("provisioned", "user is added to the game", "users are added to the game")
    counter = "provisioned"
    password: StoredPassword

    def promise(self, case: Case) -> Effects:
        known = case.account.sync_record
        collides = known is not None and known.conflict == "name"
        intended = {
            "intent": PROVISION,
            "intent_hash": self.password.hash,
            "intent_salt": self.password.salt,
            "intent_regdate": self._chosen_regdate(case),
        }
        return Effects({"plugin_state": "conflict" if collides else "pending", "user_id": case.user.id, **intended})

    def may_write(self, case: Case, context: SyncContext) -> bool:
        """Wait until a player online under this name is kicked: AuthMe would log them in to the new row."""
        return context.may_insert(case.user, self._chosen_regdate(case))

    def write(self, case: Case, context: SyncContext) -> NewPlayer:
        user = case.user
        return NewPlayer(
            realname=user.username,
            hash=self.password.hash,
            salt=self.password.salt,
            email=user.owned_email,
            regdate=self._chosen_regdate(case),
            regip=java_address(user.registration_ip),
            uuid=context.find_uuid(user.username) if user.platform == "java" else None,
        )

    def confirm(self, case: Case) -> Effects:
        is_refused = case.user.owned_email is not None and case.row.known_email is None
        changes = {**base_columns(case.row), **NO_LOCK, "conflict": "email" if is_refused else None}
        if not is_refused:
            return Effects({"plugin_state": "synced", **changes})
        note = ("sync.conflict", {"field": "email", "kept": "both"})
        return Effects({"plugin_state": "conflict", **changes}, audit=(note,))

    def _chosen_regdate(self, case: Case) -> int:
        """Reuse the recorded time: two processes must insert the same row, or one would take it for a foreign row."""
        known = case.account.sync_record
        if known is not None and known.intent_hash == self.password.hash and known.intent_regdate is not None:
            return known.intent_regdate
        return epoch_ms(case.account.now)


@dataclass(frozen=True)
class RecordSynced(RowAction):
    """Store the row as the new base: both sides are equal, except for the fields named in `conflict`."""

    conflict: str | None = None

    def confirm(self, case: Case) -> Effects:
        state = {"plugin_state": "conflict" if self.conflict else "synced", "conflict": self.conflict}
        return Effects({**state, "user_id": case.user.id, **base_columns(self.player), **NO_LOCK})


class MarkMissing(AccountAction):
    """Record that the player's row no longer exists."""

    label = Label("missing", "player whose row is gone stays away", "players whose rows are gone stay away")
    returning: ClassVar = Label(
        "returning", "player whose row is gone is added again", "players whose rows are gone are added again"
    )
    """The label where the row is inserted again, in place of that of `Provision`."""
    counter = "removed"
    is_guarded = True

    def confirm(self, case: Case) -> Effects:
        known = case.account.sync_record
        changes: dict[str, Any] = {"presence": GONE, "plugin_state": "absent", **NO_LOCK}
        if known is None or known.intent not in (PROVISION, PASSWORD):
            changes |= NO_INTENT  # else the row was requested again before we noticed that it was gone
        return Effects(changes, audit=(("sync.player_removed", None),))


class MarkUnverifiedMissing(MarkMissing):
    """Record that AuthMe deleted the row by itself, as the player did not verify their e-mail address."""


class Remove(RowAction):
    """Delete the row of a user that was deleted through us."""

    label = REMOVED
    counter = "removed"
    is_guarded = True

    def write(self, case: Case, context: SyncContext) -> RowDelete:
        return RowDelete(self.player)

    def confirm(self, case: Case) -> Effects:
        return Effects({"plugin_state": "absent"})


@dataclass(frozen=True)
class UpdateState(AccountAction):
    """Record another state for the user list; nothing else changes."""

    state: PluginState
    presence: str | None = None

    def confirm(self, case: Case) -> Effects:
        account, known = case.account, case.account.sync_record
        effects = state_effects(account, self.state)
        if self.presence is not None:
            effects |= Effects({"presence": self.presence})
        is_new = known is not None and known.plugin_state != self.state
        if account.player is not None and account.player.is_locked and known is not None and is_new:
            effects |= _lock_effects(account, known.lock_reason)  # a crash prevented it at the time
        if self.state == "conflict":
            is_own = account.own_player is not None
            effects |= Effects(conflicts=(Conflict("name", "both", "unapproved" if is_own else "foreign"),))
        return effects


# --- Locks ---


@dataclass(frozen=True)
class Lock(RowAction):
    """Replace the row's password with a lock, and keep the hash."""

    label = LOCKED
    counter = "locked"
    is_guarded = True
    reason: str
    origin: Literal["verified", "unverified"]
    state: PluginState

    def promise(self, case: Case) -> Effects:
        known, player = case.account.sync_record, self.player
        changes: dict[str, Any] = {
            "user_id": case.user.id,
            "lock_reason": self.reason,
            "locked_at": case.account.now,
            "kept_hash": player.hash,
            "kept_origin": self.origin,
        }
        changes |= _kept_login(known, player)
        # the row was locked before, so the game has replaced our lock with another hash
        is_locked_again = known is not None and known.locked_at is not None
        effects = Effects(changes, kick=_lock_kick(self.reason) if is_locked_again else None)
        if self.origin != UNVERIFIED and known is not None and known.base_hash != player.hash:
            # the player changed the password in the last synced row: it is the player's own, and newer than ours
            own = NO_PASSWORD if known.intent != PASSWORD else {}
            told = _password_change(case, "game", player.hash, player.salt) if own else None
            changed = {"base_hash": player.hash, "base_salt": player.salt}
            effects |= Effects(changed, own, ends_sessions=True, password=told)
        return effects

    def write(self, case: Case, context: SyncContext) -> RowUpdate:
        return RowUpdate(self.player, {"hash": lock_text(self.player.hash), **_without_passwordless_login(self.player)})

    def confirm(self, case: Case) -> Effects:
        state = state_effects(case.account, self.state) | _kicked_login(self.player)
        return state | _lock_effects(case.account, self.reason)


class EndPasswordlessLogin(RowAction):
    """Clear what lets AuthMe log the player of a locked row in without the password, and kick the player.

    It is not guarded: the row was locked before, on purpose, and stays so.
    """

    label = LOCKED
    counter = "locked"

    def promise(self, case: Case) -> Effects:
        return Effects(_kept_login(case.account.sync_record, self.player))

    def write(self, case: Case, context: SyncContext) -> RowUpdate | None:
        is_open = self.player.admits_without_password
        return RowUpdate(self.player, _without_passwordless_login(self.player)) if is_open else None

    def confirm(self, case: Case) -> Effects:
        return _kicked_login(self.player) | Effects(kick=_lock_kick(case.user.status))


def _kept_login(known: SyncValues | None, player: PlayerRow) -> dict[str, Any]:
    """Return the columns that keep for the unlock what a locked row loses."""
    kept: dict[str, Any] = {"kept_premium_uuid": player.premium_uuid} if player.premium_uuid else {}
    # of a row that was locked into this group before we kept groups, nobody knows the one before
    is_unknown = known is not None and known.locked_at is not None and player.group == player.lock_group
    is_kept = known is not None and known.kept_group is not None
    if player.lock_group is not None and not is_kept and not is_unknown:
        kept["kept_group"] = player.group or 0  # as which AuthMe reads NULL
    return kept


def _without_passwordless_login(player: PlayerRow) -> dict[str, str | int | None]:
    """Return the fields of a row whose player AuthMe lets in by no other means than the password."""
    changes: dict[str, str | int | None] = {"has_session": 0, "premium_uuid": None}
    return changes | ({"group": player.lock_group} if player.lock_group is not None else {})


def _kicked_login(player: PlayerRow) -> Effects:
    """Record, with the kick itself, for which login the player is kicked."""
    return Effects({"kicked_login": player.last_login or 0})


def _lock_effects(account: Account, reason: str | None) -> Effects:
    """Audit a lock that is no ban, which has its own entry, and kick the player who may be playing at this moment.

    A player who registered another user's name in the game may be, also where AuthMe has not marked them as online yet.
    """
    known, player = account.sync_record, account.player
    audit = () if reason in (None, BANNED) else (("sync.player_locked", {"reason": reason}),)
    is_foreign = known is not None and known.kept_origin == UNVERIFIED
    may_be_online = is_foreign or (player is not None and bool(player.is_logged))
    return Effects(audit=audit, kick=_lock_kick(reason) if may_be_online else None)


def _lock_kick(reason: str | None) -> Cause:
    return "banned" if reason == BANNED else "locked"


# --- Rows that get a password: unlocked, or given to the user ---


class RestorePassword(PasswordAction):
    """Replace our lock with the owner's password."""

    def confirm(self, case: Case) -> Effects:
        """Record the row, but for other fields that the player changed while it was locked: they are merged next."""
        base = base_columns(case.row)
        del base["base_email"], base["base_realname"]
        has_conflict = case.account.sync_record is not None and case.account.sync_record.conflict
        state = "conflict" if has_conflict else "synced"
        return Effects({"plugin_state": state, "user_id": case.user.id, **base, **NO_LOCK})


class ReclaimRow(PasswordAction):
    """Give a foreign row, registered in the game under the user's name, to the user, with the user's own password."""

    def write(self, case: Case, context: SyncContext) -> RowUpdate:
        """Return every field by which the other player could log in, or the owner be kept out."""
        user = case.user
        changes: dict[str, str | int | None] = {
            "hash": self.password.hash,
            "salt": self.password.salt,
            "realname": user.username,
            "has_session": 0,
            "premium_uuid": None,
            "totp": None,
            **_kept_group(case.account.sync_record, self.player),
        }
        if user.owned_email is not None:
            changes["email"] = user.owned_email
        elif self.player.known_email is not None:
            changes["email"] = NO_EMAIL  # the other player's, to which AuthMe mails new passwords
        return RowUpdate(self.player, changes)

    def confirm(self, case: Case) -> Effects:
        """Record the row, and kick the other player, who may be in the game with it if it was open."""
        changes = {**base_columns(case.row), **NO_LOCK, "conflict": None, "user_id": case.user.id}
        return Effects({"plugin_state": "synced", **changes}, kick=None if self.player.is_locked else "approved")


class TakeRow(PasswordAction):
    """Give a foreign row to the user with the password that it was registered with, as an operator decided."""

    def confirm(self, case: Case) -> Effects:
        changes = {**base_columns(case.row), **NO_LOCK, "conflict": None, "user_id": case.user.id}
        if not case.user.is_email_verified:
            changes["base_email"] = None  # so that the row's address, too, is taken over
        note = ("user.password_changed", {"where": "in the game"})
        told = _password_change(case, "taken", case.row.hash, case.row.salt)
        changes["plugin_state"] = "synced"
        return Effects(changes, NO_PASSWORD, ends_sessions=True, audit=(note,), password=told)


class RemoveLock(PasswordAction):
    """Replace our lock with the password that was there, and record no base: the row does not belong to the user."""

    def confirm(self, case: Case) -> Effects:
        return Effects({"plugin_state": "conflict", **NO_LOCK})


def unlock(player: PlayerRow, password: StoredPassword, known: SyncValues | SyncRecord | None) -> RowUpdate:
    """Return the write that gives a locked row this password, and back what the lock took from it."""
    changes: dict[str, str | int | None] = {"hash": password.hash, "salt": password.salt, "has_session": 0}
    if known is not None and known.kept_premium_uuid:
        changes["premium_uuid"] = known.kept_premium_uuid
    return RowUpdate(player, changes | _kept_group(known, player))


def _kept_group(known: SyncValues | SyncRecord | None, player: PlayerRow) -> dict[str, str | int | None]:
    """Return the group that the player of a locked row had before; nothing where the lock changed none.

    Where nothing is known of the lock at all, that is 0, as which AuthMe reads NULL.
    """
    if known is not None:
        return {} if known.kept_group is None else {"group": known.kept_group}
    return {"group": 0} if player.is_locked and player.group == player.lock_group is not None else {}


def _password_change(case: Case, place: Literal["game", "taken"], new_hash: str, salt: str | None) -> PasswordChange:
    """Return the change from the password that counted for the user so far."""
    known, before = case.account.sync_record, case.user.password
    if known is not None and known.base_hash is not None:
        before = StoredPassword(known.base_hash, known.base_salt, None)
    return PasswordChange(case.user.id, place, before, StoredPassword(new_hash, salt, None))


# --- Changes that either side made ---


@dataclass(frozen=True)
class Merge(RowAction):
    """Copy each side's changes to the other: `to_player` maps the row's fields to values, `takes_*` change the user."""

    label = Label("updated", "account is updated on one side", "accounts are updated on one side")
    counter = "updated"
    to_player: dict[str, str | int | None] = field(default_factory=dict, repr=False)
    takes_password: bool = False
    takes_email: str | None = None
    takes_realname: str | None = None
    conflicts: tuple[Conflict, ...] = ()

    def write(self, case: Case, context: SyncContext) -> RowUpdate | None:
        return RowUpdate(self.player, self.to_player) if self.to_player else None

    @classmethod
    def compare(cls, cases: Cases, context: SyncContext) -> None:
        """Decide which of the users get the e-mails of their rows, of which each goes to one user."""
        wanted = {case.user.id: case.action.takes_email for case in cases if case.action.takes_email is not None}
        claimed = context.claim_unverified(wanted)
        given_up = {case.user.email_key for case in cases if case.user.id in claimed}
        for case in cases:
            case.email = claimed.get(case.user.id)
            taken = find_real_email(case.action.takes_email) if case.email is None else None
            case.is_email_handed_over = taken is not None and taken.key in given_up

    def confirm(self, case: Case) -> Effects:
        known, conflicts = case.account.sync_record, list(self.conflicts)
        email, is_handed_over = case.email, case.is_email_handed_over
        user: dict[str, Any] = {}
        audit: list[AuditNote] = []
        if case.result.is_email_refused:
            conflicts.append(Conflict("email", "both", "refused"))
        if self.takes_password:
            user |= NO_PASSWORD
            audit.append(("user.password_changed", {"where": "in the game"}))
        if self.takes_realname is not None:
            user["username"] = self.takes_realname
        noted = find_real_email(self.takes_email) if email is None and not is_handed_over else email
        if noted is not None:  # without its key where it is another user's, which must not show
            user |= {"email": noted.display, "email_key": email and email.key, "is_email_verified": False}
            audit.append(("user.email_changed", {"where": "in the game"}))
        if self.takes_email is not None and email is None and not is_handed_over:
            conflicts.append(email_conflict(self.takes_email))
        audit += [("sync.conflict", {"field": one.field, "kept": one.kept}) for one in conflicts]
        standing: set[str] = {conflict.field for conflict in conflicts if conflict.kept == "both"}
        if known is not None and known.conflict:
            standing |= set(known.conflict.split(","))
        changes = {
            "plugin_state": "conflict" if standing else "synced",
            "conflict": ",".join(sorted(standing)) or None,
            **base_columns(case.row),
            **NO_LOCK,
        }
        if is_handed_over:
            del changes["base_email"]  # so that the account is merged once more
        told = _password_change(case, "game", case.row.hash, case.row.salt) if self.takes_password else None
        ends_sessions, all_conflicts = self.takes_password, tuple(conflicts)
        return Effects(changes, user, ends_sessions, tuple(audit), password=told, conflicts=all_conflicts)


class TakeEarlierPassword(Merge):
    """Copy a password to the user that the player had before, as after a restored backup of AuthMe's table."""

    label = Label("passwords", "password becomes an earlier one again", "passwords become earlier ones again")
    is_guarded = True
