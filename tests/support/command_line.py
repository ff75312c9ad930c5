"""The real command line: `companion COMMAND …` as a process of its own, on a daemon's config."""

import io
import logging
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from companion import main
from tests.support.daemon import REPOSITORY, clean_environment

TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

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
    """Run a command to its end. `typed` comes on standard input; `config` is passed as --config."""
    given = [*arguments, *(("--config", str(config)) if config is not None else ())]
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "companion.py"), *given],
        input=typed,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=directory or (config.parent if config else None),
        env={**clean_environment(), **(environment or {})},
        timeout=TIMEOUT,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def companion_here(*arguments: str, config: Path, typed: str = "") -> Finished:
    """The same in our own process, which saves the time it takes to start one. The config's paths are whole."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with (
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as errors,
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
    ):
        try:
            status = main([*arguments, "--config", str(config)])
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
    return Finished(status, output.getvalue(), errors.getvalue())
