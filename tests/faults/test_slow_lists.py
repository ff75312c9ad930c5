"""Searches that take for ever keep other lists waiting, and nobody who plays."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from peewee import Database

from regsvc.core.errors import DatabaseUnavailable, Overloaded
from regsvc.database.engine import Worker
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.our_tables import our_database
from tests.support.stack import Stack
from tests.support.watching import ask_until, scrape

TABLE = "regsvc_review"  # the list of users reads it if one is pending, but neither a look-up nor a login does
ENDLESS = f"""
CREATE VIEW {TABLE} AS WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
SELECT kept.* FROM numbers LEFT JOIN kept ON kept.id = -n
"""


@contextmanager
def endless_lists(stack: Stack) -> Iterator[None]:
    """Let the list of users take until the end of the block; on SQLite this also ends the daemon."""
    ours = our_database(stack)
    if isinstance(ours, MariaDBSchema):
        with closing(ours.database.connect()) as connection:
            connection.cursor().execute(f"LOCK TABLES {TABLE} WRITE")
            yield
        return
    ours.execute(f"ALTER TABLE {TABLE} RENAME TO kept")
    ours.execute(ENDLESS)
    try:
        yield
    finally:
        stack.daemon.kill()


@pytest.fixture(params=["sqlite", "mariadb"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    server = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    with Stack(request.param, tmp_path, server, config={"database": {"threads": 1}}) as stack:
        yield stack


@pytest.mark.every_database
def test_bob_logs_in_while_olivia_searches(stack: Stack) -> None:
    bob, carol, token = stack.approved("bob"), stack.pending("carol"), stack.olivia()
    lists = [
        f"/api/admin/users?search={carol.key}",
        "/api/admin/users?status=pending",
        "/api/admin/audits",
        "/api/admin/mails",
    ]

    def waiting() -> float:
        return scrape(stack.daemon).of("companion_list_waiting")

    with ThreadPoolExecutor(len(lists)) as olivias:
        with endless_lists(stack):
            replies = [olivias.submit(stack.daemon.get, path, token=token) for path in lists[:2]]
            ask_until(waiting, lambda number: number == 1)
            replies += [olivias.submit(stack.daemon.get, path, token=token) for path in lists[2:]]
            ask_until(waiting, lambda number: number == 3)

            assert (stack.status(bob), stack.status(carol)) == ("approved", "pending")
            assert stack.login(bob).status == 200
            assert stack.daemon.get(f"/api/admin/users?search={bob.key}&match=whole", token=token).status == 200
            assert stack.code_for("dora@example.org")
            assert not any(reply.done() for reply in replies)
        if stack.daemon.is_running:
            assert [reply.result().status for reply in replies] == [200] * len(lists)


async def test_lists_that_wait_are_bounded_and_end_with_the_daemon(our_database: Database) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def search() -> str:
        has_begun.set()
        may_end.wait(10)
        return "found"

    worker = Worker(our_database, 1, max_calls=2)
    worker.is_open = True
    searches = [asyncio.ensure_future(worker.run(search)) for _search in range(2)]
    await asyncio.to_thread(has_begun.wait, 10)
    with pytest.raises(Overloaded):
        await worker.run(search)

    worker.is_open = False
    may_end.set()
    await asyncio.to_thread(worker.close)
    assert await searches[0] == "found"
    with pytest.raises(DatabaseUnavailable):
        await searches[1]
