"""Inputs of a sync run beside AuthMe's table: where they changed, names may be decided otherwise than before."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from regsvc import __version__
from regsvc.database.models import SyncState
from regsvc.sync.records import Policy


class UserTally(NamedTuple):
    """Number of users, sum of their ids, and the newest user that has a player.

    Ids are never reused: while all three stay the same, no user with a player was deleted. All are 0 on SQLite, where a
    trigger marks deletions.
    """

    user_count: int
    ids: int
    newest_id: int


@dataclass(frozen=True)
class RunInputs:
    """Fingerprint of policy and version, operators and user tally that a run decides with."""

    policy: str
    operators: frozenset[str]
    users: UserTally

    def save(self, compared_at: datetime) -> None:
        """Store them as those of the last completed run. Runs in the caller's transaction."""
        values = {
            "id": 1,
            "policy": self.policy,
            "operators": "\n".join(sorted(self.operators)),
            "user_count": self.users.user_count,
            "user_ids": self.users.ids,
            "newest_id": self.users.newest_id,
            "compared_at": compared_at,
        }
        query: Any = SyncState.replace(values)  # type: ignore[no-untyped-call]
        query.execute()


@dataclass(frozen=True)
class LastRun:
    """The last completed run: its inputs, and when every row was last compared."""

    inputs: RunInputs
    compared_at: datetime

    @classmethod
    def find(cls) -> "LastRun | None":
        """Return the last completed run, or None before the first."""
        row = SyncState.get_or_none(SyncState.id == 1)
        if row is None:
            return None
        operators = frozenset(row.operators.split("\n")) - {""}
        users = UserTally(row.user_count, row.user_ids, row.newest_id)
        return cls(RunInputs(row.policy, operators, users), row.compared_at)


def fingerprint(policy: Policy) -> str:
    """Return a hash that differs for every other config and every other version of this program."""
    choices = {
        name: sorted(value) if isinstance(value, frozenset) else str(value) for name, value in asdict(policy).items()
    }
    return hashlib.sha256(f"{__version__} {sorted(choices.items())}".encode()).hexdigest()
