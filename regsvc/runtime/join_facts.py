"""Facts about why a player cannot join, from our tables, AuthMe's, and the game server's files.

Each step has a verdict and the key of a sentence (`[why]` in the translations), which names the cause and the remedy.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from msgspec import Meta

from plugin_bridge.authme.players import PlayersUnavailable, in_milliseconds
from plugin_bridge.server.allowlist import AllowlistFile, Entry
from plugin_bridge.server.files import PropertiesFile, ServerFileError
from plugin_bridge.server.player_uuids import PlayerUuids, UuidFamily
from regsvc.config.live import LiveConfig
from regsvc.core.clock import epoch_ms, is_over
from regsvc.core.errors import InvalidField, InvalidUsername
from regsvc.core.i18n import Translations
from regsvc.core.rights import Permission
from regsvc.core.shapes import Output
from regsvc.core.text import clean_name, name_key
from regsvc.database.bulk import select_rows
from regsvc.database.models import APPROVED, BANNED, PASSWORD, PENDING, PRESENT, PROVISION, Allowed, ChatLink, User
from regsvc.http.messages import NameQuery, Reply, to_reply
from regsvc.http.route import USER, Routes
from regsvc.runtime.game_status import GameServers, LastStatus
from regsvc.sync.actions import Provision, UpdateState
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, Policy, SyncValues
from regsvc.sync.rules import decide, password_for_row, returns
from regsvc.sync.service import SyncService
from regsvc.users.credential_rules import CredentialRules
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, Gates, ListedState
from regsvc.users.retention import find_reapply_at

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

Verdict = Literal["ok", "problem", "unknown"]

Helper = Literal["player", "operator", "host", "nobody"]
"""Who can do something about it; nobody: it passes by itself, or nothing is wrong."""

CACHE_TIME: Final = timedelta(minutes=15)
"""For how long AuthMe may go on using a row that it looked up before we wrote it (`DataSource.caching`)."""


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The game's allowlist and one name. `entries` are those of its name or UUID; None: the file was not read."""

    state: ListedState
    reason: str | None = None
    uuid: str | None = None
    is_used: bool | None = None
    """Whether the game server lets in those on its list alone; None: no server.properties was read."""
    entries: tuple[Entry, ...] | None = None
    joined_uuid: str | None = None
    """The UUID of a player of this name who was in the game."""
    is_on_bedrock: bool = False
    since: datetime | None = None
    """When the state was recorded."""


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """All that is known of one name; `account.now` is the moment."""

    name: str
    account: Account
    policy: Policy
    listed: ListFacts
    server: LastStatus | None
    """None: nobody knows where the game server is."""
    name_rule: str | None = None
    """The rule of names that the name breaks; None: it breaks none."""
    similar: str | None = None
    """A user whose name is nearly this one, which has none."""
    reason: str | None = None
    reapply_at: datetime | None = None
    lacks_chat: str | None = None
    """The chat platform with which the user must have linked an account, and has not."""
    is_cached: bool = False
    is_shared: bool = False
    """Whether several game servers share AuthMe's table: a login on one of them proves nothing about the others."""
    is_held_back: bool | None = None
    """Whether the last sync run held changes back; None: it is not known here, as for the next one."""
    stands_still: bool | None = None


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A thing that was looked at. `code` is the key of its sentence, `facts` are the names in it."""

    name: str
    verdict: Verdict
    code: str
    facts: Mapping[str, Any]
    at: datetime
    """When it was looked at."""

    @property
    def helper(self) -> Helper:
        return "nobody" if self.verdict == "ok" else _HELPERS.get(self.code, "operator")


_HELPERS: Final[Mapping[str, Helper]] = {
    **dict.fromkeys(("unregistered", "similar", "invalid", "rejected", "chat", "other_case", "spelling"), "player"),
    "list_no_profile": "player",
    **dict.fromkeys(("password_algorithm", "forum_table", "row_group", "authme_away", "no_gate"), "host"),
    **dict.fromkeys(("list_not_kept", "list_doubt", "list_restart", "list_unread", "list_refused"), "host"),
    **dict.fromkeys(("sync_stopped", "server_off", "server_unknown"), "host"),
    **dict.fromkeys(("rejected_until", "banned_until", "ban_over", "cached", "server_full"), "nobody"),
    **dict.fromkeys(("row_waiting", "list_waiting", "list_lost", "list_uuid"), "nobody"),
    **dict.fromkeys(("edit_waiting", "not_adopted"), "nobody"),
}

_OWN: Final[Mapping[str, str]] = {
    **{code: code for code in ("pending", "rejected", "rejected_until", "banned", "banned_until", "chat")},
    **{code: code for code in ("ended_date", "ended_idle", "ended_role")},
    **{code: code for code in ("no_password", "other_case", "cached", "list_restart", "server_off", "server_full")},
    "list_no_profile": "list_no_profile",
    **dict.fromkeys(("row_waiting", "list_waiting", "list_lost", "list_uuid", "edit_waiting", "ban_over"), "soon"),
    **dict.fromkeys(("password_algorithm", "row_no_password"), "no_password"),
}
"""Sentences that players have of their own (`[why_player]`); of others, they learn that an operator has to help."""

_UNSURE: Final = ("cached", "server_full")
"""AuthMe may have looked the player up since, and players leave."""

_WAITING: Final = {reason: f"list_{reason}" for reason in (NO_UUID, NO_PROFILE, RESTART, REFUSED, HELD_BACK)}


def find_steps(facts: JoinFacts) -> tuple[JoinStep, ...]:
    """Return what was looked at, in the order in which it keeps players out; last, what only may."""
    return tuple(sorted(_walk(facts), key=lambda step: step.code in _UNSURE))


def find_answer(steps: tuple[JoinStep, ...]) -> JoinStep | None:
    """Return the first problem; None: nothing that can be seen keeps the player out."""
    return next((step for step in steps if step.verdict == "problem"), None)


def word(step: JoinStep, translations: Translations, language: str) -> str:
    """Return the step as operators read it."""
    reason = step.facts.get("reason")
    shown = translations.reason(reason, language) if reason else translations.text("why.no_reason", language)
    words = _in_words(step, translations, language) | {"reason": shown}
    return translations.text(f"why.{step.code}", language, **words)


def word_for_player(step: JoinStep | None, translations: Translations, language: str) -> str:
    """Return the answer as the player reads it, without operators' reasons and matters of the server."""
    own = None if step is None else _OWN.get(step.code, "operator")
    words = {} if step is None else _in_words(step, translations, language)
    return translations.text(f"why_player.{own or 'nothing'}", language, **words)


