"""What one request costs: `python -m tests.bench.trace` prints its statements in order, its calls and functions."""

import argparse
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.cases import CASES, CONFIG, warm_up
from tests.bench.general_log import Statement, statements_of
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack
from tests.support.watching import ask_until

HOOK = Path(__file__).with_name("tracing")


@dataclass(frozen=True)
class Trace:
    """Statements of one request, and figures of the calls in our code: `calls`, `functions`, `decide`, `most`."""

    statements: list[Statement]
    calls: dict[str, Any]

    @property
    def counted(self) -> list[Statement]:
        return [statement for statement in self.statements if statement.is_counted]


class Tracer:
    """Traces cases on a stack of its own. Make it with `open_tracer`."""

    def __init__(self, stack: Stack, server: MariaDBServer, socket_path: Path) -> None:
        self._stack = stack
        self._server = server
        self._socket_path = socket_path

    def trace(self, name: str, runs: int = 3) -> Trace:
        """Return the run with the fewest statements: a background job may send one of its own."""
        traces = [self._trace_once(name) for _run in range(runs)]
        return min(traces, key=lambda trace: len(trace.counted))

    def _trace_once(self, name: str) -> Trace:
        act = CASES[name](self._stack)
        self._await_deliveries()
        self._command("count")
        statements = statements_of(self._server, act)
        return Trace(statements, self._command("report"))

    def _await_deliveries(self) -> None:
        self._stack.code_for(self._stack.newcomer().email)  # wakes the delivery of what was held before
        query = "SELECT COUNT(*) AS waiting FROM regsvc_outbox WHERE outcome IS NULL"
        ask_until(lambda: self._stack.table.database.query(query)[0]["waiting"], lambda waiting: waiting == 0)

    def _command(self, command: str) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket_path))
            connection.sendall(command.encode())
            parts = iter(lambda: connection.recv(1 << 16), b"")
            reply: dict[str, Any] = json.loads(b"".join(parts))
        return reply


@contextmanager
def open_tracer(server: MariaDBServer, directory: Path) -> Iterator[Tracer]:
    """Start a daemon that counts its calls, and let each case run once, so that nothing happens for the first time."""
    socket_path = Path(tempfile.mkdtemp(prefix="trace")) / "socket"  # the directory's path may be too long for one
    environment = {"PYTHONPATH": str(HOOK), "BENCH_TRACE_SOCKET": str(socket_path)}
    with (
        ExitStack() as exit_stack,
        Stack("mariadb", directory, server, config=CONFIG, environment=environment, is_quick=False) as stack,
    ):
        exit_stack.callback(shutil.rmtree, socket_path.parent)
        warm_up(stack)
        yield Tracer(stack, server, socket_path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trace", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"all, or some of: {', '.join(CASES)}")
    parser.add_argument("--brief", action="store_true", help="only the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, ExitStack() as exit_stack:
        server = MariaDBServer(Path(directory) / "mariadb")
        server.start()
        exit_stack.callback(server.stop)
        tracer = exit_stack.enter_context(open_tracer(server, Path(directory) / "stack"))
        traces = {name: tracer.trace(name) for name in options.cases or CASES}
    if not options.brief:
        for name, trace in traces.items():
            print_statements(name, trace)
    print_table(traces)


def print_statements(name: str, trace: Trace) -> None:
    """Print the statements with the number of their connection; those in brackets are not counted."""
    print(f"## {name}\n")
    connections = list(dict.fromkeys(statement.connection for statement in trace.statements))
    for statement in trace.statements:
        sql = statement.sql if statement.is_counted else f"[{statement.sql}]"
        print(f"{connections.index(statement.connection) + 1}  {sql[:230]}")
    print("\nmost called: " + "; ".join(trace.calls["most"]) + "\n")


def print_table(traces: dict[str, Trace]) -> None:
    print("| case | statements | calls in our code | distinct functions | decide |\n|---|---|---|---|---|")
    for name, trace in traces.items():
        calls = trace.calls
        print(f"| {name} | {len(trace.counted)} | {calls['calls']} | {calls['functions']} | {calls['decide']} |")


if __name__ == "__main__":
    main()
