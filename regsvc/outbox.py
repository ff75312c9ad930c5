"""The outbox: mails that were promised in the transaction of their cause, and are sent after it.

An entry says which mail, to whom, in what language and about which row. The text, and any secret in it, is made
at delivery and stored nowhere. Every entry is delivered at least once, or ends visibly: `failed` or `dropped`.
"""

import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from peewee import ModelSelect, fn

from regsvc.clock import Clock, to_milliseconds
from regsvc.email_address import EmailAddress
from regsvc.models import OutboxEntry

log = logging.getLogger(__name__)

Outcome = Literal["sent", "failed", "dropped"]

_MAIL: Final = "mail"
_CLAIM: Final = timedelta(minutes=3)  # longer than any delivery may take
_FIRST_RETRY: Final = timedelta(seconds=30)
_RETRY_GROWTH: Final = 2.5
_LONGEST_RETRY: Final = timedelta(hours=4)
_MAX_ERROR_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class OutboxMail:
    """One mail to deliver. `attempts` includes the one under way; `link_id` is there once a link was issued for it."""

    id: int
    template: str
    recipient: EmailAddress
    language: str
    user_id: int | None
    row_id: int | None
    link_id: int | None
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Backlog:
    """Mails promised and not yet delivered; `oldest_at` is when the oldest was promised, None when none waits."""

    count: int
    oldest_at: datetime | None


class Outbox:
    """The rules of the outbox; every method works inside the caller's transaction."""

    def __init__(self, now: Clock, max_attempts: int) -> None:
        self._now = now
        self._max_attempts = max_attempts

    def put(
        self,
        template: str,
        recipient: EmailAddress,
        language: str,
        *,
        user_id: int | None = None,
        row_id: int | None = None,
    ) -> None:
        """Promise a mail; it is on its way when the transaction commits and the delivery is woken."""
        moment = self._now()
        OutboxEntry.create(
            kind=_MAIL,
            template=template,
            recipient=recipient.display,
            recipient_key=recipient.key,
            language=language,
            user_id=user_id,
            row_id=row_id,
            created_at=moment,
            next_attempt_at=moment,
        )

    def claim_due(self, limit: int) -> list[OutboxMail]:
        """Up to `limit` mails to deliver now, only the oldest unfinished one for each recipient.

        Whoever claims has some minutes to say how it went; after that (he crashed) they are due again.
        """
        due = [entry for entry in self._list_due(limit) if self._claim(entry)]
        return [_record(entry) for entry in due]

    def mark_sent(self, mail_id: int) -> None:
        """A mail server has taken it."""
        self._finish(mail_id, "sent")

    def mark_dropped(self, mail_id: int, reason: str) -> None:
        """It has become pointless: its code expired, its user is gone, there never was one."""
        self._finish(mail_id, "dropped", reason)

    def mark_failed(self, mail: OutboxMail, error: str, *, is_final: bool) -> bool:
        """An attempt failed: again later, or given up (True) if it is final or the last. `error` has no secret."""
        if is_final or mail.attempts >= self._max_attempts:
            log.error("mail %d (%s) is given up after %d attempts", mail.id, mail.template, mail.attempts)
            self._finish(mail.id, "failed", error)
            return True
        retry_at = to_milliseconds(self._now() + _back_off(mail.attempts))
        _update(mail.id, next_attempt_at=retry_at, last_error=error[:_MAX_ERROR_LENGTH])
        return False

    def put_back(self, mail: OutboxMail, reason: str) -> None:
        """Nothing was tried, the way out is closed: due again at once, and the attempt does not count."""
        _update(
            mail.id,
            attempts=mail.attempts - 1,
            next_attempt_at=self._now(),
            last_error=reason[:_MAX_ERROR_LENGTH],
        )

    def remember_link(self, mail_id: int, link_id: int) -> None:
        """The link this mail carries, so that a second attempt brings the same."""
        _update(mail_id, link_id=link_id)

    def backlog(self) -> Backlog:
        """What waits, however long it is still to wait. Cheap: the mails that are over are not looked at."""
        figures = _unfinished().select(fn.COUNT(OutboxEntry.id), fn.MIN(OutboxEntry.created_at))
        count, oldest_at = figures.scalar(as_tuple=True)
        return Backlog(count, oldest_at)

    def purge_done(self, before: datetime) -> int:
        """Delete what was over before this moment; how many they were."""
        return int(OutboxEntry.delete().where(OutboxEntry.done_at < before).execute())

    def _list_due(self, limit: int) -> list[OutboxEntry]:
        earlier = OutboxEntry.alias()
        has_earlier = earlier.select(earlier.id).where(
            earlier.recipient_key == OutboxEntry.recipient_key,
            earlier.next_attempt_at.is_null(False),
            earlier.kind == _MAIL,
            earlier.id < OutboxEntry.id,
        )
        due = (
            _unfinished()
            .where(OutboxEntry.next_attempt_at <= self._now(), ~fn.EXISTS(has_earlier))
            .order_by(OutboxEntry.next_attempt_at, OutboxEntry.id)
            .limit(limit)
        )
        return list(due.execute())

    def _claim(self, entry: OutboxEntry) -> bool:
        """Make it ours; False when another process was faster."""
        claimed = (
            OutboxEntry.update(attempts=OutboxEntry.attempts + 1, next_attempt_at=self._now() + _CLAIM)
            .where(OutboxEntry.id == entry.id, OutboxEntry.next_attempt_at == entry.next_attempt_at)
            .execute()
        )
        return bool(claimed)

    def _finish(self, mail_id: int, outcome: Outcome, error: str | None = None) -> None:
        _update(
            mail_id,
            next_attempt_at=None,
            done_at=self._now(),
            outcome=outcome,
            last_error=None if error is None else error[:_MAX_ERROR_LENGTH],
        )


def _unfinished() -> "ModelSelect[OutboxEntry]":
    return OutboxEntry.select().where(OutboxEntry.kind == _MAIL, OutboxEntry.next_attempt_at.is_null(False))


def _update(mail_id: int, **values: object) -> None:
    OutboxEntry.update(**values).where(OutboxEntry.id == mail_id).execute()


def _record(claimed: OutboxEntry) -> OutboxMail:
    """What was read just before it was claimed, as it is after."""
    return OutboxMail(
        id=claimed.id,
        template=claimed.template,
        recipient=EmailAddress(claimed.recipient, claimed.recipient_key),
        language=claimed.language,
        user_id=claimed.user_id,
        row_id=claimed.row_id,
        link_id=claimed.link_id,
        attempts=claimed.attempts + 1,
        created_at=claimed.created_at,
    )


def _back_off(attempts: int) -> timedelta:
    """From half a minute to some hours, with jitter so that many do not return at once.

    Eight attempts take about three hours: longer than a server that postpones strangers lets them wait.
    """
    growth: float = _RETRY_GROWTH ** min(attempts - 1, 20)
    wait = min(_FIRST_RETRY * growth, _LONGEST_RETRY)
    return wait * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
