"""Rights: what each role permits, and who stands above whom. One question decides: `rights.may(permission)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, get_args


class Permission(StrEnum):
    """A permission that a route on `/api/admin` requires."""

    USERS_READ = "users.read"
    USERS_REVIEW = "users.review"
    USERS_BAN = "users.ban"
    USERS_MANAGE = "users.manage"
    AUDIT_READ = "audit.read"
    SYNC_RUN = "sync.run"
    SYSTEM_READ = "system.read"
    SETTINGS_WRITE = "settings.write"
    TEAM_MANAGE = "team.manage"


Role = Literal["reviewer", "moderator"]
"""A role that operators give to users; that of an operator comes from the game (ops.json, `game.operators`)."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)
_REVIEWER: Final = frozenset({Permission.USERS_READ, Permission.USERS_REVIEW})
PERMISSIONS_OF: Final[Mapping[Role, frozenset[Permission]]] = {
    "reviewer": _REVIEWER,
    "moderator": _REVIEWER | {Permission.USERS_BAN, Permission.AUDIT_READ},
}
NOT_FOR_TOKENS: Final = frozenset({Permission.SETTINGS_WRITE, Permission.TEAM_MANAGE})
"""What no API token may do: it would make the next one."""

MAX_TOKEN_NAME: Final = 40
TOKEN_NAME_PATTERN: Final = "[A-Za-z0-9_.-]+"  # noqa: S105 - of names, not of secrets
"""Names of tokens stand in the audit log: none can look like another one, or like the end of a line."""
USUAL_DAYS: Final = 90
"""For how many days an API token works unless its maker says otherwise."""

Grant = Literal["no_questionnaire", "no_review"]
"""What the invited need not do: answer the questionnaire, or wait for a review."""

GRANTS: Final[tuple[Grant, ...]] = get_args(Grant)
MAX_INVITED: Final = 1000
MAX_INVITATION: Final = timedelta(days=365)
USUAL_INVITATION: Final = timedelta(days=7)
"""How many may register with an invitation, and how long it can be used."""

_BELOW_OPERATORS: Final = len(ROLES)
HIGHEST_LEVEL: Final = 4
"""The highest level of an operator in the game."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The permissions of a user, and their rank: 0 for players, then reviewers, moderators, operators by level."""

    permissions: frozenset[Permission] = frozenset()
    rank: int = 0

    def may(self, permission: Permission | None) -> bool:
        """Return whether this is permitted; None: whether anything is."""
        return bool(self.permissions) if permission is None else permission in self.permissions

    @property
    def is_operator(self) -> bool:
        """Whether these are an operator's rights, not those of a role."""
        return self.rank > _BELOW_OPERATORS


NO_RIGHTS: Final = Rights()
EVERYTHING: Final = Rights(frozenset(Permission), _BELOW_OPERATORS + HIGHEST_LEVEL + 1)
"""The rights of the host on the command line, above every operator."""


class RightsHolder(Protocol):
    """A user as far as rights are concerned."""

    @property
    def username(self) -> Any: ...
    @property
    def status(self) -> Any: ...
    @property
    def role(self) -> Any: ...


class Team:
    """The rights of users: by the game's operators, and by roles."""

    def __init__(
        self,
        level_of: Callable[[str], int],
        kept_level_of: Callable[[str], int] | None = None,
        needs_second_factor: Callable[[Rights], bool] = lambda rights: False,
    ) -> None:
        """`level_of` returns the operator level of a name; 0: not an operator.

        `kept_level_of` returns 0 only where that is certain (`plugin_bridge.server.operators`); None: it always is.
        `needs_second_factor` returns whether members with these rights need to have shown one.
        """
        self._level_of = level_of
        self._kept_level_of = kept_level_of or level_of
        self.needs_second_factor = needs_second_factor

    def rank_of(self, member: RightsHolder) -> int:
        """Return the rank that protects a user, also one who is not approved."""
        return _rank(self._kept_level_of(member.username), member)

    def rights_of(self, member: RightsHolder) -> Rights:
        """Return what the user may do now: nothing unless approved."""
        return _rights(self._level_of(member.username), member)

    def kept_rights_of(self, member: RightsHolder) -> Rights:
        """Return what the user may do, or may be able to do again in a moment: nothing made by it ends."""
        return _rights(self._kept_level_of(member.username), member)


def _rank(level: int, member: RightsHolder) -> int:
    if level > 0:
        return _BELOW_OPERATORS + level
    return ROLES.index(member.role) + 1 if member.role in ROLES else 0


def _rights(level: int, member: RightsHolder) -> Rights:
    if member.status != "approved":
        return NO_RIGHTS
    rank = _rank(level, member)
    if rank > _BELOW_OPERATORS:
        return Rights(frozenset(Permission), rank)
    return Rights(PERMISSIONS_OF[member.role], rank) if rank else NO_RIGHTS


def parse_permissions(written: list[str] | tuple[str, ...]) -> frozenset[Permission]:
    """Return the permissions with these names. Raises ValueError with the first that does not exist."""
    known = {permission.value: permission for permission in Permission}
    for name in written:
        if name not in known:
            raise ValueError(name)
    return frozenset(known[name] for name in written)
