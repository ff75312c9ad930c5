"""Watch over memberships: reminders of ends to come, and who was not seen in the game for too long.

It runs with the sync, on its thread and under its lease: each user is reminded once, by whichever daemon. An end for
idleness is only noted here (`lapses_at`); the sync run carries it out, and asks the mass-change guard first.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from peewee import Database

from plugin_bridge.authme.players import Players, PlayersUnavailable, in_milliseconds
from plugin_bridge.server.files import PropertiesFile, find_last_saves
from regsvc.config.live import LiveConfig
from regsvc.core.clock import Clock, epoch_ms, from_epoch_ms, to_milliseconds
from regsvc.core.rights import Team
from regsvc.database.bulk import select_rows, update_rows
from regsvc.database.models import ENDED, IS_MEMBER, Allowed, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.records import PAGE, pages_of, rows_in_order
from regsvc.users.gates import ENDING, EndCause, membership

_LOOK_EVERY: Final = timedelta(hours=1)


class _WatchedMember(NamedTuple):
    """The columns of a member that tell when they lapse."""

    id: int
    username: str
    username_key: str
    status: str
    role: str | None
    lapses_at: datetime | None
    reminded_at: datetime | None
    renewed_at: datetime | None
    reviewed_at: datetime | None
    created_at: datetime


_Change = tuple[_WatchedMember, datetime | None]
"""A member, and when they lapse; None: it is not known."""

_FIELDS: Final = tuple(getattr(User, name) for name in _WatchedMember._fields)


@dataclass
class MembershipWatch:
    """Watch over memberships. Blocking: for the sync's thread. Hosts without ends cost no statement."""

    database: Database
    players: Players
    properties: PropertiesFile
    directory: Path | None
    """The game server's folder; None: it is unknown."""
    mail_queue: MailQueue
    team: Team
    live: LiveConfig
    now: Clock
    _looked_at: datetime | None = field(default=None, init=False)

    def look(self) -> None:
        """Note who lapses because they were not seen in the game; those who are due are looked at before each run."""
        self._looked_at = self._look(self._note)

    def foresee(self) -> dict[str, datetime | None]:
        """Return when members lapse for whom `look` would note another moment, by name, without noting it."""
        found = dict[str, datetime | None]()
        self._look(lambda changes: found.update((member.username_key, at) for member, at in changes))
        return found

    def _look(self, note: Callable[[Sequence[_Change]], object]) -> datetime | None:
        """Pass on changes, page by page. Returns when all members were last looked at; None: nothing tells who plays.

        Then it is forgotten who is due: no membership ends for that, and they are noted again later.
        """
        idle, now = self.live.current.membership.idle, self.now()
        if idle is None:
            return None
        is_whole = self._looked_at is None or abs(now - self._looked_at) >= _LOOK_EVERY
        for members in self._list_members(is_whole=is_whole, idle=idle):
            seen = self._find_last_seen(members)
            if seen is None:
                for due in self._list_members(is_whole=False, idle=idle):
                    note([(member, None) for member in due])
                return None
            changes = [(member, self._find_lapse(member, seen, idle)) for member in members]
            note([(member, at) for member, at in changes if at != member.lapses_at])
        return now if is_whole else self._looked_at

    def _list_members(self, *, is_whole: bool, idle: timedelta) -> Iterator[list[_WatchedMember]]:
        """Yield the members who are due; if `is_whole`, also those who are soon, and of whom nothing is noted."""
        now, by_idleness = self.now(), User.lapse == "idle"
        horizon = self._notice if is_whole else timedelta()
        # `due_at` is no later, and has an index
        is_near = by_idleness & (User.lapses_at <= now + horizon) & (User.due_at <= now + horizon)
        if is_whole:  # a shorter `membership.idle` makes ends impossible that were noted before
            is_near |= User.lapses_at.is_null() | (by_idleness & (User.lapses_at > now + idle))
        is_member = IS_MEMBER & User.role.is_null()
        order: tuple[Any, ...] = (User.id,) if is_whole else (User.due_at, User.id)
        query = User.select(*order, *_FIELDS).where(is_member, is_near)
        for rows in rows_in_order(query, *order):
            members = [_WatchedMember(*row[len(order) :]) for row in rows]
            yield [member for member in members if not self.team.rank_of(member)]

    def remind(self, ids: Collection[int]) -> int:
        """Remind these users, whose membership ends within `membership.remind`, once for each of its times.

        Returns how many were reminded.
        """
        now, count = self.now(), 0
        for page in pages_of(sorted(ids), PAGE):
            with self.database.atomic():
                for user in User.select().where(User.id.in_(page)):
                    count += self._remind(user, now)
        return count

    @property
    def _notice(self) -> timedelta:
        return max((ENDING, *self.live.current.membership.remind))

    def _remind(self, user: User, now: datetime) -> bool:
        state = membership(user, now)
        if state is None or state.because is None or state.ends_at is None or state.ends_at <= now:
            return False
        if self.team.rank_of(user) or (state.because == "idle" and self.live.current.membership.idle is None):
            return False
        times = [state.ends_at - before for before in self._reminders(state.because) if state.ends_at - before <= now]
        if not times or (user.reminded_at is not None and user.reminded_at >= max(times)):
            return False
        is_as_loaded = (User.id == user.id) & (User.due_at == user.due_at)
        is_as_loaded &= User.reminded_at.is_null() if user.reminded_at is None else User.reminded_at == user.reminded_at
        # its own `changed_at`: nothing changes that a sync run would have to look at
        reminded: Any = User.update(reminded_at=to_milliseconds(now), changed_at=User.changed_at).where(is_as_loaded)
        if not reminded.execute():
            return False
        return self.mail_queue.send(user, "membership_ending", payload=state.because)

    def _find_lapse(self, user: _WatchedMember, seen: Mapping[str, datetime], idle: timedelta) -> datetime:
        """Return when the member lapses: no sooner than they can be reminded of it."""
        now = self.now()
        begun = max(filter(None, (user.renewed_at, user.reviewed_at, user.created_at)))
        last = max(begun, seen.get(user.username_key, begun))
        lapses_at = to_milliseconds(min(last, now) + idle)  # nobody was seen in a time to come
        if user.lapses_at is not None and user.lapses_at <= now + idle:
            lapses_at = max(lapses_at, user.lapses_at)  # a world or table that is replaced tells less, not more
        notice = max(self._reminders("idle"), default=timedelta())
        if user.reminded_at is None or user.reminded_at < lapses_at - notice:
            lapses_at = max(lapses_at, to_milliseconds(now + notice))
        return lapses_at

    def _reminders(self, because: EndCause) -> list[timedelta]:
        """Return how long before an end users are reminded: of idleness not as soon as they have played."""
        settings = self.live.current.membership
        idle = settings.idle if because == "idle" else None
        return [before for before in settings.remind if idle is None or before < idle]

    def _note(self, changes: Sequence[_Change]) -> None:
        if not changes:
            return
        with self.database.atomic():
            fields = User.id, User.lapses_at, User.ended_because, User.changed_at
            ids = [member.id for member, _at in changes]
            found = {row[0]: row[1:] for row in select_rows(self.database, User, fields, User.id, ids, for_update=True)}
            rows = list[dict[str, Any]]()
            for member, at in changes:
                lapses_at, ended_because, changed_at = found.get(member.id, (None, ENDED, None))
                if lapses_at == member.lapses_at and ended_because is None:  # as loaded
                    lapse = None if at is None else "idle"
                    rows.append({"id": member.id, "lapses_at": at, "lapse": lapse, "changed_at": changed_at})
            update_rows(self.database, User, rows)

    def _find_last_seen(self, users: Sequence[_WatchedMember]) -> Mapping[str, datetime] | None:
        """Return when these users were last in the game, by name; None where nothing can tell now."""
        keys, now = [user.username_key for user in users], self.now()
        if self.players.is_enabled:
            try:
                rows = self.players.find_many(keys)
            except PlayersUnavailable:
                return None
            logins = {key: in_milliseconds(row.last_login) or 0 for key, row in rows.items()}
            online = {key for key, row in rows.items() if row.is_logged}
            # the column may hold any number
            seen = {key: from_epoch_ms(min(at, epoch_ms(now))) for key, at in logins.items() if at > 0}
            return seen | dict.fromkeys(online, now)
        properties = self.properties.current
        if self.directory is None or properties is None:
            return None
        uuids: dict[str, str] = dict(
            select_rows(self.database, Allowed, (Allowed.username_key, Allowed.uuid), Allowed.username_key, keys)
        )
        saves = find_last_saves(self.directory / properties.level_name, [uuid for uuid in uuids.values() if uuid])
        if saves is None:
            return None
        return {key: saves[uuid] for key, uuid in uuids.items() if uuid in saves}
