"""Gates: what keeps players out of the game until they may play, as AuthMe's table and the game's allowlist do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol

from plugin_bridge.server.files import ServerProperties
from regsvc.config.sections import Config
from regsvc.core.i18n import Sentence
from regsvc.database.models import (
    ADD,
    APPROVED,
    ENDED,
    LISTED,
    TAKEN_OFF,
    Allowed,
    AllowlistState,
    SyncRecord,
    User,
)

Gate = Literal["authme", "allowlist"]

NO_UUID: Final = "no_uuid"
"""`Allowed.reason`: the UUID is not known; no file tells it, and Mojang was not asked or did not answer."""
NO_PROFILE: Final = "no_profile"
"""`Allowed.reason`: Mojang knows no Java account of this name; it is asked again after an hour."""
UUID_IN_DOUBT: Final = "uuid_in_doubt"
"""`Allowed.reason`: the UUIDs of players who joined contradict those that the server's config implies."""
RESTART: Final = "restart"
"""`Allowed.reason`: it is in the file, which a server without a remote console reads when it starts again."""
REFUSED: Final = "refused"
"""`Allowed.reason`: the server has read the list, and yet it is not so: a plug-in objects, or Mojang has no such name.

It is tried again every hour, and after a decision.
"""
HELD_BACK: Final = "held_back"
"""`Allowed.reason`: it is one of so many changes at once that a person has to confirm them."""

ListedState = Literal["listed", "waiting", "removed", "conflict", "absent", "off"]
"""State of a user on the game's allowlist, as admins see it.

waiting: to be added or removed; removed: in the game; absent: neither there nor to be; off: no list is
kept.
"""

Standing = Literal["approved", "pending", "rejected", "banned", "ended", "needs_password", "waits"]
"""What keeps a user out of the game, as a key of `[undone]`: their access, a missing password, or something else."""

_HARMLESS: Final = ("email", "realname", "email,realname")
"""`SyncRecord.conflict`: values in which both sides differ, and the player plays."""

UNSETTLED: Final = ("waiting", "removed", "conflict")
"""States of users who are not yet, or no longer, where their status wants them."""


EndCause = Literal["date", "idle", "role"]
"""Why a membership ends: its date came, its user was not seen in the game, or lost the roles that keep them."""

ENDING: Final = timedelta(days=7)
"""How long before its end a membership counts as ending."""


ROLES_EVERY: Final = timedelta(hours=1)
"""How often it is looked at whether a member has one of the roles that keep memberships."""


class HasMembership(Protocol):
    """A user, as a row or a record, with what their membership follows from."""

    @property
    def status(self) -> Any: ...
    @property
    def member_until(self) -> Any: ...
    @property
    def applied_until(self) -> Any: ...
    @property
    def lapses_at(self) -> Any: ...
    @property
    def lapse(self) -> Any: ...
    @property
    def ended_because(self) -> Any: ...
    @property
    def applied_ended(self) -> Any: ...


class Membership(NamedTuple):
    """State of an approved user's membership: how long they may play."""

    state: Literal["current", "ending", "ended"]
    because: EndCause | None = None
    """Why it ends or has ended; None: nothing ends it."""
    ends_at: datetime | None = None
    """When it ends; None: it does not, or it has ended."""


def membership(user: HasMembership, now: datetime) -> Membership | None:
    """Return the membership of a user; None for one who is not approved.

    It has ended once that is recorded, and not merely as its moment comes: the sync run that records it asks the
    mass-change guard first, so that a clock that jumps shuts nobody out.
    """
    if user.status != APPROVED:
        return None
    if user.ended_because is not None:
        return Membership("ended", user.ended_because)
    at, because = user.member_until, "date"
    if user.lapses_at is not None and (at is None or user.lapses_at < at):
        at, because = user.lapses_at, user.lapse
    if at is None:
        return Membership("current")
    return Membership("ending" if at - now <= ENDING else "current", because, at)  # type: ignore[arg-type]


def has_ended(user: HasMembership, now: datetime) -> bool:
    """Return whether an approved user's membership has ended, or does with the next sync run."""
    found = membership(user, now)
    return found is not None and (found.state == "ended" or (found.ends_at is not None and found.ends_at <= now))


