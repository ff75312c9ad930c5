"""Clusters of database servers (Galera): a node may not have applied yet what was committed on another one."""

from collections.abc import Callable
from typing import Any, Final

from peewee import Database, OperationalError

from regsvc.database.engine import ReadCommittedMySQL

_UNKNOWN_VARIABLE: Final = 1193


def catch_up(database: Database) -> bool:
    """Wait until our node has applied what was committed on any other before; returns whether there was a need to.

    False, at once, without a cluster, and if `database.causal_reads` is not "auto". Blocking; never inside a
    transaction.
    """
    if not isinstance(database, ReadCommittedMySQL) or database.causal_reads != "auto" or not _is_cluster(database):
        return False
    run: Callable[[str], Any] = database.execute_sql
    run("SET SESSION wsrep_sync_wait = 1")
    try:
        run("SELECT 1")
    finally:
        run("SET SESSION wsrep_sync_wait = DEFAULT")  # the server's own value, which may be 1
    return True


def _is_cluster(database: ReadCommittedMySQL) -> bool:
    """Return whether the server is a node of a cluster; asked once."""
    if database.is_cluster is None:
        try:
            run: Callable[[str], Any] = database.execute_sql
            [[is_on]] = run("SELECT @@GLOBAL.wsrep_on").fetchall()
        except OperationalError as error:
            if error.args[0] != _UNKNOWN_VARIABLE:
                raise
            is_on = 0
        database.is_cluster = bool(is_on)
    return database.is_cluster
