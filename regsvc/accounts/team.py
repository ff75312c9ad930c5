"""The team: who has which role, and what ends with it."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from peewee import Database

from plugin_bridge.server.files import OpsFile
from regsvc.accounts.access import AccountAccess, Principal
from regsvc.auth.api_tokens import ApiTokens
from regsvc.auth.invitations import Invitations
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.sessions import Sessions
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.rights import ROLES, Role, Team
from regsvc.core.text import name_key
from regsvc.database.audit import SQL, Actor, Audit
from regsvc.database.models import APPROVED, User

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeamMember:
    """An operator, or a user with a role. `is_active`: has an approved account; without one, nobody logs in."""

    username: str
    role: str
    level: int
    """The operator level in the game; 0 for roles."""
    is_active: bool


@dataclass(frozen=True)
class TeamRoles:
    """Roles: given, taken, and noted when they were typed in SQL. Blocking: for a worker thread."""

    database: Database
    team: Team
    access: AccountAccess
    sessions: Sessions
    links: PasswordLinks
    tokens: ApiTokens
    accounts: TeamAccounts
    invitations: Invitations
    audit: Audit
    operators: Callable[[], Collection[str]]
    level_of: Callable[[str], int]
    announce: Callable[[User], None]
    """Tells the host, in the transaction of a change, that the user has another role."""

    def list_members(self) -> list[TeamMember]:
        """Return the operators, the highest first, then those who have a role, by name."""
        names = {name for name in self.operators() if self.level_of(name) > 0}
        columns = (User.username, User.username_key, User.status, User.role)
        rows = User.select(*columns).where(User.role.is_null(False) | User.username_key.in_(sorted(names)))
        users = {row.username_key: row for row in rows}
        members = []
        for key in names | users.keys():
            user, level = users.get(key), self.level_of(key)
            is_active = user is not None and user.status == APPROVED
            role = "operator" if level > 0 else str(user.role) if user is not None else ""
            members.append(TeamMember(user.username if user is not None else key, role, level, is_active))
        order = ("operator", "moderator", "reviewer")
        return sorted(members, key=lambda it: (order.index(it.role), -it.level, name_key(it.username)))

    def give(self, username: str, role: Role | None, by: Principal) -> str:
        """Give the user this role, or none, and return the name as it is written.

        Raises `UserNotFound`, `ProtectedOperator`, and `RoleNeedsApproval` for a user who is not approved.
        """
        with self.database.atomic():
            user = User.get_or_none(User.username_key == name_key(username))
            if user is None:
                raise errors.UserNotFound
            self.access.require_permission(user, "role", by)
            if role is not None and user.status != APPROVED:
                raise errors.RoleNeedsApproval
            if user.role != role or user.applied_role != role:
                self._change(user, user.applied_role, role, by.actor)
        return str(user.username)

    def note_typed(self) -> int:
        """Note roles that were typed in SQL, as if an operator had given them; return their number.

        One of a user who is not approved is removed again. Runs before each run of the sync.
        """
        is_typed = User.role.is_null(False) & (User.applied_role.is_null() | (User.applied_role != User.role))
        is_removed = User.applied_role.is_null(False) & User.role.is_null()
        typed, removed = (User.select(User.id).where(condition) for condition in (is_typed, is_removed))
        ids = [user_id for (user_id,) in (typed + removed).tuples()]  # each by the index
        for user_id in ids:
            with self.database.atomic():
                user = User.get_or_none(User.id == user_id)
                if user is None or user.role == user.applied_role:
                    continue
                is_possible = user.role is None or (user.role in ROLES and user.status == APPROVED)
                if not is_possible:
                    self.audit.record("sync.edit_refused", SQL, user.username, {"role": user.role})
                self._change(user, user.applied_role, user.role if is_possible else None, SQL)
        return len(ids)

    def _change(self, user: User, before: str | None, after: str | None, by: Actor) -> None:
        """Change the role, and end what the user has open by the earlier one. Raises `WrongStatus` for a lost race."""
        is_as_loaded = (User.id == user.id) & (User.status == user.status)
        if not User.update(role=after, applied_role=after).where(is_as_loaded).execute():
            raise errors.WrongStatus(user.status)
        user.role = user.applied_role = after
        if before == after:
            return
        if before is not None:
            self._end_open(user)
        self.audit.record("user.role_changed", by, user.username, {"roleBefore": before, "role": after})
        self.announce(user)

    def _end_open(self, user: User) -> None:
        self.sessions.revoke_admin(user.id)
        counts = [it.revoke_of(user.username_key) for it in (self.links, self.tokens, self.invitations)]
        counts.append(self.accounts.revoke_of(user.id))
        text = "the role of %s changed: ended links %d, tokens %d, invitations %d, chat accounts %d"
        log.info(text, user.username, *counts)


class LostRights:
    """End of what members of the team had open when they lost their rights, so that it does not revive with those."""

    def __init__(self, roles: TeamRoles, ops: OpsFile, live: LiveConfig) -> None:
        self._roles = roles
        self._ops = ops
        self._live = live
        self._needed_second_factor: tuple[bool, bool] | None = None  # when `end` last ran

    @property
    def _needed_totp(self) -> tuple[bool, bool]:
        """Whether operators, and others of the team, need a second factor."""
        auth = self._live.current.auth
        return auth.needs_totp(is_operator=True), auth.needs_totp(is_operator=False)

    def have_changed(self) -> bool:
        """Return whether `end` has something to look for. Blocking."""
        dismissed, is_needed = self._ops.find_dismissed(), self._needed_totp
        return dismissed is not None and (bool(dismissed) or is_needed != self._needed_second_factor)

    def end(self) -> None:
        """End what operators had open when they lost their rights. Blocking.

        At the start, and when an operator has left ops.json or who needs a second factor has changed. Until then it is
        refused as it is used, by what ops.json says at that moment. An ops.json that was never read ends nothing.
        """
        if not self.have_changed():
            return
        dismissed = self._ops.find_dismissed() or frozenset()
        is_needed, roles = self._needed_totp, self._roles
        sources = (roles.sessions, roles.links, roles.tokens, roles.invitations, roles.accounts)
        ended = [it.revoke_unentitled(dismissed) for it in sources]
        self._ops.forget_dismissed(dismissed)
        self._needed_second_factor = is_needed
        if any(ended):
            text = "ended without the right: sessions %d, links %d, tokens %d, invitations %d, chat accounts %d"
            log.info(text, *ended)
