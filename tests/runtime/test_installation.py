"""The daemon tells which installation it serves, and notices when the files of it are removed."""

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from regsvc.runtime.replaced_state import state_lock
from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.command_line import companion
from tests.support.daemon import Daemon, Reply
from tests.support.watching import ask_until


@pytest.fixture
def database_kind() -> DatabaseKind:
    """On MariaDB there is no file of ours that could be removed."""
    return "sqlite"


@pytest.fixture
def place(daemon: MakeDaemon, authme_table: AuthMeTable) -> Daemon:
    return daemon({"sync": {"every": "1 hour"}}).start()


def findings(config: Path) -> dict[str, str]:
    told = companion("doctor", "--json", config=config)
    return {finding["id"]: finding["title"] for finding in json.loads(told.output)["findings"]}


def when_unready(place: Daemon) -> Reply:
    """Return the reply of /health/ready that says so; one of a moment ago is repeated for a second."""
    return ask_until(lambda: place.get("/health/ready"), lambda reply: reply.status == 503)


def test_a_removed_state_directory_is_noticed(place: Daemon) -> None:
    """Once it is back, all is well again: it was only moved."""
    kept = place.state_dir.rename(place.directory / "kept")
    assert place.wait_for_log("were removed or replaced while the companion uses it")
    ready = when_unready(place)
    assert (ready.status, ready.code, ready.json["stateLost"]) == (503, "database_away", True)
    assert place.get("/api/user/status", {"username": "Alice"}).status == 503
    assert "machine.state_lost" in findings(place.config_file)
    kept.rename(place.state_dir)
    assert place.wait_for_log("are there again")
    ask_until(lambda: place.get("/health/ready").status, lambda status: status == 200)  # it asks once a second
    assert place.get("/api/user/status", {"username": "Alice"}).status == 200


def test_a_removed_database_is_noticed(place: Daemon) -> None:
    (place.state_dir / "companion.db").unlink()
    assert place.wait_for_log(f"the database was removed or replaced while the companion uses it ({place.state_dir}/")
    assert when_unready(place).json["stateLost"] is True
    place.stop()
    for command in (("users", "list"), ("migrate",), ("serve",)):
        told = companion(*command, config=place.config_file)
        assert (told.status, f"{place.state_dir}/companion.db has none of its tables" in told.errors) == (78, True)
    assert not (place.state_dir / "companion.db").exists()


def test_two_servers_on_one_port(place: Daemon, daemon: MakeDaemon) -> None:
    """The second one is told by its doctor and by its own start; a second start of the first one, too."""
    other = daemon({"server": {"port": place.port}}, directory=place.directory / "other")
    assert "there is none in" in findings(other.config_file)["server.other_installation"]
    assert not other.state_dir.exists()
    told = companion("serve", config=other.config_file)
    assert (told.status, "another installation" in told.errors, str(other.state_dir) in told.errors) == (75, True, True)
    assert companion("migrate", config=other.config_file).status == 0
    assert "than the one in" in findings(other.config_file)["server.other_installation"]
    shutil.rmtree(other.state_dir)
    assert "server.other_installation" not in findings(place.config_file)
    again = companion("serve", config=place.config_file)
    assert (again.status, f"({place.state_dir}) is running already" in again.errors) == (75, True)


def test_two_daemons_never_share_a_state_directory(place: Daemon, daemon: MakeDaemon) -> None:
    """Olivia starts one from a shell, at another port, "just to look": it would deliver, sync and decide, too."""
    other = daemon({"server": {"state_dir": str(place.state_dir)}}, directory=place.directory / "other")
    told = companion("serve", config=other.config_file)
    assert (told.status, f"A daemon is running for {place.state_dir}" in told.errors) == (75, True)
    assert "server.state_dir of its own" in told.errors
    assert companion("users", "list", config=other.config_file).status == 0, "commands work beside it"
    place.kill()
    other.start()  # nothing stale is left
    assert other.get("/health/ready").status == 200


def test_where_directories_cannot_be_locked_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """NFS locks only what is open for writing."""

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with state_lock(tmp_path):
        assert "a running daemon would go unnoticed" in caplog.text
