"""When a rejected name may be registered again."""

from datetime import datetime, timedelta

from regsvc.database.models import REJECTED


def find_reapply_at(
    status: str | None, reviewed_at: datetime | None, reapply_after: timedelta, now: datetime
) -> datetime | None:
    """Return when the name of a user with this status becomes free, or None where no rejection holds it any more."""
    if status != REJECTED or reviewed_at is None:
        return None
    reapply_at = reviewed_at + reapply_after
    return reapply_at if reapply_at > now else None