def _in_words(step: JoinStep, translations: Translations, language: str) -> dict[str, object]:
    return {
        name: translations.moment(fact, language, step.at) if isinstance(fact, datetime) else fact
        for name, fact in step.facts.items()
    }


def _walk(facts: JoinFacts) -> Iterator[JoinStep]:
    user = facts.account.user
    if user is None:
        yield _unregistered(facts)
    else:
        yield _step(facts, "registered", "ok", "registered", since=user.created_at)
        yield _step(facts, "email", "ok", "email_proven" if user.is_email_verified else "email_not_proven")
        yield from _review(facts)
        if facts.lacks_chat is not None:
            yield _step(facts, "chat", "problem", "chat", platform=facts.lacks_chat)
        if user.access == APPROVED:
            gates = sorted(_gates(facts), key=lambda step: step.verdict == "problem" and step.helper == "nobody")
            if facts.stands_still and any(step.code in ("row_waiting", "list_waiting") for step in gates):
                yield _step(facts, "sync", "problem", "sync_stopped")
            yield from gates
    if facts.server is not None:
        yield _server(facts, facts.server)
    if user is not None and facts.name != user.username:
        yield _step(facts, "spelling", "problem", "spelling")


def _step(facts: JoinFacts, name: str, verdict: Verdict, code: str, **more: object) -> JoinStep:
    user = facts.account.user
    known = {"username": facts.name if user is None else user.username, **more}
    return JoinStep(name, verdict, code, known, facts.account.now)


def _unregistered(facts: JoinFacts) -> JoinStep:
    if facts.name_rule is not None:
        return _step(facts, "registered", "problem", "invalid", rule=facts.name_rule)
    if facts.similar is not None:
        return _step(facts, "registered", "problem", "similar", similar=facts.similar)
    is_in_game = facts.account.player is not None or (bool(facts.listed.entries) and facts.listed.state != "off")
    return _step(facts, "registered", "problem", "not_adopted" if is_in_game else "unregistered")


