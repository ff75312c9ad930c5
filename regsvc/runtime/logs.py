"""Log output: plain lines on a terminal, lines with priorities for systemd's journal, JSON lines elsewhere."""

import logging
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from json.encoder import encode_basestring
from queue import SimpleQueue
from typing import Final, TextIO

from regsvc.config.host_sections import LogSection
from regsvc.core.exceptions import describe_exception

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # a terminal would obey some of them
_ERROR: Final = 3
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, _ERROR), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG: Final = 7
"""Priorities of syslog, by the lowest level that has them."""
_MAX_WAITING: Final = 512 * 1024
"""Characters that wait for who reads the daemon's log; lines below a warning may have three quarters of it."""
_FLUSH_SECONDS: Final = 1.0
_GATHER_SECONDS: Final = 0.02
"""Lines below a warning wait for others: each write interrupts the thread of the event loop."""


class JsonLines(logging.Formatter):
    """Formatter for one JSON object per line: time, level, logger, message, and the frames of an exception.

    With an `instance` (`server.instance`) each line has it, too.
    """

    def __init__(self, instance: str = "") -> None:
        super().__init__()
        self._end = f', "instance": {encode_basestring(instance)}' if instance else ""

    def format(self, record: logging.LogRecord) -> str:
        # there may be one for each request, and `json` would take three times as long
        second, fraction = divmod(record.created, 1)
        level, name, message = map(encode_basestring, (record.levelname.lower(), record.name, record.getMessage()))
        end = self._end
        if record.exc_info and record.exc_info[1] is not None:
            end += f', "exception": {encode_basestring(describe_exception(record.exc_info[1]))}'
        time = f"{_iso_second(second)}.{int(fraction * 1000):03}+00:00"
        return f'{{"time": "{time}", "level": {level}, "logger": {name}, "message": {message}{end}}}'


