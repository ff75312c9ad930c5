"""Earlier rejections of users' names and e-mail addresses."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from regsvc.database.models import Review

_MAX_REVIEWS: Final = 10_000  # for the names and addresses of one page together


@dataclass(frozen=True)
class Rejections:
    """Earlier rejections of a name or its e-mail address. `last_at` and `last_reason` None: never."""

    count: int = 0
    last_at: datetime | None = None
    last_reason: str | None = None


def find_rejections(users: Sequence[Any]) -> dict[int, Rejections]:
    """Return rejections by user id, with one query, for rows with `id`, `username_key` and `email_key`."""
    if not users:
        return {}
    names = {user.username_key for user in users}
    addresses = {user.email_key for user in users if user.email_key is not None}
    newest_first = list(
        Review.select(Review.id, Review.username_key, Review.email_key, Review.reason, Review.reviewed_at)
        .where(Review.transition == "reject", Review.username_key.in_(names) | Review.email_key.in_(addresses))
        .order_by(Review.id.desc())
        .limit(_MAX_REVIEWS)
    )
    by_name: dict[str, list[Review]] = {}
    by_address: dict[str | None, list[Review]] = {}
    for review in newest_first:
        by_name.setdefault(review.username_key, []).append(review)
        by_address.setdefault(review.email_key, []).append(review)
    return {
        user.id: _summarize([*by_name.get(user.username_key, ()), *_with_address(by_address, user.email_key)])
        for user in users
    }


def _with_address(by_address: dict[str | None, list[Review]], key: str | None) -> list[Review]:
    return by_address.get(key, []) if key is not None else []


def _summarize(reviews: Sequence[Review]) -> Rejections:
    """Summarize reviews that may be listed twice, by name and by address."""
    distinct = {review.id: review for review in reviews}
    if not distinct:
        return Rejections()
    last = distinct[max(distinct)]
    return Rejections(len(distinct), last.reviewed_at, last.reason)
