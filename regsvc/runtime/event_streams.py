"""Live event streams for admins: each client receives new events for as long as its session is valid.

While at least one client listens, the audit log is polled every two seconds, and at once after a change made in this
process. Polling the log means that changes by another process, by the sync or by hand-typed SQL are not missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta
from peewee import fn

from regsvc.core import errors
from regsvc.core.addresses import VerifiedSession
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import Refusal, TooManyStreams
from regsvc.core.rights import Permission
from regsvc.core.shapes import EpochMilliseconds, Moment, Output, Username, encode_output, to_datetime
from regsvc.database.audit import ACTIONS, DECISIONS, Audit, AuditRecord
from regsvc.database.engine import Worker
from regsvc.database.models import AuditEntry, User
from regsvc.http.live_streams import EVENT_STREAM, LiveStream, LiveStreams, send_events
from regsvc.http.messages import PageNumber, PageSize, Pagination, Reply, Request, make_pagination, to_reply
from regsvc.http.route import Routes
from regsvc.sync.report import COUNTS, SyncReport

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

PREAMBLE: Final = b"retry: 3000\n\n"

HEARTBEAT: Final = b": still here\n\n"


def encode_event(name: str, data: Any, number: int | None = None) -> bytes:
    """Encode an event with its data as JSON; `number` is what a client that reconnects says it received last."""
    prefix = b"" if number is None else b"id: %d\n" % number
    return prefix + b"event: %s\ndata: %s\n\n" % (name.encode(), encode_output(data))


SYNC_FINISHED: Final = "sync_finished"

EVENT_NAMES: Final[Mapping[str, str]] = {
    "user.registered": "user_registered",
    "user.approved": "user_approved",
    "user.rejected": "user_rejected",
    "user.banned": "user_banned",
    "user.unbanned": "user_unbanned",
    "user.reopened": "user_reopened",
    "user.deleted": "user_deleted",
    "user.undone": "user_undone",
    "user.answers_changed": "user_answers_changed",
    "user.note_added": "user_note_added",
    "user.asked": "user_asked",
    "user.question_answered": "user_question_answered",
    "user.answer_judged": "user_answer_judged",
    **{f"membership.{it}": "user_membership_changed" for it in ("set", "ended", "renewed", "asked", "declined")},
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


class AuditsQuery(Request, frozen=True, kw_only=True):
    """A filter of audit entries."""

    page: PageNumber = 1
    size: PageSize = 20
    action: (
        Annotated[
            str,
            Meta(
                extra_json_schema={"enum": ["decisions", *ACTIONS]},
                description="The action; `decisions` for those that change the status of a user.",
                examples=["user.approved"],
            ),
        ]
        | None
    ) = None
    operator: Annotated[Username, Meta(description="The user who acted.", examples=["Olivia"])] | None = None
    target: Annotated[Username, Meta(description="The user who was affected.", examples=["Alice"])] | None = None
    since: EpochMilliseconds | None = msgspec.field(default=None, name="from")
    until: EpochMilliseconds | None = msgspec.field(default=None, name="to")

    @property
    def since_at(self) -> datetime | None:
        return to_datetime(self.since)

    @property
    def until_at(self) -> datetime | None:
        return to_datetime(self.until)


class AuditFields(Output, frozen=True, kw_only=True):
    """An action by `operator` on `target`. `operator` is empty if unknown."""

    id: Annotated[int, Meta(examples=[1])]
    action: Annotated[str, Meta(examples=["user.approved"])]
    operator: Annotated[str, Meta(examples=["Olivia"])]
    target: Username | None
    detail: dict[str, Any] | None
    ip: Annotated[str, Meta(examples=["192.0.2.1"])] | None
    timestamp: Moment


class AuditsReply(Reply, frozen=True, kw_only=True):
    """A page of audit entries, newest first."""

    audits: list[AuditFields]
    pagination: Pagination


@ROUTES.add("GET", "/api/admin/audits", Permission.AUDIT_READ)
async def list_audits(call: Call, audit: Audit, query: AuditsQuery) -> AuditsReply:
    """Read the audit log, newest first."""
    if query.action not in {None, "decisions", *ACTIONS}:
        raise errors.InvalidField("action")
    page = await call.run_list(
        audit.list_entries,
        query.page,
        query.size,
        action=DECISIONS if query.action == "decisions" else query.action,
        operator=query.operator,
        target=query.target,
        since=query.since_at,
        until=query.until_at,
    )
    return AuditsReply(
        audits=[_audit(call, entry) for entry in page.entries],
        pagination=make_pagination(query.page, query.size, page.total, has_next=page.has_next),
    )


def _audit(call: Call, entry: AuditRecord) -> AuditFields:
    detail = entry.detail
    if detail is not None and isinstance(detail.get("reason"), str):
        detail = detail | {"reason": call.word_reason(detail["reason"])}
    if entry.occurrences > 1:
        detail = (detail or {}) | {"occurrences": entry.occurrences}
    return to_reply(AuditFields, entry, detail=detail, timestamp=entry.created_at)


log = logging.getLogger(__name__)

MAX_STREAMS: Final = 50
MAX_STREAMS_PER_ADMIN: Final = 5
MAX_REPLAYED: Final = 500
"""Missed events sent to a client that reconnects; of more, the newest."""
MAX_QUEUED: Final = 10_000
"""Unread events per client; one more ends the stream."""
MAX_PER_CHUNK: Final = 200

# A transaction may stay open for a while after it took its id, so higher ids can become visible before it.
_COMMIT_DELAY: Final = 10.0  # seconds

IsStillAdmin = Callable[[VerifiedSession], bool]


class EventStream(LiveStream):
    """The queue of events for one client. Use on the event loop only."""

    def __init__(self, session: VerifiedSession, max_queued: int) -> None:
        super().__init__()
        self.session = session
        self._max_queued = max_queued
        self._queue: deque[Event] = deque()
        self._replayed: frozenset[int | None] = frozenset()

    def push(self, event: Event) -> None:
        """Queue an event. Closes the stream of a client that has too many unread ones."""
        if event.id is not None and event.id in self._replayed:
            return
        if len(self._queue) >= self._max_queued:
            log.info("closing the event stream of %s: the client does not read its events", self.session.username)
            self.close()
            return
        self._queue.append(event)
        self._has_news.set()

    def replay(self, missed: Iterable[Event]) -> None:
        """Put missed events before the queued ones, without sending any of them twice."""
        events = tuple(missed)
        self._replayed = frozenset(event.id for event in events)
        queued = [event for event in self._queue if event.id is None or event.id not in self._replayed]
        self._queue = deque((*events, *queued))
        self._has_news.set()

    async def next_batch(self, seconds: float) -> tuple[Event, ...]:
        """Return the queued events, waiting at most `seconds` for the first; empty if there were none."""
        if not self._queue:
            self._has_news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), seconds)
        if self.is_closed:
            return ()
        return tuple(self._queue.popleft() for _turn in range(min(len(self._queue), MAX_PER_CHUNK)))


class EventStreams(LiveStreams[EventStream]):
    """All event streams of this process, sharing one poller of the audit log."""

    contents = "events"

    def __init__(
        self,
        worker: Worker,
        is_still_admin: IsStillAdmin,
        *,
        heartbeat_interval: timedelta = timedelta(seconds=20),
        poll_interval: timedelta = timedelta(seconds=2),
        session_check_interval: timedelta = timedelta(seconds=5),
        max_queued: int = MAX_QUEUED,
    ) -> None:
        """`is_still_admin` blocks; it runs on the worker."""
        super().__init__(poll_interval)
        self._worker = worker
        self._is_still_admin = is_still_admin
        self._heartbeat_interval = heartbeat_interval.total_seconds()
        self._session_check_interval = session_check_interval.total_seconds()
        self._max_queued = max_queued
        self._open_by_user: Counter[int] = Counter()
        self._tail = _TailReader()
        self._read_lock = asyncio.Lock()

    # --- For clients ---

    @contextlib.asynccontextmanager
    async def listen(self, session: VerifiedSession, last_event_id: int | None) -> AsyncIterator[EventStream]:
        """Open a stream of new events, preceded by those after `last_event_id` (None: no replay).

        Raises `TooManyStreams`, and `DatabaseUnavailable` while the audit log cannot be read.
        """
        self._reserve_slot(session)
        stream = EventStream(session, self._max_queued)
        try:
            await self._subscribe(stream)
            if last_event_id is not None:
                stream.replay(await self._worker.run(list_newest, last_event_id, MAX_REPLAYED))
            yield stream
        finally:
            self._remove(stream)
            self._open_by_user[session.user_id] -= 1
            self._open_by_user += Counter()  # drops the zero counts

    async def chunks(self, stream: EventStream) -> AsyncIterator[bytes]:
        """Yield the bytes of server-sent events: events as they come, and a comment as a heartbeat."""
        yield PREAMBLE
        async for batch in self.batches(stream):
            yield b"".join(event.encode() for event in batch) or HEARTBEAT

    async def batches(self, stream: EventStream) -> AsyncIterator[tuple[Event, ...]]:
        """Yield events as they come, and an empty batch as a heartbeat. Ends with the session."""
        now = asyncio.get_running_loop().time
        heartbeat_at, check_at = now() + self._heartbeat_interval, now() + self._session_check_interval
        while not stream.is_closed:
            events = await stream.next_batch(max(0.0, min(heartbeat_at, check_at) - now()))
            if events or now() >= check_at:  # nothing is sent after the session has ended
                if not await self._has_valid_session(stream.session):
                    return
                check_at = now() + self._session_check_interval
            if events or now() >= heartbeat_at:
                yield events
                heartbeat_at = now() + self._heartbeat_interval

    # --- For whatever changes something ---

    def publish_run(self, report: SyncReport) -> None:
        """Publish a sync run. One that changed something is in the audit log and is published from there."""
        if report.has_effects:
            self.wake()
        else:
            self._publish([event_from_run(report)])

    # --- Internals ---

    def _reserve_slot(self, session: VerifiedSession) -> None:
        is_full = self._open_by_user.total() >= MAX_STREAMS
        if is_full or self._open_by_user[session.user_id] >= MAX_STREAMS_PER_ADMIN:
            raise TooManyStreams
        self._open_by_user[session.user_id] += 1

    async def _subscribe(self, stream: EventStream) -> None:
        """Add the stream at the current end of the log, and start the poller if it is not running."""
        async with self._read_lock:
            if self._is_idle:
                self._tail.reset(await self._worker.run(newest_id))
            else:
                await self._read_log()
            self._add(stream)

    async def _read(self) -> None:
        async with self._read_lock:
            await self._read_log()

    async def _read_log(self) -> None:
        self._publish(self._tail.new_events(*await self._worker.run(read_tail, self._tail.settled_id)))

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            for stream in self._streams:
                stream.push(event)

    async def _has_valid_session(self, session: VerifiedSession) -> bool:
        """Return False also while the database is away: a client that reconnects gets the proper error."""
        try:
            return await self._worker.run(self._is_still_admin, session)
        except Refusal as refusal:
            log.debug("closing an event stream: %s", refusal.code)
            return False


class _TailReader:
    """Reader that tracks which entries were published.

    Ids become visible out of order, so the last seconds are read again.
    """

    def __init__(self) -> None:
        self._checkpoints: deque[tuple[float, int]] = deque()  # loop time, newest id at that time
        self._published: set[int] = set()
        self.settled_id = 0
        """No entry up to this id can appear any more."""

    def reset(self, newest_id: int) -> None:
        """Treat everything up to this id as published."""
        self._checkpoints.clear()
        self._published.clear()
        self.settled_id = newest_id

    def new_events(self, newest: int, events: Iterable[Event]) -> list[Event]:
        """Return those of the events just read that were not returned before; `newest` is the log's newest id."""
        news = [event for event in events if event.id not in self._published]
        self._published.update(event.id for event in news if event.id is not None)
        moment = asyncio.get_running_loop().time()
        self._checkpoints.append((moment, newest))
        while self._checkpoints and self._checkpoints[0][0] <= moment - _COMMIT_DELAY:
            self.settled_id = max(self.settled_id, self._checkpoints.popleft()[1])
        self._published = {event_id for event_id in self._published if event_id > self.settled_id}
        return news


_ID: Final = re.compile("[0-9]{1,18}")


@ROUTES.add("GET", "/events", Permission.USERS_READ, errors.TooManyStreams, media_type=EVENT_STREAM, is_activity=False)
async def stream_events(call: Call, events: EventStreams) -> None:
    """Stream all changes of users and all runs of the sync from now on.

    Events are `user_registered`, `user_approved`, `user_rejected`, `user_banned`, `user_unbanned`, `user_reopened`,
    `user_deleted`, `user_undone`, `user_answers_changed`, `user_note_added`, `user_asked`, `user_question_answered`,
    `user_answer_judged`, `user_membership_changed` (`username`, current `status`, `at`, `by`) and `sync_finished` (its
    counts, `at`, `by`); `data` is JSON. A comment is sent every 20 seconds. `Last-Event-ID` replays missed events, up
    to a limit; an event may then arrive twice. The stream ends with the session.
    """
    last = call.request.headers.get("Last-Event-ID", "").strip()  # none at a first visit, or another server's
    async with events.listen(call.require_admin(), int(last) if _ID.fullmatch(last) else None) as stream:
        await send_events(call, stream, events.chunks(stream))
