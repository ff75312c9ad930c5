"""Files that `pip install .` installs: everything that the program reads from its own folder, and what is shipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from regsvc.cli.shipped_files import list_shipped, read_shipped
from regsvc.database.migrations import MIGRATIONS
from regsvc.database.migrator import list_migrations
from tests.house_rules.sources import ROOT

FOLDERS = ("core/translations", "notifications/mail/texts", "web/static")


def files_below(package: Path) -> set[str]:
    found = (file for folder in FOLDERS for file in (package / folder).rglob("*") if file.is_file())
    return {str(file.relative_to(package)) for file in found if file.suffix not in (".py", ".pyc")}


def test_no_page_mail_or_word_is_left_behind(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    here = files_below(ROOT / "regsvc")
    assert here
    assert files_below(tmp_path / "regsvc") == here
    shipped = tmp_path / "regsvc" / "shipped"
    assert sorted(name_below(shipped, file) for file in shipped.rglob("*") if file.is_file()) == list_shipped()
    assert {"conf/companion.toml", "docs/operations.md", "systemd/companion.service"} <= {*list_shipped()}


def test_every_migration_is_listed() -> None:
    folder = ROOT / "regsvc" / "database" / "migrations"
    assert list(MIGRATIONS) == sorted(file.stem for file in folder.glob("m[0-9]*.py"))
    assert [migration.number for migration in list_migrations()] == list(range(100, 100 + len(MIGRATIONS)))


def test_only_shipped_files_are_read() -> None:
    assert "[server]" in read_shipped("conf/companion.toml")
    with pytest.raises(FileNotFoundError, match=r"setup\.py is not shipped"):
        read_shipped("setup.py")


def name_below(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix()
