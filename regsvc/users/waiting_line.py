"""The line of users who wait for review: places in it, and how long reviews usually take.

Blocking: for a worker thread.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from peewee import fn

from regsvc.core.clock import Clock
from regsvc.database.audit import AUTOMATIC
from regsvc.database.models import PENDING, Review, User

_DECISIONS: Final = 50
_FEWEST_DECISIONS: Final = 5
_READ_REVIEWS: Final = 1000
"""The newest reviews, among which the decisions are searched: few of them are about users who waited."""
_KEPT_FOR: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class WaitingLine:
    """Places of users in the line, from 1, by their id, and the number of all users in it."""

    places: dict[int, int]
    waiting: int


def find_places(user_ids: Collection[int]) -> WaitingLine:
    """Return the line with the places of these users, who are pending: two statements, however many are asked for."""
    is_waiting = User.status == PENDING
    line = User.select(User.id, fn.ROW_NUMBER().over(order_by=[User.id]).alias("place")).where(is_waiting).alias("line")
    asked = line.select_from(line.c.id, line.c.place).where(line.c.id.in_(sorted(user_ids))) if user_ids else None
    rows: Any = () if asked is None else asked.tuples()
    return WaitingLine(dict(rows), int(User.select(fn.COUNT(User.id)).where(is_waiting).scalar()))


class UsualWait:
    """Median time from registrations to their reviews, computed at most once a minute."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._expires_at: datetime | None = None
        self._seconds: int | None = None

    def find_seconds(self) -> int | None:
        """Return the median of the last decisions in seconds, or None if there were too few."""
        moment = self._now()
        if self._expires_at is None or moment >= self._expires_at:
            self._seconds = _find_median()
            self._expires_at = moment + _KEPT_FOR
        return self._seconds


def _find_median() -> int | None:
    """Return the median of the last first decisions on registrations; automatic ones do not count."""
    newest = Review.select(fn.MAX(Review.id)).scalar() or 0
    rows: Any = (
        Review.select(Review.reviewed_at, User.created_at)
        .join(User, on=(User.id == Review.user_id))
        .where(
            Review.id > newest - _READ_REVIEWS,
            Review.status_before == PENDING,
            Review.transition.in_(("approve", "reject")),
            Review.operator != AUTOMATIC.name,
            User.origin == "registered",
        )
        .order_by(Review.id.desc())
        .limit(_DECISIONS)
    )
    waits = [max(0.0, (reviewed_at - created_at).total_seconds()) for reviewed_at, created_at in rows.tuples()]
    return round(median(waits)) if len(waits) >= _FEWEST_DECISIONS else None
