"""A plan says what the run does to each name, whatever happened before."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from regsvc.core.errors import Refusal
from regsvc.sync.actions import MarkMissing, Provision, SyncAction
from regsvc.sync.bulk_actions import Adopt
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.report import PlannedChanges
from regsvc.sync.run import SyncRun
from tests.support.authme.authme_tables import AuthMeTable, insert_player
from tests.support.services import MakeServices, ServiceHarness, authme_away

pytestmark = pytest.mark.every_database

PLAYERS, ROUNDS = 40, 10
RENAMED = ["alice", "bob"]
"""Nothing else happens to these: what a run finds under the name that it gives back, no plan says."""
OLD, NEW = 1_500_000_000_000, 1_950_000_000_000
GAME = [
    "DELETE FROM {table} WHERE username = '{key}'",
    "UPDATE {table} SET password = 'changed-{number}' WHERE username = '{key}'",
    "UPDATE {table} SET password = 'the-first' WHERE username = '{key}'",
    "UPDATE {table} SET password = 'another-{number}', regdate = {new} + {number} WHERE username = '{key}'",
    "UPDATE {table} SET hasSession = 1 WHERE username = '{key}'",
    "UPDATE {table} SET email = 'shared{digit}@example.org' WHERE username = '{key}'",
    "UPDATE {table} SET realname = upper(realname) WHERE username = '{key}'",
]
"""Statements on AuthMe's table, as the game or a person with a shell may cause."""
OURS = [
    "UPDATE regsvc_user SET status = 'banned' WHERE username_key = '{key}'",
    "UPDATE regsvc_user SET status = 'approved' WHERE username_key = '{key}'",
    "UPDATE regsvc_user SET status = 'pending' WHERE username_key = '{key}'",
    "UPDATE regsvc_user SET ban_expires_at = '2001-01-01 00:00:00' WHERE username_key = '{key}'",
    "UPDATE regsvc_user SET username = upper(username) WHERE username_key = '{key}'",
    "DELETE FROM regsvc_user WHERE username_key = '{key}'",
    "UPDATE regsvc_sync_record SET presence = 'unasked' WHERE username_key = '{key}'",
]
"""Statements on our tables."""
DECISIONS = ["ban", "unban", "approve", "delete", "password"]
"""Made while AuthMe's table is away, so that the run carries them out."""


class Recorder:
    """Record of what runs apply and postpone, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applied: dict[str, list[SyncAction]] = defaultdict(list)
        self.postponed: dict[str, SyncAction] = {}
        record = SyncRun.record

        def recording(run: SyncRun, key: str, result: ReconcileResult) -> None:
            self.applied[key] += result.applied
            self.postponed.pop(key, None)
            if result.postponed is not None:
                self.postponed[key] = result.postponed
            record(run, key, result)

        monkeypatch.setattr(SyncRun, "record", recording)

    def clear(self) -> None:
        self.applied.clear()
        self.postponed.clear()

    def changes(self) -> Iterator[tuple[str, SyncAction, str]]:
        """Yield the first action of each name, with its kind in a plan, and the lock that follows an adoption."""
        for key, applied in self.applied.items():
            for action in applied[: 1 + isinstance(applied[0], Adopt)] if applied else []:
                is_returning = isinstance(action, MarkMissing) and isinstance(applied[-1], Provision)
                label = MarkMissing.returning if is_returning else action.label
                if label is not None:
                    yield key, action, label.name


def names(planned: dict[str, PlannedChanges]) -> set[tuple[str, str]]:
    """Return the names of a plan, each with its kind of change."""
    found = [(key, kind) for kind, changes in planned.items() for key in changes.names]
    assert len(found) == len(set(found)) == sum(changes.count for changes in planned.values())
    return set(found)


def disturb(services: ServiceHarness, random: Random, number: int) -> list[str]:
    """Let something happen to some players, and to a crowd now and then. Returns who was renamed."""
    values: dict[str, Any] = {"table": services.table.name, "new": NEW, "number": number}
    for _some in range(random.randrange(4)):
        count = random.choice([1, 2, 20])
        kind = random.choice(["game", "game", "ours", "ours", "decision", "join"])
        keys = [f"player{index:02}" for index in random.sample(range(PLAYERS), count)]
        if kind == "join":
            join(services.table, *(f"new{number}x{random.randrange(10**6)}" for index in range(count)))
        elif kind == "decision":
            decision = random.choice(DECISIONS)
            with authme_away(services):
                for key in keys[:3]:
                    decide(services, decision, key)
        else:
            database = services.table.database if kind == "game" else services.ours
            statement = random.choice(GAME if kind == "game" else OURS)
            for key in keys:
                database.execute(statement.format(key=key, digit=random.randrange(9), **values))
    renamed = random.sample(RENAMED, random.randrange(3))
    for key in renamed:
        services.ours.execute(
            f"UPDATE regsvc_user SET username = 'x{key}', username_key = 'x{key}' WHERE username_key = '{key}'"
        )
    services.clock.advance(seconds=60)
    return renamed


def decide(services: ServiceHarness, decision: str, key: str) -> None:
    with suppress(Refusal):
        if decision == "password":
            services.set_password(key, "set-on-the-web")
        else:
            services.decide(decision, key)


def join(table: AuthMeTable, *keys: str) -> None:
    for key in keys:
        insert_player(table, username=key, realname=key, password="the-first", regdate=OLD)


# R99
@pytest.mark.parametrize(("removed", "seed"), [("respect", 0), ("restore", 1)])
def test_a_plan_says_what_the_run_does(
    make_services: MakeServices, monkeypatch: pytest.MonkeyPatch, removed: str, seed: int
) -> None:
    settings = {"sync__new_players": "pending", "sync__on_player_removed": removed}
    services = make_services(sync__max_changes="8 and 5%", **settings)
    recorder, random = Recorder(monkeypatch), Random(seed)
    join(services.table, *RENAMED, *(f"player{index:02}" for index in range(PLAYERS)))
    renamed: list[str] = []
    for number in range(ROUNDS):
        story = f"seed {seed}, round {number}, {removed}"
        planned = services.plan(max_names=1_000)
        recorder.clear()
        done = services.sync()
        changes = list(recorder.changes())
        told = {(key.removeprefix("x"), kind) for key, kind in names(planned.planned)}
        assert told == {(key, kind) for key, _action, kind in changes} | {(key, "renamed") for key in renamed}, story
        counts = Counter({"scanned": planned.scanned}) + Counter(action.counter for _key, action, _kind in changes)
        counts["provisioned"] += sum(kind == "returning" for _key, _action, kind in changes)
        assert planned.counts() == {name: count for name, count in counts.items() if name and count}, story
        assert all(done.counts()[name] >= count for name, count in planned.counts().items()), story
        assert planned.held_back == done.held_back, story
        assert {key for key, _kind in names(planned.planned_to_hold_back)} == recorder.postponed.keys(), story
        renamed = disturb(services, random, number)
