"""Processes of the companion that start quickly: forked from one that has imported the program already.

A suite starts hundreds of daemons and commands; Python would spend more time on reading the program than the tests
spend on anything else. What runs is `companion.py` itself, in a process of its own with its own streams, environment
and folder, which ends on its own. Whoever wants another interpreter, user or sandbox starts one the ordinary way.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from regsvc.database import failpoints
from regsvc.database.failpoints import VARIABLE

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "companion.py"
_LONGEST_ORDER = 1 << 18  # bytes; an environment is in it


class QuickProcess:
    """One that was started: `pid`, and of `subprocess.Popen` what is needed here."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._status: int | None = None
        self.pid = int(self._hear(None))

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens when it has ended."""
        if self._status is None:
            os.kill(self.pid, number)  # the number is this process's until the line is closed

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, -9 and the like for a signal; TimeoutExpired while it runs."""
        if self._status is None:
            self._status = int(self._hear(timeout))
            self._line.close()
        return self._status

    def _hear(self, timeout: float | None) -> bytes:
        self._line.settimeout(timeout)
        try:
            return self._line.recv(64)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired(str(PROGRAM), timeout or 0) from error


class QuickStart:
    """A process that forks. `is_killable`: its children end at the commit points that their file of orders names."""

    def __init__(self, *, is_killable: bool) -> None:
        self._orders, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its_end.fileno())],
            cwd=REPOSITORY,
            env={**environment, **({VARIABLE: os.devnull} if is_killable else {})},
            pass_fds=(its_end.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        its_end.close()

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], directory: Path, streams: tuple[int, int, int]
    ) -> QuickProcess:
        """`companion ARGUMENTS…`; `streams` are its standard input, output and error, which the caller closes."""
        ours, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = {"arguments": [*arguments], "environment": {**environment}, "directory": str(directory)}
        socket.send_fds(self._orders, [json.dumps(order).encode()], [*streams, its_end.fileno()])
        its_end.close()
        return QuickProcess(ours)

    def end(self) -> None:
        self._orders.close()
        self._process.wait()


def can_start_quickly(environment: Mapping[str, str]) -> bool:
    """Whether this is all that the environment says beside the usual: where the program is to be killed."""
    return environment.keys() <= {VARIABLE}


def quick_start(environment: Mapping[str, str]) -> QuickStart:
    """This process's own for such an environment, started when it is first needed."""
    return _quick_start(is_killable=VARIABLE in environment)


@cache
def _quick_start(*, is_killable: bool) -> QuickStart:
    started = QuickStart(is_killable=is_killable)
    atexit.register(started.end)
    return started


class _Forker:
    """What the forking process does: take orders, and tell how each of its children ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Comes back in each child, with its order; None when nobody gives orders any more."""
        while True:
            for key, _events in self._selector.select():
                if isinstance(key.data, _Child):
                    self._follow(key.data)
                    continue
                message, descriptors, _flags, _address = socket.recv_fds(self._orders, _LONGEST_ORDER, 4)
                if not message:
                    return None
                if self._fork(descriptors):
                    return json.loads(message)  # type: ignore[no-any-return]

    def _fork(self, descriptors: list[int]) -> bool:
        """Whether this is the child."""
        *streams, line = descriptors
        pid = os.fork()
        if pid == 0:
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            for descriptor in descriptors:
                os.close(descriptor)
            self._let_go()
            return True
        for descriptor in streams:
            os.close(descriptor)
        child = _Child(pid, os.pidfd_open(pid), socket.socket(fileno=line))
        child.line.send(str(pid).encode())
        self._selector.register(child.end, selectors.EVENT_READ, child)
        return False

    def _follow(self, child: "_Child") -> None:
        """First it has ended, which is told; its number is free for others once that was heard."""
        if not child.has_ended:
            child.has_ended = True
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            self._selector.unregister(child.end)
            self._selector.register(child.line, selectors.EVENT_READ, child)
            with suppress(BrokenPipeError):  # nobody waits for it
                child.line.send(str(status).encode())
        else:
            self._selector.unregister(child.line)
            os.waitpid(child.pid, 0)
            child.close()

    def _let_go(self) -> None:
        """In a child: nothing of the parent's stays open."""
        children = [key.data for key in self._selector.get_map().values() if isinstance(key.data, _Child)]
        self._selector.close()
        self._orders.close()
        for child in children:
            child.close()


@dataclass
class _Child:
    pid: int
    end: int  # a descriptor that can be read when it has ended
    line: socket.socket  # to whoever started it
    has_ended: bool = False

    def close(self) -> None:
        os.close(self.end)
        self.line.close()


def _become(wanted: dict[str, Any]) -> None:
    """The companion, as if it had been started with this order."""
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    if VARIABLE in os.environ:
        order: Any = failpoints.reach
        order.__self__._file = Path(os.environ[VARIABLE])  # the file was chosen when the program was read
    os.chdir(wanted["directory"])
    sys.argv = [str(PROGRAM), *wanted["arguments"]]
    runpy.run_path(str(PROGRAM), run_name="__main__")


def _main(orders: int) -> None:
    import companion  # noqa: F401
    from regsvc.core.i18n import read_built_in_words

    read_built_in_words()  # what a process reads but once
    gc.freeze()  # what is there already is not copied by a collection in a child
    order = _Forker(socket.socket(fileno=orders)).serve()
    if order is not None:
        _become(order)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
