"""`companion export`: for spreadsheets and other systems, with no more secrets than requested."""

import csv
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.database.models import User
from tests.support.services import ServiceHarness

Captured = pytest.CaptureFixture[str]


def run(services: ServiceHarness, *arguments: str) -> int:
    return run_data_command(parse(arguments), services.app)


@pytest.fixture
def people(services: ServiceHarness) -> ServiceHarness:
    """Alice plays, Bob waits, Mallory is banned, and Dave played before the companion was installed."""
    services.approved("Alice")
    services.register("Bob")
    services.approved("Mallory")
    services.decide("ban", "Mallory", reason='=HYPERLINK("http://x","\'")\nand more')
    services.authme.register("Dave", "daves-password")
    services.sync()
    return services


def read_csv(text: str) -> dict[str, dict[str, str]]:
    return {row["username"]: row for row in csv.DictReader(io.StringIO(text))}


def test_users_as_csv(people: ServiceHarness, capsys: Captured) -> None:
    assert run(people, "export") == 0
    told = capsys.readouterr()
    rows = read_csv(told.out)
    assert set(rows) == {"Alice", "Bob", "Mallory", "Dave"}
    assert {name: row["status"] for name, row in rows.items()} == {
        "Alice": "approved",
        "Bob": "pending",
        "Mallory": "banned",
        "Dave": "pending",
    }
    alice = rows["Alice"]
    assert (alice["email"], alice["is_email_verified"], alice["origin"]) == ("alice@example.org", "yes", "registered")
    assert (alice["registered_at"], alice["reviewed_by"]) == ("2031-05-04T12:00:00.123Z", "Olivia")
    assert told.err == "4 users\n"


def test_a_spreadsheet_runs_nothing(people: ServiceHarness, capsys: Captured) -> None:
    assert run(people, "export") == 0
    assert read_csv(capsys.readouterr().out)["Mallory"]["reason"].startswith("'=HYPERLINK")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_no_secret_goes_out_unasked(people: ServiceHarness, capsys: Captured, form: str) -> None:
    for what in ("users", "audit"):
        assert run(people, "export", "--format", form, "--what", what) == 0
    told = capsys.readouterr().out
    assert "$SHA$" not in told
    assert "hash" not in told.replace("withHashes", "")


def test_hashes_go_out_when_asked_for_with_a_warning(people: ServiceHarness, capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    assert run(people, "export", "--format", "json", "--with-hashes", "--output", str(file)) == 0
    assert "warning" in capsys.readouterr().err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    users: dict[str, Any] = {user["username"]: user for user in json.loads(file.read_text("utf-8"))["users"]}
    assert users["Alice"]["hash"] == User.get(User.username == "Alice").password_hash
    # the game's own hashes, also of locked players
    assert users["Mallory"]["hash"].startswith("$SHA$")
    assert users["Dave"]["hash"].startswith("$SHA$")
    assert {user["algorithm"] for user in users.values()} == {"SHA256"}
    [entry] = people.details("data.exported")
    assert entry == {"what": "users", "withHashes": True}


def test_a_strangers_hash_is_not_exported_as_the_users(
    services: ServiceHarness, capsys: Captured, tmp_path: Path
) -> None:
    """Alice has no password yet when somebody registers her name in the game; the row is kept, locked."""
    services.approved("Alice", password=None)
    services.authme.register("Alice", "mallorys-secret")
    services.sync()
    assert services.is_locked("alice")
    file = tmp_path / "users.json"
    assert run(services, "export", "--format", "json", "--with-hashes", "--output", str(file)) == 0
    hashes = {user["username"]: user["hash"] for user in json.loads(file.read_text("utf-8"))["users"]}
    assert hashes["Alice"] is None


def test_everything_as_json_with_every_review(people: ServiceHarness, capsys: Captured) -> None:
    assert run(people, "export", "--format", "json", "--what", "all") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["version"]) == ("companion-export", 1)
    mallory = next(user for user in told["users"] if user["username"] == "Mallory")
    assert [review["transition"] for review in mallory["reviews"]] == ["approve", "ban"]
    assert "user.banned" in {entry["action"] for entry in told["audit"]}


def test_everything_as_csv_is_two_files(people: ServiceHarness, capsys: Captured, tmp_path: Path) -> None:
    assert run(people, "export", "--what", "all") == 1
    assert "name a directory" in capsys.readouterr().err
    assert run(people, "export", "--what", "all", "--output", str(tmp_path / "out")) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"users.csv", "audit.csv"}


def test_what_is_no_file_is_written_to_and_never_replaced(people: ServiceHarness, tmp_path: Path) -> None:
    pipe, file, link = tmp_path / "pipe", tmp_path / "users.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(file)
    reader = os.open(pipe, os.O_RDWR)
    try:
        for place in (pipe, link):
            assert run(people, "export", "--output", str(place)) == 0
        assert set(read_csv(os.read(reader, 10_000).decode())) == {"Alice", "Bob", "Mallory", "Dave"}
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (link.readlink(), set(read_csv(file.read_text()))) == (file, {"Alice", "Bob", "Mallory", "Dave"})


def test_a_place_that_cannot_be_written_is_told(people: ServiceHarness, capsys: Captured, tmp_path: Path) -> None:
    assert run(people, "export", "--output", str(tmp_path / "no" / "where.csv")) == 1
    assert "cannot be written" in capsys.readouterr().err
