"""Fork server for companion processes: children are forked from a process that has imported the program already.

A suite starts hundreds of daemons and commands, and importing the program would take more time than anything else.
Each child runs `companion.py` itself in a process of its own, with its own streams, environment and working directory.
Tests that need another interpreter, user or sandbox start a process the ordinary way.
"""

import atexit
import ctypes
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import plugin_bridge
import regsvc
from regsvc.database import failpoints
from regsvc.database.failpoints import VARIABLE
from tests.support.quick_columns import read_columns_quickly
from tests.support.quick_yaml import read_yaml_quickly

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "companion.py"
_MAX_COMMAND_BYTES = 1 << 18  # a command contains an environment

Streams = tuple[int, int, int]


class QuickProcess:
    """A forked process: `pid`, and the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._status: int | None = None
        self.pid = int(self._receive(None))

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; does nothing if the process has ended."""
        if self._status is None:
            os.kill(self.pid, number)  # the pid cannot be reused until the connection is closed

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal; raises TimeoutExpired if the process still runs."""
        if self._status is None:
            self._status = int(self._receive(timeout))
            self._connection.close()
        return self._status

    def _receive(self, timeout: float | None) -> bytes:
        self._connection.settimeout(timeout)
        try:
            return self._connection.recv(64)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired(str(PROGRAM), timeout or 0) from error


class QuickStart:
    """The forking process."""

    def __init__(self) -> None:
        self._commands, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its_end.fileno())],
            cwd=REPOSITORY,
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
            pass_fds=(its_end.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        its_end.close()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        streams: Streams,
        *,
        user: int | None = None,
        umask: int | None = None,
        machine: int | None = None,
    ) -> QuickProcess:
        """Start `companion ARGUMENTS…`; `streams` are stdin, stdout and stderr, which the caller closes.

        `user` is the id of another user, and of the only group that user has; only root can become one. `machine` is
        the id of a process whose mounts and root directory are the command's, too; the program is there as it is here.
        """
        ours, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command: dict[str, Any] = {
            "arguments": [*arguments],
            "environment": {**environment},
            "directory": str(directory),
        }
        command |= {"user": user, "umask": umask, "machine": machine}
        socket.send_fds(self._commands, [json.dumps(command).encode()], [*streams, its_end.fileno()])
        its_end.close()
        return QuickProcess(ours)

    def end(self) -> None:
        self._commands.close()
        self._process.wait()


def can_start_quickly(environment: Mapping[str, str]) -> bool:
    """Return whether the environment sets nothing but config keys and the failpoint variable."""
    return all(name.startswith("COMPANION_") for name in environment)


@cache
def quick_start() -> QuickStart:
    """Return the forking process, started on first use."""
    started = QuickStart()
    atexit.register(started.end)
    return started


class _Forker:
    """Main loop of the forking process: receives commands, and reports the exit status of each child."""

    def __init__(self, commands: socket.socket) -> None:
        self._commands = commands
        self._selector = selectors.DefaultSelector()
        self._selector.register(commands, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Return its command in each child; return None in the parent when the command socket is closed."""
        while True:
            for key, _events in self._selector.select():
                if isinstance(key.data, _Child):
                    self._reap(key.data)
                    continue
                message, descriptors, _flags, _address = socket.recv_fds(self._commands, _MAX_COMMAND_BYTES, 4)
                if not message:
                    return None
                if self._fork(descriptors):
                    return json.loads(message)  # type: ignore[no-any-return]

    def _fork(self, descriptors: list[int]) -> bool:
        """Fork; return True in the child."""
        *streams, connection = descriptors
        pid = os.fork()
        if pid == 0:
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            for descriptor in descriptors:
                os.close(descriptor)
            self._close_inherited()
            return True
        for descriptor in streams:
            os.close(descriptor)
        child = _Child(pid, os.pidfd_open(pid), socket.socket(fileno=connection))
        child.connection.send(str(pid).encode())
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        return False

    def _reap(self, child: "_Child") -> None:
        """Report the exit status when the child has ended; free its pid once the client has received the report."""
        if not child.has_ended:
            child.has_ended = True
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            self._selector.unregister(child.pidfd)
            self._selector.register(child.connection, selectors.EVENT_READ, child)
            with suppress(BrokenPipeError):  # the test no longer waits for it
                child.connection.send(str(status).encode())
        else:
            self._selector.unregister(child.connection)
            os.waitpid(child.pid, 0)
            child.close()

    def _close_inherited(self) -> None:
        """Close everything in a child that belongs to the parent."""
        children = [key.data for key in self._selector.get_map().values() if isinstance(key.data, _Child)]
        self._selector.close()
        self._commands.close()
        for child in children:
            child.close()


