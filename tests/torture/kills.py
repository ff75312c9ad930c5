"""The long form of `tests/faults/test_kills.py`: at least 200 kills on each kind of database, by `make torture`.

Every failpoint of every story, one after the other, and then random moments from a seed, with all stories at once.
`COMPANION_TEST_SEED` is the first of the seeds; the name of a failed test says which one it was. The file is not
called `test_`, so that it runs only when it is named.
"""

import os

import pytest

from regsvc.database.failpoints import POINTS, Point
from tests.support.crash.crash_stories import STORIES
from tests.support.crash.crash_tester import CrashTester

FIRST_SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 130)
MOST_POINTS = 30


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("story", STORIES)
def test_a_kill_at_every_commit_point_leaves_nothing_half_done(
    crash_tester: CrashTester, story: str, point: Point
) -> None:
    for number in range(1, MOST_POINTS):
        if not crash_tester.kill_at(point, number, story):
            print(f"{number} kills, the last one after the answer")
            return
    pytest.fail(f"{story} passes {MOST_POINTS} points")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_any_moment_leaves_nothing_half_done(crash_tester: CrashTester, seed: int) -> None:
    crash_tester.kill_at_random(seed)
