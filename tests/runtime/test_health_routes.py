"""Health probes of the real process, on both databases."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.database.location import find_installation_fingerprint
from tests.support.authme.authme_database import DatabaseKind, MariaDBSchema
from tests.support.crash.brief_outage import table_missing
from tests.support.daemon import Reply
from tests.support.our_tables import ago, our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.refusals import TRANSLATIONS
from tests.support.stack import Stack
from tests.support.watching import ask_until, scrape

ALIVE, READY = "/health/alive", "/health/ready"
LOSSY_SERVER = ("innodb_flush_log_at_trx_commit=2", "innodb_doublewrite=OFF", "innodb_flush_method=nosync")
"""What the tests' server has for speed."""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDBServer]:
    """A MariaDB server that may be stopped, unlike the session's, which other tests use."""
    server = MariaDBServer(tmp_path_factory.mktemp("own-mariadb"))
    server.start()
    yield server
    server.stop()


def is_ready(reply: Reply) -> bool:
    return reply.status == 200


def is_not_ready(reply: Reply) -> bool:
    return reply.status == 503


def oldest_mail(reply: Reply) -> int | None:
    seconds: int | None = reply.json["oldestMailSeconds"]
    return seconds


def test_it_is_alive(stack: Stack) -> None:
    reply = stack.get(ALIVE)
    home = json.loads((stack.daemon.state_dir / "home.json").read_text())
    identity = reply.json["installation"]
    assert (reply.status, reply.json) == (200, {"success": True, "status": "alive", "installation": identity})
    assert identity == find_installation_fingerprint(stack.daemon.state_dir)
    assert identity not in home["installation_id"]
    assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"


def test_it_is_ready(stack: Stack) -> None:
    stack.sync()
    reply = ask_until(lambda: stack.get(READY), lambda reply: oldest_mail(reply) is None)
    assert reply.status == 200
    assert reply.json["syncSeconds"] < 60
    is_in_memory = stack.daemon.state_dir.is_relative_to("/dev/shm")
    lossy = ["file_system=tmpfs"] * is_in_memory if stack.kind == "sqlite" else [*LOSSY_SERVER]
    assert reply.json | {"syncSeconds": 0} == {
        "success": True,
        "status": "ready",
        "writable": True,
        "bridge": "up",
        "allowlist": "off",
        "braked": False,
        "oldestMailSeconds": None,
        "restartNeeded": [],
        "syncSeconds": 0,
        "notDurable": lossy,
    }


@pytest.mark.parametrize("path", [ALIVE, READY])
def test_head_answers_like_get_and_nothing_else_is_answered(stack: Stack, path: str) -> None:
    """A token is not looked at: some watchdogs send one with every request."""
    reply = stack.daemon.request("HEAD", path)
    assert (reply.status, reply.body) == (200, b"")
    assert stack.get(path, token="somebody-elses").status == 200
    reply = stack.post(path, {})
    assert (reply.status, reply.code, reply.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD")


def test_it_tells_how_long_the_oldest_mail_waits(stack: Stack) -> None:
    alice = stack.newcomer()
    stack.smtp.hold()
    assert stack.post("/api/verify/send", {"email": alice.email}).status == 200
    our_database(stack).execute(
        "UPDATE regsvc_outbox SET created_at = ? WHERE recipient_key = ?", (ago(minutes=10), alice.email)
    )
    waiting = ask_until(lambda: stack.get(READY), lambda reply: (oldest_mail(reply) or 0) >= 600)
    assert waiting.status == 200, "a mail server that is away is no reason to send nobody here"
    assert alice.email not in waiting.text
    assert scrape(stack.daemon).of("companion_outbox_waiting") >= 1
    assert scrape(stack.daemon).of("companion_outbox_oldest_seconds") >= 600

    stack.smtp.release()
    stack.smtp.wait_for(alice.email)
    ask_until(lambda: stack.get(READY), lambda reply: oldest_mail(reply) is None)
    figures = scrape(stack.daemon)
    assert (figures.of("companion_outbox_waiting"), figures.of("companion_outbox_oldest_seconds")) == (0, 0)


def test_it_tells_that_authmes_table_is_away_and_stays_ready(stack: Stack) -> None:
    token = stack.olivia()
    with table_missing(stack):
        stack.post("/api/admin/sync", {}, token=token)
        reply = stack.get(READY)
        assert (reply.status, reply.json["bridge"]) == (200, "away")
        assert scrape(stack.daemon).of("companion_bridge_up") == 0
    stack.sync()
    assert stack.get(READY).json["bridge"] == "up"
    assert scrape(stack.daemon).of("companion_bridge_up") == 1


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_it_tells_of_the_brake(kind: DatabaseKind, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue("mariadb") if kind == "mariadb" else None
    with Stack(kind, tmp_path, server, config={"sync": {"max_changes": "1 and 1%"}}) as careful:
        people = [careful.approved(), careful.approved()]
        careful.sync()
        assert careful.get(READY).json["braked"] is False
        for person in people:
            careful.authme.unregister_from_console(person.name)
        assert careful.sync()["braked"] is not None

        reply = careful.get(READY)

        assert (reply.status, reply.json["braked"]) == (200, True)
        assert not [person.name for person in people if person.name in reply.text]
        assert scrape(careful.daemon).of("companion_sync_braked") == 1


def test_without_authme_there_is_no_bridge(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path, config={"authme": {"enabled": False}}) as stack:
        assert stack.get(READY).json["bridge"] == "off"


def test_the_database_goes_away_and_comes_back(own_server: MariaDBServer, tmp_path: Path) -> None:
    with Stack("mariadb", tmp_path, own_server) as stack:
        pid = stack.daemon.pid
        stack.sync()
        assert is_ready(stack.get(READY))
        assert scrape(stack.daemon).of("companion_bridge_up") == 1
        own_server.stop()

        away = ask_until(lambda: stack.get(READY), is_not_ready)
        assert away.json["restartNeeded"] == []
        assert away.code == "database_away"
        assert away.json["message"] == TRANSLATIONS.text("refusal.database_away", "en")
        assert int(away.headers["Retry-After"]) > 0
        assert stack.daemon.request("HEAD", READY).status == 503
        assert is_ready(stack.get(ALIVE))
        figures = scrape(stack.daemon)
        assert figures.of("companion_database_up") == 0
        assert math.isnan(figures.of("companion_database_writable"))
        assert math.isnan(figures.of("companion_bridge_up")), "no sync can run"
        assert not [secret for secret in secrets_of(stack) if secret in away.text]

        own_server.start()
        ask_until(lambda: stack.get(READY), is_ready)
        assert scrape(stack.daemon).of("companion_database_up") == 1
        assert stack.daemon.pid == pid
        stack.approved()


def secrets_of(stack: Stack) -> list[str]:
    """The parameters of the database connection."""
    place = stack.table.database
    assert isinstance(place, MariaDBSchema)
    return [place.database.name, place.database.password]
