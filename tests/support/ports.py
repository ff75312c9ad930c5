"""A free TCP port for a server of the tests."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below the range the kernel uses for outgoing connections, so that none of those takes the port before we listen.
_PORTS = range(15_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """Return an unused port that no other caller on this machine gets soon. RuntimeError if there is none."""
    for _attempt in range(500):
        port = _next_port()
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port was found")


def _next_port() -> int:
    """Return the port after the last one given.

    A server listens a second after it was given its port, and on the same one when it starts again. With ports taken
    at random, two workers of one run met on one now and then; in a row, they meet after 17,000.
    """
    taken = Path(tempfile.gettempdir(), f"companion-tests-port-{os.getuid()}")
    with os.fdopen(os.open(taken, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        last = file.read()
        port = int(last) + 1 if last else random.SystemRandom().choice(_PORTS)
        if port not in _PORTS:
            port = _PORTS.start
        file.seek(0)
        file.write(str(port))
        return port
