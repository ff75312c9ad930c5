"""Service notifications for systemd (sd_notify(3)); without systemd nothing is sent."""

import os
import socket
from collections.abc import Mapping


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send `READY=1`, `WATCHDOG=1`, `STOPPING=1`, `STATUS=…` or several of them, one per line.

    Returns False if nothing was sent: there is no NOTIFY_SOCKET, or its owner is gone, which must not stop us.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # A full queue must not block the event loop.
        sender.setblocking(False)
        try:
            sender.sendto(state.encode("utf-8"), address)
        except OSError:
            return False
    return True


def watchdog_interval(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the seconds between two `WATCHDOG=1`, half of what systemd allows; None if there is no watchdog."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    watched_pid = environment.get("WATCHDOG_PID", "")
    is_for_us = not watched_pid or watched_pid == str(os.getpid())
    if not microseconds.isdecimal() or int(microseconds) == 0 or not is_for_us:
        return None
    return int(microseconds) / 2_000_000
