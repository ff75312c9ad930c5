"""Events of users and the sync, read from the audit log, which holds them whatever process caused them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from peewee import fn

from regsvc.core.clock import epoch_ms
from regsvc.database.models import AuditEntry, User
from regsvc.sync.report import COUNTS, SyncReport

PREAMBLE: Final = b"retry: 3000\n\n"
HEARTBEAT: Final = b": still here\n\n"


def encode_event(name: str, data: Any, number: int | None = None) -> bytes:
    """Encode an event with its data as JSON; `number` is what a client that reconnects says it received last."""
    prefix = b"" if number is None else b"id: %d\n" % number
    return prefix + b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


SYNC_FINISHED: Final = "sync_finished"

EVENT_NAMES: Final[Mapping[str, str]] = {
    "user.registered": "user_registered",
    "user.approved": "user_approved",
    "user.rejected": "user_rejected",
    "user.banned": "user_banned",
    "user.unbanned": "user_unbanned",
    "user.reopened": "user_reopened",
    "user.deleted": "user_deleted",
    "user.answers_changed": "user_answers_changed",
    "user.note_added": "user_note_added",
    "user.asked": "user_asked",
    "user.question_answered": "user_question_answered",
    "user.answer_judged": "user_answer_judged",
    "sync.run": SYNC_FINISHED,
    "allowlist.run": SYNC_FINISHED,
}
"""Audit action → event name. Other actions are not events."""

_DELETED: Final = "deleted"
_PAGE: Final = 500


@dataclass(frozen=True)
class Event:
    """One event. `id` is the audit entry's, None for a sync run that changed nothing and left no entry."""

    id: int | None
    name: str
    data: Mapping[str, object]

    def encode(self) -> bytes:
        """Encode as a server-sent event."""
        return encode_event(self.name, self.data, self.id)


def newest_id() -> int:
    """Return the id of the log's newest entry of any action; 0 if it is empty. Blocking."""
    newest: int | None = AuditEntry.select(fn.MAX(AuditEntry.id)).scalar()
    return newest or 0


def read_tail(after_id: int) -> tuple[int, list[Event]]:
    """Return the id of the newest entry of any action, and all events after `after_id`, oldest first. Blocking."""
    newest = newest_id()  # read first, so that the events below include everything up to it
    events: list[Event] = []
    last_id = after_id
    while page := _list(AuditEntry.id > last_id, AuditEntry.id, _PAGE):
        events += _events(page)
        last_id = page[-1].id
    return newest, events


def list_newest(after_id: int, limit: int) -> list[Event]:
    """Return the newest `limit` events after this id, oldest first. Blocking."""
    return _events(_list(AuditEntry.id > after_id, AuditEntry.id.desc(), limit)[::-1])


def _list(condition: Any, order: Any, limit: int) -> list[AuditEntry]:
    is_event = AuditEntry.action.in_(list(EVENT_NAMES))
    return list(AuditEntry.select().where(is_event, condition).order_by(order).limit(limit))


def event_from_run(report: SyncReport) -> Event:
    """Return the event of a run that left no audit entry."""
    ended_at = epoch_ms(report.started_at) + report.duration_ms
    return Event(None, SYNC_FINISHED, _sync_data(report.counts(), "sync", ended_at))


def _events(entries: Sequence[AuditEntry]) -> list[Event]:
    """Convert entries. `status` is the user's current one, not the one at the time of the event."""
    keys = {entry.target.lower() for entry in entries if entry.target}
    users = User.select(User.username_key, User.status).where(User.username_key.in_(keys)) if keys else ()
    statuses = {user.username_key: user.status for user in users}
    return [_event(entry, statuses) for entry in entries]


def _event(entry: AuditEntry, statuses: Mapping[str, str]) -> Event:
    at = epoch_ms(entry.created_at)
    if EVENT_NAMES[entry.action] == SYNC_FINISHED:
        counts = {} if entry.detail is None else msgspec.json.decode(entry.detail)
        return Event(entry.id, SYNC_FINISHED, _sync_data(counts, entry.operator, at))
    username = entry.target or ""
    status = statuses.get(username.lower(), _DELETED)
    data = {"username": username, "status": status, "at": at, "by": entry.operator}
    return Event(entry.id, EVENT_NAMES[entry.action], data)


def _sync_data(counts: Mapping[str, int], by: str, at: int) -> dict[str, object]:
    return {**{name: counts.get(name, 0) for name in COUNTS}, "at": at, "by": by}
