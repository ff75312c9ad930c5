"""Failpoints: a test can kill the process at them, and only a test."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from regsvc.database import failpoints
from tests.support.daemon import clean_environment
from tests.support.quick_start import REPOSITORY

COMMITS = """
from pathlib import Path
from datetime import timedelta
from regsvc.database.engine import open_sqlite
database = open_sqlite(Path("ours.db"), timedelta(seconds=1))
for number in range(3):
    with database.atomic():
        database.execute_sql(f"CREATE TABLE t{number} (a)")
print(*database.get_tables())
"""


def commit_thrice(directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMITS],
        cwd=directory,
        env={**clean_environment(), "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_process_dies_at_the_point_that_the_file_names(tmp_path: Path) -> None:
    order = tmp_path / "order"
    order.write_text("before commit:2", "utf-8")
    done = commit_thrice(tmp_path, {failpoints.VARIABLE: str(order)})
    assert done.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(tmp_path / "ours.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("t0",)]


def test_without_the_variable_no_file_is_asked(tmp_path: Path) -> None:
    (tmp_path / "order").write_text("before commit:1", "utf-8")
    done = commit_thrice(tmp_path, {})
    assert done.stdout == "t0 t1 t2\n"
    assert failpoints._order is None
