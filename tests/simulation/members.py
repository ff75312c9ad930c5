"""Memberships: those who renew, type, ask for and undo them, the guild whose roles keep them, and what has to be true.

As in `oracle`, truth is what people were told, and did: whoever has ended does not play unless somebody let them.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from regsvc.accounts.chat.guild_roles import Guild, RolesUnknown
from regsvc.auth.entitlement import Principal
from regsvc.core.http_response import Response
from regsvc.core.rights import EVERYTHING, Permission
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, PENDING, AuditEntry, Review, Setting, User
from regsvc.users.chat_links import ChatAccount
from regsvc.users.membership import Term
from regsvc.users.transitions import DecisionDetails
from tests.simulation.game import NAMES
from tests.simulation.oracle import OPERATOR_KEYS, Oracle, Outcome
from tests.simulation.peers import SETTINGS
from tests.simulation.people import OLIVIA_IN_CHAT, TEAM, People
from tests.simulation.world import World
from tests.support.crash.operator_rights import KURT

HOST: Final = Principal(Actor("cli:root"), EVERYTHING)
DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
SLACK: Final = timedelta(seconds=100)
"""Longer than it takes until a sync run has begun and ended."""
LATE: Final = timedelta(hours=103)
"""How much later idleness ends who could not be reminded in time: nothing runs for up to 100 hours."""
SUPPORTER: Final = "7"
OTHERS: Final = frozenset({*OPERATOR_KEYS, "rita"})
"""Those whose memberships end as their roles come and go, or never."""
_MOODS: Final = ("there", "there", "there", "401", "403", "429", "500", "silent", "empty")
_COLUMNS: Final = (
    *("status", "role", "reason", "reviewed_by", "ban_expires_at", "banned_from", "may_reapply"),
    *("member_until", "ended_because", "ended_at"),
)


def choose_settings(chance: random.Random) -> dict[str, Any]:
    """Return what this world's host wants of memberships."""
    return {
        "membership__ends": chance.choice(["", "30 days"]),
        "membership__idle": chance.choice(["", "15 days", "40 days"]),
        "membership__idle_returns": chance.choice(["login", "ask"]),
        "membership__renew": "ask",
        "membership__role_ids": [SUPPORTER],
        "registration__pause_after": chance.choice(["", "2 days"]),
        "chat__platform": "discord",
        "chat__client_id": "1",
        "chat__client_secret": "secret",
        "chat__guild_id": "9",
        "chat__bot_token": "t",
        **SETTINGS,
    }


class DiscordGuild:
    """The guild of the host, as the bot sees it: it may be away in all the ways in which it can."""

    def __init__(self, world: World) -> None:
        self.mood = "there"
        self.members: dict[str, set[str]] = {account_of(name): {SUPPORTER} for name in NAMES}
        self.lost_at: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        """The times in which each account had no role, of which the last may go on."""
        self._world = world

    def change(self, account: str, chance: random.Random) -> None:
        """Give a role, or take it, or let the account leave."""
        now = self._world.clock()
        if self.members.get(account):
            self.lost_at[account].append((now, None))
            if chance.random() < 0.5:
                self.members[account] = set()
            else:
                del self.members[account]
        else:
            self.members[account] = {SUPPORTER}
            since, _until = self.lost_at[account].pop()
            self.lost_at[account].append((since, now))

    def has_lost(self, account: str, since: datetime) -> bool:
        """Return whether the account was without a role for ten minutes, after this moment."""
        now = self._world.clock()
        times = [(max(begin, since), end or now) for begin, end in self.lost_at[account]]
        return any(end - begin >= timedelta(minutes=10) for begin, end in times)

    async def answer(self, guild: Guild, method: str, path: str) -> Response:
        """Answer a request of the product."""
        if self.mood == "silent":
            raise RolesUnknown("Discord: it took too long")
        if self.mood in ("401", "403", "429", "500"):
            return _respond(int(self.mood), {"code": 0}, {"Retry-After": "30"} if self.mood == "429" else {})
        if "/members/" in path:
            account = path.rpartition("/")[2]
            if account not in self.members:
                return _respond(404, {"code": 10007})
            return _respond(200, {"user": {"id": account}, "roles": sorted(self.members[account])})
        count = 1 if self.mood == "empty" else 1 + len(self.members)
        return _respond(200, {"roles": [{"id": SUPPORTER}], "approximate_member_count": count})


