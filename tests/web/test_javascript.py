"""Unit tests of the pages' scripts, run by Node.js, and the types made for their type check."""

import os
import subprocess
from pathlib import Path

from tests.js.api_types import TYPES_FILE, api_types
from tests.support.programs import find_program

FOLDER = Path(__file__).resolve().parents[1] / "js"
SCRIPTS = FOLDER.parents[1] / "regsvc" / "web" / "static"
LONGEST_LINE = 120
LONGEST_FILE = 450


def test_the_unit_tests_of_the_scripts() -> None:
    node = find_program("node")
    tests = sorted(file.name for file in FOLDER.glob("*.test.js"))
    assert tests
    done = subprocess.run(
        [node, "--import", "./setup.js", "--test", *tests],
        cwd=FOLDER,
        env=os.environ | {"NODE_OPTIONS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_of_the_api_are_current() -> None:
    assert TYPES_FILE.read_text(encoding="utf-8") == api_types(), "run `make sample`"


def test_the_scripts_keep_to_the_sizes_of_the_other_files() -> None:
    """The formatter breaks lines of code, but not comments."""
    for file in [*SCRIPTS.rglob("*.js"), *FOLDER.glob("*.js")]:
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= LONGEST_FILE, file
        assert not [line for line in lines if len(line) > LONGEST_LINE], file
