"""Reads on a cluster's node; `tests/faults/test_cluster_nodes.py` has what depends on them."""

from datetime import timedelta
from typing import Any

from peewee import Database

from regsvc.database.engine import catch_up, open_database
from tests.support.peers.mariadb import Database as MariaDBSchema


def test_without_a_cluster_there_is_nothing_to_wait_for(our_database: Database) -> None:
    assert not catch_up(our_database)


def test_the_host_decides_which_reads_wait(database: MariaDBSchema) -> None:
    for setting, may_catch_up, session in (("auto", True, 0), ("off", False, 0), ("always", False, 1)):
        opened: Any = open_database(database.url, timedelta(seconds=5))
        opened.is_cluster, opened.causal_reads = True, setting
        with opened.connection_context():
            assert catch_up(opened) == may_catch_up
            assert opened.execute_sql("SELECT @@SESSION.wsrep_sync_wait").fetchone() == (session,)