def _review(facts: JoinFacts) -> Iterator[JoinStep]:
    user = facts.account.user
    assert user is not None, "the name has a user"
    if user.status == PENDING:
        yield _step(facts, "review", "problem", "pending", since=user.created_at)
    elif user.status == BANNED:
        end = user.ban_expires_at
        code = "banned" if end is None else "ban_over" if end <= facts.account.now else "banned_until"
        yield _step(facts, "review", "problem", code, until=end, reason=facts.reason)
    elif user.status != APPROVED:
        code = "rejected" if facts.reapply_at is None else "rejected_until"
        yield _step(facts, "review", "problem", code, until=facts.reapply_at, reason=facts.reason)
    elif user.applied_status != APPROVED:
        yield _step(facts, "review", "problem", "edit_held_back" if facts.is_held_back else "edit_waiting")
    elif user.ended_because is not None:
        since = user.ended_at or facts.account.now
        yield _step(facts, "review", "problem", f"ended_{user.ended_because}", since=since)
    else:
        yield _step(facts, "review", "ok", "approved")


def _gates(facts: JoinFacts) -> Iterator[JoinStep]:
    """Causes that keep a user out who may play."""
    has_authme, keeps_list = facts.policy.is_bridge_on, facts.listed.state != "off"
    if has_authme:
        yield _authme(facts)
    if keeps_list:
        yield _allowlist(facts)
    elif facts.listed.is_used:
        yield _other_list(facts)
    elif not has_authme:
        is_open = facts.listed.is_used is False
        yield _step(facts, "gate", "ok" if is_open else "problem", "open" if is_open else "no_gate")
    record = facts.account.sync_record
    since = record.plugin_since if record is not None else None
    if not has_authme or not facts.is_cached or since is None or _was_in_game_after(facts, since):
        return
    if not is_over(since, CACHE_TIME, facts.account.now):
        yield _step(facts, "cache", "problem", "cached", until=since + CACHE_TIME)


def _was_in_game_after(facts: JoinFacts, moment: datetime) -> bool:
    """Return whether the row proves that the player was let into the game after `moment`.

    AuthMe writes the column at each login and when the player leaves; either also renews its cached row, or drops it.
    """
    player = facts.account.player
    last_login = in_milliseconds(player.last_login) if player is not None else None
    return not facts.is_shared and last_login is not None and last_login > epoch_ms(moment)


def _authme(facts: JoinFacts) -> JoinStep:
    account, policy = facts.account, facts.policy
    user, player = account.user, account.player
    assert user is not None, "the name has a user"
    record = account.sync_record or SyncValues(account.key)

    def problem(code: str, **more: object) -> JoinStep:
        return _step(facts, "authme", "problem", code, **more)

    if not account.is_player_known:
        is_ready = record.presence == PRESENT and record.lock_reason is None
        return _step(facts, "authme", "unknown" if is_ready else "problem", "authme_away")
    due = decide(account, policy)
    if player is None:
        if password_for_row(user, record, policy) is None:
            return problem("no_password" if user.password is None else "password_algorithm", of=_algorithm(facts))
        if not policy.may_provision:
            return problem("forum_table")
        is_coming = isinstance(due, Provision) or record.intent in (PROVISION, PASSWORD) or returns(account, policy)
        return problem("row_waiting" if is_coming else "row_removed")
    if record.is_different_row(player) and not record.is_own_insert(player):
        return problem("row_foreign")
    if player.is_locked:
        stays = due is None or isinstance(due, UpdateState)
        return problem("row_no_password" if stays else "row_waiting")
    if player.lock_group is not None and player.group == player.lock_group:
        return problem("row_group", group=player.lock_group)
    if player.known_realname not in (None, user.username):
        return problem("other_case", realname=player.known_realname)
    kind = "row_premium" if player.premium_uuid else "row_session" if player.has_session else "row"
    return _step(facts, "authme", "ok", kind)


def _algorithm(facts: JoinFacts) -> str:
    user = facts.account.user
    return (user.password_algorithm if user is not None else None) or "–"


def _allowlist(facts: JoinFacts) -> JoinStep:
    listed = facts.listed

    def problem(code: str, **more: object) -> JoinStep:
        return _step(facts, "allowlist", "problem", code, **more)

    if listed.state == "removed":
        return problem("list_removed")
    if listed.state == "conflict":
        return problem("list_doubt")
    if listed.state != "listed":
        code = _WAITING.get(listed.reason or "", "list_waiting")
        if code == "list_restart" and listed.since is not None and _was_in_game_after(facts, listed.since):
            return _step(facts, "allowlist", "ok", "listed")  # the server has been restarted
        return problem("list_no_uuid_bedrock" if listed.is_on_bedrock and code == "list_no_uuid" else code)
    if listed.entries is None:
        return _step(facts, "allowlist", "unknown", "list_unread")
    uuids = {entry.uuid for entry in listed.entries}
    if not uuids:
        return problem("list_lost")
    right = listed.joined_uuid or listed.uuid
    if right is not None and right not in uuids:
        return problem("list_uuid", right=right, uuid=min(uuids))
    return _step(facts, "allowlist", "ok", "listed")


