"""Fixtures of the doctor's tests, besides those of all tests.

database_kind  "sqlite"; a file that wants both kinds has `database_kind` of its own
doctor_case         a server on which everything is as it should be
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.doctor_case import DoctorCase
from tests.support.quick_yaml import quick_yaml


@pytest.fixture(autouse=True)
def quick_reports() -> Iterator[None]:
    """Every report reads the same files several times."""
    with quick_yaml():
        yield


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "sqlite"


@pytest.fixture
def doctor_case(tmp_path: Path, game_server: GameServer, authme_table: AuthMeTable) -> DoctorCase:
    return DoctorCase(tmp_path / "companion", game_server, authme_table)
