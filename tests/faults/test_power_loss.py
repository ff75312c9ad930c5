"""The power fails while people register (`tests/support/power_loss.py` says how): who got an answer is registered."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.database.durability import read_lossy_of_server
from tests.support.authme.authme_database import SqliteFile
from tests.support.peers.mariadb import MariaDBServer
from tests.support.power_loss import record
from tests.support.stack import Stack

PEOPLE = 5


@pytest.fixture
def disk() -> Iterator[Path]:
    """Return a folder on a disk: what is in memory MariaDB may write without a call."""
    folder = Path(tempfile.mkdtemp(prefix="companion-tests-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


def lose_power_on_mariadb(disk: Path, *options: str) -> tuple[list[str], list[str]]:
    """Return the settings that were named before, and the people who had an answer and are not there afterwards."""
    made = MariaDBServer(disk / "server")  # quickly
    made.start()
    made.stop()
    usual = ("--innodb-use-native-aio=0", "--innodb-file-per-table=0")
    server = MariaDBServer(disk / "server", is_durable=True, options=[*usual, *options])
    try:
        recording = record(disk / "server" / "data", disk)
        server.start(recording.wrapper)
        with Stack("mariadb", disk / "stack", server) as stack:
            named = [setting.found for setting in read_lossy_of_server(server.ask_as_root)]
            answered = [stack.pending().name for _number in range(PEOPLE)]
            server.kill()
            recording.fail_power()
            server.start()
            users = stack.table.database.query("SELECT username FROM regsvc_user")
    finally:
        server.stop()
    return named, sorted({*answered} - {row["username"] for row in users})


def test_mariadb_keeps_everything_with_the_settings_that_we_ask_for(disk: Path) -> None:
    assert lose_power_on_mariadb(disk, "--log-bin=log", "--sync-binlog=1") == ([], [])


@pytest.mark.parametrize(
    ("setting", "others"),
    [
        ("innodb_flush_log_at_trx_commit=2", []),
        ("sync_binlog=0", ["--log-bin=log"]),  # MariaDB's default
    ],
)
def test_mariadb_forgets_with_each_that_we_name(disk: Path, setting: str, others: list[str]) -> None:
    named, forgotten = lose_power_on_mariadb(disk, f"--{setting}", *others)
    assert named == [setting]
    assert forgotten


def test_our_file_and_authmes_keep_everything(disk: Path) -> None:
    """Also the last approval: AuthMe's file has a journal, whose removal is the commit."""
    with Stack("sqlite", disk / "stack") as stack:
        olivia = stack.olivia()
        stack.daemon.stop()
        recording = record(disk / "stack", disk)
        stack.daemon.start(recording.wrapper)
        answered = {stack.pending().key for _number in range(PEOPLE)}
        bob = stack.pending("bob")
        assert stack.post("/api/admin/user/approve", {"username": bob.name}, token=olivia).status == 200
        stack.daemon.kill()
        recording.fail_power()
        assert bob.key in {row["username"] for row in stack.table.database.query("SELECT username FROM authme")}
        stack.daemon.start()
        users = SqliteFile(stack.daemon.state_dir / "companion.db").query("SELECT username_key FROM regsvc_user")
    assert answered <= {row["username_key"] for row in users}