def _other_list(facts: JoinFacts) -> JoinStep:
    """The step of a list that the game server uses and that we do not keep."""
    if facts.listed.entries is None:
        return _step(facts, "allowlist", "unknown", "list_unread")
    is_there = bool(facts.listed.entries)
    return _step(facts, "allowlist", "ok" if is_there else "problem", "listed" if is_there else "list_not_kept")


def _server(facts: JoinFacts, found: LastStatus) -> JoinStep:
    status = found.status
    if status is None:
        is_known = found.at is not None and not found.is_hidden
        return _step(
            facts, "server", "problem" if is_known else "unknown", "server_off" if is_known else "server_unknown"
        )
    is_online = any(name_key(player.name) == facts.account.key for player in status.players)
    if 0 < status.max <= status.online and not is_online:
        return _step(facts, "server", "problem", "server_full", online=status.online, max=status.max)
    return _step(facts, "server", "ok", "server_up", online=status.online, max=status.max)


_LETTERS: Final = string.ascii_lowercase + string.digits + "_"
_CONFUSED: Final = str.maketrans("0158", "olsb")
_LONGEST_COMPARED: Final = 16


@dataclass(frozen=True)
class WhyNot:
    """Answers to "why can't I join?"."""

    reconciler: Reconciler
    rules: CredentialRules
    live: LiveConfig
    gates: Gates
    sync: SyncService
    uuids: PlayerUuids
    properties: PropertiesFile

    def find_steps(self, username: str, server: LastStatus | None) -> tuple[JoinStep, ...]:
        """Return the steps for this name. `server` None: nobody knows where it is. Blocking."""
        key, name = name_key(username), clean_name(username)
        account = self._load(key)
        user = User.get_or_none(User.username_key == key)
        config, report, rules = self.live.current, self.sync.last_report, self.live.authme
        chat = config.chat
        needs_chat = bool(chat.platform) and chat.required
        lacks_chat = (
            user is not None
            and needs_chat
            and user.origin == "registered"
            and not ChatLink.select().where(ChatLink.user == user.id).exists()
        )
        listed = self._find_listed(key, name if user is None else user.username, user)
        facts = JoinFacts(
            # where accounts count, the game writes the name as Mojang does
            name if user is None or self._family != "online" else user.username,
            account,
            self.reconciler.policy,
            listed,
            server,
            name_rule=self._find_broken_rule(name) if user is None else None,
            similar=None if user is not None else _find_similar(key),
            reason=None if user is None else user.reason,
            reapply_at=(
                None if user is None else find_reapply_at(user, config.registration.reapply_after, account.now)
            ),
            lacks_chat=chat.platform if lacks_chat else None,
            is_cached=rules.is_cached or self.live.is_cached_elsewhere,
            is_shared=len(config.game_servers) > 1,
            is_held_back=None if report is None else report.held_back is not None,
            stands_still=None if report is None else self.sync.stands_still,
        )
        return find_steps(facts)

    @property
    def _family(self) -> UuidFamily | None:
        given = self.live.current.allowlist.uuids
        return self.uuids.family if given == "auto" else given

    def _load(self, key: str) -> Account:
        try:
            return self.reconciler.load(key)
        except PlayersUnavailable:
            return self.reconciler.loader.load([key], None)[0]

    def _find_broken_rule(self, name: str) -> str | None:
        bedrock = self.live.current.bedrock
        is_bedrock = bedrock.enabled and name.startswith(bedrock.prefix)
        try:
            self.rules.check_username(name, "bedrock" if is_bedrock else "java")
        except (InvalidUsername, InvalidField) as refusal:
            return str(refusal.facts.get("regex", "–"))
        return None

    def _find_listed(self, key: str, name: str, user: User | None) -> ListFacts:
        record = Allowed.get_or_none(Allowed.username_key == key)
        status = APPROVED if user is None else user.status
        stored = (None, None) if record is None else (record.state, record.reason)
        uuid, properties = None if record is None else record.uuid, self.properties.refresh()
        is_used = None if properties is None else properties.white_list
        state, directory = self.gates.listed_state(status, *stored), self.live.current.game.directory
        self.uuids.refresh()
        is_on_bedrock = user is not None and user.platform == "bedrock"
        found_joined = self.uuids.find_joined(name, self._family, is_on_bedrock=is_on_bedrock)
        joined = found_joined[1] if found_joined else None
        entries: tuple[Entry, ...] | None = None
        if directory is None and state == "listed":  # the run has seen them there, by RCON
            entries = (Entry(uuid or "", name),)
        if directory is not None and (is_used or state != "off"):
            with suppress(ServerFileError):  # which is told as unknown
                found = AllowlistFile(directory / "whitelist.json").read().entries
                entries = tuple(it for it in found if name_key(it.name) == key or it.uuid in (uuid, joined))
        since = None if record is None else record.since
        return ListFacts(state, stored[1], uuid, is_used, entries, joined, is_on_bedrock, since)


