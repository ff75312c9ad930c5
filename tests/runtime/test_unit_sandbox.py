"""The companion inside the unit's sandbox: what it may do there, and that it runs."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.daemon import Daemon
from tests.support.sandbox import (
    UNIT,
    USER_ID,
    Host,
    game_directory,
    memory_group,
    require_sandbox,
    sandbox_command,
)
from tests.support.unit_file import UnitFile

# Runs inside; each line tries one thing and reports the result.
PROBE = """
import ctypes, json, mmap, os, socket
from pathlib import Path

def attempt(action):
    try:
        action()
    except (OSError, ValueError) as error:
        return type(error).__name__
    return "works"

game = Path("/srv/minecraft")
print(json.dumps({
    "user": os.getuid(),
    "groups": os.getgroups(),
    "known users": Path("/proc/self/uid_map").read_text().split(),
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "oom": int(Path("/proc/self/oom_score_adj").read_text()),
    "capabilities": [line for line in Path("/proc/self/status").read_text().splitlines() if line[:3] == "Cap"],
    "secret": Path(os.environ["CREDENTIALS_DIRECTORY"], "secrets_rcon_password").read_text(),
    "read ops.json": attempt((game / "ops.json").read_text),
    "write ops.json": attempt(lambda: (game / "ops.json").write_text("[]")),
    "write AuthMe's folder": attempt(lambda: (game / "plugins/AuthMe/authme.db-journal").write_text("x")),
    "write the state": attempt(lambda: Path(os.environ["STATE_DIRECTORY"], "new").write_text("x")),
    "mode of a new file": oct(Path(os.environ["STATE_DIRECTORY"], "new").stat().st_mode & 0o777),
    "write its config": attempt(lambda: Path("/etc/companion/companion.toml").write_text("")),
    "write a home": attempt(lambda: Path("/home/new").write_text("")),
    "write a temporary file": attempt(lambda: Path("/tmp/new").write_text("")),
    "other temporary files": sorted(os.listdir("/tmp")),
    "memory statistics": attempt(lambda: Path("/proc/meminfo").read_text()),
    "open a raw socket": attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()),
    "open an IP socket": attempt(lambda: socket.socket(socket.AF_INET).close()),
    "executable memory": attempt(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)),
    "give a file away": attempt(lambda: os.chown("/tmp/new", 0, 0)),
    "change its priority": attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, 19)),
}))
"""


@pytest.fixture
def unit() -> UnitFile:
    require_sandbox("SANDBOX")
    return UnitFile.read(UNIT)


@pytest.fixture
def systemd() -> Iterator[socket.socket]:
    """The socket on which systemd would wait for READY=1."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0companion-{secrets.token_hex(8)}")
        listener.settimeout(30)
        yield listener


@pytest.fixture
def host(tmp_path: Path, game_server: GameServer, systemd: socket.socket) -> Host:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "rcon_password").write_text("s3cret")
    return Host(
        game=game_server.directory,
        config=tmp_path / "daemon",
        state=tmp_path / "state",
        secrets=tmp_path / "secrets",
        scratch=tmp_path / "scratch",
        notify_address="@" + systemd.getsockname()[1:].decode(),
    )


@pytest.fixture
def probed(unit: UnitFile, host: Host, game_server: GameServer) -> dict[str, Any]:
    """The results of the probe inside the sandbox."""
    game_server.authme_directory.mkdir(parents=True)
    command = sandbox_command(unit, host, [sys.executable, "-c", PROBE])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_may_do_what_it_is_for(probed: dict[str, Any]) -> None:
    allowed = ("read ops.json", "write AuthMe's folder", "write the state", "open an IP socket")
    assert {name: probed[name] for name in allowed} == dict.fromkeys(allowed, "works")
    assert probed["secret"] == "s3cret"
    assert probed["mode of a new file"] == "0o600"


def test_it_may_do_nothing_else(probed: dict[str, Any]) -> None:
    assert probed["user"] == USER_ID
    assert probed["groups"] == []
    assert probed["known users"] == ["0", "0", "1", str(USER_ID), str(USER_ID), "1"]
    assert all(re.search(r"\t0+$", line) for line in probed["capabilities"])
    read_only = ("write ops.json", "write its config", "write a home")
    assert {name: probed[name] for name in read_only} == dict.fromkeys(read_only, "OSError")
    refused = ("open a raw socket", "executable memory", "give a file away", "change its priority")
    assert {name: probed[name] for name in refused} == dict.fromkeys(refused, "PermissionError")
    assert not [name for name in probed["other temporary files"] if name.startswith("pytest")]
    assert probed["memory statistics"] == "FileNotFoundError"


def test_it_gives_way_to_the_game(probed: dict[str, Any]) -> None:
    assert (probed["nice"], probed["oom"]) == (min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19), 500)


def test_the_companion_lives_in_its_unit(
    unit: UnitFile, host: Host, authme_table: AuthMeTable, systemd: socket.socket, daemon: Callable[..., Daemon]
) -> None:
    """It starts, notifies systemd, reads players from AuthMe's table, and stops gracefully."""
    AuthMeLike(authme_table).register("Bob", "s3cret")
    config = {"server": {"state_dir": None}, "game": {"directory": game_directory(unit)}}
    companion = daemon(config, directory=host.config, command=sandbox_command(unit, host))
    companion.spawn()
    with memory_group(unit, companion.pid):
        # it is nicer than other processes: on a busy machine the start takes long
        assert companion.wait_for_output("companion ready on ", 120), companion.log
        assert b"READY=1" in systemd.recv(4096)
        assert companion.get("/api/config").status == 200
        login = companion.post("/api/login", {"username": "Bob", "password": "s3cret"})
        assert login.status == 200, login.text
        assert memory_peak(companion.pid) < unit.size("MemoryMax") / 2
        companion.stop()


def memory_peak(pid: int) -> int:
    """Return the peak memory of the process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024
