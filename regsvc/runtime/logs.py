"""Log output: plain lines on a terminal, JSON lines elsewhere."""

import json
import logging
import sys
from datetime import UTC, datetime

from regsvc.config.sections import LogSection
from regsvc.core.exceptions import describe_exception

_encode = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would create one for each line


class JsonLines(logging.Formatter):
    """Formatter for one JSON object per line: time, level, logger, message, and the frames of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe_exception(record.exc_info[1])
        return _encode(line)


class PlainLines(logging.Formatter):
    """Formatter for people. Exceptions are logged without their message, which may quote SQL or a secret."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatException(self, ei: object) -> str:  # noqa: N802 - the library's name
        error = ei[1] if isinstance(ei, tuple) else None
        return describe_exception(error) if isinstance(error, BaseException) else ""


def set_up_logging(config: LogSection) -> None:
    """Log to standard error in the configured format and level."""
    is_plain = config.format == "plain" or (config.format == "auto" and sys.stderr.isatty())
    _skip_unused_facts()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainLines() if is_plain else JsonLines())
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    # at "debug" peewee logs every statement with its values, including hashes
    logging.getLogger("peewee").setLevel(logging.INFO)


def _skip_unused_facts() -> None:
    """Let records lack what no line shows (source, thread, process): it takes a third of the time of an access line.

    As the logging HOWTO recommends under "Optimization".
    """
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    if sys.version_info >= (3, 12):
        logging.logAsyncioTasks = False
