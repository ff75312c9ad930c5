"""Random operations in random order: AuthMe's table changes only where it may, one password logs in, and operators keep
their rights as long as the game has them for some. `make torture` runs two hundred, each on both kinds of database.
"""

import os
from pathlib import Path

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.crash.random_services import OpenServices, services_opener
from tests.support.crash.random_stack import PromptStack, RandomStack, run_sequences

SEQUENCES = 1
SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))


@pytest.fixture
def open_services(request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path) -> OpenServices:
    server = request.getfixturevalue("mariadb") if database_kind == "mariadb" else None
    return services_opener(tmp_path, server)


def test_the_players_table_changes_only_where_it_may(open_services: OpenServices) -> None:
    operations = run_sequences(RandomStack, open_services, SEQUENCES, SEED)
    print(f"{operations} operations, COMPANION_TEST_SEED={SEED}")
    assert operations >= 30 * SEQUENCES


@pytest.mark.one_database("sqlite")  # the oracle is the game's files
def test_nobody_loses_a_right_at_the_login_prompt_nor_keeps_one_that_was_taken(open_services: OpenServices) -> None:
    operations = run_sequences(PromptStack, open_services, 2 * SEQUENCES, SEED)
    print(f"{operations} operations, COMPANION_TEST_SEED={SEED}")
    assert operations >= 60 * SEQUENCES
