"""Roles in a Discord guild: those that keep memberships, and one that is given to who may play.

A job looks at the linked accounts one after the other. Only an answer that is surely about one member changes anything,
and nobody is ended here: two such answers without a role let the membership lapse (`lapses_at`), and the sync run
carries that out, asking the mass-change guard first.

Sources: discord.com/developers/docs, resources/guild, topics/opcodes-and-status-codes, topics/rate-limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from msgspec import UNSET, UnsetType
from peewee import JOIN

from plugin_bridge.text import decode_json
from regsvc import __version__
from regsvc.accounts.chat.provider import with_defaults
from regsvc.accounts.membership import MembershipChanges
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.config.sections import Config
from regsvc.core import clock, errors
from regsvc.core.backoff import Backoff
from regsvc.core.clock import Clock, to_milliseconds
from regsvc.core.http_response import NoResponse, Response
from regsvc.core.units import RateLimit
from regsvc.database.audit import SYNC
from regsvc.database.engine import Worker
from regsvc.database.lease import TaskLease
from regsvc.database.models import APPROVED, IS_MEMBER, ChatLink, User
from regsvc.http.messages import Reply
from regsvc.http.route import USER, Routes
from regsvc.users.gates import ROLES_EVERY
from regsvc.users.membership import OwnMembershipFields, own_membership_fields

if TYPE_CHECKING:
    from regsvc.http.call import Call

log = logging.getLogger(__name__)
ROUTES: Final = Routes()

LOOK_INTERVAL: Final = timedelta(seconds=15)
"""How soon a decision is followed."""
LEASE: Final = "roles"
LEASE_PERIOD: Final = timedelta(minutes=5)
"""Longer than a batch takes whose every request takes as long as it may."""
_AGAIN: Final = timedelta(minutes=10)
"""How long after an answer without a role a second one counts."""
_BATCH: Final = 10
_TIMEOUT: Final = timedelta(seconds=10)
_MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes; a guild may have 250 roles and some hundred emojis, all of which are in the answer."""
_LONGEST_PAUSE: Final = 5.0
"""Seconds to wait for a rate limit within a batch; a longer one ends it."""
_OWN_LOOKS: Final = (RateLimit(3, timedelta(minutes=1)), RateLimit(20, timedelta(hours=1)))
_UNKNOWN_MEMBER: Final = 10007
_BITS: Final = re.compile("[0-9]{1,40}")
_ADMINISTRATOR, _MANAGE_ROLES = 1 << 3, 1 << 28


class RolesUnknown(Exception):
    """Discord's answer says nothing that is sure about a member. `str()` says what it says; it holds no secret."""

    def __init__(self, problem: str, retry_after: timedelta = timedelta(), *, is_about_all: bool = True) -> None:
        """`is_about_all`: whether other members would get the same answer."""
        super().__init__(problem)
        self.retry_after = retry_after
        self.is_about_all = is_about_all


