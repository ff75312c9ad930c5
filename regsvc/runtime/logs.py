"""Log output: plain lines on a terminal, lines with priorities for systemd's journal, JSON lines elsewhere."""

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from regsvc.config.host_sections import LogSection
from regsvc.core.exceptions import describe_exception

_encode = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would create one for each line

_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # a terminal would obey some of them
_ERROR: Final = 3
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, _ERROR), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG: Final = 7
"""Priorities of syslog, by the lowest level that has them."""


class JsonLines(logging.Formatter):
    """Formatter for one JSON object per line: time, level, logger, message, and the frames of an exception.

    With an `instance` (`server.instance`) each line has it, too.
    """

    def __init__(self, instance: str = "") -> None:
        super().__init__()
        self._same = {"instance": instance} if instance else {}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._same,
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe_exception(record.exc_info[1])
        return _encode(line)


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


def print_error(sentence: str) -> None:
    """Print why a command failed to standard error; in the journal every line has the priority of an error."""
    text = f"companion: {sentence}"
    print(_prefixed(text, _ERROR) if is_journal(sys.stderr) else text, file=sys.stderr)


def set_up_logging(config: LogSection, instance: str = "") -> None:
    """Log to standard error in the configured format and level. `instance`: the name of this daemon, if it has one."""
    _skip_unused_facts()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(config, instance))
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    # at "debug" peewee logs every statement with its values, including hashes
    logging.getLogger("peewee").setLevel(logging.INFO)


def _formatter(config: LogSection, instance: str) -> logging.Formatter:
    """Return the formatter for `log.format`; for people, standard error decides which one they need."""
    if config.format == "json":
        return JsonLines(instance)
    if is_journal(sys.stderr):
        return JournalLines(instance)
    is_plain = config.format == "plain" or sys.stderr.isatty()
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
