"""Random operations in random order: AuthMe's table changes only where it may, and one password logs in.

Five sequences of fifty operations on each kind of database; `make torture` runs two hundred.
"""

import os
from pathlib import Path

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.crash.random_services import services_opener
from tests.support.crash.random_stack import run_sequences

SEQUENCES = 3
SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))


def test_the_players_table_changes_only_where_it_may(
    request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path
) -> None:
    server = request.getfixturevalue("mariadb") if database_kind == "mariadb" else None
    operations = run_sequences(services_opener(tmp_path, server), SEQUENCES, SEED)
    print(f"{operations} operations, COMPANION_TEST_SEED={SEED}")
    assert operations >= 30 * SEQUENCES
