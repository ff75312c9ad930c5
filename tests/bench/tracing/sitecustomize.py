"""Loaded by Python at its start where this folder is on PYTHONPATH: counts the calls in our code on all threads.

A client of the Unix socket in BENCH_TRACE_SOCKET sends `count`, makes a request, and sends `report` for what it took.
In between no message is delivered, since deliveries are not part of the request. The product knows nothing of this.
"""

import inspect
import json
import os
import socket
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OURS = (f"{ROOT}/regsvc/", f"{ROOT}/plugin_bridge/", f"{ROOT}/companion.py")
RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
NO_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")  # the first three not since 3.12
DECIDE = ("regsvc/sync/plan.py", "decide")


class CallCounter:
    """A profile function. Resuming a coroutine or generator is no call."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self.is_on or event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(OURS) and code.co_name not in NO_FUNCTIONS:
            if code.co_flags & RESUMABLE and code.co_code[frame.f_lasti + 1] != 0:
                return
            self.calls[code] += 1

    def report(self) -> dict[str, Any]:
        self.is_on = False
        calls = {(code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname): n for code, n in self.calls.items()}
        return {
            "calls": sum(calls.values()),
            "functions": len(calls),
            "decide": calls.get(DECIDE, 0),
            "most": [f"{n} {file} {name}" for (file, name), n in sorted(calls.items(), key=lambda item: -item[1])[:15]],
        }


class Deliveries:
    """The delivery of messages, which finds none that is due while it is held."""

    def __init__(self) -> None:
        self._claim_due: Any = None

    def hold(self) -> None:
        store = self._store()
        if self._claim_due is None:
            self._claim_due = store.claim_due
        store.claim_due = lambda _store, _limit: []

    def release(self) -> None:
        self._store().claim_due = self._claim_due

    def _store(self) -> Any:
        return sys.modules["regsvc.notifications.outbox"].Outbox


def serve(server: socket.socket, counter: CallCounter) -> None:
    """Answer one command a connection, for as long as the process runs."""
    deliveries = Deliveries()
    while True:
        connection, _address = server.accept()
        with connection:
            command = connection.recv(64).decode()
            reply: dict[str, Any] = {}
            if command == "count":
                deliveries.hold()
                counter.calls.clear()
                counter.is_on = True
            elif command == "report":
                reply = counter.report()
                deliveries.release()
            connection.sendall(json.dumps(reply).encode())


def begin(path: str) -> None:
    counter = CallCounter()
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    threading.Thread(target=serve, args=(server, counter), daemon=True, name="trace").start()
    threading.setprofile(counter)
    sys.setprofile(counter)


if "BENCH_TRACE_SOCKET" in os.environ:
    begin(os.environ.pop("BENCH_TRACE_SOCKET"))  # not for a child process
