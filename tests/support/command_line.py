"""The real command line: `companion COMMAND …` in its own process, with a daemon's config."""

import io
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from unittest import mock

from companion import main
from tests.support.daemon import clean_environment
from tests.support.quick_start import (
    PROGRAM,
    QuickProcess,
    Streams,
    can_start_quickly,
    quick_start,
)
from tests.support.quick_yaml import quick_yaml

TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Finished:
    """Result of a command."""

    status: int
    output: str
    errors: str


def companion(
    *arguments: str,
    config: Path | None = None,
    typed: str = "",
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command to its end. `typed` is its standard input; `config` is passed as --config."""
    given = [*arguments, *(("--config", str(config)) if config is not None else ())]
    place = directory or (config.parent if config else Path.cwd())
    whole = {**clean_environment(), **(environment or {})}

    def start(streams: Streams) -> "QuickProcess | subprocess.Popen[bytes]":
        if can_start_quickly(environment or {}):
            return quick_start().start(given, whole, place, streams)
        stdin, stdout, stderr = streams
        command = [sys.executable, str(PROGRAM), *given]
        return subprocess.Popen(command, cwd=place, env=whole, stdin=stdin, stdout=stdout, stderr=stderr)

    return finish(start, typed)


def finish(start: Callable[[Streams], "QuickProcess | subprocess.Popen[bytes]"], typed: str = "") -> Finished:
    """Wait for the end of the process that `start` starts on its standard streams."""
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(typed.encode())
        stdin.seek(0)
        status = start((stdin.fileno(), stdout.fileno(), stderr.fileno())).wait(TIMEOUT)
        return Finished(status, _read(stdout), _read(stderr))


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def companion_here(*arguments: str, config: Path | None = None, typed: str = "") -> Finished:
    """Run a command in this process, which saves the start of one. The config's paths must be absolute.

    Raises SystemExit where the command ends by a message, which Python would print, in place of a status.
    """
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    with (
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as errors,
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
        quick_yaml(),
    ):
        try:
            status = main([*arguments, *(("--config", str(config)) if config is not None else ())])
        except SystemExit as end:  # of the parser, which has printed why
            if not isinstance(end.code, int):
                raise
            status = end.code
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
            logging.disable(disabled)
    return Finished(status, output.getvalue(), errors.getvalue())
