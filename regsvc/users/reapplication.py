"""When a rejected name may be registered again."""

from datetime import datetime, timedelta

from regsvc.database.models import REJECTED, Review, User


def find_reapply_at(
    status: str | None, reviewed_at: datetime | None, reapply_after: timedelta, now: datetime, *, may_reapply: bool
) -> datetime | None:
    """Return when the name of a user with this status becomes free, or None where no rejection holds it any more.

    `may_reapply`: the operator who rejected the user allowed another application at once.
    """
    if status != REJECTED or reviewed_at is None or may_reapply:
        return None
    reapply_at = reviewed_at + reapply_after
    return reapply_at if reapply_at > now else None


def find_reapply_at_after(review: Review, reapply_after: timedelta, now: datetime) -> datetime | None:
    """Return when the name that this review rejected becomes free, or None if it is, as in `find_reapply_at`."""
    may_reapply = User.select().where((User.id == review.user_id) & User.may_reapply).exists()
    return find_reapply_at(review.status_after, review.reviewed_at, reapply_after, now, may_reapply=may_reapply)
