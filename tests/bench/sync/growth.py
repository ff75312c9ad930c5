"""How time, memory and disk grow with the number of players."""

from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import resident_mib
from tests.bench.sync.changes import Crowd
from tests.bench.sync.ticks import CONFIG, prepare
from tests.support.authme.authme_database import DatabaseKind, SqliteFile
from tests.support.our_tables import our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

SIZES = (10_000, 100_000, 1_000_000)
SQLITE_UP_TO = 100_000  # beyond, filling the tables takes minutes
CHANGES = 1_000
Figures = dict[str, float]
"""What was measured with so many players, by the line of the table."""


def measure_growth(directory: Path, server: MariaDBServer, sizes: Sequence[int], runs: int) -> list[tuple[str, ...]]:
    """Return the table's lines: each has a measurement, a figure for each size, and one for ten times the greatest."""
    found: list[Figures] = []
    for size in sizes:
        found.append(_measure("mariadb", directory / str(size), server, size, runs))
        if size <= SQLITE_UP_TO:
            found[-1] |= _measure("sqlite", directory / f"{size}.sqlite", None, size, runs)
    return [_line(what, sizes, [figures.get(what) for figures in found]) for what in found[0]]


def _measure(kind: DatabaseKind, directory: Path, server: MariaDBServer | None, size: int, runs: int) -> Figures:
    name = "MariaDB" if kind == "mariadb" else "SQLite"
    with Stack(kind, directory, server, config=CONFIG, is_quick=False) as stack:
        ticks = prepare(stack, size, runs)
        ticks.adopt()
        idle = ticks.measure_idle(Crowd.log_in)  # on SQLite a tick without any write looks at nothing
        changes = min(CHANGES, size // (2 * runs))
        changing = ticks.measure(Crowd.change_emails, changes)
        ours, theirs = _megabytes(stack)
        return {
            f"{name}: tick without changes, s": idle,
            f"{name}: tick after {CHANGES:,} changed e-mails, s": changing,
            f"{name}: memory of the daemon, MiB": resident_mib(stack.daemon.pid),
            f"{name}: our tables, MB": ours,
            f"{name}: AuthMe's table, MB": theirs,
        }


def _megabytes(stack: Stack) -> tuple[float, float]:
    """Return the size of our tables and of AuthMe's, with their indexes."""
    place = our_database(stack)
    if isinstance(place, SqliteFile):
        assert isinstance(stack.table.database, SqliteFile)
        return place.path.stat().st_size / 1e6, stack.table.database.path.stat().st_size / 1e6
    sizes: dict[bool, float] = {}
    for row in place.query("SHOW TABLE STATUS"):
        if row["Data_length"] is not None:  # a view has none
            is_ours = str(row["Name"]).startswith("regsvc_")
            size = int(str(row["Data_length"])) + int(str(row["Index_length"]))
            sizes[is_ours] = sizes.get(is_ours, 0) + size / 1e6
    return sizes[True], sizes[False]


def _line(what: str, sizes: Sequence[int], figures: Sequence[float | None]) -> tuple[str, ...]:
    """Return a line; its last figure is on the straight line through those of the two greatest sizes."""
    texts = ["" if figure is None else _rounded(figure) for figure in figures]
    if len(sizes) < 2 or figures[-1] is None or figures[-2] is None:
        return (what, *texts, "")
    slope = (figures[-1] - figures[-2]) / (sizes[-1] - sizes[-2])
    return (what, *texts, _rounded(figures[-1] + slope * 9 * sizes[-1]))


def _rounded(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:.2f}"
