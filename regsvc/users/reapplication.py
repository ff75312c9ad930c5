"""When a rejected name may be registered again."""

from datetime import datetime, timedelta

from regsvc.database.models import REJECTED, User


def find_reapply_at(user: User, reapply_after: timedelta) -> datetime | None:
    """Return when the name of a rejected user becomes free, or None where no rejection with a date holds it."""
    if user.status != REJECTED or user.reviewed_at is None:
        return None
    reapply_at: datetime = user.reviewed_at + reapply_after
    return reapply_at
