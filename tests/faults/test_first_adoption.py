"""SIGKILL during the first adoption of many players: the next run continues where the first one was killed."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.core.clock import now
from regsvc.database.failpoints import VARIABLE
from tests.support.authme.authme_tables import dump_table
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.command_line import companion
from tests.support.our_tables import our_database
from tests.support.stack import Stack

MANY = {"sqlite": 5_000, "mariadb": 15_000}
"""Several batches with either database."""


@pytest.fixture(params=["sqlite", "mariadb"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    """A stack of its own: all users there are are counted."""
    server = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    with Stack(request.param, tmp_path, server) as stack:
        yield stack


def test_an_adoption_that_was_killed_goes_on_where_it_was(stack: Stack, tmp_path: Path) -> None:
    many = MANY[stack.kind]
    stack.daemon.stop()
    insert_player_rows(stack.table, make_player_rows(many, now))
    before = dump_table(stack.table)
    order = tmp_path / "kill-at"
    order.write_text("after commit:2", "utf-8")
    assert companion("migrate", config=stack.daemon.config_file).status == 0
    killed = companion("sync", config=stack.daemon.config_file, environment={VARIABLE: str(order)})
    assert killed.status == -signal.SIGKILL

    ours = our_database(stack)
    [[halfway]] = [row.values() for row in ours.query("SELECT COUNT(*) FROM regsvc_user WHERE origin = 'adopted'")]
    assert 0 < halfway < many
    done = companion("sync", config=stack.daemon.config_file)
    report = json.loads(done.output)
    assert (report["adopted"] + halfway, report["errors"], report["braked"]) == (many + 1, [], None)  # and Olivia
    assert dump_table(stack.table) == before
    for table in ("regsvc_user", "regsvc_sync_record"):
        [[count]] = [row.values() for row in ours.query(f"SELECT COUNT(*) FROM {table}")]
        assert count == many + 1, table
    again = json.loads(companion("sync", config=stack.daemon.config_file).output)
    assert (again["adopted"], again["updated"], again["scanned"]) == (0, 0, many + 1)
