"""The actions that `plan.decide` chooses from, as plain data. `STEPS` and `OWN_STEPS` say what each entails."""

from dataclasses import dataclass, field
from typing import Final, Literal

from plugin_bridge.authme.players import PlayerRow
from regsvc.auth.hashing import StoredPassword
from regsvc.database.models import PluginState
from regsvc.sync.records import UserRecord


@dataclass(frozen=True)
class RowRequest:
    """Request that a decision that a user may play makes of the row, where it does not say which password counts."""

    intent: str | None = None
    """The intent to record; None: the row needs nothing, or stays as it is."""
    needs_password: bool = False
    """Whether the row does not let the user in before a password is set, or chosen by an approval."""


NO_REQUEST: Final = RowRequest()


@dataclass(frozen=True)
class SyncAction:
    """One step towards both sides being in sync."""


@dataclass(frozen=True)
class RowAction(SyncAction):
    """An action decided for a row of AuthMe's table as it was read."""

    player: PlayerRow


@dataclass(frozen=True)
class PasswordAction(RowAction):
    """An action that gives the row this password."""

    password: StoredPassword


@dataclass(frozen=True)
class Adopt(RowAction):
    """Create a user for a player that has none."""

    username: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class Provision(SyncAction):
    """Insert the row of an approved user."""

    password: StoredPassword


@dataclass(frozen=True)
class RecordSynced(RowAction):
    """Store the row as the new base: both sides are equal, except for the fields named in `conflict`."""

    conflict: str | None = None


@dataclass(frozen=True)
class Lock(RowAction):
    """Replace the row's password with a lock, and keep the hash."""

    reason: str
    origin: Literal["verified", "unverified"]
    state: PluginState


class EndPasswordlessLogin(RowAction):
    """Clear what lets AuthMe log the player of a locked row in without the password, and kick the player."""


class RestorePassword(PasswordAction):
    """Replace our lock with the owner's password."""


class ReclaimRow(PasswordAction):
    """Give a foreign row, registered in the game under the user's name, to the user, with the user's own password."""


class TakeRow(PasswordAction):
    """Give a foreign row to the user with the password that it was registered with, as an operator decided."""


class RemoveLock(PasswordAction):
    """Replace our lock with the password that was there, and record no base: the row does not belong to the user."""


ConflictCause = Literal["unproven", "taken", "invalid", "refused", "unfindable", "collides", "foreign", "unapproved"]
"""Of an e-mail: ours is proven, which the game's cannot be; the game's is another user's; is no address; AuthMe's table
cannot hold ours. Of a name: AuthMe does not find it; takes it for another one; the row may be another person's; the row
of a user who is not approved is left open.
"""


@dataclass(frozen=True)
class Conflict:
    """A field on which the two sides differ, and the side whose value stays."""

    field: Literal["password", "email", "realname", "name"]
    kept: Literal["plugin", "companion", "both"]
    why: ConflictCause | None = None
    """Why each side keeps its own, where there are several causes for the field."""


@dataclass(frozen=True)
class Merge(RowAction):
    """Copy each side's changes to the other: `to_player` maps the row's fields to values, `takes_*` change the user."""

    to_player: dict[str, str | int | None] = field(default_factory=dict, repr=False)
    takes_password: bool = False
    takes_email: str | None = None
    takes_realname: str | None = None
    conflicts: tuple[Conflict, ...] = ()


class TakeEarlierPassword(Merge):
    """Copy a password to the user that the player had before, as after a restored backup of AuthMe's table."""


class MarkMissing(SyncAction):
    """Record that the player's row no longer exists."""


class MarkUnverifiedMissing(MarkMissing):
    """Record the same of a row that AuthMe deleted by itself, as its player did not verify their e-mail address."""


@dataclass(frozen=True)
class UpdateState(SyncAction):
    """Record another state for the user list; nothing else changes."""

    state: PluginState
    presence: str | None = None


class MarkDeleted(SyncAction):
    """Do for a user deleted in SQL what a deletion through us does, with an unknown actor."""


class Remove(RowAction):
    """Delete the row of a user that was deleted through us."""


@dataclass(frozen=True)
class StatusAction(SyncAction):
    """A change of the user's status, with what it requests of the row where the user may play from now on."""

    request: RowRequest = NO_REQUEST


class EndBan(StatusAction):
    """End a ban whose time is over."""


class ApplySqlEdit(StatusAction):
    """Do for a status edited in SQL what the API would have done."""


@dataclass(frozen=True)
class RevertRename(SyncAction):
    """Undo a rename made in SQL, which is no supported way to rename a user; `key` is the correct name."""

    user: UserRecord
    key: str


class RejectNameConflict(SyncAction):
    """Reject a registration whose name belongs to a player registered before it."""


GUARDED: Final[tuple[type[SyncAction], ...]] = (
    *(MarkMissing, Lock, MarkDeleted, Remove, ApplySqlEdit, TakeEarlierPassword),
)
"""Actions subject to the mass-change guard: due for many names at once, they may only mean that a table is wrong."""
