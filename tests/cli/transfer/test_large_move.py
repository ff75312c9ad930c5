"""A host with 1,000 users leaves VerifyMC: the import is interrupted, repeated, and everyone logs in as before."""

import time
from pathlib import Path

import pytest

from plugin_bridge.hashers.password_hasher import HASHERS
from plugin_bridge.hashers.slow_hashes import create_bcrypt
from regsvc.database.failpoints import VARIABLE
from tests.cli.transfer.conftest import Run
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, find_player, insert_player
from tests.support.daemon import Daemon
from tests.support.peers.verifymc import Record, entry, record, unsalted, write_folder

pytestmark = pytest.mark.one_database("sqlite")

KILLED = -9
WORDS = ("salted-secret", "digest-secret", "bcrypt-secret")
SALTED = HASHERS["SHA256"].hash(WORDS[0], "").hash
BCRYPT = create_bcrypt(WORDS[2], "$2y$", 4)  # not AuthMe's algorithm here
PASSWORDS = (SALTED, unsalted(WORDS[1]), BCRYPT)
STATUSES = ("approved", "approved", "approved", "pending", "rejected", "banned", "approved")
USERS = 1000
PLAYING = 150


def make_users() -> list[Record]:
    """Return the users, of whom each status has each kind of password; the first ones play already."""
    return [
        record(
            f"User{number}", STATUSES[number % 7], PASSWORDS[number % 3], discordId=str(number) if number < 50 else None
        )
        for number in range(USERS)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lately = round(time.time() * 1000) - 86_400_000
    entries = [entry("ban", f"User{number}", f"reason {number}", at=lately) for number in range(5, USERS, 7)]
    return write_folder(tmp_path / "VerifyMC", make_users(), entries)


def test_a_move(place: Daemon, run: Run, folder: Path, authme_table: AuthMeTable) -> None:
    for number in range(PLAYING):
        name = f"User{number}"
        insert_player(authme_table, username=name.lower(), realname=name, password=SALTED, regdate=1_735_689_600_000)
    assert run("migrate").status == 0
    source = ("import", "--from", "verifymc", str(folder))

    planned = run(*source, "--dry-run")
    assert planned.status == 0, planned
    assert f"would become users: {USERS - PLAYING}\n" in planned.output
    assert f"would be matched with players in AuthMe's table, whose passwords stay: {PLAYING}\n" in planned.output

    assert "passwords have an algorithm that AuthMe does not verify (BCRYPT): they work on the web" in planned.output

    order = place.directory / "kill"
    order.write_text("before commit:10")
    assert run(*source, **{VARIABLE: str(order)}).status == KILLED

    again = run(*source)
    assert again.status == 0, again
    lines = dict(line.split(": ", 1) for line in again.output.splitlines() if ": " in line)
    left = int(lines["users here already, left as they are"])
    assert 0 < left < USERS
    assert int(lines["new users"]) + left >= USERS - PLAYING
    assert lines["audit entries"] == f"0 new, {len(range(5, USERS, 7))} here already"

    third = run(*source)
    assert "new users: 0\n" in third.output
    assert f"users here already, left as they are: {USERS}\n" in third.output

    assert run("sync").status == 0
    place.start()
    _everyone_logs_in(place, authme_table)
    place.stop()


def _everyone_logs_in(place: Daemon, authme_table: AuthMeTable) -> None:
    def login(number: int, password: str) -> tuple[int, str]:
        reply = place.post("/api/login", {"username": f"User{number}", "password": password})
        return reply.status, reply.json.get("status") or reply.json["code"]

    game = AuthMeLike(authme_table)
    for kind, password in enumerate(WORDS):  # approved, by kind of password
        number = next(number for number in range(500, USERS) if number % 7 == 0 and number % 3 == kind)
        assert game.login(f"User{number}", password) == (password != "bcrypt-secret")
        assert login(number, "wrong-secret") == (401, "bad_credentials")
        assert login(number, password) == (200, "approved")
        assert game.login(f"User{number}", password)
    for number in range(3, USERS, 142):  # of every status; the first one played before
        password = WORDS[number % 3] if number >= PLAYING else "salted-secret"
        status = STATUSES[number % 7]
        assert login(number, password) == ((403, "banned") if status == "banned" else (200, status)), number
        assert game.login(f"User{number}", password) == (status == "approved"), number
    assert str((find_player(authme_table, "user5") or {})["password"]).startswith("!locked!")