@dataclass(frozen=True)
class Guild:
    """The bot's view of the guild of `chat.guild_id`, by Discord's API. Use on the event loop."""

    config: Config
    base_url: str
    _free_at: dict[str, float] = field(default_factory=dict)
    """When the rate limit of a kind of request allows the next one, in the event loop's time."""

    @property
    def kept_by(self) -> frozenset[str]:
        """The roles of which members need one; none: memberships do not depend on roles."""
        return frozenset(self.config.membership.role_ids)

    @property
    def given(self) -> str:
        """The role that is given to who may play; "": none is."""
        return self.config.chat.give_role_id

    @property
    def is_used(self) -> bool:
        """Whether the host uses roles of a guild."""
        return bool(self.kept_by or self.given)

    @cached_property
    def _path(self) -> str:
        return f"/guilds/{quote(self.config.chat.guild_id, safe='')}"

    async def check(self) -> None:
        """Raise `RolesUnknown` unless the bot sees the guild, with its members and the roles of the config."""
        guild = await self._get(f"{self._path}?with_counts=true")
        missing = sorted({*self.kept_by, self.given} - {""} - _find_roles(guild).keys())
        if missing:
            raise RolesUnknown(f"the guild has no role {', '.join(missing)}: check membership.role_ids and chat.*role*")
        count = guild.get("approximate_member_count")
        if not isinstance(count, int) or count <= 1:
            raise RolesUnknown("the guild has no members but the bot")

    async def find_roles(self, account_id: str) -> frozenset[str] | None:
        """Return the roles of a member; None: Discord says that the account is no member. Raises `RolesUnknown`."""
        response = await self._send("GET", self._member(account_id))
        fields = _decode(response)
        if response.status == 404 and fields.get("code") == _UNKNOWN_MEMBER:
            return None
        if response.status != 200:
            raise _unknown(response, fields)
        user, roles = fields.get("user"), fields.get("roles")
        is_theirs = isinstance(user, dict) and user.get("id") == account_id
        if not is_theirs or not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise RolesUnknown("Discord: a member of another shape than documented", is_about_all=False)
        return frozenset(roles)

    async def change_role(self, account_id: str, *, gives: bool) -> None:
        """Give the role to a member, or take it. Raises `RolesUnknown`."""
        path = f"{self._member(account_id)}/roles/{quote(self.given, safe='')}"
        response = await self._send("PUT" if gives else "DELETE", path)
        fields = _decode(response)
        if response.is_success or (response.status == 404 and fields.get("code") == _UNKNOWN_MEMBER):
            return
        raise _unknown(response, fields)

    async def find_problems(self) -> list[str]:
        """Return why roles cannot be looked at, given or taken now; each is a sentence."""
        try:
            await self.check()
            return await self._find_missing_rights() if self.given else []
        except RolesUnknown as problem:
            return [str(problem)]

    async def _find_missing_rights(self) -> list[str]:
        roles, bot = _find_roles(await self._get(self._path)), await self._get("/users/@me")
        own = (await self.find_roles(str(bot.get("id")))) or frozenset()
        mine = [roles[role] for role in {*own, self.config.chat.guild_id} & roles.keys()]
        rights = [int(role["permissions"]) for role in mine if _BITS.fullmatch(str(role.get("permissions")))]
        if not any(right & (_ADMINISTRATOR | _MANAGE_ROLES) for right in rights):
            return ["the bot lacks the right Manage Roles, so chat.give_role_id is not given"]
        if max((_position(role) for role in mine), default=0) <= _position(roles[self.given]):
            return ["the bot’s highest role is not above chat.give_role_id, so that is not given: move it up"]
        return []

    def _member(self, account_id: str) -> str:
        return f"{self._path}/members/{quote(account_id, safe='')}"

    async def _get(self, path: str) -> Mapping[str, Any]:
        response = await self._send("GET", path)
        fields = _decode(response)
        if response.status != 200 or not fields:
            raise _unknown(response, fields)
        return fields

    async def _send(self, method: str, path: str) -> Response:
        """Send a request as the rate limit allows. Raises `RolesUnknown` where that asks for too long a wait."""
        from regsvc.core.http_client import HttpClient

        loop, kind = asyncio.get_running_loop(), f"{method} {path.count('/')}"
        wait = self._free_at.get(kind, 0.0) - loop.time()
        if wait > _LONGEST_PAUSE:
            raise RolesUnknown("Discord limits our requests", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)
        api = with_defaults(self.config.chat, self.base_url).profile_url.removesuffix("/users/@me")
        headers = {
            "Authorization": f"Bot {self.config.bot_token}",
            "User-Agent": f"DiscordBot ({self.base_url}, {__version__})",
        }
        with HttpClient(_TIMEOUT, max_body=_MAX_BODY) as client:
            try:
                response = await client.send(method, f"{api}{path}", headers, b"" if method == "PUT" else None)
            except NoResponse as error:
                raise RolesUnknown(f"Discord: {error}") from None
        if response.headers.get("X-RateLimit-Remaining") == "0":
            pause = _retry_after(response, "X-RateLimit-Reset-After")
            self._free_at[kind] = loop.time() + pause.total_seconds()
        return response


