"""SIGKILL in the middle of a story: after a restart and a sync run, the state is as if there had been no kill.

The kills differ in where they strike. On SQLite a player walks about all the while and never finds AuthMe's file
locked; after each kill it is valid for a reader that cannot see our files. `make torture` does this far longer.
"""

import pytest

from regsvc.database.failpoints import Point
from tests.support.crash.crash_tester import CrashTester

KILLS: list[tuple[str, Point, int]] = [
    ("register", "before commit", 1),
    ("approve", "after commit", 1),
    ("approve", "after player write", 1),
    ("delete", "after commit", 1),
    ("leave", "after commit", 1),
    ("leave", "after player write", 1),
    ("change the address", "after player write", 1),
    ("sync takes a password", "after commit", 1),
    ("sync locks", "before player write", 1),
    ("sync adopts", "after commit", 2),
]
SEEDS = [1]


@pytest.mark.parametrize(("story", "point", "number"), KILLS, ids=[f"{kill[0]}, {kill[1]} {kill[2]}" for kill in KILLS])
def test_a_kill_at_a_commit_point_leaves_nothing_half_done(
    crash_tester: CrashTester, story: str, point: Point, number: int
) -> None:
    assert crash_tester.kill_at(point, number, story), "the process lived on"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_any_moment_leaves_nothing_half_done(crash_tester: CrashTester, seed: int) -> None:
    crash_tester.kill_at_random(seed)
