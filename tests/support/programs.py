"""Programs that tests/install_system_packages.sh installs or unpacks."""

import os
import shutil
from pathlib import Path

import pytest

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "companion-tests"
_PLACES = f"/usr/sbin:/usr/local/sbin:{_CACHE}"


def find_program(name: str) -> str:
    """Return the path of a program; skips the test if it is missing."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_PLACES}")
    if program is None:
        pytest.skip(f"NO {name} HERE (run tests/install_system_packages.sh)")
    return program


def find_library(name: str) -> str:
    """Return the path of a library, below that of its platform; skips the test if it is missing."""
    found = sorted(Path("/usr/lib").glob(f"*/{name}"))
    if not found:
        pytest.skip(f"NO {name} HERE (run tests/install_system_packages.sh)")
    return str(found[0])