def _decode(response: Response) -> dict[str, Any]:
    """Return the JSON object in a response; {} for anything else."""
    try:
        fields = decode_json(response.body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _unknown(response: Response, fields: Mapping[str, Any]) -> RolesUnknown:
    code = fields.get("code")
    told = f"Discord: {response.describe()}" + (f", code {code}" if isinstance(code, int) and code else "")
    is_about_one = response.status == 404 and bool(fields)
    return RolesUnknown(told, _retry_after(response, "Retry-After"), is_about_all=not is_about_one)


def _retry_after(response: Response, header: str) -> timedelta:
    return response.retry_after(clock.now(), header) or timedelta()


def _find_roles(guild: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the roles of a guild by id. Raises `RolesUnknown`."""
    roles = guild.get("roles")
    if not isinstance(roles, list):
        raise RolesUnknown("Discord: a guild of another shape than documented")
    return {role["id"]: role for role in roles if isinstance(role, dict) and isinstance(role.get("id"), str)}


def _position(role: Mapping[str, Any]) -> int:
    position = role.get("position")
    return position if isinstance(position, int) else 0


class LinkedUser(NamedTuple):
    """A user with their account on Discord, as of when they were found due."""

    link_id: int
    account_id: str
    missed_at: datetime | None
    user_id: int | None
    """None: the link has ended, and the role is to be taken."""
    access: str | None


_COLUMNS: Final = (ChatLink.id, ChatLink.account_id, ChatLink.roles_missed_at, User.id, User.access)


@dataclass
class GuildRoles:
    """Job that looks at the roles of linked users. Use on the event loop; its SQL runs on the worker."""

    guild: Guild
    worker: Worker
    changes: MembershipChanges
    lease: TaskLease
    limits: MemoryLimits
    now: Clock
    problem: str = ""
    """Why roles are unknown, or not given, now; "": they are known."""
    pause: Backoff = field(default_factory=lambda: Backoff(timedelta(minutes=1), timedelta(minutes=10)))
    giving_pause: Backoff = field(default_factory=lambda: Backoff(_AGAIN, ROLES_EVERY))
    _giving_problem: str = ""
    _failed: dict[int, datetime] = field(default_factory=dict)
    """When a look at a link failed, so that others come first."""

    async def look(self) -> None:
        """Look at all linked users who are due. Only one of several daemons does."""
        while self.pause.remaining() == 0:
            links = await self.worker.run(self._find_due)
            if not links or not await self._look_at(links):
                return

    async def look_at_own(self, user_id: int) -> OwnMembershipFields | None:
        """Look now at a user whose membership ended with a role, or lapses, and return the membership.

        Raises `RateLimited`.
        """
        self.limits.hit("membership.look", str(user_id), _OWN_LOOKS)
        link = await self.worker.run(self._find_lapsed, user_id) if self.guild.kept_by else None
        if link is not None and self.pause.remaining() == 0:
            await self._look_at([link])
        return await self.worker.run(self._find_own, user_id)

    async def _look_at(self, links: Sequence[LinkedUser]) -> bool:
        """Look at these links; returns False where Discord does not say what can be relied on."""
        problems = []
        try:
            await self.guild.check()
            for link in links:
                try:
                    await self._look_at_one(link)
                except RolesUnknown as problem:
                    self._failed[link.link_id] = self.now()
                    if problem.is_about_all:
                        raise
                    problems.append(str(problem))
        except RolesUnknown as problem:
            self.pause.extend(problem.retry_after)
            problems.append(str(problem))
            return False
        else:
            self.pause.reset()
            return True
        finally:
            if self.giving_pause.remaining() > 0:
                problems.append(self._giving_problem)
            self._tell(problems[0] if problems else "")

    async def _look_at_one(self, link: LinkedUser) -> None:
        roles = await self.guild.find_roles(link.account_id)
        may_play = link.access == APPROVED
        is_done = True
        if self.guild.given and roles is not None and may_play != (self.guild.given in roles):
            is_done = await self._change_role(link, gives=may_play)
        if link.user_id is None and is_done:
            await self.worker.run(self._forget, link)
            return
        returned = await self.worker.run(self._note, link, roles or frozenset())
        if returned is not None:
            await self.worker.run(self.changes.let_return, returned, "role", SYNC)

    async def _change_role(self, link: LinkedUser, *, gives: bool) -> bool:
        """Give or take the role; returns False where that fails, which is let be for a while.

        Discord bans addresses that go on.
        """
        if self.giving_pause.remaining() > 0:
            return False
        try:
            await self.guild.change_role(link.account_id, gives=gives)
        except RolesUnknown as problem:
            self.giving_pause.extend(problem.retry_after)
            self._giving_problem = f"{problem}: the bot cannot give or take chat.give_role_id"
            return False
        self.giving_pause.reset()
        return True

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("roles of the guild on Discord: %s; nobody’s membership changes by that", problem)
        elif self.problem and not problem:
            log.info("the roles of the guild on Discord are known again")
        self.problem = problem

    # --- database work ---

    def _find_due(self) -> list[LinkedUser]:
        """Return the next links to look at; none where another process does."""
        if not self.lease.acquire():
            return []
        now = self.now()
        self._failed = {link: at for link, at in self._failed.items() if timedelta() <= now - at < _AGAIN}
        seen, missed = ChatLink.roles_seen_at, ChatLink.roles_missed_at
        is_due = seen.is_null() | (seen <= now - ROLES_EVERY) | (seen > now)
        is_noted = User.lapse.is_null(False) & (User.lapse == "role")
        is_due |= missed.is_null(False) & (seen <= now - _AGAIN) & IS_MEMBER & ~is_noted
        is_ours = (ChatLink.platform == "discord") & ChatLink.id.not_in(list(self._failed))
        is_released = ChatLink.user.is_null() & missed.is_null(False)
        is_ours &= (User.id.is_null(False) | is_released) if self.guild.given else (User.status == APPROVED)
        found: Any = ChatLink.select(*_COLUMNS).join(User, JOIN.LEFT_OUTER).where(is_ours, is_due)
        return [LinkedUser(*row) for row in found.order_by(seen, ChatLink.id).limit(_BATCH).tuples()]

    def _find_lapsed(self, user_id: int) -> LinkedUser | None:
        lost = (User.ended_because == "role") | (User.lapse == "role")
        is_theirs = (User.id == user_id) & (User.status == APPROVED) & (ChatLink.platform == "discord")
        found: Any = ChatLink.select(*_COLUMNS).join(User).where(is_theirs, lost)
        return next((LinkedUser(*row) for row in found.tuples()), None)

    def _find_own(self, user_id: int) -> OwnMembershipFields | None:
        user = User.get_or_none(User.id == user_id)
        may_ask = self.guild.config.membership.renew == "ask"
        return None if user is None else own_membership_fields(user, self.now(), may_ask=may_ask)

    def _forget(self, link: LinkedUser) -> None:
        ChatLink.delete().where(ChatLink.id == link.link_id, ChatLink.user.is_null()).execute()

    def _note(self, link: LinkedUser, roles: frozenset[str]) -> str | None:
        """Note what was seen; returns the name of a user whose membership is to go on."""
        moment, has_role = to_milliseconds(self.now()), bool(roles & self.guild.kept_by)
        with ChatLink._meta.database.atomic():
            seen: Any = ChatLink.update(roles_seen_at=moment).where(
                ChatLink.id == link.link_id, ChatLink.user == link.user_id
            )
            if not seen.execute() or link.user_id is None:
                return None  # unlinked meanwhile, or before
            user = User.get_by_id(link.user_id)  # after the update, which waits for a decision under way
            if user.access != link.access:
                ChatLink.update(roles_seen_at=None).where(ChatLink.id == link.link_id).execute()
                return None
            if not self.guild.kept_by or user.status != APPROVED:
                return None
            return self._note_member(link, user, moment, has_role=has_role)

    def _note_member(self, link: LinkedUser, user: User, moment: datetime, *, has_role: bool) -> str | None:
        missed_at, begun = link.missed_at, user.renewed_at or user.reviewed_at or user.created_at
        is_again = missed_at is not None and begun <= missed_at <= moment
        since = None if has_role else (missed_at if is_again else moment)
        if since != missed_at:
            ChatLink.update(roles_missed_at=since).where(ChatLink.id == link.link_id).execute()
        if has_role:
            if user.lapse == "role":
                self._set_lapse(user, None, None)
            return str(user.username) if user.ended_because == "role" else None
        is_gone = since is not None and moment - since >= _AGAIN
        if is_gone and user.ended_because is None and user.lapse != "role" and not self.changes.access.has_rank(user):
            self._set_lapse(user, moment, "role")
        return None

    def _set_lapse(self, user: User, at: datetime | None, lapse: str | None) -> None:
        # its own `changed_at`: nothing changes that a sync run would have to look at before it is due
        noted: Any = User.update(lapses_at=at, lapse=lapse, changed_at=User.changed_at)
        noted.where(User.id == user.id, IS_MEMBER).execute()


class MembershipLookReply(Reply, frozen=True, kw_only=True):
    """The caller's own membership, after a look at what keeps it; absent for one who is not approved."""

    membership: OwnMembershipFields | UnsetType = UNSET


@ROUTES.add("POST", "/api/user/membership/look", USER, errors.RateLimited)
async def look_at_membership(call: Call, guild_roles: GuildRoles) -> MembershipLookReply:
    """Look at your roles on Discord now, if your membership ended with them, or is about to.

    With one of the roles that keep it, the membership goes on at once.
    """
    found = await guild_roles.look_at_own(call.require_session().user_id)
    return MembershipLookReply(membership=found or UNSET)
