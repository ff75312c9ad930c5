"""The outbox: side effects that were promised in the transaction of their cause, and are carried out after it.

An entry says how it leaves (its kind), which mail or event it is, to whom and about which row. The text, and any secret
in it, is made at delivery and stored nowhere. Every entry is carried out at least once, or ends visibly: `failed` or
`dropped`.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from peewee import Database, ModelSelect, fn

from regsvc.core.backoff import backoff_delay
from regsvc.core.clock import Clock, to_milliseconds
from regsvc.database.bulk import insert_rows
from regsvc.database.models import OutboxEntry

log = logging.getLogger(__name__)

Outcome = Literal["sent", "failed", "dropped"]

_MAX_ERROR_LENGTH: Final = 500


class Recipient(Protocol):
    """To whom: `display` as people write it, `key` as it is compared. Entries with the same key keep their order."""

    @property
    def display(self) -> str: ...
    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """One entry to carry out. `attempts` includes the one under way; `link_id` is there once a link was issued for it.

    `template` is which mail, or which event a webhook tells of; `payload` is JSON, None where rows say it all.
    """

    id: int
    template: str
    recipient: str
    recipient_key: str
    language: str
    user_id: int | None
    row_id: int | None
    link_id: int | None
    payload: str | None
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a kind of message is tried, and how often: waits grow from `first_retry` to `longest_retry`.

    `max_attempts`, `max_age` (since it was promised): then it is given up; None: never for that. `claim` is how long an
    message under way belongs to whoever took it, longer than any attempt may last: after that he has crashed.
    """

    first_retry: timedelta
    longest_retry: timedelta
    max_attempts: int | None = None
    max_age: timedelta | None = None
    claim: timedelta = timedelta(minutes=3)
    growth: float = 2.5

    def wait(self, attempts: int) -> timedelta:
        """Until the next attempt, with jitter so that many do not return at once."""
        delay = backoff_delay(attempts, self.first_retry, self.longest_retry, self.growth)
        return delay * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

    def is_too_old(self, message: OutboxMessage, moment: datetime) -> bool:
        """Whether it has waited long enough to be given up."""
        return self.max_age is not None and moment - message.created_at >= self.max_age

    def was_last_attempt(self, message: OutboxMessage, moment: datetime) -> bool:
        """Whether the attempt under way is the last one."""
        is_enough = self.max_attempts is not None and message.attempts >= self.max_attempts
        return is_enough or self.is_too_old(message, moment)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What was promised and not yet delivered; `oldest_at` is when the oldest was promised, None when none waits."""

    count: int
    oldest_at: datetime | None


class Outbox:
    """The rules for one kind of entry; every method works inside the caller's transaction."""

    def __init__(self, now: Clock, kind: str, retry_policy: RetryPolicy) -> None:
        self._now = now
        self._local = threading.local()
        self._kind = kind
        self._retry_policy = retry_policy

    def put(
        self,
        template: str,
        recipient: Recipient,
        language: str,
        *,
        user_id: int | None = None,
        row_id: int | None = None,
        payload: str | None = None,
    ) -> None:
        """Promise something; it is on its way when the transaction commits and the delivery is woken."""
        moment = self._now()
        entry: dict[str, object] = {
            "kind": self._kind,
            "template": template,
            "recipient": recipient.display,
            "recipient_key": recipient.key,
            "language": language,
            "user_id": user_id,
            "row_id": row_id,
            "payload": payload,
            "created_at": moment,
            "next_attempt_at": moment,
        }
        batched: list[dict[str, object]] | None = getattr(self._local, "batched", None)
        if batched is None:
            OutboxEntry.create(**entry)
        else:
            batched.append(entry)

    @contextmanager
    def batched(self) -> Iterator[None]:
        """What this thread puts here meanwhile is written at the end, in the same order, with a few statements."""
        entries: list[dict[str, object]] = []
        self._local.batched = entries
        try:
            yield
        finally:
            self._local.batched = None
        insert_rows(OutboxEntry._meta.database, OutboxEntry, entries)

    def claim_due(self, limit: int) -> list[OutboxMessage]:
        """Up to `limit` messages to carry out now, only the oldest unfinished one for each recipient.

        Whoever claims has some minutes to say how it went; after that (he crashed) they are due again.
        """
        return self.claim(self.list_due(limit))

    def list_due(self, limit: int) -> list[OutboxEntry]:
        """What could be claimed. Only looks, and needs no transaction."""
        earlier = OutboxEntry.alias()
        has_earlier = earlier.select(earlier.id).where(
            earlier.recipient_key == OutboxEntry.recipient_key,
            earlier.next_attempt_at.is_null(False),
            earlier.kind == self._kind,
            earlier.id < OutboxEntry.id,
        )
        due = (
            self._unfinished()
            .where(OutboxEntry.next_attempt_at <= self._now(), ~fn.EXISTS(has_earlier))
            .order_by(OutboxEntry.next_attempt_at, OutboxEntry.id)
            .limit(limit)
        )
        return list(due.execute())

    def claim(self, due: Sequence[OutboxEntry]) -> list[OutboxMessage]:
        """Those of them that nobody else was faster to claim."""
        return [message_from_row(entry, attempts=entry.attempts + 1) for entry in due if self._claim(entry)]

    def mark_sent(self, message_id: int) -> None:
        """Somebody else has taken it."""
        self._finish(message_id, "sent")

    def mark_dropped(self, message_id: int, reason: str) -> None:
        """It has become pointless: its code expired, its user is gone, there never was one."""
        self._finish(message_id, "dropped", reason)

    def mark_failed(
        self, message: OutboxMessage, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """An attempt failed: again after this time, or given up (None) if it is final or the last.

        `error` has no secret; `retry_after` is how long the other side wants to be left alone at least.
        """
        moment = self._now()
        if is_final or self._retry_policy.was_last_attempt(message, moment):
            self._give_up(message, error)
            return None
        wait = max(self._retry_policy.wait(message.attempts), retry_after or timedelta())
        _update(message.id, next_attempt_at=to_milliseconds(moment + wait), last_error=error[:_MAX_ERROR_LENGTH])
        return wait

    def release(self, message: OutboxMessage, reason: str) -> bool:
        """Nothing was tried, the way out is closed: due again at once, and the attempt does not count.

        True: it has waited for too long, and is given up.
        """
        moment = self._now()
        if self._retry_policy.is_too_old(message, moment):
            self._give_up(message, reason)
            return True
        _update(
            message.id,
            attempts=message.attempts - 1,
            next_attempt_at=moment,
            last_error=reason[:_MAX_ERROR_LENGTH],
        )
        return False

    def find(self, message_id: int) -> OutboxEntry | None:
        """The entry of this id, whatever became of it; None: there is none of this kind."""
        entry: OutboxEntry | None = OutboxEntry.get_or_none(
            OutboxEntry.id == message_id, OutboxEntry.kind == self._kind
        )
        return entry

    def requeue(self, entry: OutboxEntry) -> bool:
        """Make what is over due anew, as if it had been promised now. False: another was faster, or it is not over."""
        moment = self._now()
        changes = {
            "created_at": moment,
            "next_attempt_at": moment,
            "attempts": 0,
            "link_id": None,
            "done_at": None,
            "outcome": None,
            "last_error": None,
        }
        is_as_read = (OutboxEntry.id == entry.id) & (OutboxEntry.done_at == entry.done_at)
        return bool(OutboxEntry.update(changes).where(is_as_read, OutboxEntry.next_attempt_at.is_null()).execute())

    def remember_link(self, message_id: int, link_id: int) -> None:
        """The link this mail carries, so that a second attempt brings the same."""
        _update(message_id, link_id=link_id)

    def backlog(self) -> Backlog:
        """What waits, however long it is still to wait. Cheap: the entries that are over are not looked at."""
        figures = self._unfinished().select(fn.COUNT(OutboxEntry.id), fn.MIN(OutboxEntry.created_at))
        count, oldest_at = figures.scalar(as_tuple=True)
        return Backlog(count, oldest_at)

    def purge_done(self, before: datetime) -> int:
        """Delete what was over before this moment, whatever its kind; how many they were."""
        return int(OutboxEntry.delete().where(OutboxEntry.done_at < before).execute())

    def _unfinished(self) -> "ModelSelect[OutboxEntry]":
        return OutboxEntry.select().where(OutboxEntry.kind == self._kind, OutboxEntry.next_attempt_at.is_null(False))

    def _claim(self, entry: OutboxEntry) -> bool:
        """Make it ours; False when another process was faster."""
        claimed = (
            OutboxEntry.update(
                attempts=OutboxEntry.attempts + 1, next_attempt_at=self._now() + self._retry_policy.claim
            )
            .where(OutboxEntry.id == entry.id, OutboxEntry.next_attempt_at == entry.next_attempt_at)
            .execute()
        )
        return bool(claimed)

    def _give_up(self, message: OutboxMessage, error: str) -> None:
        log.error(
            "%s %d (%s) is given up after %d attempts", self._kind, message.id, message.template, message.attempts
        )
        self._finish(message.id, "failed", error)

    def _finish(self, message_id: int, outcome: Outcome, error: str | None = None) -> None:
        _update(
            message_id,
            next_attempt_at=None,
            done_at=self._now(),
            outcome=outcome,
            last_error=None if error is None else error[:_MAX_ERROR_LENGTH],
        )


def _update(message_id: int, **values: object) -> None:
    OutboxEntry.update(**values).where(OutboxEntry.id == message_id).execute()


def message_from_row(entry: OutboxEntry, attempts: int = 1) -> OutboxMessage:
    """The entry as whoever carries it out sees it, at this attempt."""
    return OutboxMessage(
        id=entry.id,
        template=entry.template,
        recipient=entry.recipient,
        recipient_key=entry.recipient_key,
        language=entry.language,
        user_id=entry.user_id,
        row_id=entry.row_id,
        link_id=entry.link_id,
        payload=entry.payload,
        attempts=attempts,
        created_at=entry.created_at,
    )


class OutboxStore:
    """Between the outbox of one kind and whoever delivers it."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        on_finished: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """`on_finished` is told of everything that is over, once that is recorded, on the thread that did it."""
        self._database = database
        self._outbox = outbox
        self._on_finished = on_finished

    def claim_due(self, limit: int) -> list[OutboxMessage]:
        """At most `limit` messages to carry out now. As long as nothing is due, nothing is written or locked."""
        due = self._outbox.list_due(limit)
        if not due:
            return []
        with self._database.atomic():
            return self._outbox.claim(due)

    def record_sent(self, message: OutboxMessage) -> None:
        """Somebody else has it now."""
        with self._database.atomic():
            self._on_sent(message)
            self._outbox.mark_sent(message.id)
        self._on_finished("sent")

    def record_failure(
        self, message: OutboxMessage, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """This one was not taken. How long until it is tried again; None: never."""
        with self._database.atomic():
            wait = self._outbox.mark_failed(message, error, is_final=is_final, retry_after=retry_after)
        if wait is None:
            self._on_finished("failed")
        return wait

    def release(self, message: OutboxMessage, reason: str) -> None:
        """Nothing of this kind gets out at the moment."""
        with self._database.atomic():
            is_given_up = self._outbox.release(message, reason)
        if is_given_up:
            self._on_finished("failed")

    def drop(self, message: OutboxMessage, reason: str) -> None:
        """It will not be sent."""
        with self._database.atomic():
            self._outbox.mark_dropped(message.id, reason)
        self._on_finished("dropped")

    def _on_sent(self, message: OutboxMessage) -> None:
        """What else comes of it having been sent, in the same transaction."""