@lru_cache(maxsize=1)
def _iso_second(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


class PlainLines(logging.Formatter):
    """Formatter for people. Exceptions are logged without their message, which may quote SQL or a secret.

    Further lines of a record are indented: a name with a line break in it cannot pass for a record of its own.
    """

    def __init__(self, pattern: str = "%(asctime)s %(levelname)-7s %(name)s: ", instance: str = "") -> None:
        """`pattern` is put before the message; `instance` (`server.instance`), if any, between them."""
        super().__init__(f"{pattern}{f'[{instance}] ' if instance else ''}%(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if text.isprintable() else "\n  ".join(_CONTROL.sub("?", line) for line in text.splitlines())

    def formatException(self, ei: object) -> str:  # noqa: N802 - the library's name
        error = ei[1] if isinstance(ei, tuple) else None
        return describe_exception(error) if isinstance(error, BaseException) else ""


class JournalLines(PlainLines):
    """Formatter for systemd's journal, which adds the time itself and reads each line's priority from its prefix."""

    def __init__(self, instance: str = "") -> None:
        super().__init__("", instance)

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return _prefixed(super().format(record), priority)


def is_journal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the stream leads to systemd's journal.

    JOURNAL_STREAM names the device and inode; a process started by the service inherits it with another stream.
    """
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # not a file
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class BackgroundHandler(logging.Handler):
    """Handler for the daemon: a thread writes to standard error, so that nobody waits for who reads the log.

    The order is kept. What is not read soon enough is dropped and counted; so is all while no reader is left.
    """

    def __init__(self) -> None:
        super().__init__()
        self._items: SimpleQueue[str | Callable[[], object]] = SimpleQueue()
        # The first number of each pair is changed under the handler's lock, the second by the thread alone.
        self._added = self._written = 0  # characters
        self._refused = self._lost = 0  # lines
        self._is_urgent = threading.Event()
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    @property
    def dropped(self) -> int:
        """The number of lines that were not written."""
        return self._refused + self._lost

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception:  # as in the handlers of the library: a mistake in a call must not become the caller's
            self.handleError(record)
            return
        room = _MAX_WAITING if record.levelno >= logging.WARNING else _MAX_WAITING * 3 // 4
        if self._added - self._written > room:
            self._refused += 1
        else:
            self._added += len(line)
            self._items.put(line)
        if record.levelno >= logging.WARNING:
            self._is_urgent.set()

    def run_after(self, action: Callable[[], object]) -> None:
        """Have the thread call this once it has written what was logged so far."""
        self._items.put(action)
        self._is_urgent.set()

    def flush(self) -> None:
        """Wait until everything is written, but only for a moment: perhaps nobody reads."""
        is_written = threading.Event()
        self.run_after(is_written.set)
        is_written.wait(_FLUSH_SECONDS)

    def _write_all(self) -> None:
        told = 0
        while True:
            items = [self._items.get()]
            self._is_urgent.wait(_GATHER_SECONDS)
            self._is_urgent.clear()
            while not self._items.empty():  # many lines with one call: each call may have to wait for the interpreter
                items.append(self._items.get())
            lines = [item for item in items if isinstance(item, str)]
            is_read = _write(sys.stderr, "".join(lines))
            self._written += sum(map(len, lines))
            if not is_read:
                self._lost += len(lines)
            elif (dropped := self.dropped) > told and self._items.empty():
                words = "log line was" if dropped == told + 1 else "log lines were"
                text = f"{dropped - told} {words} dropped while nobody read the log"
                record = logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
                _write(sys.stderr, self.format(record) + "\n")
                told = dropped
            for item in items:
                if not isinstance(item, str):
                    item()


def _write(stream: TextIO, text: str) -> bool:
    """Write to the file of a stream; return False if nobody is left to read, or the disk is full. Blocking.

    Past the stream's own buffer, whose lock would keep the process from ending while nobody reads.
    """
    waiting = memoryview(text.encode(stream.encoding, "backslashreplace"))
    try:
        while waiting:
            try:
                waiting = waiting[os.write(stream.fileno(), waiting) :]
            except BlockingIOError:  # another process that has the file, too, wants it so
                select.select([], [stream.fileno()], [])
    except OSError:
        return False
    return True


def _background_handler() -> BackgroundHandler | None:
    handlers = logging.getLogger().handlers
    return next((handler for handler in handlers if isinstance(handler, BackgroundHandler)), None)


def count_dropped_lines() -> int:
    """Return how many lines of this daemon's log nobody has read."""
    handler = _background_handler()
    return handler.dropped if handler is not None else 0


def print_line(text: str, stream: TextIO) -> None:
    """Print a line; the daemon does it after what it logged before, and does not wait for who reads."""
    handler = _background_handler()
    if handler is None:
        print(text, file=stream, flush=True)
    else:
        handler.run_after(partial(_write, stream, f"{text}\n"))


def print_error(sentence: str) -> None:
    """Print why a command failed to standard error; in the journal every line has the priority of an error."""
    text = f"companion: {sentence}"
    print_line(_prefixed(text, _ERROR) if is_journal(sys.stderr) else text, sys.stderr)


def set_up_logging(config: LogSection, instance: str = "", *, is_daemon: bool = False) -> None:
    """Log to standard error in the configured format and level. `instance`: the name of this daemon, if it has one.

    Commands write each line themselves: they may wait for who reads them. May be called again.
    """
    _skip_unused_facts()
    handler: logging.Handler | None = _background_handler() if is_daemon else None
    if handler is None:
        handler = BackgroundHandler() if is_daemon else logging.StreamHandler(sys.stderr)
        logging.basicConfig(handlers=[handler], force=True)
    handler.setFormatter(_formatter(config, instance, is_daemon=is_daemon))
    logging.getLogger().setLevel(config.level.upper())
    # at "debug" peewee logs every statement with its values, including hashes
    logging.getLogger("peewee").setLevel(logging.INFO)


def _formatter(config: LogSection, instance: str, *, is_daemon: bool) -> logging.Formatter:
    """Return the formatter for `log.format`; where that is "auto", standard error decides which one is needed.

    What a command logs is among what it prints, which people read, also where cron mails it.
    """
    if config.format == "json":
        return JsonLines(instance)
    if is_journal(sys.stderr):
        return JournalLines(instance)
    is_plain = config.format == "plain" or not is_daemon or sys.stderr.isatty()
    return PlainLines(instance=instance) if is_plain else JsonLines(instance)


def _prefixed(text: str, priority: int) -> str:
    """Return the text with the priority before every line that is not empty; the journal skips empty ones."""
    return "\n".join(f"<{priority}>{line}" for line in text.splitlines() if line.strip())


def _skip_unused_facts() -> None:
    """Let records lack what no line shows (source, thread, process): it takes a third of the time of an access line.

    As the logging HOWTO recommends under "Optimization".
    """
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    if sys.version_info >= (3, 12):
        logging.logAsyncioTasks = False
