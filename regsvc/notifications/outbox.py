"""The outbox: side effects that are recorded in the transaction of their cause and carried out after it.

An entry says what kind it is (how it is sent), which mail or event, to which recipient and about which row. The text,
and any secret in it, is made at delivery and stored nowhere. Every entry is carried out at least once, or ends visibly
as `failed` or `dropped`.
"""

import logging
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta
from peewee import fn

from regsvc.core.backoff import backoff_delay
from regsvc.core.clock import Clock, to_milliseconds
from regsvc.core.email_address import EmailAddress
from regsvc.core.units import format_duration
from regsvc.database.bulk import PreparedQuery, insert_rows, select_rows, shift, slot
from regsvc.database.models import OutboxEntry

log = logging.getLogger(__name__)

Outcome = Literal["sent", "failed", "dropped"]

Fate = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["waiting", "sent", "failed", "dropped"]},
        description="`dropped`: no longer relevant, so it was not sent.",
        examples=["sent"],
    ),
]

MAX_COUNT: Final = 1000
"""A longer queue counts as so long."""
_MAX_ERROR_LENGTH: Final = 500
_MAX_LOGGED_LENGTH: Final = 300
_URGENT_RETRY: Final = timedelta(seconds=5)
_LONGEST_WITHHELD: Final = timedelta(minutes=30)
_WITHHELD_FOR: Final = timedelta(days=3)
"""Age at which a withheld message is given up, if messages enqueued after it were sent."""
_SPARE: Final = 4
"""How many more messages are listed than are to be claimed: other threads and processes may claim some first."""


class Recipient(NamedTuple):
    """A recipient: `display` as people write it, `key` for comparison. Entries with one key are delivered in order."""

    display: str
    key: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry policy for one kind of outbox message: waits grow from `first_retry` to `longest_retry`.

    A message is given up after `max_attempts` or `max_age` (since it was enqueued); None: no such limit. `claim` is how
    long a claimed message is reserved for one process. It must exceed the longest possible attempt: a message still
    claimed after that belongs to a process that crashed. `urgent` are templates of messages that a person waits for:
    they are sent before all others, and tried again sooner.
    """

    first_retry: timedelta
    longest_retry: timedelta
    max_attempts: int | None = None
    max_age: timedelta | None = None
    claim: timedelta = timedelta(minutes=3)
    growth: float = 2.5
    urgent: tuple[str, ...] = ()

    def wait(self, message: OutboxEntry) -> timedelta:
        """Return the time until the next attempt, with jitter so that many messages do not retry at once."""
        retries = message.attempts - (message.template in self.urgent)
        if retries == 0:
            return _jitter(_URGENT_RETRY)
        return _jitter(backoff_delay(retries, self.first_retry, self.longest_retry, self.growth))

    def wait_withheld(self, message: OutboxEntry, moment: datetime) -> timedelta:
        """Return the time until the next attempt of a message whose attempts are not counted: half its age."""
        first = _URGENT_RETRY if message.template in self.urgent else self.first_retry
        return _jitter(min(max((moment - message.created_at) / 2, first), _LONGEST_WITHHELD))

    def is_too_old(self, message: OutboxEntry, moment: datetime) -> bool:
        """Return whether the message has exceeded `max_age`."""
        return self.max_age is not None and moment - message.created_at >= self.max_age

    def was_last_attempt(self, message: OutboxEntry, moment: datetime) -> bool:
        """Return whether the attempt under way is the last one."""
        is_enough = self.max_attempts is not None and message.attempts >= self.max_attempts
        return is_enough or self.is_too_old(message, moment)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Undelivered entries, counted up to `MAX_COUNT`; `oldest_at` is when the oldest was enqueued, None if none was."""

    count: int
    oldest_at: datetime | None


def describe_for_log(message: OutboxEntry, reason: str) -> str:
    """Return the reason for a log or terminal: not too long, and without e-mail addresses, which servers quote."""
    words = re.sub(r"[^\s<>]*@[^\s<>]*", "…", "".join(filter(str.isprintable, reason)))
    for name in {message.recipient.rpartition("@")[0], message.recipient_key.rpartition("@")[0]} - {""}:
        words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", words, flags=re.IGNORECASE)
    return words[:_MAX_LOGGED_LENGTH]


