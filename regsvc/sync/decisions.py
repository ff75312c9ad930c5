"""What the plan can decide for one name. Each is data; `reconciler` knows how it is carried out."""

from dataclasses import dataclass, field
from typing import Literal

from plugin_bridge.authme.players import PlayerRow
from regsvc.auth.hashing import StoredPassword
from regsvc.database.models import PluginState
from regsvc.sync.records import UserRecord


@dataclass(frozen=True)
class Adopt:
    """Make a user of a player that has none."""

    player: PlayerRow
    username: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class Provision:
    """Insert the row of an approved user."""

    password: StoredPassword


@dataclass(frozen=True)
class Agree:
    """Both sides are the same, but for the fields in `conflict`: the row as it stands is the new base."""

    player: PlayerRow
    conflict: str | None = None


@dataclass(frozen=True)
class Lock:
    """Replace the password by a lock, keep the hash."""

    player: PlayerRow
    reason: str
    origin: Literal["agreed", "stranger"]
    state: PluginState


@dataclass(frozen=True)
class Restore:
    """Replace our lock by the password that is its owner's."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class Open:
    """Give a row that a stranger registered to the user whose name it has, with the user's own password."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class Unlock:
    """Replace our lock by the password that stood there, and agree on nothing: the row is not this user's."""

    player: PlayerRow
    password: StoredPassword


@dataclass(frozen=True)
class Conflict:
    """A field the two sides cannot agree on, and whose value stands in the end."""

    field: Literal["password", "email", "realname", "name"]
    kept: Literal["plugin", "companion", "both"]


@dataclass(frozen=True)
class Merge:
    """Bring over what one side changed: `to_player` names fields of the row, the rest is ours."""

    player: PlayerRow
    to_player: dict[str, str | int | None] = field(default_factory=dict, repr=False)
    takes_password: bool = False
    takes_email: str | None = None
    takes_realname: str | None = None
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True)
class MarkMissing:
    """The row that was there is not there any more."""


@dataclass(frozen=True)
class UpdateState:
    """Nothing to write, but what the user list says of this player has changed."""

    state: PluginState
    presence: str | None = None
    conflict: str | None = None


@dataclass(frozen=True)
class MarkDeleted:
    """The user was deleted by SQL: what delete does, by the hand of nobody known."""


@dataclass(frozen=True)
class Remove:
    """Delete the row of a user that was deleted through us."""

    player: PlayerRow


@dataclass(frozen=True)
class EndBan:
    """The ban's time is over."""


@dataclass(frozen=True)
class ApplySqlEdit:
    """Somebody typed a status in SQL: do what the API would have done. `wish` is what an approval asks of the row."""

    intent: str | None = None


@dataclass(frozen=True)
class RevertRename:
    """Somebody typed another name for a user in SQL, which is not how names change; `key` is the true one."""

    user: UserRecord
    key: str


@dataclass(frozen=True)
class RejectNameConflict:
    """The name belongs to a player who was there before the registration."""


Decision = (
    Adopt
    | Provision
    | Agree
    | Lock
    | Restore
    | Open
    | Unlock
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
"""What a run does not do for many names at once without being told: it may be the table that is wrong."""
