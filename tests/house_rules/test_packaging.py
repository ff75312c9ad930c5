"""Files that `pip install .` installs: everything that the program reads from its own folder."""

import subprocess
import sys
from pathlib import Path

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
