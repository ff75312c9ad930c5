"""`companion doctor` as a host runs it: the real process, its exit status, and no secrets in its output."""

import json
import os
import pty
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import Finished, companion
from tests.support.daemon import Daemon, clean_environment
from tests.support.doctor_case import NOT_DURABLE, RCON_PASSWORD, DoctorCase
from tests.support.peers.mariadb import AUTHME
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port
from tests.support.quick_start import quick_start

MAIL_PASSWORD = "mail-9d1b7c"
TOKEN = "scrape-4f0e55"
FOR_ALL = "for all of it run: companion doctor, or see /admin"
AS_ROOT = {"machine.root"} if os.geteuid() == 0 else set()


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    kind: DatabaseKind = request.param
    return kind


@pytest.fixture(autouse=True)
def own_ports(doctor_case: DoctorCase, smtp: MailServer) -> None:
    doctor_case.change("server", port=free_port())
    doctor_case.change("mail", port=smtp.port)


def doctor(doctor_case: DoctorCase, *arguments: str) -> Finished:
    doctor_case.read_config()  # writes it
    return companion("doctor", *arguments, config=doctor_case.config_file)


def ids(finished: Finished) -> set[str]:
    told: dict[str, Any] = json.loads(finished.output)
    assert finished.status == {"fine": 0, "risky": 1, "broken": 2}[told["verdict"]]
    return {finding["id"] for finding in told["findings"]} - {NOT_DURABLE}


def test_a_healthy_server(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    told = doctor(doctor_case, "--json")
    assert (ids(told), told.errors) == (AS_ROOT, "")


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_broken_one_tells_everything_but_secrets(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    doctor_case.game.change_authme(
        {
            "DataSource.caching": True,
            "settings.security.passwordHash": "TWO_FACTOR",
            "Email.mailAccount": "game@example.org",
            "Email.mailPassword": MAIL_PASSWORD,
        }
    )
    doctor_case.change("metrics", token=TOKEN)
    doctor_case.change("server", base_url="")
    (doctor_case.state_dir / "installation.key").chmod(0o644)
    plain, for_programs = doctor(doctor_case), doctor(doctor_case, "--json")
    assert (plain.status, plain.errors) == (2, "")
    found = {"authme.caching", "hash.impossible", "server.no_base_url", "secrets.keys"}
    assert ids(for_programs) == found | AS_ROOT
    assert all(id in plain.output for id in found)
    assert "\033" not in plain.output
    keys = [(doctor_case.state_dir / name).read_text().strip() for name in ("installation.key", "signing.key")]
    for secret in (RCON_PASSWORD, MAIL_PASSWORD, TOKEN, AUTHME[1], *keys):
        assert secret not in plain.output + for_programs.output


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_database_that_is_away(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.backend": "MYSQL", "DataSource.mySQLPort": str(free_port())})
    told = doctor(doctor_case)
    assert told.status == 2
    assert "BROKEN  database.away" in told.output
    assert "Not examined: AuthMe’s table" in told.output


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_report_is_in_the_hosts_language_or_the_one_named(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True})
    doctor_case.change("server", language="zh")
    assert "处理：关闭缓存" in doctor(doctor_case).output
    assert "Do: Switch the cache off" in doctor(doctor_case, "--language", "en").output
    assert '"DataSource.caching is true."' in doctor(doctor_case, "--json").output


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_config_that_is_broken(doctor_case: DoctorCase) -> None:
    doctor_case.config_file.write_text("[server\nport = 1\n")
    told = companion("doctor", "--json", config=doctor_case.config_file)
    assert (ids(told), told.errors) == ({"config.broken"} | AS_ROOT, "")
    told = companion("doctor", "--json", config=doctor_case.directory / "nowhere.toml")
    assert (ids(told), "there is no such file" in told.output) == ({"config.broken"} | AS_ROOT, True)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_without_any_config_it_takes_the_games_folder(doctor_case: DoctorCase, tmp_path: Path) -> None:
    told = companion("doctor", "--json", "--game-dir", str(doctor_case.game.directory), directory=tmp_path)
    found = ids(told)
    assert found >= {"mail.off"}
    assert not found & {"allowlist.no_gate", "game.unreadable", "table.missing"}
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_beside_a_companion_that_runs(doctor_case: DoctorCase, tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", {**doctor_case.sections, "updates": {"enabled": False}}).start()
    try:
        told = companion("doctor", "--json", config=daemon.config_file)
    finally:
        daemon.stop()
    assert (ids(told), told.errors) == (AS_ROOT, "")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_check_config_looks_at_no_table_and_no_mail_server_and_says_so(doctor_case: DoctorCase) -> None:
    doctor_case.change("mail", username="companion", password=MAIL_PASSWORD)
    doctor_case.read_config()
    told = companion("check-config", config=doctor_case.config_file)
    assert told.status == 0
    assert told.output.splitlines()[-1].startswith("not checked: ")
    assert "run: companion doctor" in told.output
    told = doctor(doctor_case, "--json")
    assert "mail.unusable" in ids(told)
    assert "offers no login here: set mail.security" in told.output
    assert MAIL_PASSWORD not in told.output


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_daemon_logs_at_its_start_what_is_broken(doctor_case: DoctorCase, tmp_path: Path) -> None:
    doctor_case.sections["mail"] = {"backend": "off"}
    doctor_case.change("captcha", length=6)
    doctor_case.game.change_authme({"DataSource.caching": True})
    daemon = Daemon(tmp_path / "daemon", {**doctor_case.sections, "updates": {"enabled": False}}).start()
    try:
        assert daemon.wait_for_log(FOR_ALL)
    finally:
        daemon.stop()
    broken, summary = (json.loads(line) for line in daemon.log if "doctor: " in line)
    assert (broken["level"], summary["level"]) == ("error", "warning")
    assert broken["message"].startswith('doctor: mail.backend is "off". Configure a mail server')
    assert re.fullmatch(rf"doctor: 1 broken, [2-5] risky; {re.escape(FOR_ALL)}", summary["message"])
    assert len([line for line in daemon.log if "[captcha] length has no effect: it needs " in line]) == 1
    assert [line for line in daemon.output if not line.startswith("companion ready on ")] == []


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}], ids=["colours", "NO_COLOR"])
def test_a_terminal_has_colours(doctor_case: DoctorCase, tmp_path: Path, environment: dict[str, str]) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True})
    doctor_case.read_config()
    ours, theirs = pty.openpty()
    command = ("doctor", "--config", str(doctor_case.config_file))
    process = quick_start().start(command, {**clean_environment(), **environment}, tmp_path, (theirs, theirs, theirs))
    os.close(theirs)
    told = read_all(ours)
    assert process.wait() == 1
    assert (b"\033[33mRISKY\033[0m" in told) == (not environment)


def read_all(terminal: int) -> bytes:
    """Read what is written to a terminal until it is closed, which Linux reports as EIO."""
    told = b""
    with open(terminal, "rb", buffering=0) as screen, suppress(OSError):
        while piece := screen.read(4096):
            told += piece
    return told
