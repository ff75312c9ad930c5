"""What happens to users and in the sync, read from the audit log: whoever did it, in whatever process, stands there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from peewee import fn

from regsvc.core.clock import epoch_ms
from regsvc.database.models import AuditEntry, User
from regsvc.sync.report import SyncReport

SYNC_FINISHED: Final = "sync_finished"

NAMES: Final[Mapping[str, str]] = {
    "user.registered": "user_registered",
    "user.approved": "user_approved",
    "user.rejected": "user_rejected",
    "user.banned": "user_banned",
    "user.unbanned": "user_unbanned",
    "user.deleted": "user_deleted",
    "sync.run": SYNC_FINISHED,
}
"""The event that an audit entry of each action becomes; other entries are none."""

_NUMBERS: Final = ("scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed")
_GONE: Final = "deleted"
_PAGE: Final = 500


@dataclass(frozen=True)
class Event:
    """Something that happened. `id` is the audit entry's; None: none was left, since nothing was changed."""

    id: int | None
    name: str
    data: Mapping[str, object]

    def encode(self) -> bytes:
        """As a server-sent event."""
        number = b"" if self.id is None else b"id: %d\n" % self.id
        return number + b"event: %s\ndata: %s\n\n" % (self.name.encode(), msgspec.json.encode(self.data))


@dataclass(frozen=True)
class Tail:
    """The end of the log: its newest entry's id (0: it is empty), of whatever kind, and the events asked for."""

    newest_id: int
    events: tuple[Event, ...]


class EventLog:
    """Rules that read; each is a few statements on indexes."""

    def newest_id(self) -> int:
        """Of all entries; 0 while there is none."""
        newest: int | None = AuditEntry.select(fn.MAX(AuditEntry.id)).scalar()
        return newest or 0

    def read_tail(self, after_id: int) -> Tail:
        """All events behind this id, oldest first."""
        newest_id = self.newest_id()  # first, so that nothing up to it is left out of what follows
        events: list[Event] = []
        last_id = after_id
        while page := self._list(AuditEntry.id > last_id, AuditEntry.id, _PAGE):
            events += _events(page)
            last_id = page[-1].id
        return Tail(newest_id, tuple(events))

    def list_newest(self, after_id: int, limit: int) -> list[Event]:
        """At most so many events behind this id, oldest first; of more, the newest."""
        return _events(self._list(AuditEntry.id > after_id, AuditEntry.id.desc(), limit)[::-1])

    def _list(self, condition: Any, order: Any, limit: int) -> list[AuditEntry]:
        is_event = AuditEntry.action.in_(list(NAMES))
        return list(AuditEntry.select().where(is_event, condition).order_by(order).limit(limit))


def event_of_run(report: SyncReport) -> Event:
    """A run that left no audit entry."""
    ended_at = epoch_ms(report.started_at) + report.duration_ms
    return Event(None, SYNC_FINISHED, _sync_data(report.counts(), "sync", ended_at))


def _events(entries: Sequence[AuditEntry]) -> list[Event]:
    """`status` is the user's as it is by now, not as it was when an older event happened."""
    keys = {entry.target.lower() for entry in entries if entry.target}
    users = User.select(User.username_key, User.status).where(User.username_key.in_(keys)) if keys else ()
    statuses = {user.username_key: user.status for user in users}
    return [_event(entry, statuses) for entry in entries]


def _event(entry: AuditEntry, statuses: Mapping[str, str]) -> Event:
    at = epoch_ms(entry.created_at)
    if NAMES[entry.action] == SYNC_FINISHED:
        counts = {} if entry.detail is None else msgspec.json.decode(entry.detail)
        return Event(entry.id, SYNC_FINISHED, _sync_data(counts, entry.operator, at))
    username = entry.target or ""
    status = statuses.get(username.lower(), _GONE)
    data = {"username": username, "status": status, "at": at, "by": entry.operator}
    return Event(entry.id, NAMES[entry.action], data)


def _sync_data(counts: Mapping[str, int], by: str, at: int) -> dict[str, object]:
    return {**{name: counts.get(name, 0) for name in _NUMBERS}, "at": at, "by": by}
