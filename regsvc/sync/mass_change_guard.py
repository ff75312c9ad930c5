"""Mass-change guard: holds back what is due for too many names at once and may only mean that a table is wrong."""

from regsvc.core.units import ChangeLimit
from regsvc.database.models import PRESENT, Player
from regsvc.sync import actions
from regsvc.sync.report import HeldBack, SyncReport


class MassChangeGuard:
    """Guard that compares the guarded actions of a run with the limit in the config. Blocking."""

    def __init__(self, limit: ChangeLimit) -> None:
        self._limit = limit

    def is_exceeded(self, kinds: list[type[actions.SyncAction]], report: SyncReport, *, is_plan: bool) -> bool:
        """Return whether actions of these kinds, one for each name, are too many at once.

        Actions on rows are compared with the number of known rows, SQL edits with the number of all users. Rows that
        AuthMe deletes by itself do not count, however many they are, unless the table is empty.
        """
        counted = len(kinds) - kinds.count(actions.MarkUnverifiedMissing)
        rows = counted - kinds.count(actions.ApplySqlEdit)
        enough = self._limit.min_rows_for(counted)  # no need to count further
        known = Player.select(Player.username_key).where(Player.presence == PRESENT).limit(enough).count()
        if report.scanned == 0 and known > 0 and _count_missing(kinds):
            return True
        if is_plan:
            known += report.adopted
        users = Player.select(Player.username_key).where(Player.user_id.is_null(False)).limit(enough).count()
        return self._limit.is_exceeded_by(rows, known) or self._limit.is_exceeded_by(counted, max(known, users))

    def count_held_back(self, kinds: list[type[actions.SyncAction]]) -> HeldBack:
        """Return the report's counts of actions of these kinds."""
        locked, edited = kinds.count(actions.Lock), kinds.count(actions.ApplySqlEdit)
        passwords, missing = kinds.count(actions.TakeEarlierPassword), _count_missing(kinds)
        removed = len(kinds) - locked - edited - passwords
        return HeldBack(removed, locked, edited, passwords, missing, str(self._limit))


def _count_missing(kinds: list[type[actions.SyncAction]]) -> int:
    return sum(issubclass(kind, actions.MarkMissing) for kind in kinds)
