"""The real process: `companion serve` on a config of its own, asked over real HTTP."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from time import monotonic
from typing import IO, Any
from urllib.parse import urlencode

from tests.support.contract import check_reply
from tests.support.ports import free_port
from tests.support.quick_start import PROGRAM, QuickProcess, can_start_quickly, quick_start

HOST = "127.0.0.1"
READY = "companion ready on "
START_TIMEOUT = 30.0  # seconds
STOP_TIMEOUT = 15.0  # the daemon promises 10

_KEPT_FOR = 1.0  # seconds
_OF_BROKEN_REQUESTS = (400, 408, 411, 413, 415, 417, 431)
"""Statuses after which a server may end the connection, without that we see it in time."""

Config = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Reply:
    """A reply. `headers` compares names without regard to case; `body` is the raw bytes."""

    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    @property
    def json(self) -> Any:
        """The parsed body; ValueError when it is not JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The refusal's code, None when there is none."""
        code: str | None = self.json.get("code")
        return code


class Daemon:
    """One `companion serve`. `start`, `stop` and `kill` may alternate; config, port and state stay.

    `command` replaces the way the process is started (`tests/support/sandbox.py` does); the config file's
    path is appended to it. `is_quick`: forked from a process that has read the program (`quick_start`), where
    the environment allows it; who measures how it starts, or its memory, wants it otherwise.
    """

    OPTION = "--config"
    """The option that is followed by `config_file`."""

    def __init__(
        self,
        directory: Path,
        config: Config,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        *,
        is_quick: bool = True,
    ) -> None:
        self.directory = directory
        self.config_file = directory / "companion.toml"
        self.state_dir = directory / "state"
        self.port = int(config.get("server", {}).get("port") or free_port())
        self.base_url = f"http://{HOST}:{self.port}"
        self.output: list[str] = []  # lines of stdout, over all starts
        self.log: list[str] = []  # lines of stderr, over all starts
        self._is_quick = is_quick and command is None and can_start_quickly(environment or {})
        self._command = [*(command or (sys.executable, str(PROGRAM), "serve", self.OPTION))]
        self._environment = {**clean_environment(), **(environment or {})}
        self._process: subprocess.Popen[bytes] | QuickProcess | None = None
        self._readers: list[threading.Thread] = []
        self._open_streams = 0
        self._news = threading.Condition()
        self._kept: list[tuple[http.client.HTTPConnection, float]] = []  # of the last request, and since when; or none
        directory.mkdir(parents=True, exist_ok=True)
        self.write_config(config)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Of the running process; AssertionError when it does not run."""
        assert self._process is not None, "the daemon is not running"
        return self._process.pid

    def write_config(self, config: Config) -> None:
        """Replaces the config file; port and state dir are added. A running daemon needs SIGHUP to notice."""
        self._is_legacy = config.get("http", {}).get("legacy_status") is True
        server = {"port": self.port, "state_dir": str(self.state_dir), **config.get("server", {})}
        self.config_file.write_text(to_toml({**config, "server": server}), encoding="utf-8")

    def start(self, wrapper: Sequence[str] = ()) -> "Daemon":
        """Comes back after the ready line; AssertionError with the log when it does not come.

        `wrapper` precedes the command.
        """
        self.spawn(wrapper)
        is_ready = self.wait_for_output(READY, START_TIMEOUT)
        if not is_ready:
            self.kill()
        assert is_ready, "the daemon did not get ready:\n" + "\n".join([*self.output, *self.log][-60:])
        return self

    def spawn(self, wrapper: Sequence[str] = ()) -> None:
        """Starts the process without waiting for anything."""
        assert self._process is None, "the daemon is running already"
        self.output.clear()
        outer, inner = zip(os.pipe(), os.pipe(), strict=True)
        with Path(os.devnull).open("rb") as nothing:
            self._process = self._begin((nothing.fileno(), *inner), wrapper)
        for end in inner:
            os.close(end)
        streams = zip(
            (os.fdopen(end, encoding="utf-8", errors="replace") for end in outer), (self.output, self.log), strict=True
        )
        self._readers = [threading.Thread(target=self._read, args=stream, daemon=True) for stream in streams]
        self._open_streams = len(self._readers)
        for reader in self._readers:
            reader.start()

    def _begin(self, streams: tuple[int, int, int], wrapper: Sequence[str]) -> "subprocess.Popen[bytes] | QuickProcess":
        if self._is_quick and not wrapper:
            arguments = ("serve", self.OPTION, str(self.config_file))
            return quick_start().start(arguments, self._environment, self.directory, streams)
        stdin, stdout, stderr = streams
        return subprocess.Popen(
            [*wrapper, *self._command, str(self.config_file)],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self.directory,
            env=self._environment,
        )

    def stop(self) -> None:
        """SIGTERM; AssertionError unless it ends by itself with status 0."""
        self.send(signal.SIGTERM)
        status = self.wait_for_end()
        assert status == 0, f"the daemon ended with {status}:\n" + "\n".join(self.log[-60:])

    def kill(self) -> None:
        """SIGKILL; harmless when it is not running."""
        if self._process is not None:
            self._process.kill()
            self.wait_for_end()

    def send(self, signal_number: signal.Signals) -> None:
        assert self._process is not None, "the daemon is not running"
        self._process.send_signal(signal_number)

    def wait_for_end(self, timeout: float = STOP_TIMEOUT) -> int:
        """The exit status, once the process has ended by itself; TimeoutExpired when it does not."""
        assert self._process is not None, "the daemon is not running"
        status = self._process.wait(timeout)
        for reader in self._readers:
            reader.join()
        self._process = None
        while self._kept:
            self._kept.pop()[0].close()
        return status

    def wait_for_log(self, text: str, timeout: float = 10.0) -> bool:
        """True as soon as a line of the log holds `text`; False when none does after `timeout` seconds."""
        return self._wait_for(self.log, text, timeout)

    def wait_for_output(self, text: str, timeout: float = 10.0) -> bool:
        """Wait for a text in stdout; False as soon as the process has ended without it."""
        return self._wait_for(self.output, text, timeout)

    def get(self, path: str, query: Mapping[str, object] | None = None, **options: Any) -> Reply:
        """`options`: token, headers."""
        if query:
            path = f"{path}?{urlencode(query)}"
        return self.request("GET", path, **options)

    def post(self, path: str, json: object | None = None, **options: Any) -> Reply:
        """`json` is sent as a JSON body; None sends none. `options`: token, headers, body (raw bytes)."""
        return self.request("POST", path, json=json, **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: object | None = None,
        body: bytes | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request, on a connection kept from the last one if it can be; OSError when no process listens."""
        sent = dict(headers or {})
        if json is not None:
            body = to_json(json)
            sent.setdefault("Content-Type", "application/json")
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        connection = self._take_connection()
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            reply = Reply(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        if self._kept or not self.is_running or reply.status >= 500 or reply.status in _OF_BROKEN_REQUESTS:
            connection.close()
        else:
            self._kept.append((connection, monotonic()))
        content_type = reply.headers.get("Content-Type", "")
        check_reply(method, path, reply.status, content_type, reply.body, is_legacy=self._is_legacy)
        return reply

    def _take_connection(self) -> http.client.HTTPConnection:
        """Return the kept connection unless the daemon has closed it, or soon will; else a new one."""
        with suppress(IndexError):
            kept, since = self._kept.pop()
            if kept.sock is not None and monotonic() - since < _KEPT_FOR:
                closed = select.poll()
                closed.register(kept.sock, select.POLLIN)
                if not closed.poll(0):
                    return kept
            kept.close()
        return http.client.HTTPConnection(HOST, self.port, timeout=30)

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._open_streams -= 1
            self._news.notify_all()

    def _wait_for(self, lines: Sequence[str], text: str, timeout: float) -> bool:
        def has_come() -> bool:
            return any(text in line for line in lines)

        def is_over() -> bool:
            return has_come() or self._open_streams == 0

        with self._news:
            self._news.wait_for(is_over, timeout)
            return has_come()


def clean_environment() -> dict[str, str]:
    """Ours without what would change a daemon's config or make it believe in systemd."""
    foreign = ("COMPANION_", "NOTIFY_SOCKET", "WATCHDOG_", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def to_toml(config: Config) -> str:
    """Sections of keys, or lists of them. Values are texts, numbers, truth values, lists, tables; None is left out."""
    lines: list[str] = []
    sections: Mapping[str, Any] = config
    tables = [(f"[{name}]", keys) for name, keys in sections.items() if isinstance(keys, Mapping)]
    tables += [
        (f"[[{name}]]", keys) for name, listed in sections.items() if isinstance(listed, list) for keys in listed
    ]
    for header, keys in tables:
        given = {key: value for key, value in keys.items() if value is not None}
        lines += [header, *(f"{key} = {_toml_value(value)}" for key, value in given.items()), ""]
    return "\n".join(lines)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    # TOML writes text, numbers and truth values as JSON does.
    return json.dumps(value, ensure_ascii=False)
