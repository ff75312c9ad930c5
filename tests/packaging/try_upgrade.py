"""Trial of an upgrade from the version before, and of the way back, by each form of installation in a fresh Debian.

`python -m tests.packaging.try_upgrade OLD_DIST DIST FOLDER` takes two folders as `make dist` writes them, types the
blocks of docs/upgrade.md, and needs what try_dist.py needs. The data is in tests/database/preview. The exit status is 1
if something fails, or nothing could be tried.
"""

import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.docs.commands import AFTER_UPGRADE, BACK_OUT, UPGRADE_OF_PACKAGE, UPGRADE_OF_WHEEL, Step, lines_of
from tests.packaging.try_dist import Debian, make_root, tell, until, what_differs

DATA = Path(__file__).parents[1] / "database/preview/1.0.0-sqlite.sql"
STATE = "/var/lib/companion"
WILL_MIGRATE, CANNOT_START = 3, 78  # exit statuses
APT = "apt-get install -y -qq --no-install-recommends --allow-downgrades"
PIP = "/opt/companion/.venv/bin/pip install"


@dataclass(frozen=True)
class Form:
    """A way to install the program: shell lines for the version of a folder, and the block that upgrades it."""

    install: Callable[[str, str], str]
    upgrade: Step
    end: str


FORMS = {
    "package": Form(
        lambda folder, version: f"{APT} {folder}/companion_{version}_*.deb",
        UPGRADE_OF_PACKAGE,
        "companion uninstall --purge --yes; apt-get purge -y -qq companion; rm -rf /var/*/companion* /etc/companion*",
    ),
    "wheel": Form(
        lambda folder, version: (
            "apt-get install -y -qq --no-install-recommends python3-venv; python3 -m venv /opt/companion/.venv;"
            f"{PIP} -q --require-hashes -r {folder}/companion-{version}-requirements.txt;"
            f"{PIP} -q --no-deps {folder}/companion-{version}-py3-none-any.whl;"
            "ln -sf /opt/companion/.venv/bin/companion /usr/local/bin/"
        ),
        UPGRADE_OF_WHEEL,
        "companion uninstall --purge --yes; rm -rf /opt/companion /var/*/companion* /etc/companion*",
    ),
}


def try_form(debian: Debian, form: Form) -> None:
    try:
        upgrade_and_go_back(debian, form)
    finally:
        debian.run(form.end)  # the next one finds nothing of it, whatever has failed


def upgrade_and_go_back(debian: Debian, form: Form) -> None:
    old, new = version_of(debian.root / "old"), version_of(debian.dist)
    debian.output(f"apt-get update -qq; {APT} curl; {form.install('/old', old)}")
    debian.install_server()
    debian.output("systemctl stop companion")
    load(debian)
    debian.output("systemctl start companion")
    until(debian.is_ready, 60, f"ready with {old}")
    before = count(debian)
    assert before["regsvc_user"] > 10, before

    said = debian.run(f"cd /dist; {lines_of(form.upgrade, what_differs(debian))}")
    assert said.returncode == 0, said.stdout
    assert "Nothing will be migrated" not in said.stdout, said.stdout
    until(debian.is_ready, 60, f"ready with {new}")
    afterwards = debian.run(lines_of(AFTER_UPGRADE, what_differs(debian)))
    assert afterwards.returncode == 0, afterwards.stdout
    assert new in debian.output("companion version")
    assert "Nothing will be migrated" in debian.output("companion upgrade-check")
    expect_all_there(debian, before)
    debian.output("companion users membership Bob --for '30 days'")

    debian.run(f"{form.install('/old', old)}; systemctl restart companion")  # which the newer tables stop
    until(lambda: debian.show("companion", "ExecMainStatus") == str(CANNOT_START), 60, f"refused by {old}")
    debian.output("systemctl stop companion; systemctl reset-failed companion || true")
    numbers = [file.name.rpartition("-")[2] for file in state(debian).glob("companion.db.before-*")]
    debian.output(lines_of(BACK_OUT, {"NUMBER": max(numbers, key=int)}, is_everything_run=True))
    debian.output("systemctl start companion")
    until(debian.is_ready, 60, f"ready with {old} again")
    assert old in debian.output("companion version")
    expect_all_there(debian, before)


def version_of(dist: Path) -> str:
    (wheel,) = dist.glob("*.whl")
    return wheel.name.split("-")[1]


def state(debian: Debian) -> Path:
    return debian.root / STATE[1:]


def load(debian: Debian) -> None:
    """Put the data of the version before in the place of what the first start made, but for the installation's keys."""
    file = state(debian) / "companion.db"
    owner, first = file.stat(), file.with_name("first.db")
    with closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM INTO ?", [str(first)])
    for each in file.parent.glob("companion.db*"):
        each.unlink()
    with closing(sqlite3.connect(file)) as database:
        database.executescript(DATA.read_text(encoding="utf-8"))
        database.execute("ATTACH ? AS first", [str(first)])
        database.execute("DELETE FROM regsvc_installation")
        database.execute("INSERT INTO regsvc_installation SELECT * FROM first.regsvc_installation")
        database.commit()
    first.unlink()
    shutil.chown(file, owner.st_uid, owner.st_gid)


def count(debian: Debian) -> dict[str, int]:
    """Return the numbers of what nobody may lose."""
    tables = ("regsvc_user", "regsvc_audit", "regsvc_answer_sheet", "regsvc_chat_link")
    with closing(sqlite3.connect(f"file:{state(debian)}/companion.db?mode=ro", uri=True)) as database:
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        wanted = [table for table in tables if table in there]
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in wanted}


def expect_all_there(debian: Debian, before: dict[str, int]) -> None:
    now = count(debian)
    assert all(now[table] >= number for table, number in before.items()), (before, now)


def main() -> int:
    """Try each form; return the exit status."""
    old, dist, folder = (Path(given).resolve() for given in sys.argv[1:4])
    debian = Debian(folder / "root", dist)
    make_root(debian, folder)
    shutil.copytree(old, debian.root / "old")
    stories = {f"an upgrade by {name}, and back": partial(try_form, form=form) for name, form in FORMS.items()}
    return tell(debian, folder, stories)


if __name__ == "__main__":
    sys.exit(main())