def _find_similar(key: str) -> str | None:
    """Return a user whose name differs from this one by a letter, or by letters that look alike; None if none does."""
    if not 0 < len(key) <= _LONGEST_COMPARED:
        return None
    database, wanted = User._meta.database, set(_variants(key))
    found: Mapping[str, str] = dict(
        select_rows(database, User, [User.username_key, User.username], User.username_key, wanted)
    )
    return min(found.values(), default=None)


def _variants(key: str) -> Iterator[str]:
    plain = key.translate(_CONFUSED)
    yield from {plain, plain.replace("l", "i"), plain.replace("i", "l"), key.replace("_", ""), f".{key}"} - {key}
    for place in range(len(key) + 1):
        before, after = key[:place], key[place:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in _LETTERS if letter != after[0])
            yield before + after[1:2] + after[:1] + after[2:]
        yield from (before + letter + after for letter in _LETTERS)


class OwnWhyReply(Reply, frozen=True, kw_only=True):
    """Why you cannot join the game, and what to do; `canJoin`: nothing that can be seen keeps you out."""

    can_join: bool
    why: Annotated[str, Meta(examples=["The game server is not running at the moment. Please try again later."])]


@ROUTES.add("GET", "/api/user/why", USER)
async def explain_own(call: Call, game_servers: GameServers, why_not: WhyNot) -> OwnWhyReply:
    """Tell why you cannot join the game."""
    return await explain_to_player(call, game_servers, why_not, call.require_session().username)


async def look_for_steps(call: Call, game_servers: GameServers, why_not: WhyNot, username: str) -> tuple[JoinStep, ...]:
    """Return what may keep a player out, with the status of the game server as it was last seen."""
    status, is_game_known = game_servers.main, call.config.game.is_known
    last = status.last_status()
    if is_game_known and last.at is None:
        last = await status.refresh()
    return await call.run(why_not.find_steps, username, last if is_game_known else None)


async def explain_to_player(call: Call, game_servers: GameServers, why_not: WhyNot, username: str) -> OwnWhyReply:
    """Return the answer for this user, in the caller's language."""
    answer = find_answer(await look_for_steps(call, game_servers, why_not, username))
    text = word_for_player(answer, call.translations, call.language)
    return OwnWhyReply(can_join=answer is None, why=text)


class WhyStepFields(Output, frozen=True, kw_only=True):
    """A thing that may keep the player out, what is to be said about it, and who can do something."""

    name: Annotated[str, Meta(examples=["review"])]
    verdict: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Verdict))}, examples=["problem"])]
    code: Annotated[str, Meta(description="Names the sentence; more may come.", examples=["pending"])]
    text: Annotated[str, Meta(examples=["Alice has been waiting for an operator's review: approve or reject them."])]
    helper: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Helper))}, examples=["operator"])]


class WhyReply(Reply, frozen=True, kw_only=True):
    """Why a player cannot join: `answer` is the first problem of `steps`, null if there is none."""

    answer: WhyStepFields | None
    steps: list[WhyStepFields]


@ROUTES.add("GET", "/api/admin/user/why", Permission.USERS_READ)
async def explain(call: Call, game_servers: GameServers, why_not: WhyNot, query: NameQuery) -> WhyReply:
    """Tell why a player cannot join. Also answers for names that nobody has registered."""
    translations, language = call.translations, call.language
    steps = [
        to_reply(WhyStepFields, step, text=word(step, translations, language))
        for step in await look_for_steps(call, game_servers, why_not, query.username)
    ]
    return WhyReply(answer=next((step for step in steps if step.verdict == "problem"), None), steps=steps)
