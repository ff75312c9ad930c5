"""docs/benchmarks.md: each command rewrites its own section and leaves the others."""

import platform
import shutil
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import version

import tornado

from tests.bench.figures import Row
from tests.support.quick_start import REPOSITORY

FILE = REPOSITORY / "docs" / "benchmarks.md"
SYNC_TITLE = "The sync over "
GROWTH_TITLE = "Growth"


def daemon_text(rows: Iterable[Row], runs: int) -> str:
    """Return the first section: requests and the process."""
    client = "wrk" if shutil.which("wrk") else "a Python client"
    introduction = (
        f"Written by `make bench` on {_today()}: {_versions()}, Tornado {tornado.version}, peewee {version('peewee')}, "
        f"medians of {runs} runs. The peer is FastAPI, uvicorn (uvloop, httptools), SQLAlchemy 2 async and asyncmy "
        f"(`tests/bench/peer`). The load comes from {client} on the same machine, so only the ratios within one run "
        "apply to other machines. `tests/api/test_statement_counts.py` bounds the SQL statements of each request."
    )
    return "\n".join(["# Benchmarks", "", introduction, "", *table(rows), ""])


def sync_text(players: int, rows: Iterable[Row]) -> str:
    """Return the section of `make bench-sync`."""
    introduction = (
        f"Written by `make bench-sync` on {_today()}: {_versions()}, MariaDB. Only the ratios apply to other machines."
    )
    return "\n".join([f"## {SYNC_TITLE}{players:,} players", "", introduction, "", *table(rows), ""])


def growth_text(sizes: Sequence[int], lines: Iterable[Sequence[str]]) -> str:
    """Return the section about growth, whose lines have a figure for each size, and a computed one."""
    introduction = (
        f"Written by `make bench-sync` on {_today()}: {_versions()}, MariaDB with 2 GiB for InnoDB. The last "
        "column is computed: a straight line through the two columns before it."
    )
    head = ["players", *(f"{size:,}" for size in sizes), f"{10 * sizes[-1]:,}"]
    rows = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
    return "\n".join([f"## {GROWTH_TITLE}", "", introduction, "", *rows, ""])


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines of a table."""
    lines = ["| measurement | bar | goal | result |", "|---|---|---|---|"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def write(text: str) -> None:
    """Replace the section that this text is a new version of."""
    first, *others = sections()
    if text.startswith("# "):
        first = text
    else:
        title = next(title for title in (SYNC_TITLE, GROWTH_TITLE) if text.startswith(f"## {title}"))
        others = [section for section in others if not section.startswith(f"## {title}")] + [text]
    FILE.write_text("\n".join([first, *others]), encoding="utf-8")


def sections() -> list[str]:
    """Return the file's text in parts: everything before the first section, then each section."""
    head, *rest = FILE.read_text(encoding="utf-8").split("\n## ")
    return [head.rstrip("\n") + "\n", *(f"## {section.rstrip()}\n" for section in rest)]


def _today() -> str:
    return date.today().isoformat()  # noqa: DTZ011


def _versions() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}"
