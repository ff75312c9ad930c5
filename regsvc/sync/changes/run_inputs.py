"""Inputs of a sync run beside AuthMe's table: where they changed, names may be decided otherwise than before."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from regsvc import __version__
from regsvc.database.models import SyncState
from regsvc.sync.records import Policy


@dataclass(frozen=True)
class RunInputs:
    """Fingerprint of policy and version, operators and users that a run decides with.

    Ids are never reused: while count, sum of the ids and newest user with a player stay the same, no user with a player
    was deleted. The three are 0 on SQLite, where a trigger marks deletions.
    """

    policy: str
    operators: frozenset[str]
    user_count: int = 0
    user_ids: int = 0
    newest_id: int = 0

    def save(self, compared_at: datetime) -> None:
        """Store them as those of the last completed run. Runs in the caller's transaction."""
        values = {"id": 1, **vars(self), "operators": "\n".join(sorted(self.operators)), "compared_at": compared_at}
        query: Any = SyncState.replace(values)  # type: ignore[no-untyped-call]
        query.execute()

    @classmethod
    def find_last(cls) -> "tuple[RunInputs, datetime] | None":
        """Return those of the last completed run, and when every row was last compared; None before the first."""
        row = SyncState.get_or_none(SyncState.id == 1)
        if row is None:
            return None
        operators = frozenset(row.operators.split("\n")) - {""}
        return cls(row.policy, operators, row.user_count, row.user_ids, row.newest_id), row.compared_at

    def has_same_users(self, other: "RunInputs") -> bool:
        """Return whether no user with a player was deleted in between."""
        users = self.user_count, self.user_ids, self.newest_id
        return users == (other.user_count, other.user_ids, other.newest_id)


def fingerprint(policy: Policy) -> str:
    """Return a hash that differs for every other config and every other version of this program."""
    choices = {
        name: sorted(value) if isinstance(value, frozenset) else str(value) for name, value in asdict(policy).items()
    }
    return hashlib.sha256(f"{__version__} {sorted(choices.items())}".encode()).hexdigest()
