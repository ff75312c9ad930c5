"""Fixtures of the doctor's tests, besides those of all tests.

database_kind  "sqlite"; a file that wants both kinds has `database_kind` of its own
doctor_case         a server on which everything is as it should be
"""

from pathlib import Path

import pytest
import yaml

from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.doctor_case import DoctorCase
from tests.support.quick_start import parse_yaml_quickly


@pytest.fixture(autouse=True)
def quick_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every report reads the same files several times."""
    monkeypatch.setattr(yaml, "safe_load", parse_yaml_quickly)


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "sqlite"


@pytest.fixture
def doctor_case(tmp_path: Path, game_server: GameServer, authme_table: AuthMeTable) -> DoctorCase:
    return DoctorCase(tmp_path / "companion", game_server, authme_table)