@dataclass
class _Child:
    pid: int
    pidfd: int  # readable when the child has ended
    connection: socket.socket  # to the test process that started it
    has_ended: bool = False

    def close(self) -> None:
        os.close(self.pidfd)
        self.connection.close()


def _enter(process: Path) -> None:
    """Take over the mounts and the root directory of a process, as `nsenter --mount --root` does; OSError if not."""
    mounts, root = (os.open(process / name, os.O_RDONLY) for name in ("ns/mnt", "root"))
    library = ctypes.CDLL(None, use_errno=True)  # `os.setns` is there since Python 3.12
    if library.setns(mounts, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.fchdir(root)
    os.chroot(".")
    for descriptor in (mounts, root):
        os.close(descriptor)


def _become(command: dict[str, Any]) -> None:
    """Run the companion in this process, as if it had been started with this command."""
    os.environ.clear()
    os.environ.update(command["environment"])
    time.tzset()
    if VARIABLE in os.environ:  # which was looked for when the module was imported
        vars(failpoints)["_order"] = failpoints._KillOrder(Path(os.environ[VARIABLE]))
    if command["machine"] is not None:
        _enter(Path(f"/proc/{command['machine']}"))
    if (user := command["user"]) is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if command["umask"] is not None:
        os.umask(command["umask"])
    os.chdir(command["directory"])
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - the one there remembers another file
    sys.argv = [str(PROGRAM), *command["arguments"]]
    try:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    except SystemExit as end:
        _end(end.code)


def _end(status: object) -> None:
    """End the process as the interpreter would, but free no memory, which takes as long as a start."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


def _warm_up() -> None:
    """Make a daemon in an empty folder, without serving: what that compiles and caches, no child does again."""
    from regsvc.app.app import App
    from regsvc.app.context import open_context
    from regsvc.cli.serve import Daemon
    from regsvc.config.loader import load_config

    with TemporaryDirectory() as folder:
        config = load_config(None, {}, {"server.state_dir": folder, "authme.enabled": False})
        context = open_context(config)
        app = App(context, config.base_url(0))
        Daemon(app, lambda: config)
        context.prepare()
        app.open()
        app.close()
    assert threading.active_count() == 1  # none of them would be in a child


def _main(commands: int) -> None:
    for package in (plugin_bridge, regsvc):  # also what is imported when it is used
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    import jwt  # noqa: F401

    from regsvc.cli.command_line import build_parser
    from regsvc.cli.serve import PRELOADED
    from regsvc.core.i18n import read_built_in_texts
    from regsvc.notifications.mail.renderer import read_built_in_templates
    from regsvc.web.pages import PAGE_TABLE, load_page

    for name in PRELOADED:
        import_module(name)
    read_built_in_texts()  # cached, so children need not read them again
    read_built_in_templates()
    build_parser()
    for page in PAGE_TABLE:
        load_page(page)
    read_yaml_quickly()
    read_columns_quickly()
    _warm_up()
    gc.freeze()  # so that a collection in a child does not copy the existing objects
    command = _Forker(socket.socket(fileno=commands)).serve()
    if command is not None:
        _become(command)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
