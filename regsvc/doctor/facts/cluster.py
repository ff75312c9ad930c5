"""Facts about a Galera cluster: which of its nodes our connections lead to."""

from dataclasses import dataclass

from regsvc.doctor.facts.readonly_db import ReadOnlyDatabase


@dataclass(frozen=True)
class ClusterNode:
    """Node of a Galera cluster. `is_causal`: it shows what other nodes have committed (wsrep_sync_wait)."""

    name: str
    cluster_size: int
    is_causal: bool


def find_cluster_node(database: ReadOnlyDatabase) -> ClusterNode | None:
    """Return the node that this connection leads to, None without Galera. Raises `DatabaseUnreadable`."""
    variables = _named(database, "SHOW VARIABLES LIKE 'wsrep_%'")
    if variables.get("wsrep_on") != "ON":
        return None
    size = _named(database, "SHOW STATUS LIKE 'wsrep_cluster_size'")["wsrep_cluster_size"]
    return ClusterNode(variables["wsrep_node_name"], int(size), is_causal=int(variables["wsrep_sync_wait"]) & 1 == 1)


def _named(database: ReadOnlyDatabase, statement: str) -> dict[str, str]:
    return {row["Variable_name"]: row["Value"] for row in database.rows(statement)}
