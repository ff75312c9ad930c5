"""A free TCP port for a server of our own."""

import socket


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on now. The kernel draws them at random, so two callers rarely meet."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
