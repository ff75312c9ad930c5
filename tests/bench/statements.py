"""SQL statements per request, from MariaDB's general log."""

from pathlib import Path

from tests.bench.figures import Row
from tests.bench.trace import open_tracer
from tests.support.peers.mariadb import MariaDBServer

BARS = {
    "verify/send": (9, 7),
    "register": (12, 9),
    "approve": (14, 10),
    "ban": (14, 10),
    "login": (8, 6),
    "admin/users": (3, 2),
}
"""The most statements a request may send, and the goal."""
ALSO = ("admin/user/password", "sync tick, nothing changed", "sync tick, one password changed in the game")


def measure_statements(directory: Path, server: MariaDBServer) -> list[Row]:
    """Count without BEGIN, COMMIT, SAVEPOINT, SET and the later delivery of messages."""
    with open_tracer(server, directory) as tracer:
        counts = {name: len(tracer.trace(name).counted) for name in (*BARS, *ALSO)}
    return [(f"statements: {name}", *limits(name), str(count)) for name, count in counts.items()]


def limits(name: str) -> tuple[str, str]:
    if name not in BARS:
        return "", ""
    bar, goal = BARS[name]
    return f"<= {bar}", str(goal)