class Outbox:
    """The outbox of one kind. Entries are put and read inside the caller's transaction.

    What a delivery worker calls has a transaction of its own: `claim_due`, and the records of what became of a message.
    """

    def __init__(
        self,
        now: Clock,
        kind: str,
        retry_policy: RetryPolicy,
        *,
        on_sent: Callable[[OutboxEntry], None] = lambda message: None,
        on_finished: Callable[[OutboxEntry, Outcome], None] = lambda message, outcome: None,
    ) -> None:
        """`on_sent` applies further effects of a delivery, in the transaction that records it.

        `on_finished` is called once a final outcome has been committed, on the thread that recorded it.
        """
        self._now = now
        self._local = threading.local()
        self._kind = kind
        self._retry_policy = retry_policy
        self._urgent_names = {f"template{index}": name for index, name in enumerate(retry_policy.urgent)}
        self._on_sent = on_sent
        self._on_finished = on_finished
        self.claim_period: Final = retry_policy.claim

    def put(
        self,
        template: str,
        recipient: Recipient | EmailAddress,
        language: str,
        *,
        user_id: int | None = None,
        row_id: int | None = None,
        payload: str | None = None,
        due_at: datetime | None = None,
    ) -> None:
        """Enqueue an entry. It is sent once the transaction has committed and the delivery is woken.

        `due_at`: not before, for a recipient of its own: later entries for one wait for it.
        """
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
            "next_attempt_at": due_at or moment,
        }
        batched: list[dict[str, object]] | None = getattr(self._local, "batched", None)
        if batched is None:
            OutboxEntry.insert(**entry).execute()
        else:
            batched.append(entry)

    @contextmanager
    def batched(self) -> Iterator[None]:
        """Collect what this thread puts here and insert it at the end, in order, with few statements."""
        entries: list[dict[str, object]] = []
        self._local.batched = entries
        try:
            yield
        finally:
            self._local.batched = None
        insert_rows(OutboxEntry._meta.database, OutboxEntry, entries)

    def is_urgent(self, message: OutboxEntry) -> bool:
        """Return whether a person waits for the message."""
        return message.template in self._retry_policy.urgent

    def claim_due(self, limit: int, urgent_only: bool = False) -> list[OutboxEntry]:
        """Claim up to `limit` due messages, only the oldest unfinished one of each recipient.

        Recipients of urgent messages come first, with what they are to get before; `urgent_only`: they alone. Their
        `attempts` include the one under way. The process that claims a message has the policy's `claim` to record the
        result; after that it counts as crashed and the message is due again. While nothing is due, nothing is written
        or locked.
        """
        due = self._list_due(limit, urgent_only)
        until, claimed = self._now() + self.claim_period, list[OutboxEntry]()
        with OutboxEntry._meta.database.atomic() if min(limit, len(due)) > 1 else nullcontext():
            for entry in due:
                if len(claimed) == limit:
                    break
                # not those that another thread or process claimed first
                if _CLAIM.execute(id=entry.id, listed=entry.next_attempt_at, next_attempt_at=until):
                    entry.attempts += 1
                    claimed.append(entry)
        return claimed

    def _list_due(self, limit: int, urgent_only: bool) -> list[OutboxEntry]:
        """Return at least as many as are to be claimed, if so many are due."""
        given = {"kind": self._kind, "now": self._now(), "limit": limit + _SPARE}
        names = self._urgent_names
        due = [] if urgent_only else _LIST_DUE.rows(**given)
        if names and (urgent_only or len(due) > limit):  # else these are all
            due = _list_urgent(len(names)).rows(**given, **names) + due
        return list(dict.fromkeys(due))  # urgent ones are in both lists

    def record_sent(self, message: OutboxEntry) -> None:
        """Record that the other side has accepted the message."""
        with OutboxEntry._meta.database.atomic():
            self._on_sent(message)
            self._finish(message, "sent")
        self._on_finished(message, "sent")

    def record_failure(
        self, message: OutboxEntry, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """Record a failed attempt; returns the time until the next one, or None if the message is given up.

        It is given up if the failure is final or this was the last attempt. `error` must not contain a secret;
        `retry_after` is the minimum wait that the other side asked for.
        """
        moment = self._now()
        if is_final or self._retry_policy.was_last_attempt(message, moment):
            self._give_up(message, error)
            return None
        wait = max(self._retry_policy.wait(message), retry_after or timedelta())
        _update(message.id, next_attempt_at=to_milliseconds(moment + wait), last_error=error[:_MAX_ERROR_LENGTH])
        return wait

    def withhold(self, message: OutboxEntry, reason: str, retry_after: timedelta | None = None) -> timedelta | None:
        """Return a message to the queue: it may be our account that is refused. The attempt does not count.

        Returns the time until the next attempt: longer and longer, so that others get their turn. None: it is given up,
        because later messages were sent, for days.
        """
        moment = self._now()
        if moment - message.created_at >= _WITHHELD_FOR and self._was_later_one_sent(message):
            self._give_up(message, reason, after=format_duration(_WITHHELD_FOR))
            return None
        wait = max(self._retry_policy.wait_withheld(message, moment), retry_after or timedelta())
        _update(
            message.id,
            attempts=message.attempts - 1,
            next_attempt_at=to_milliseconds(moment + wait),
            last_error=reason[:_MAX_ERROR_LENGTH],
        )
        return wait

    def release(self, message: OutboxEntry, reason: str) -> None:
        """Return a claimed message to the queue without counting the attempt: nothing of this kind can be sent now.

        One that has exceeded `max_age` is given up instead.
        """
        moment = self._now()
        if self._retry_policy.is_too_old(message, moment):
            self._give_up(message, reason)
            return
        _update(
            message.id,
            attempts=message.attempts - 1,
            next_attempt_at=moment,
            last_error=reason[:_MAX_ERROR_LENGTH],
        )

    def drop(self, message: OutboxEntry, reason: str) -> None:
        """Record that there is no point in sending it: its code expired, its user is gone or never existed."""
        self._finish(message, "dropped", reason)
        self._on_finished(message, "dropped")

    def find(self, message_id: int) -> OutboxEntry | None:
        """Return the entry with this id, whatever its state, or None if there is none of this kind."""
        entry: OutboxEntry | None = OutboxEntry.get_or_none(
            OutboxEntry.id == message_id, OutboxEntry.kind == self._kind
        )
        return entry

    def requeue(self, entry: OutboxEntry) -> bool:
        """Make a finished entry due again, as if enqueued now. False: not finished, or another request was faster."""
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

    def find_next_due(self, recipient: Recipient, every: timedelta) -> datetime | None:
        """Return when the next entry for this recipient is due, of which there is one in each period.

        None: one waits whose delivery has not begun, nor begins before the caller's transaction has ended.
        """
        moment, own = self._now(), OutboxEntry.recipient_key == recipient.key
        last = OutboxEntry.select(fn.MAX(OutboxEntry.id)).where(own, OutboxEntry.kind == self._kind).scalar()
        fields, database = [OutboxEntry.attempts, OutboxEntry.done_at], OutboxEntry._meta.database
        found = select_rows(database, OutboxEntry, fields, OutboxEntry.id, [last] if last else [], for_update=True)
        for attempts, done_at in found:
            if done_at is None and attempts == 0:
                return None
            return min(max(moment, (done_at or moment) + every), moment + every)
        return moment

    def is_any_due(self) -> bool:
        """Return whether an entry of any kind is due; one statement, which an index answers."""
        return bool(OutboxEntry.select().where(OutboxEntry.next_attempt_at <= self._now()).exists())

    def backlog(self) -> Backlog:
        """Return the unfinished entries, including those not due yet.

        Cheap: an index lists them, the oldest first, and only `MAX_COUNT` are read.
        """
        oldest = (
            OutboxEntry.select(OutboxEntry.created_at)
            .where(OutboxEntry.outcome.is_null(), OutboxEntry.kind == self._kind)
            .order_by(OutboxEntry.id)
            .limit(MAX_COUNT)
        )
        earliest = fn.MIN(oldest.c.created_at).python_value(OutboxEntry.created_at.python_value)
        count, oldest_at = (
            OutboxEntry.select(fn.COUNT(oldest.c.created_at), earliest).from_(oldest).scalar(as_tuple=True)
        )
        return Backlog(count, oldest_at)

    def find_newest_time(self) -> datetime | None:
        """Return when the last message of any kind was enqueued, or None if there is none."""
        newest = OutboxEntry.select(OutboxEntry.created_at).order_by(OutboxEntry.id.desc()).first()
        return None if newest is None else newest.created_at

    def follow_clock(self, step: timedelta) -> None:
        """Move what is waiting by as much as the clock was set: none waits for long, or is too old, because of that.

        After a step back, what the claims of this moment may have been made by already is left as it is. Daemons that
        share the database may each do it: what is moved twice is due early, or lives longer, by one step.
        """
        now, entry = self._now(), OutboxEntry
        is_waiting = (entry.kind == self._kind) & entry.next_attempt_at.is_null(False)
        if step < timedelta():
            is_untried = (entry.next_attempt_at == entry.created_at) & (entry.next_attempt_at > now)
            is_late = (entry.next_attempt_at > now + self.claim_period) | is_untried
            shift(entry.next_attempt_at, step, is_waiting & is_late)
        elif self._retry_policy.max_age is not None:  # else it stays, since a mail's Message-ID is made of it
            shift(entry.created_at, step, is_waiting & (entry.created_at <= now - step))

    def _was_later_one_sent(self, message: OutboxEntry) -> bool:
        is_later = (OutboxEntry.id > message.id) & (OutboxEntry.kind == self._kind)
        return bool(OutboxEntry.select().where(OutboxEntry.outcome == "sent", is_later).exists())

    def _give_up(self, message: OutboxEntry, error: str, after: str | None = None) -> None:
        after = after or f"{message.attempts} attempt{'' if message.attempts == 1 else 's'}"
        reason = describe_for_log(message, error)
        log.error("%s %d (%s) given up after %s: %s", self._kind, message.id, message.template, after, reason)
        self._finish(message, "failed", error)
        self._on_finished(message, "failed")

    def _finish(self, message: OutboxEntry, outcome: Outcome, error: str | None = None) -> None:
        last_error = None if error is None else error[:_MAX_ERROR_LENGTH]
        _FINISH.execute(id=message.id, done_at=self._now(), outcome=outcome, last_error=last_error)


def _jitter(wait: timedelta) -> timedelta:
    return wait * random.uniform(0.8, 1.2)  # noqa: S311 - jitter


def _update(message_id: int, **values: object) -> None:
    OutboxEntry.update(**values).where(OutboxEntry.id == message_id).execute()


def _due_entries() -> Any:
    """Return the query for due entries: of each recipient only the oldest unfinished one."""
    kind, earlier = slot(OutboxEntry.kind), OutboxEntry.alias()
    has_earlier = earlier.select(earlier.id).where(
        earlier.recipient_key == OutboxEntry.recipient_key,
        earlier.next_attempt_at.is_null(False),
        earlier.kind == kind,
        earlier.id < OutboxEntry.id,
    )
    return (
        OutboxEntry.select()
        .where(
            OutboxEntry.kind == kind,
            OutboxEntry.next_attempt_at <= slot(OutboxEntry.next_attempt_at, "now"),
            ~fn.EXISTS(has_earlier),
        )
        .order_by(OutboxEntry.next_attempt_at, OutboxEntry.id)
        .limit(slot(OutboxEntry.id, "limit"))
    )


def _urgent_entries(templates: int) -> Any:
    """Return the query for due entries of the recipients of urgent ones: of each only the oldest unfinished one."""
    kind, now = slot(OutboxEntry.kind), slot(OutboxEntry.next_attempt_at, "now")
    urgent, entry = OutboxEntry.alias(), OutboxEntry.alias()
    names = [slot(OutboxEntry.template, f"template{index}") for index in range(templates)]
    oldest = (
        urgent.select(fn.MIN(entry.id).alias("id"))
        .join(entry, on=(entry.recipient_key == urgent.recipient_key))
        .where(
            urgent.kind == kind,
            urgent.template.in_(names),
            urgent.next_attempt_at <= now,
            entry.kind == kind,
            entry.next_attempt_at.is_null(False),
        )
        .group_by(entry.recipient_key)
    )
    return (
        OutboxEntry.select()
        .join(oldest, on=(oldest.c.id == OutboxEntry.id))
        .where(OutboxEntry.next_attempt_at <= now)
        .order_by(OutboxEntry.next_attempt_at, OutboxEntry.id)
        .limit(slot(OutboxEntry.id, "limit"))
    )


@cache
def _list_urgent(templates: int) -> PreparedQuery:
    return PreparedQuery(OutboxEntry, lambda: _urgent_entries(templates))


_LIST_DUE: Final = PreparedQuery(OutboxEntry, _due_entries)
_CLAIM: Final = PreparedQuery(
    OutboxEntry,
    lambda: OutboxEntry.update(
        {
            OutboxEntry.attempts: OutboxEntry.attempts + 1,
            OutboxEntry.next_attempt_at: slot(OutboxEntry.next_attempt_at),
        }
    ).where(
        OutboxEntry.id == slot(OutboxEntry.id),
        OutboxEntry.next_attempt_at == slot(OutboxEntry.next_attempt_at, "listed"),
    ),
)
_FINISH: Final = PreparedQuery(
    OutboxEntry,
    lambda: OutboxEntry.update(
        {
            OutboxEntry.next_attempt_at: None,
            OutboxEntry.done_at: slot(OutboxEntry.done_at),
            OutboxEntry.outcome: slot(OutboxEntry.outcome),
            OutboxEntry.last_error: slot(OutboxEntry.last_error),
        }
    ).where(OutboxEntry.id == slot(OutboxEntry.id)),
)
