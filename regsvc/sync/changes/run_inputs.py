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
    """Fingerprint of policy and version, and the operators, that a run decides with."""

    policy: str
    operators: frozenset[str]

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
        return cls(row.policy, operators), row.compared_at


def fingerprint(policy: Policy) -> str:
    """Return a hash that differs for every other config and every other version of this program."""
    choices = {
        name: sorted(value) if isinstance(value, frozenset) else str(value) for name, value in asdict(policy).items()
    }
    return hashlib.sha256(f"{__version__} {sorted(choices.items())}".encode()).hexdigest()
