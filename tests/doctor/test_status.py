"""`companion status`: what an operator reads first, also of a daemon that is stopped, stuck, or has no database."""

import json
import resource
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from regsvc import __version__
from regsvc.cli.status import EXIT_STATUS, inspect
from regsvc.core import clock
from regsvc.doctor.facts.facts import Facts
from tests.support.command_line import companion, companion_here
from tests.support.daemon import Daemon, clean_environment
from tests.support.doctor_case import DoctorCase
from tests.support.ports import free_port
from tests.support.quick_start import PROGRAM

KEYS = [
    *("state", "problem", "unit", "processId", "startedAt", "version", "runningVersion", "health", "config"),
    *(
        "stateDirectory",
        "database",
        "address",
        "baseUrl",
        "users",
        "mail",
        "freeBytes",
        "backups",
        "lastBackupAt",
        "unknown",
    ),
]
WAITING_MAIL = (
    "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at,"
    " next_attempt_at, last_error) VALUES ('mail', 'approved', 'a@example.org', 'a@example.org', 'en', 2, ?,"
    " '2099-01-01 00:00:00.000', '450 4.2.1 <alice@example.org>: too busy\x1b[2J')"
)


def status_of(config: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what both forms tell: for programs, and for people by label."""
    for_programs, plain = (companion_here("status", *form, config=config) for form in (("--json",), ()))
    told: dict[str, Any] = json.loads(for_programs.output)
    assert list(told) == KEYS
    assert for_programs.status == plain.status == EXIT_STATUS[told["state"]]
    assert for_programs.errors == plain.errors == ""
    lines = (line.partition(":") for line in plain.output.splitlines())
    return told, {label: text.strip() for label, _colon, text in lines}


@pytest.mark.parametrize("database_kind", ["sqlite", "mariadb"])
def test_a_day_of_a_daemon(doctor_case: DoctorCase) -> None:
    """It was never started, runs with three users and a mail that waits, hangs, and is killed."""
    doctor_case.change("registration", methods=["captcha"])
    daemon = Daemon(doctor_case.directory, {**doctor_case.sections, "updates": {"enabled": False}})
    told, lines = status_of(daemon.config_file)
    assert (told["state"], told["users"], "never started" in lines["problem"]) == ("stopped", None, True)
    daemon.start()
    try:
        for name in ("Alice", "Bob"):
            companion("users", "create", name, "--password-stdin", config=daemon.config_file, typed="a-s3cret-pw\n")
        companion("users", "ban", "Bob", config=daemon.config_file)
        doctor_case.our_database.execute(WAITING_MAIL, (f"{clock.now() - timedelta(minutes=5):%Y-%m-%d %H:%M:%S}.000",))
        told, lines = status_of(daemon.config_file)
        assert (told["state"], told["problem"], told["processId"]) == ("running", None, daemon.pid)
        assert told["runningVersion"] == told["version"] == lines["version"] == __version__
        assert told["users"] == {"approved": 2, "banned": 1}
        assert lines["users"] == "2 approved, 1 banned"
        assert lines["mail"] == "on, 1 waiting, the oldest for 5 minutes, last trouble: 450 4.2.1 <…>: too busy[2J"
        assert (told["health"]["bridge"], lines["AuthMe"].startswith("up, last sync ")) == ("up", True)
        assert daemon.base_url in lines["address"]
        assert timedelta(0) <= clock.now() - datetime.fromisoformat(told["startedAt"]) < timedelta(minutes=2)
        daemon.send(signal.SIGSTOP)
        told, lines = status_of(daemon.config_file)
        assert (told["state"], told["users"]["banned"]) == ("not ready", 1)
        assert "does not answer" in lines["problem"]
        daemon.send(signal.SIGCONT)
    finally:
        daemon.kill()
    told, lines = status_of(daemon.config_file)
    assert (told["state"], told["problem"], told["health"], lines["AuthMe"]) == ("stopped", None, None, "unknown")
    assert told["users"] == {"approved": 2, "banned": 1}
    assert lines["more"] == f"companion doctor --config {daemon.config_file}"


def test_the_database_is_away(doctor_case: DoctorCase) -> None:
    doctor_case.change("server", port=free_port())
    doctor_case.game.change_authme({"DataSource.backend": "MYSQL", "DataSource.mySQLPort": "1"})
    doctor_case.read_config()
    told, lines = status_of(doctor_case.config_file)
    assert (told["users"], lines["unknown"]) == (None, "our own tables: the database cannot be read")
    doctor_case.game.authme_config.write_text("DataSource: [")
    told, lines = status_of(doctor_case.config_file)
    assert (told["database"], lines["mail"]) == ("unknown", "on")
    assert lines["unknown"] == "AuthMe’s config and its table: the config cannot be read"


@pytest.mark.parametrize(
    ("ready", "alive", "state", "problem"),
    [
        ("{}", "{}", "stopped", "another program listens at http://127.0.0.1:8080"),
        ("{}", '{"success": true}', "not ready", "its database does not answer in time"),
        ('{"success": false, "message": "Away."}', '{"success": true}', "not ready", "Away."),
        (
            '{"success": true, "status": "ready"}',
            '{"success": true, "installation": "another"}',
            *("stopped", "a companion of another installation listens at http://127.0.0.1:8080"),
        ),
        ('{"success": true, "status": "ready"}', '{"success": true}', "running", None),
    ],
)
def test_what_answers_on_our_port(
    doctor_case: DoctorCase, ready: str, alive: str, state: str, problem: str | None
) -> None:
    metrics = 'companion_build_info{server_instance="a",version="0.0.9"} 1.0'
    answers = {"/health/ready": ready, "/health/alive": alive, "/metrics": metrics}
    doctor_case.start_once()
    doctor_case.change_host(fetch=lambda url: answers[url.removeprefix("http://127.0.0.1:8080")].encode())
    status = inspect(Facts(doctor_case.read_config(), doctor_case.host))
    assert (status["state"], status["problem"]) == (state, problem)
    assert status["runningVersion"] == ("0.0.9" if state == "running" or "message" in ready else None)
    is_foreign = "server.port_taken" in {finding.id for finding in doctor_case.findings()}
    assert is_foreign == ("another program" in str(problem))


def test_it_is_quick(doctor_case: DoctorCase) -> None:
    """Whoever asks it beside a game that needs the machine, or for hundreds of servers, waits for it."""
    doctor_case.start_once()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(PROGRAM), "status", "--config", str(doctor_case.config_file)]
    environment = clean_environment() | {"COMPANION_SERVER_PORT": str(free_port())}
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 3
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
