"""Notifications for systemd, on a socket like its own."""

import os
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.cli.serve import notify, watchdog_interval
from tests.support.daemon import Daemon
from tests.support.mounts import serve_with_state_read_only


@pytest.fixture
def systemd() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(5)
        yield listener


def test_systemd_hears_that_we_are_ready(systemd: socket.socket, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    systemd.bind(address)
    assert notify("READY=1\nSTATUS=Schön", {"NOTIFY_SOCKET": address})
    assert systemd.recv(100) == "READY=1\nSTATUS=Schön".encode()


def test_an_abstract_socket_is_found(systemd: socket.socket) -> None:
    name = f"companion-{secrets.token_hex(8)}"
    systemd.bind(f"\0{name}")
    assert notify("WATCHDOG=1", {"NOTIFY_SOCKET": f"@{name}"})
    assert systemd.recv(100) == b"WATCHDOG=1"


def test_systemctl_status_shows_how_the_daemon_is(systemd: socket.socket, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    systemd.bind(address)
    systemd.settimeout(30)
    daemon = Daemon(tmp_path / "daemon", {"updates": {"enabled": False}}, {"NOTIFY_SOCKET": address})
    daemon.start()
    try:
        told = [systemd.recv(1000).decode() for _state in range(3)]
        assert told == [
            "READY=1",
            "STATUS=ready",
            "STATUS=ready, 0 waiting for review, no gate: approvals let nobody in",
        ]
        daemon.send(signal.SIGHUP)
        assert [systemd.recv(1000) for _state in range(2)] == [b"RELOADING=1", b"READY=1"]
        daemon.stop()
    finally:
        daemon.kill()
    assert systemd.recv(1000) == b"STOPPING=1\nSTATUS=stopping"


def test_systemctl_status_shows_a_disk_that_is_read_only(systemd: socket.socket, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    systemd.bind(address)
    systemd.settimeout(20)
    Daemon(tmp_path / "daemon", {}).start().stop()
    place = serve_with_state_read_only(tmp_path / "daemon" / "state")
    daemon = Daemon(tmp_path / "daemon", {}, {"NOTIFY_SOCKET": address}, command=place)
    daemon.spawn()
    try:
        told = [systemd.recv(1000).decode() for _state in range(2)]
    finally:
        daemon.kill()
    assert told == ["STATUS=the database cannot be written: its disk is full or read-only", "READY=1"]


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("environment", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(environment: dict[str, str], interval: float | None) -> None:
    assert watchdog_interval(environment) == interval
