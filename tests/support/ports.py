"""A free TCP port for a server of our own."""

import random
import socket

# Below those that the kernel gives to outgoing connections: one of these is not taken between looking and listening.
_PORTS = range(15_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on now, drawn at random so that two callers rarely meet. RuntimeError if there is none."""
    for port in random.SystemRandom().sample(_PORTS, 500):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port was found")
