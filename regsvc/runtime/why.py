"""Why a player cannot join: pure rules over facts that were loaded once.

Each step has a verdict and the key of a sentence (`[why]` in the translations), which names the cause and the remedy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from plugin_bridge.authme.players import in_milliseconds
from plugin_bridge.server.allowlist import Entry
from regsvc.core.clock import epoch_ms, is_over
from regsvc.core.i18n.translations import Translations
from regsvc.core.text import name_key
from regsvc.database.models import APPROVED, BANNED, PASSWORD, PENDING, PRESENT, PROVISION
from regsvc.runtime.game_status import LastStatus
from regsvc.sync.actions import Provision, UpdateState
from regsvc.sync.records import Account, Policy, SyncValues
from regsvc.sync.rules import decide, password_for_row, returns
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, ListedState

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
        if user.status == APPROVED:
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
