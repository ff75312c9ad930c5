"""A load that needs little CPU time itself: `python -m tests.bench.sync_load PORT PATH SECONDS`.

Sixteen connections on loopback, each with one open request, handled without a framework: on two cores the database
uses one, and the load must not take the other from the daemon. Prints requests per second, then exits.
"""

import selectors
import socket
import sys
import time

CONNECTIONS = 16


def main(port: int, path: str, seconds: float) -> float:
    """Return requests per second over all connections; AssertionError for a reply that is not 200."""
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    selector = selectors.EpollSelector()
    for _connection in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, bytearray())
        connection.sendall(request)
    answered, started = 0, time.monotonic()
    ends_at = started + seconds
    while time.monotonic() < ends_at:
        for key, _events in selector.select(timeout=1):
            asking, reply = key.fileobj, key.data
            assert isinstance(asking, socket.socket)
            reply += asking.recv(1 << 16)
            if is_whole(reply):
                answered += 1
                reply.clear()
                asking.sendall(request)
    return answered / (time.monotonic() - started)


def is_whole(reply: bytearray) -> bool:
    head, separator, body = reply.partition(b"\r\n\r\n")
    if not separator:
        return False
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return len(body) >= length


if __name__ == "__main__":
    print(round(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))))