MembershipEdit = Literal["ended", "renewed", "set"]


def find_membership_edit(user: HasMembership, now: datetime) -> MembershipEdit | None:
    """Return what the membership of an approved user was edited to in SQL, or None if it was not edited."""
    if user.status != APPROVED:
        return None
    if user.ended_because != user.applied_ended:
        return "renewed" if user.ended_because is None else "ended"
    if user.member_until == user.applied_until:
        return None
    is_prolonged = user.member_until is None or user.member_until > now
    return "renewed" if user.ended_because == "date" and is_prolonged else "set"


def find_access(status: str, ended_because: str | None) -> str:
    """Return what the gates obey: a user's status, or `ENDED` if they are approved, but their membership ended."""
    return ENDED if status == APPROVED and ended_because is not None else str(status)


def access_of(user: HasMembership) -> str:
    """Return what the gates obey for this user (`find_access`)."""
    return find_access(user.status, user.ended_because)


@dataclass(frozen=True)
class Gates:
    """The gates of this host. The allowlist may be turned on and off in the game while the companion runs."""

    has_authme: bool
    keeps_list: Callable[[], bool]
    """Returns whether the game's allowlist follows decisions, without blocking."""

    @property
    def names(self) -> tuple[Gate, ...]:
        """The gates in force; none: approvals let nobody in, and bans keep nobody out."""
        authme: tuple[Gate, ...] = ("authme",) if self.has_authme else ()
        return (*authme, "allowlist") if self.keeps_list() else authme

    def __str__(self) -> str:
        words = {"authme": "AuthMe's table", "allowlist": "the game's allowlist"}
        return " and ".join(words[name] for name in self.names) or "nothing"

    def find_standing(self, user: User) -> Standing:
        """Return what a user may do in the game as it is now: their access, or what keeps out who may play."""
        if user.access != APPROVED:
            return user.access  # type: ignore[return-value]
        key = user.username_key
        record = SyncRecord.get_or_none(SyncRecord.username_key == key) if self.has_authme else None
        if record is not None and record.intent is None:
            if record.plugin_state in ("absent", "locked", "returned"):
                return "needs_password"
            if record.plugin_state == "conflict" and record.conflict not in _HARMLESS:
                return "waits"
        allowed = Allowed.get_or_none(Allowed.username_key == key) if self.keeps_list() else None
        return (
            "waits" if allowed is not None and (allowed.state == TAKEN_OFF or allowed.reason is not None) else APPROVED
        )

    def listed_state(self, status: str, state: AllowlistState | None, reason: str | None) -> ListedState:
        """Return what admins see of a user with this status and this record in `Allowed` (None: there is none)."""
        if not self.keeps_list():
            return "off"
        if state is None:
            return "waiting" if status == APPROVED else "absent"
        if state == ADD and reason == UUID_IN_DOUBT:
            return "conflict"
        if state == LISTED and reason is not None:
            return "waiting"
        return {LISTED: "listed", TAKEN_OFF: "removed"}.get(state, "waiting")  # type: ignore[return-value]


def find_gate_problem(
    config: Config, properties: ServerProperties | None, *, has_authme: bool, keeps_list: bool
) -> tuple[Sentence, Sentence] | None:
    """Return why approvals let nobody in, and what to do about it; None if they let users in.

    `properties`: the game's server.properties; None: it is unknown.
    """
    path, is_asked = config.authme_config_path, properties is not None and properties.white_list
    if keeps_list or (has_authme and not is_asked):
        return None
    if is_asked:
        return (
            Sentence("The game lets in only who is on its allowlist, and allowlist.enabled is false."),
            Sentence('Set allowlist.enabled = "auto", or white-list=false in server.properties.'),
        )
    if path is None:
        title = Sentence("Approvals let nobody in: the config does not say where the game server is.")
        return title, Sentence("Set game.directory to its folder.")
    return (
        Sentence(
            "Approvals let nobody in: there is no AuthMe ({path}), and white-list is not true in server.properties.",
            path=path,
        ),
        Sentence(
            "Set white-list=true in server.properties and restart the game server: the companion then keeps the "
            "game’s allowlist (unless allowlist.enabled is false). Or install AuthMe there, or set game.directory to "
            "where it is."
        ),
    )
