"""Errors that only a node of a cluster replies with: lost races at COMMIT, and no quorum. A proxy replies with them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from regsvc.database.engine import MAX_RACE_RETRIES
from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema
from tests.support.daemon import READY, START_TIMEOUT
from tests.support.our_tables import our_database
from tests.support.peers.database_proxy import (
    CUT_OFF_AT_COMMIT,
    LOST_RACE,
    NO_QUORUM,
    DatabaseProxy,
    FirstTimes,
    LaggingNode,
    ServerError,
)
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack


class ProxiedStack(Stack):
    """A stack whose daemon and plugin reach the database through `proxy`."""

    proxy: DatabaseProxy

    def _place(self, stack: ExitStack) -> AuthMeDatabase:
        schema = super()._place(stack)
        assert isinstance(schema, MariaDBSchema)
        self.proxy = stack.enter_context(DatabaseProxy(schema.database.port))
        return MariaDBSchema(replace(schema.database, port=self.proxy.port))


@pytest.fixture(scope="module")
def shared(mariadb: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedStack]:
    stack = ProxiedStack("mariadb", tmp_path_factory.mktemp("stack"), mariadb)
    with stack:
        yield stack


@pytest.fixture
def stack(shared: ProxiedStack) -> Iterator[ProxiedStack]:
    yield shared
    shared.proxy.rule = lambda statement: None


def without_quorum(statement: str) -> ServerError | None:
    """Reply as a node that is cut off from the others: it changes and shows settings, and nothing else."""
    return None if statement.startswith("SET ") else NO_QUORUM


def count_registrations(stack: Stack, name: str) -> int:
    [row] = our_database(stack).query(
        "SELECT COUNT(*) AS n FROM regsvc_audit WHERE action = 'user.registered' AND target = ?", (name,)
    )
    return int(row["n"])


def test_a_transaction_that_loses_at_commit_is_repeated(stack: ProxiedStack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    stack.proxy.rule = rule = FirstTimes("COMMIT", LOST_RACE, MAX_RACE_RETRIES)
    assert stack.register(alice, code=code).status == 201
    assert rule.seen > MAX_RACE_RETRIES
    assert count_registrations(stack, alice.name) == 1


def test_a_transaction_that_always_loses_says_that_it_is_busy(stack: ProxiedStack) -> None:
    bob = stack.newcomer("bob")
    code = stack.code_for(bob.email)
    stack.proxy.rule = FirstTimes("COMMIT", LOST_RACE, 1000)
    reply = stack.register(bob, code=code)
    assert (reply.status, reply.code) == (503, "busy"), reply.text
    assert int(reply.headers["Retry-After"]) > 0
    stack.proxy.rule = lambda statement: None
    assert stack.status(bob) is None
    assert stack.register(bob, code=code).status == 201


def test_a_node_that_loses_its_quorum_is_waited_for(stack: ProxiedStack) -> None:
    """R43"""
    carol, token = stack.approved("carol"), stack.olivia()
    stack.proxy.rule = without_quorum
    for reply in (stack.login(carol), stack.post("/api/admin/sync", {}, token=token), stack.get("/health/ready")):
        assert (reply.status, reply.code) == (503, "database_away"), reply.text
        assert int(reply.headers["Retry-After"]) > 0
    stack.proxy.rule = lambda statement: None
    assert stack.login(carol).status == 200
    assert stack.daemon.wait_for_log("the database is back")
    assert not [line for line in stack.daemon.log if "bug in" in line or "Traceback" in line]


def test_a_node_that_loses_the_others_during_a_commit_is_away(stack: ProxiedStack) -> None:
    """R43"""
    frank = stack.newcomer("frank")
    code = stack.code_for(frank.email)
    stack.proxy.rule = lambda statement: CUT_OFF_AT_COMMIT if "COMMIT" in statement else None
    reply = stack.register(frank, code=code)
    assert (reply.status, reply.code) == (503, "database_away"), reply.text
    stack.proxy.rule = lambda statement: None
    assert stack.register(frank, code=code).status == 201
    assert count_registrations(stack, frank.name) == 1


def test_a_login_counts_on_a_node_that_has_not_applied_it_yet(stack: ProxiedStack) -> None:
    """R67"""
    token = stack.olivia()
    stack.proxy.rule = rule = LaggingNode("regsvc_session")
    assert stack.get("/api/admin/verify", token=token).status == 200
    assert rule.has_waited


def test_a_mail_waits_for_the_row_that_it_is_about(stack: ProxiedStack) -> None:
    """R42: it was dropped, as if the code had been used."""
    erin = stack.newcomer("erin")
    stack.proxy.rule = rule = LaggingNode("regsvc_verification")
    assert stack.code_for(erin.email)
    assert rule.has_waited


def test_a_start_on_a_node_without_quorum_succeeds_once_it_has_one(stack: ProxiedStack) -> None:
    stack.daemon.stop()
    stack.daemon.log.clear()
    stack.proxy.rule = without_quorum
    stack.daemon.spawn()
    assert stack.daemon.wait_for_log("the database is tried again in", START_TIMEOUT)
    assert stack.get("/health/ready").code == "database_away"
    stack.proxy.rule = lambda statement: None
    assert stack.daemon.wait_for_log("the database is back")
    assert stack.daemon.wait_for_output(READY)
    assert stack.pending("dora")
    assert len([line for line in stack.daemon.output if line.startswith(READY)]) == 1
