"""An installation without problems: the doctor finds nothing, before the first start and after it."""

import os
from pathlib import Path

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import dump_table, insert_player
from tests.support.doctor_case import DoctorCase

NOW_IN_MS = 1_790_000_000_000


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    kind: DatabaseKind = request.param
    return kind


def fill(doctor_case: DoctorCase) -> None:
    for name in ("Alice", "Bob"):
        insert_player(doctor_case.table, username=name.lower(), realname=name, password="x", regdate=NOW_IN_MS)


def test_nothing_is_wrong_before_the_first_start(doctor_case: DoctorCase) -> None:
    fill(doctor_case)
    checkup = doctor_case.examine()
    assert (checkup.findings, checkup.not_examined, checkup.verdict) == ((), (), "fine")


def test_nothing_is_wrong_after_it(doctor_case: DoctorCase) -> None:
    fill(doctor_case)
    doctor_case.start_once()
    checkup = doctor_case.examine()
    assert (checkup.findings, checkup.not_examined) == ((), ())


def test_it_changes_nothing(doctor_case: DoctorCase, tmp_path: Path) -> None:
    fill(doctor_case)
    doctor_case.start_once()
    doctor_case.examine()
    before, rows = files_under(tmp_path), dump_table(doctor_case.table)
    tables = doctor_case.our_database.query("SELECT * FROM regsvc_installation")
    doctor_case.examine()
    assert files_under(tmp_path) == before
    assert dump_table(doctor_case.table) == rows
    assert doctor_case.our_database.query("SELECT * FROM regsvc_installation") == tables


def test_it_makes_nothing_before_the_first_start(doctor_case: DoctorCase, tmp_path: Path) -> None:
    doctor_case.examine()
    assert not doctor_case.state_dir.exists()
    if doctor_case.table.database.kind == "mariadb":
        assert [list(row.values()) for row in doctor_case.table.database.query("SHOW TABLES")] == [["authme"]]


def files_under(folder: Path) -> dict[Path, bytes]:
    """Return every file with its content, except the config, which the DoctorCase writes."""
    files = (Path(place) / name for place, _folders, names in os.walk(folder) for name in names)
    return {file: file.read_bytes() for file in files if file.name != "companion.toml"}
