"""Findings about the machine: user, disks, clock and readable secrets."""

import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regsvc.doctor.facts import databases
from tests.support.authme.game_server import write_game_server
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase

MEBIBYTE = 1024 * 1024


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that other users of the machine can read, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def closed(doctor_case: DoctorCase) -> None:
    """Set permissions like a careful host."""
    doctor_case.game.authme_directory.chmod(0o700)
    doctor_case.game.properties_file.chmod(0o600)


def test_the_state_directory_is_read_only(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != doctor_case.directory)
    assert str(doctor_case.directory) in doctor_case.only_finding("machine.state_dir").title


def test_the_state_directory_was_removed_under_the_companion(doctor_case: DoctorCase) -> None:
    told = {"success": False, "code": "database_away", "stateLost": True, "installation": "0123456789abcdef"}
    doctor_case.change_host(fetch=lambda url: json.dumps(told).encode())
    assert str(doctor_case.state_dir) in doctor_case.only_finding("machine.state_lost").title


def test_our_file_is_on_a_network(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "describe_mount", lambda file: {"file_system": "nfs4", "mount_option": ""})
    for is_started in (False, True):
        if is_started:
            doctor_case.start_once()
        [finding] = doctor_case.examine_durability().findings
        assert (finding.id, finding.severity) == ("database.not_durable", "risky")
        assert finding.title == "A commit can be lost with file_system=nfs4."
        assert finding.where == str(doctor_case.state_dir / "companion.db")


def test_the_state_directory_is_a_file(doctor_case: DoctorCase) -> None:
    doctor_case.state_dir.write_text("")
    checkup = doctor_case.examine()
    assert [(finding.id, finding.severity) for finding in checkup.findings] == [("machine.state_dir", "broken")]
    assert "not a folder" in checkup.findings[0].title
    assert checkup.not_examined == ("the state directory: it is not a folder",)


def test_the_state_directory_is_closed_to_us(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor_case.start_once()
    monkeypatch.setattr("os.access", lambda path, mode: path != doctor_case.state_dir)
    checkup = doctor_case.examine()
    assert [finding.id for finding in checkup.findings] == ["machine.state_dir"]
    assert checkup.not_examined == ("the state directory: we may not read it",)


def test_our_database_is_to_be_in_a_folder_that_is_not_there(doctor_case: DoctorCase, tmp_path: Path) -> None:
    doctor_case.change("database", url=f"sqlite:///{tmp_path / 'nowhere' / 'companion.db'}")
    finding = doctor_case.only_finding("machine.state_dir")
    assert finding.title == f"There is no folder {tmp_path / 'nowhere'} for our database."
    doctor_case.sections.pop("database")
    assert doctor_case.findings() == []  # the state directory is created at the first start


def test_our_database_is_read_only(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor_case.start_once()
    monkeypatch.setattr("os.access", lambda path, mode: mode == os.R_OK or Path(path).name != "companion.db")
    assert "companion.db" in doctor_case.only_finding("machine.state_dir").title


def test_we_are_root_or_the_disk_is_almost_full(doctor_case: DoctorCase) -> None:
    doctor_case.change_host(user_id=lambda: 0)
    doctor_case.only_finding("machine.root")
    doctor_case.change_host(user_id=lambda: 1000, free_bytes=lambda folder: 10 * MEBIBYTE)
    low = doctor_case.only_finding("machine.disk_low")
    assert low.severity == "risky"
    assert low.title.endswith("has 10 MiB left.")
    doctor_case.change_host(free_bytes=lambda folder: 0)
    assert doctor_case.only_finding("machine.disk_low").severity == "broken"


def test_the_companion_cannot_write_its_database(doctor_case: DoctorCase) -> None:
    told = {"success": False, "code": "database_away", "fault": "unwritable", "writable": False}
    doctor_case.change_host(fetch=lambda url: json.dumps(told).encode())
    finding = doctor_case.only_finding("machine.disk_low")
    assert (finding.severity, "cannot write its database" in finding.title) == ("broken", True)


def test_the_clock_has_stopped_long_ago_or_went_back(doctor_case: DoctorCase) -> None:
    doctor_case.change_host(now=lambda: datetime(1970, 1, 1, tzinfo=UTC))
    assert "1970" in doctor_case.only_finding("machine.clock").title
    doctor_case.change_host(now=lambda: datetime.now(UTC))
    doctor_case.start_once()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    doctor_case.our_database.execute(
        "INSERT INTO regsvc_audit (action, operator, created_at) VALUES ('user.approved', 'Olivia', ?)",
        (tomorrow.strftime("%Y-%m-%d %H:%M:%S.000"),),
    )
    finding = doctor_case.only_finding("machine.clock")
    assert f"{tomorrow:%Y-%m-%d %H:%M}" in finding.title
    assert "it was ahead before" in finding.do


# --- secrets ---


def test_everybody_may_read_our_config(doctor_case: DoctorCase) -> None:
    doctor_case.change("metrics", token="scrape-4f0e55")
    assert doctor_case.findings() == []
    doctor_case.config_mode = 0o644
    finding = doctor_case.only_finding("secrets.readable")
    assert "metrics.token" in finding.title
    assert "scrape-4f0e55" not in str(finding)


def test_others_may_read_what_is_in_the_state_directory_or_write_there(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    for key in (doctor_case.state_dir / "installation.key", doctor_case.state_dir / "signing.key"):
        key.chmod(0o640)
        finding = doctor_case.only_finding("secrets.keys")
        assert f"chmod 600 {key}" in finding.title
        assert key.read_text().strip() not in str(finding)
        key.chmod(0o600)
    doctor_case.state_dir.chmod(0o755)
    (doctor_case.state_dir / "companion.db").chmod(0o644)
    assert "companion.db" in doctor_case.only_finding("secrets.readable").title
    doctor_case.state_dir.chmod(0o777)
    assert "secrets.keys" in {finding.id for finding in doctor_case.findings()}


def test_a_key_is_too_short(doctor_case: DoctorCase) -> None:
    doctor_case.state_dir.mkdir(mode=0o700)
    key = doctor_case.state_dir / "signing.key"
    key.write_text("short")
    key.chmod(0o600)
    assert "32 characters" in doctor_case.only_finding("secrets.keys").title


def test_everybody_may_read_the_password_of_a_servers_rcon(doctor_case: DoctorCase, tmp_path: Path) -> None:
    survival = write_game_server(tmp_path / "survival")
    survival.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
    doctor_case.change("game", server=[{"name": "survival", "directory": str(survival.directory)}])
    for file, other in itertools.permutations([survival.properties_file, doctor_case.game.properties_file]):
        file.chmod(0o644)
        other.chmod(0o600)
        finding = doctor_case.only_finding("secrets.readable")
        assert finding.where == f"chmod o-r {file}"
        assert RCON_PASSWORD not in str(finding)


def test_everybody_may_read_authmes_passwords(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"Email.mailAccount": "game@example.org", "Email.mailPassword": "s3cret"})
    doctor_case.game.authme_directory.chmod(0o755)
    doctor_case.game.authme_config.chmod(0o644)
    doctor_case.table.database.path.chmod(0o600)  # type: ignore[attr-defined]
    finding = doctor_case.only_finding("secrets.readable")
    assert finding.where == f"chmod o-r {doctor_case.game.authme_config}"


def test_everybody_may_read_the_hashes_of_players(doctor_case: DoctorCase) -> None:
    doctor_case.game.authme_directory.chmod(0o755)
    assert "authme.db" in doctor_case.only_finding("secrets.readable").title
