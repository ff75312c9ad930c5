"""Watch over memberships: reminders of ends to come, and who was not seen in the game for too long.

It runs with the sync, on its thread and under its lease: each user is reminded once, by whichever daemon. An end for
idleness is only noted here (`lapses_at`); the sync run carries it out, and asks the mass-change guard first.
"""

from collections.abc import Collection, Mapping, Sequence
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
from regsvc.database.bulk import select_rows
from regsvc.database.models import APPROVED, Allowed, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.records import PAGE, pages_of, rows_in_order
from regsvc.users.gates import ENDING, membership

_LOOK_EVERY: Final = timedelta(hours=1)


class _WatchedMember(NamedTuple):
    """The columns of a member that tell when they lapse."""

    id: int
    username: str
    username_key: str
    status: str
    role: str | None
    lapses_at: datetime | None
    renewed_at: datetime | None
    reviewed_at: datetime | None
    created_at: datetime


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
        idle, now = self.live.current.membership.idle, self.now()
        if idle is None:
            return
        is_whole = self._looked_at is None or abs(now - self._looked_at) >= _LOOK_EVERY
        by_idleness, horizon = User.lapse == "idle", self._notice if is_whole else timedelta()
        # `due_at` is no later, and has an index
        is_near = by_idleness & (User.lapses_at <= now + horizon) & (User.due_at <= now + horizon)
        if is_whole:  # a shorter `membership.idle` makes ends impossible that were noted before
            is_near |= User.lapses_at.is_null() | (by_idleness & (User.lapses_at > now + idle))
        is_member = (User.status == APPROVED) & User.ended_because.is_null() & User.role.is_null()
        order: tuple[Any, ...] = (User.id,) if is_whole else (User.due_at, User.id)
        query = User.select(*order, *_FIELDS).where(is_member, is_near)
        for rows in rows_in_order(query, *order):
            members = [_WatchedMember(*row[len(order) :]) for row in rows]
            page = [member for member in members if not self.team.rank_of(member)]
            seen = self._find_last_seen(page)
            if seen is None:
                self._forget_due(now)
                return
            self._note(page, seen, idle)
        if is_whole:
            self._looked_at = now

    def _forget_due(self, now: datetime) -> None:
        """Forget who is due: it is not known who plays, and no membership ends for that. They are noted again later."""
        is_due = (User.due_at <= now) & (User.lapses_at <= now) & (User.lapse == "idle") & User.ended_because.is_null()
        noted: Any = User.update(lapses_at=None, lapse=None, changed_at=User.changed_at)
        noted.where(is_due, User.status == APPROVED).execute()
        self._looked_at = None

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
        state, settings = membership(user, now), self.live.current.membership
        if state is None or state.ends_at is None or state.ends_at <= now or self.team.rank_of(user):
            return False
        if state.because == "idle" and settings.idle is None:
            return False
        times = [state.ends_at - before for before in settings.remind if state.ends_at - before <= now]
        if not times or (user.reminded_at is not None and user.reminded_at >= max(times)):
            return False
        is_as_loaded = (User.id == user.id) & (User.due_at == user.due_at)
        is_as_loaded &= User.reminded_at.is_null() if user.reminded_at is None else User.reminded_at == user.reminded_at
        # its own `changed_at`: nothing changes that a sync run would have to look at
        reminded: Any = User.update(reminded_at=to_milliseconds(now), changed_at=User.changed_at).where(is_as_loaded)
        if not reminded.execute():
            return False
        return self.mail_queue.send(user, "membership_ending", payload=state.because)

    def _note(self, users: Sequence[_WatchedMember], seen: Mapping[str, datetime], idle: timedelta) -> None:
        now = self.now()
        with self.database.atomic():
            for user in users:
                begun = max(filter(None, (user.renewed_at, user.reviewed_at, user.created_at)))
                last = max(begun, seen.get(user.username_key, begun))
                lapses_at = to_milliseconds(min(last, now) + idle)  # nobody was seen in a time to come
                if user.lapses_at is not None and user.lapses_at <= now + idle:
                    lapses_at = max(lapses_at, user.lapses_at)  # a world or table that is replaced tells less, not more
                if lapses_at == user.lapses_at:
                    continue
                is_as_loaded = (User.id == user.id) & User.ended_because.is_null()
                is_as_loaded &= User.lapses_at.is_null() if user.lapses_at is None else User.lapses_at == user.lapses_at
                noted: Any = User.update(lapses_at=lapses_at, lapse="idle", changed_at=User.changed_at)
                noted.where(is_as_loaded).execute()

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
