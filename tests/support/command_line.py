"""The real command line: `companion COMMAND …` as a process of its own, on a daemon's config."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
