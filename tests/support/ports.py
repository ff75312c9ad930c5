"""A free TCP port for a server of the tests."""

import random
import socket

# Below the range the kernel uses for outgoing connections, so that none of those takes the port before we listen.
_PORTS = range(15_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """Return an unused port, chosen at random so that two callers rarely collide. RuntimeError if there is none."""
    for port in random.SystemRandom().sample(_PORTS, 500):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port was found")
