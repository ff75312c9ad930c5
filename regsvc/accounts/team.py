"""The team: who has which role, and what ends with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta
from peewee import Database

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.server.files import HIGHEST_LEVEL, OpsFile, PropertiesFile
from plugin_bridge.server.operators import LimboNotes, Operator, Operators
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.accounts.access import AccountAccess
from regsvc.auth.api_tokens import ApiTokens, TokenFields
from regsvc.auth.entitlement import MadeByRight, Principal
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.rights import ROLES, Permission, Role, Team
from regsvc.core.shapes import Output, Username
from regsvc.core.text import clean_name, name_key
from regsvc.database.audit import GAME, SQL, Actor, Audit
from regsvc.database.bulk import upsert_query
from regsvc.database.models import APPROVED, KnownOperator, User
from regsvc.http.messages import Reply
from regsvc.http.route import Routes
from regsvc.notifications.mail.queue import MailQueue

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

log = logging.getLogger(__name__)


class MemberFields(Output, frozen=True):
    """A member of the team; `level` is that of an operator in the game, 0 for a role."""

    username: Username
    role: Annotated[str, Meta(extra_json_schema={"enum": ["reviewer", "moderator", "operator"]}, examples=["reviewer"])]
    level: Annotated[int, Meta(examples=[0])]
    """The operator level in the game; 0 for roles."""
    is_active: Annotated[bool, Meta(description="Whether they have an approved account to log in with.")]


@dataclass(frozen=True)
class TeamRoles:
    """Roles: given, taken, and noted when they were typed in SQL. Blocking: for a worker thread."""

    database: Database
    team: Team
    access: AccountAccess
    made: MadeByRight
    audit: Audit
    operators: Callable[[], Collection[str]]
    level_of: Callable[[str], int]
    announce: Callable[[User], None]
    """Tells the host, in the transaction of a change, that the user has another role."""

    def list_members(self) -> list[MemberFields]:
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
            members.append(MemberFields(user.username if user is not None else key, role, level, is_active))
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
            self.made.end_of(user.username, "role_changed", by)
        self.audit.record("user.role_changed", by, user.username, {"roleBefore": before, "role": after})
        self.announce(user)


class LostRights:
    """End of what members of the team had open when they lost their rights, so that it does not revive with those.

    Keeps the operators in the database, for the next process: see `remember_operators`.
    """

    def __init__(self, roles: TeamRoles, operators: Operators, live: LiveConfig, now: Clock) -> None:
        self._roles = roles
        self._operators = operators
        self._live = live
        self._now = now
        self._needed_second_factor: tuple[bool, bool] | None = None  # when `end` last ran
        self._stored: Mapping[str, object] | None = None  # the operators as they were last stored

    @property
    def _needed_totp(self) -> tuple[bool, bool]:
        """Whether operators, and others of the team, need a second factor."""
        auth = self._live.current.auth
        return auth.needs_totp(is_operator=True), auth.needs_totp(is_operator=False)

    def have_changed(self) -> bool:
        """Return whether `end` has something to do. Blocking."""
        dismissed = self._operators.find_dismissed()
        if dismissed is None:
            return False
        is_stored = self._is_stored(_rows_of(self._operators))
        return bool(dismissed) or not is_stored or self._needed_totp != self._needed_second_factor

    def _is_stored(self, rows: Mapping[str, object]) -> bool:
        return rows == self._stored or not self._operators.has_list

    def end(self) -> None:
        """End what operators had open when they lost their rights, and store the operators. Blocking.

        At the start, when an operator has ceased to be one, and when who needs a second factor has changed. Until then
        it is refused as it is used. An ops.json that was never read ends nothing.
        """
        dismissed, is_needed, rows = self._operators.find_dismissed(), self._needed_totp, _rows_of(self._operators)
        if dismissed is None:
            return
        if dismissed or is_needed != self._needed_second_factor:
            self._roles.made.end_unentitled(dismissed, GAME)
        if not self._is_stored(rows):  # not before: a process that dies in between leaves the rest to the next one
            _store(rows, self._now())
            self._stored = rows
        self._operators.forget_dismissed(dismissed)
        self._needed_second_factor = is_needed


def find_operators(config: Config, authme: AuthMeConfig | None, properties: PropertiesFile) -> Operators:
    """Return the operators of the main game server, by its ops.json and the notes of the AuthMe that runs in it."""
    ops_path = config.game.ops_path
    ops = OpsFile(ops_path, map(clean_name, config.game.operators))
    folders = [] if ops_path is None else [ops_path.parent / "plugins" / "AuthMe"]
    if authme is not None and config.authme_config_path is not None:
        folders.append(config.authme_config_path.parent)
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None and authme is None:
        return Operators(ops)

    def given_level() -> int:
        known = properties.current
        return known.op_permission_level if known is not None else HIGHEST_LEVEL

    return Operators(ops, LimboNotes(folder, authme or AuthMeConfig()), given_level=given_level)


def remember_operators(operators: Operators, uuids: PlayerUuids) -> None:
    """Tell `operators` whom an earlier process knew, before the first question. Blocking; the database is open.

    AuthMe's notes are believed about players at the prompt whom no process knew: they became operators while none ran.
    A note that is older, or about a former operator, is not: that op may have been taken away since, and comes back
    with the next login only.
    """
    rows = {row.username_key: row for row in KnownOperator.select()}
    known = [Operator(it.username, it.level, it.uuid, note=it.note) for it in rows.values() if it.left_at is None]
    if operators.notes is not None:
        unknown = {name: uuid for name, uuid in uuids.joined.items() if name_key(name) not in rows}
        held, level = operators.notes.held_among(unknown), operators.given_level()
        known += [Operator(name, level, uuid) for name, uuid in held.items()]
    operators.remember(known)


def _rows_of(operators: Operators) -> dict[str, Mapping[Any, Any]]:
    """Return the operators as they are stored, by lower-case name."""
    model = KnownOperator
    return {
        key: {
            model.username_key: key,
            model.username: it.name,
            model.uuid: it.uuid,
            model.level: it.level,
            model.note: it.note,
            model.left_at: None,
        }
        for key, it in operators.all().items()
    }


def _store(rows: Mapping[str, Mapping[Any, Any]], now: datetime) -> None:
    model = KnownOperator
    with model._meta.database.atomic():
        model.update(left_at=now).where(model.left_at.is_null(), model.username_key.not_in(sorted(rows))).execute()
        if rows:
            overwrite = (model.username, model.uuid, model.level, model.note, model.left_at)
            upsert_query(model, list(rows.values()), unique=(model.username_key,), overwrite=overwrite).execute()


class TeamReply(Reply, frozen=True, kw_only=True):
    """The members, operators first, and the tokens, active ones first."""

    members: list[MemberFields]
    tokens: list[TokenFields]


class RoleReply(Reply, frozen=True, kw_only=True):
    username: Username
    role: Annotated[str | None, Meta(examples=["reviewer"])]


@ROUTES.add("GET", "/api/admin/team", Permission.TEAM_MANAGE)
async def show_team(call: Call, team_roles: TeamRoles, api_tokens: ApiTokens) -> TeamReply:
    """List the operators, those who have a role, and the API tokens."""
    members = await call.run(team_roles.list_members)
    tokens = await call.run(api_tokens.list_all)
    return TeamReply(members=members, tokens=tokens)


@ROUTES.add(
    "POST",
    "/api/admin/user/role",
    Permission.TEAM_MANAGE,
    errors.UserNotFound,
    errors.ProtectedOperator,
    errors.RoleNeedsApproval,
    errors.WrongStatus,
)
async def give_role(
    call: Call,
    mail_queue: MailQueue,
    team_roles: TeamRoles,
    *,
    username: Username,
    role: Literal["reviewer", "moderator", "none"],
) -> RoleReply:
    """Give an approved user a role in the team, or take it. Their sessions at /admin end, and what they have open.

    RoleRequest: The user, and the role that they have from now on.
    """
    given: Role | None = None if role == "none" else role
    username = await call.run(team_roles.give, username, given, call.principal)
    mail_queue.wake_all()
    key = "role_taken" if given is None else "role_given"
    word = "" if given is None else call.translations.text(f"role.{given}", call.language)
    return RoleReply(message=call.message(key, username=username, role=word), username=username, role=given)