def _respond(status: int, fields: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, headers or {}, json.dumps(fields).encode())


def account_of(name: str) -> str:
    return str(1000 + NAMES.index(name))


@dataclass
class Member:
    """What is known of one name's membership.

    `renewed`, `perhaps`: by actor, how often it was surely, and perhaps, set or renewed since the last look. `seen_at`:
    when they were last surely in the game, while their row is the same; `begun_at`: when it last surely began;
    `begun_before`: the same, as of the last look.
    """

    user_id: int | None = None
    has_ended: bool = False
    renewed: Counter[str] = field(default_factory=Counter)
    perhaps: Counter[str] = field(default_factory=Counter)
    expected: tuple[datetime | None, datetime | None] | None = None
    is_typed: bool = False
    may_return: bool = False
    seen_at: datetime | None = None
    begun_at: datetime | None = None
    begun_before: datetime | None = None
    lasts_at_least_to: datetime | None = None
    """Latest moment at which they may have been seen: nobody is surely idle before that and `membership.idle`."""


class Members:
    """Those who change memberships, and the oracle about them."""

    def __init__(self, world: World, oracle: Oracle, people: People) -> None:
        self.world = world
        self.oracle = oracle
        self.people = people
        self.chance = world.chance
        self.guild = DiscordGuild(world)
        world.guild = self.guild
        self.known: dict[str, Member] = defaultdict(Member)
        self._pauses = Counter[str]()
        self._reminders: dict[int, list[datetime]] = defaultdict(list)

    @property
    def settings(self) -> Any:
        return self.world.app.live.given.membership

    # --- what people do ---

    async def set_membership(self) -> None:
        """Let the team, or the command line, say how long somebody may play."""
        by, name, app = self.chance.choice([*TEAM, "cli:root"]), self.chance.choice(NAMES), self.world.app
        length = timedelta(days=self.chance.choice([1, 3, 8, 30]), hours=self.chance.randint(0, 23))
        term = self.chance.choice([Term(duration=length), Term(until=self.world.clock() + length), Term()])

        async def work() -> Any:
            principal = await self._find_principal(by, Permission.USERS_REVIEW)
            return await app.worker.run(app.membership_changes.set, name, term, principal)

        end = self.begin_change(name, by, term)
        end((await self.people.attempt(f"{by}: {name} stays {term.duration or term.until}", work()))[0])
        app.mail_queue.wake_all()

    async def _find_principal(self, by: str, permission: Permission) -> Principal:
        return HOST if by == HOST.actor.name else await self.people.find_principal(by, permission)

    async def ask_to_stay(self) -> None:
        """Ask to stay, and let Olivia decline it, perhaps."""
        name, app = self.chance.choice(NAMES), self.world.app
        told, _none = await self.people.attempt(
            f"{name} asks to stay", app.worker.run(app.membership_changes.ask_to_stay, name, "please")
        )
        if told == "done" and self.chance.random() < 0.5:

            async def work() -> Any:
                by = await self.people.find_principal("Olivia", Permission.USERS_REVIEW)
                return await app.worker.run(app.membership_changes.decline, name, by)

            await self.people.attempt(f"Olivia declines that {name} stays", work())

    async def type_membership(self) -> None:
        """Type an end, or that there is none, in SQL."""
        name, ours, now = self.chance.choice(NAMES), self.world.services.ours, self.world.clock()
        self.known[name.lower()].is_typed = True
        column, value = self.chance.choice(
            [
                ("member_until", (now + DAY * self.chance.randint(-2, 20)).strftime("%Y-%m-%d %H:%M:%S.000")),
                ("member_until", None),
                ("ended_because", None),
                ("ended_because", "date"),
            ]
        )
        self.world.trace.note(f"SQL: {name}'s {column} is {value}")
        sql = f"UPDATE regsvc_user SET {column} = ? WHERE username_key = ? AND status = 'approved'"
        ours.execute(sql, (value, name.lower()))

    async def link_chat(self) -> None:
        """Link the account on Discord."""
        name, app = self.chance.choice(NAMES), self.world.app
        number = self.chance.getrandbits(60)

        def link() -> None:
            user = self.world.services.find_user(name)
            if user is not None:
                with app.context.location.database.atomic():
                    account = ChatAccount("discord", account_of(name), name.lower())
                    app.chat_links.link(account, f"token {number}", user, Actor(name))

        await self.people.attempt(f"{name} links an account", app.worker.run(link))

    async def change_guild(self) -> None:
        """Let somebody get or lose their role, or the guild be away, or come back."""
        if self.chance.random() < 0.3:
            self.guild.mood = self.chance.choice(_MOODS)
            self.world.trace.note(f"the guild is {self.guild.mood}")
            return
        name = self.chance.choice(NAMES)
        self.guild.change(account_of(name), self.chance)
        self.world.trace.note(f"{name}'s roles: {self.guild.members.get(account_of(name))}")

    async def look_at_own(self) -> None:
        """Open the own page, where roles are looked at."""
        name, app = self.chance.choice(NAMES), self.world.app
        user = self.world.services.find_user(name)
        if user is not None:
            await self.people.attempt(f"{name} looks", app.guild_roles.look_at_own(user.id))

    async def decide_and_undo(self) -> None:
        """Let Kurt decide about somebody, and the host undo it, after a while: they have what they had before."""
        name = self.chance.choice(NAMES)
        key, since = name.lower(), self.world.clock()
        before, last = self._snapshot(key), self._newest_entry()
        if before is None:
            return
        if before["status"] == APPROVED and self.chance.random() < 0.5:
            term = Term(duration=DAY * self.chance.randint(1, 9))
            done, _why = await self._decide_as_kurt(name, "membership", term)
        else:
            done, _why = await self._decide_as_kurt(name, self.chance.choice(["ban", "approve", "reject", "unban"]))
        await asyncio.sleep(self.chance.choice([0.1, 3, 40]))
        outcome, _none = await self.undo(KURT.username, since)
        if done == outcome == "done":
            self._check_undone(name, before, last)
        else:
            self.oracle.known[key].possible.add(before["status"])

    async def _decide_as_kurt(self, name: str, what: str, term: Term | None = None) -> tuple[Outcome, Any]:
        app = self.world.app
        work: Any = partial(app.decisions.decide, name, what, KURT, DecisionDetails())
        end = self.oracle.begin_decision(name, what, KURT.username) if term is None else None
        if term is not None:
            work, end = partial(app.membership_changes.set, name, term, KURT), self.begin_change(name, "Kurt", term)
        told = await self.people.attempt(f"Kurt: {what} {name}", app.worker.run(work))
        assert end is not None
        end(told[0])
        return told

    async def undo_days(self) -> None:
        """Let the host undo what somebody decided in the last days."""
        hours = self.chance.choice([1, 30, 300])
        await self.undo(self.chance.choice(["Rita", KURT.username]), self.world.clock() - timedelta(hours=hours))

    async def undo(self, of: str, since: datetime) -> tuple[Outcome, Any]:
        """Undo what this member of the team decided."""
        app = self.world.app

        def work() -> None:
            span = app.undo.find_span(of, since, None, HOST)
            names = app.undo.find_names(span)
            outcomes, _has_followed = app.undo.run(span, names, HOST)
            app.undo.finish(span, outcomes, HOST)

        end = self._begin_undo(since)
        told = await self.people.attempt(f"the host undoes what {of} decided", app.worker.run(work))
        end(told[0])
        return told

    async def change_registration(self) -> None:
        """Let Olivia open or close registration."""
        app, is_open = self.world.app, self.chance.random() < 0.8

        async def work() -> Any:
            by = await self.people.find_principal("Olivia", Permission.SETTINGS_WRITE)
            return await app.worker.run(app.settings.set_registration, is_open, None, by.actor)

        await self.people.attempt(f"Olivia: registration is {'open' if is_open else 'closed'}", work())

    # --- what was told ---

    def begin_change(self, name: str, by: str, term: Term) -> Callable[[Outcome], None]:
        member, began = self.known[name.lower()], self.world.clock()
        member.perhaps[by] += 1
        user = self.world.services.find_user(name)
        before = user.member_until if user is not None and user.ended_because is None else None

        def end(outcome: Outcome) -> None:
            member.perhaps[by] -= outcome != "unknown"
            if outcome != "done":
                member.expected = (None, None) if outcome == "unknown" else member.expected
                return
            member.renewed[by] += 1
            first = term.find_end(began - DAY * 400) if term.until else term.find_end(began, before)
            last = term.find_end(began - DAY * 400) if term.until else term.find_end(self.world.clock(), before)
            member.expected = (first, last) if sum(member.renewed.values()) == 1 else (None, None)
            member.begun_at = began

        return self.oracle.begin(end)

    def note_login(self, name: str) -> None:
        """A login on the web, which may end idleness."""
        self.known[name.lower()].may_return = True

    def note_seen(self, name: str) -> None:
        """They are surely in the game."""
        member = self.known[name.lower()]
        member.seen_at = member.lasts_at_least_to = self.world.clock()

    def note_gone(self, name: str) -> None:
        """Their row, which says when they were seen, is gone."""
        self.known[name.lower()].seen_at = None

    def _begin_undo(self, since: datetime) -> Callable[[Outcome], None]:
        """Begin to undo: it may give each of these users what they had before any decision."""
        before: dict[str, set[str]] = defaultdict(set)
        for review in Review.select().where(Review.reviewed_at >= since - DAY * 30):
            before[review.username_key].add(str(review.status_before))

        def end(outcome: Outcome) -> None:
            if outcome == "refused":
                return
            for key, statuses in before.items():
                known, member = self.oracle.known[key], self.known[key]
                known.possible |= statuses | {known.status, known.banned_from} | {PENDING, APPROVED, "rejected"}
                known.events += 2
                member.perhaps["undo"] += 1
                member.seen_at = member.begun_at = None

        return self.oracle.begin(end)

    # --- what is true at every moment ---

    def look_into_game(self) -> None:
        """Note who is in the game now."""
        for key in self.world.bukkit.online:
            self.known[key].lasts_at_least_to = self.world.clock()

    def check(self) -> None:
        """Each end has its cause, and each that goes on somebody who said so."""
        now = self.world.clock()
        users = self.oracle.users
        entries: dict[str, list[Any]] = defaultdict(list)
        for entry in self.oracle.entries:
            if str(entry.action).startswith("membership.") or entry.action in ("user.approved", "user.undone"):
                entries[str(entry.target).lower()].append(entry)
            self._pauses["begun"] += entry.action == "settings.changed" and _pauses(entry)
        for mail in self.oracle.messages:
            if mail.template == "membership_ending":
                self._reminders[int(mail.user_id or 0)].append(mail.created_at)
            self._pauses["told"] += mail.template == "registration_paused"
        for key in sorted({*self.known, *users}):
            member, user = self.known[key], users.get(key)
            self._check_name(key, member, user, entries[key], now)
            if user is None or user.id != member.user_id:
                self.known[key] = member = Member(lasts_at_least_to=member.lasts_at_least_to)
            member.user_id = None if user is None else int(user.id)
            member.has_ended = user is not None and user.status == APPROVED and user.ended_because is not None
            member.renewed, member.perhaps, member.expected = Counter(), Counter(), None
            member.may_return, member.begun_before = False, member.begun_at

    def _check_name(self, key: str, member: Member, user: User | None, entries: list[Any], now: datetime) -> None:
        renewals = Counter(str(it.operator) for it in entries if it.action in ("membership.set", "membership.renewed"))
        for by in {*renewals, *member.renewed}:
            least, most = member.renewed[by], member.renewed[by] + member.perhaps[by]
            if by in ("sync", "sql", "game") or by.lower() == key:
                edited = {"sql": member.is_typed, "game": self.oracle.known[key].is_added, "sync": True}
                is_allowed = edited.get(by, member.may_return)
                assert is_allowed, f"{key}: renewed by {by}, who did nothing for it"
            else:
                assert least <= renewals[by] <= most, f"{by} renewed {key} {renewals[by]} times, told {least} to {most}"
        if user is None or user.status != APPROVED:
            return
        self._check_end(key, member, user, entries, now)
        is_same = user.id == member.user_id
        if is_same and member.has_ended and user.ended_because is None:
            assert entries or member.is_typed or member.perhaps["undo"], f"{key} had ended, and nobody renewed it"
        if member.expected and member.expected != (None, None) and not member.is_typed and len(entries) == 1:
            first, last = member.expected
            assert user.ended_because is None, f"{key} was renewed, and has ended"
            at = user.member_until
            is_right = (at is None) if first is None or last is None else at is not None and first <= at <= last
            assert is_right or member.perhaps["undo"], f"{key} ends {at}, not {first} to {last}"
        reminders = [at for at in self._reminders[user.id] if at >= (user.renewed_at or at)]
        end = _end_of(user)
        if end is not None and user.ended_because is None and not member.perhaps["undo"]:
            for before, most in ((DAY * 7, 2), (DAY, 1)):
                told = sum(at >= end - before for at in reminders)
                assert told <= most, f"{key} was reminded {told} times within {before} of {end}"

    def _check_end(self, key: str, member: Member, user: User, entries: list[Any], now: datetime) -> None:
        begun_at = member.begun_before
        for entry in entries:
            if entry.action in ("membership.set", "membership.renewed", "user.undone"):
                begun_at = member.begun_at  # what ended before that began earlier
            if entry.action != "membership.ended" or entry.operator != "sync":
                continue
            because, settings = json.loads(entry.detail or "{}").get("because"), self.settings
            assert key not in OPERATOR_KEYS, f"{key}, an operator, was ended"
            if key == "rita":  # who has a role at times
                continue
            last = entry is entries[-1] and user.ended_because == because
            if because == "date" and last and not member.is_typed:
                is_past = user.member_until is not None and user.member_until <= now
                assert is_past, f"{key}: ended before its date"
            elif because == "idle":
                assert settings.idle, f"{key}: ended for idleness, which ends nobody"
                since = max((at for at in (member.seen_at, begun_at) if at is not None), default=None)
                assert since is None or since + settings.idle <= now, f"{key}: was seen {since}, and ended as idle"
            elif because == "role":
                begun = begun_at or datetime.min.replace(tzinfo=now.tzinfo)
                assert self.guild.has_lost(account_of(user.username), begun), f"{key} has a role, and was ended for it"

    # --- what is true once nothing is left to do ---

    def check_settled(self, rows: Mapping[str, Any]) -> None:
        """Who is to have ended has; who ends soon was reminded; registration is paused if it is to be."""
        now, settings = self.world.clock(), self.settings
        for user in self.oracle.users.values():
            key, member = user.username_key, self.known[user.username_key]
            member.is_typed = False
            if user.status != APPROVED or key in OTHERS or user.ended_because is not None:
                continue
            end = _end_of(user)
            assert end is None or end > now - SLACK, f"{key} was to end {end}, and plays on"
            row = rows.get(key)
            if row is not None and row["isLogged"]:
                member.lasts_at_least_to = now
            if settings.idle:
                times = [user.renewed_at, user.reviewed_at, user.created_at, member.lasts_at_least_to]
                times += (
                    [datetime.fromtimestamp(row["lastlogin"] / 1000, now.tzinfo)] if row and row["lastlogin"] else []
                )
                last = max(at for at in times if at is not None)
                assert last + settings.idle + LATE > now, f"{key} is idle since {last}, and plays on"
            if end is not None and user.is_email_verified and user.lapse != "role":
                self._check_reminder(user, end, now)
        self._check_pause(now)

    def _check_reminder(self, user: User, end: datetime, now: datetime) -> None:
        begun = max(at for at in (user.renewed_at, user.reviewed_at, user.created_at) if at is not None)
        for before in (7 * DAY, DAY):
            if begun < end - before and end - before + SLACK <= now < end - SLACK:
                is_told = any(at >= end - before for at in self._reminders[user.id])
                told_at = self._reminders[user.id]
                assert is_told, f"{user.username} ends {end}, and was not reminded: {told_at}"

    def _check_pause(self, now: datetime) -> None:
        live = self.world.app.live
        after = live.given.registration.pause_after
        if after is None:
            return
        waiting = [user.answered_at or user.created_at for user in self.oracle.users.values() if user.status == PENDING]
        of_team = Review.operator.in_([*TEAM, OLIVIA_IN_CHAT, HOST.actor.name])
        decided = self._newest_review(of_team)
        if not waiting or (decided is not None and decided > now - after):
            assert not live.is_paused, f"registration is paused, though {decided} somebody decided"
        changed = Setting.get_or_none(Setting.name == "registration")
        last = max((at for at in (self._newest_review(True), changed and changed.changed_at) if at), default=None)
        stands_still = waiting and min(waiting) < now - after - SLACK and (last is None or last < now - after - SLACK)
        assert not (stands_still and live.current.registration.open), f"since {min(waiting)} somebody waits"
        assert self._pauses["begun"] == self._pauses["told"], f"of each pause the team is told once: {self._pauses}"

    # --- reading ---

    def _newest_review(self, condition: Any) -> datetime | None:
        row = Review.select().where(condition).order_by(Review.id.desc()).first()
        return None if row is None else row.reviewed_at

    def _check_undone(self, name: str, before: Mapping[str, Any], last: int) -> None:
        """If nobody else touched the user meanwhile, they have what they had, but for what time has ended."""
        entries = list(AuditEntry.select().where(AuditEntry.id > last, AuditEntry.target.in_([name, name.lower()])))
        others = [it for it in entries if it.operator not in (KURT.username, HOST.actor.name)]
        after = self._snapshot(name.lower())
        undone = [it for it in entries if it.action in ("user.undone", "user.approved", "user.rejected")]
        undone += [it for it in entries if it.action in ("user.banned", "user.unbanned", "user.reopened")]
        is_by_host = any(it.operator == HOST.actor.name for it in undone)
        if others or after is None or not is_by_host or self.known[name.lower()].is_typed:
            return
        if self.oracle.known[name.lower()].edited:
            return
        assert after == before, f"{name} had {before}, and has {after} once it is undone"
        self.world.trace.note(f"{name} has what they had before")

    def _snapshot(self, key: str) -> dict[str, Any] | None:
        user = User.get_or_none(User.username_key == key)
        return None if user is None else {name: getattr(user, name) for name in _COLUMNS}

    def _newest_entry(self) -> int:
        row = AuditEntry.select(AuditEntry.id).order_by(AuditEntry.id.desc()).first()
        return 0 if row is None else int(row.id)


def _pauses(entry: AuditEntry) -> bool:
    return entry.operator not in TEAM and json.loads(entry.detail or "{}").get("open") is False


def _end_of(user: User) -> datetime | None:
    return min((at for at in (user.member_until, user.lapses_at) if at is not None), default=None)
