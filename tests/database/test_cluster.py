"""Reads on a cluster's node; `tests/faults/test_cluster_nodes.py` has what depends on them."""

import pytest
from peewee import Database

from regsvc.database.cluster import catch_up
from regsvc.database.engine import ReadCommittedMySQL


def test_without_a_cluster_there_is_nothing_to_wait_for(our_database: Database) -> None:
    assert not catch_up(our_database)


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_the_host_decides_which_reads_wait(our_database: Database) -> None:
    assert isinstance(our_database, ReadCommittedMySQL)
    our_database.is_cluster = True
    for setting, may_catch_up, session in (("auto", True, 0), ("off", False, 0), ("always", False, 1)):
        our_database.causal_reads = setting  # type: ignore[assignment]
        our_database.close()
        our_database.connect()
        assert catch_up(our_database) == may_catch_up
        assert our_database.execute_sql("SELECT @@SESSION.wsrep_sync_wait").fetchone() == (session,)
