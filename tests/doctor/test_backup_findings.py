"""Findings about backups, and about a unit that does not let the companion write where its config leads."""

import fcntl
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regsvc.cli.shipped_files import read_shipped
from regsvc.config.places import SystemPlaces
from regsvc.doctor.facts.host import is_forbidden_by_unit
from regsvc.runtime.backups import note_backup
from tests.support.doctor_case import DoctorCase

NOW = datetime(2031, 5, 4, 12, tzinfo=UTC)
TIMER = "companion-backup@survival.timer"


class Machine:
    """A machine with systemd, whose server `survival` is the one of the case. It was installed at `NOW`."""

    def __init__(self, root: Path, case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.units, self.case = root / "etc/systemd/system", case
        config = root / "etc/companion@survival/companion.toml"
        for folder in (config.parent, self.units / "timers.target.wants", root / "run/systemd/system"):
            folder.mkdir(parents=True)
        case.config_file = config
        monkeypatch.setattr("regsvc.config.places._ETC", root / "etc")
        monkeypatch.setattr("regsvc.config.places._VAR_LIB", root / "var/lib")
        monkeypatch.setattr("regsvc.config.places.BACKUPS", root / "var/backups")
        monkeypatch.setattr("regsvc.runtime.backups._SYSTEMD", root / "run/systemd/system")
        monkeypatch.setattr("regsvc.runtime.backups._ENABLED", (self.units,))
        monkeypatch.setattr("regsvc.doctor.facts.host.UNIT_FOLDERS", (self.units, root / "usr/lib"))
        self.places = SystemPlaces("companion@survival")
        self.places.backups.mkdir(parents=True)
        case.start_once()
        os.utime(case.state_dir / "home.json", (NOW.timestamp(),) * 2)

    def enable_timer(self) -> None:
        (self.units / "timers.target.wants" / TIMER).symlink_to(self.units / TIMER)

    def choose(self, *, has_backups: bool) -> None:
        self.places.record_file.write_text(json.dumps({"user": "mc", "has_backups": has_backups}))

    def after(self, days: float) -> list[str]:
        """Return the ids of the findings so many days later."""
        self.case.change_host(now=lambda: NOW + timedelta(days=days))
        return [finding.id for finding in self.case.findings()]


@pytest.fixture
def machine(tmp_path: Path, doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "machine", doctor_case, monkeypatch)


def test_a_timer_that_is_not_enabled_is_found_at_once(machine: Machine) -> None:
    assert machine.after(0.1) == ["backup.none"]
    assert TIMER in machine.case.only_finding("backup.none").title
    machine.enable_timer()
    assert machine.after(1.9) == []
    assert machine.after(2.1) == ["backup.none"]
    assert str(machine.places.backups) in machine.case.only_finding("backup.none").title


def test_who_has_declined_is_told_mildly(machine: Machine) -> None:
    machine.choose(has_backups=False)
    assert machine.after(1) == []
    assert machine.after(3) == ["backup.none"]
    assert "as it was chosen" in machine.case.only_finding("backup.none").title


def test_a_backup_grows_old(machine: Machine) -> None:
    machine.enable_timer()
    (machine.places.backups / "companion-20310505-030000").mkdir()
    (machine.places.backups / "companion-20310401-030000").mkdir()
    (machine.places.backups / "mine").mkdir()
    assert machine.after(3) == []
    assert machine.after(4) == ["backup.old"]
    assert machine.case.only_finding("backup.old").title == "The newest backup is of 2031-05-05 03:00 UTC."
    note_backup(machine.case.state_dir, Path("/mnt/nas/anywhere"), NOW + timedelta(days=3.5))
    assert machine.after(4) == []


def test_a_backup_that_was_killed_is_found_and_a_running_one_is_not(machine: Machine) -> None:
    machine.enable_timer()
    unfinished = machine.places.backups / "companion-20310505-030000.unfinished"
    unfinished.mkdir()
    running = os.open(unfinished, os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_EX)
    assert machine.after(1) == []
    os.close(running)
    assert machine.after(1) == ["backup.failed"]
    assert str(unfinished) in machine.case.only_finding("backup.failed").title


def test_outside_etc_only_a_backup_that_was_made_is_watched(doctor_case: DoctorCase) -> None:
    """In a container or on a panel others save the folder."""
    doctor_case.start_once()
    made = datetime.now(UTC)
    doctor_case.change_host(now=lambda: made + timedelta(days=9))
    assert doctor_case.findings() == []
    note_backup(doctor_case.state_dir, doctor_case.directory / "backups", made)
    doctor_case.only_finding("backup.old")
    (doctor_case.state_dir / "last-backup.json").write_text("[")
    assert doctor_case.findings() == []


def test_the_unit_forbids_what_the_config_says(machine: Machine) -> None:
    machine.enable_timer()
    (machine.units / "companion@.service").write_text(read_shipped("systemd/companion@.service"))
    machine.after(1)
    finding = machine.case.only_finding("machine.state_dir")
    assert finding.title == f"The unit does not let the companion write to {machine.case.state_dir}."
    assert "companion install" in finding.do
    told = {"success": False, "code": "database_away", "fault": "unwritable", "writable": False}
    machine.case.change_host(fetch=lambda url: json.dumps(told).encode())
    assert machine.after(1) == ["machine.state_dir"]  # and nobody is told to free some space
    drop_in = machine.units / "companion@survival.service.d/install.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(f'[Service]\nReadWritePaths=\nReadWritePaths=-/srv/x "{machine.case.state_dir}"\n')
    assert "machine.state_dir" not in machine.after(1)


def test_without_such_a_unit_nothing_is_forbidden(machine: Machine, tmp_path: Path) -> None:
    assert not is_forbidden_by_unit("other.service", tmp_path, Path("/srv"))
    (machine.units / "other.service").write_text("[Service]\nProtectSystem=full\n")
    assert not is_forbidden_by_unit("other.service", tmp_path, Path("/srv"))
