"""The actions that `plan.decide` chooses from. Each is plain data; `steps` and `own_steps` say what it entails."""

from dataclasses import dataclass, field
from typing import Literal

from plugin_bridge.authme.players import PlayerRow
from regsvc.auth.hashing import StoredPassword
from regsvc.database.models import PluginState
from regsvc.sync.records import UserRecord


@dataclass(frozen=True)
class Adopt:
    """Create a user for a player that has none."""

    player: PlayerRow
    username: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class Provision:
    """Insert the row of an approved user."""

    password: StoredPassword


@dataclass(frozen=True)
class RecordSynced:
    """Store the row as the new base: both sides are equal, except for the fields named in `conflict`."""

    player: PlayerRow
    conflict: str | None = None


@dataclass(frozen=True)
class Lock:
    """Replace the row's password with a lock, and keep the hash."""

    player: PlayerRow
    reason: str
    origin: Literal["agreed", "stranger"]
    state: PluginState


@dataclass(frozen=True)
class RestorePassword:
    """Replace our lock with the owner's password."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class ReclaimRow:
    """Give a foreign row, registered in the game under the user's name, to the user, with the user's own password."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class RemoveLock:
    """Replace our lock with the password that was there, and record no base: the row does not belong to the user."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class Conflict:
    """A field on which the two sides differ, and the side whose value stays."""

    field: Literal["password", "email", "realname", "name"]
    kept: Literal["plugin", "companion", "both"]


@dataclass(frozen=True)
class Merge:
    """Copy each side's changes to the other: `to_player` maps the row's fields to values, `takes_*` change the user."""

    player: PlayerRow
    to_player: dict[str, str | int | None] = field(default_factory=dict, repr=False)
    takes_password: bool = False
    takes_email: str | None = None
    takes_realname: str | None = None
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True)
class MarkMissing:
    """Record that the player's row no longer exists."""


@dataclass(frozen=True)
class UpdateState:
    """Record another state for the user list; nothing else changes."""

    state: PluginState
    presence: str | None = None


@dataclass(frozen=True)
class MarkDeleted:
    """Do for a user deleted in SQL what a deletion through us does, with an unknown actor."""


@dataclass(frozen=True)
class Remove:
    """Delete the row of a user that was deleted through us."""

    player: PlayerRow


@dataclass(frozen=True)
class EndBan:
    """End a ban whose time is over."""


@dataclass(frozen=True)
class ApplySqlEdit:
    """Do for a status edited in SQL what the API would have done. `intent` is what an approval requests of the row."""

    intent: str | None = None


@dataclass(frozen=True)
class RevertRename:
    """Undo a rename made in SQL, which is no supported way to rename a user; `key` is the correct name."""

    user: UserRecord
    key: str


@dataclass(frozen=True)
class RejectNameConflict:
    """Reject a registration whose name belongs to a player registered before it."""


SyncAction = (
    Adopt
    | Provision
    | RecordSynced
    | Lock
    | RestorePassword
    | ReclaimRow
    | RemoveLock
    | Merge
    | MarkMissing
    | UpdateState
    | MarkDeleted
    | Remove
    | EndBan
    | ApplySqlEdit
    | RevertRename
    | RejectNameConflict
)

GUARDED: tuple[type, ...] = (MarkMissing, Lock, MarkDeleted, Remove, ApplySqlEdit)
"""Actions subject to the mass-change guard: due for many names at once, they may only mean that a table is wrong."""
