"""Programs that tests/install_system_packages.sh installs or unpacks, and what tests/js/install.sh installs."""

import os
import shutil
from pathlib import Path

import pytest

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "companion-tests"
_PLACES = f"/usr/sbin:/usr/local/sbin:{_CACHE}"
_NPM_PACKAGES = Path(__file__).parents[1] / "js" / "node_modules"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="NO ROOT HERE: only root gives files to another user")
"""Mark of a test that changes owners, or runs programs that do."""


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


def find_npm_package(name: str) -> Path:
    """Return the folder of an npm package; skips the test if it, or Node.js, is missing."""
    find_program("node")
    folder = _NPM_PACKAGES / name
    if not folder.exists():
        pytest.skip(f"NO npm PACKAGE {name} HERE (run tests/js/install.sh)")
    return folder
