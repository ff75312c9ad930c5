"""The long form of `tests/faults/test_random_operations.py`: two hundred sequences of each on each kind of database.

`COMPANION_TEST_SEED` is the first of the seeds; the name of a failed test says which one it was. The file is not
called `test_`, so that it runs only when it is named.
"""

import os
from pathlib import Path

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.crash.random_services import services_opener
from tests.support.crash.random_stack import PromptStack, RandomStack, run_sequences

FIRST_SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))
SEQUENCES = 20  # for each seed


@pytest.mark.parametrize("kind", [RandomStack, PromptStack])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 10))
def test_nothing_changes_but_what_may(
    request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path, seed: int, kind: type[PromptStack]
) -> None:
    server = request.getfixturevalue("mariadb") if database_kind == "mariadb" else None
    print(f"{run_sequences(kind, services_opener(tmp_path, server), SEQUENCES, seed)} operations")
