"""Check of a Galera cluster."""

from collections.abc import Iterator
from typing import Final

from regsvc.core.i18n.sentences import Sentence, plural
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check

_QUORUM: Final = 3
"""Nodes of which one may fail."""


@check(
    "database.galera",
    Severity.RISKY,
    means="Our database is a Galera cluster of fewer than three nodes, our connections lead to several of its nodes, "
    "or AuthMe's table is not replicated.",
    why="Of two nodes none accepts changes once the other has failed. What one node has committed, another shows a "
    "moment later: a status may be an old one.",
    do="Have three nodes, of which one takes all writes (docs/several-daemons.md).",
    where=FixLocation(Source.DATABASE, "wsrep"),
)
def cluster_is_fragile(facts: Facts) -> Iterator[Sentence]:
    nodes = facts.ours.cluster_nodes
    if not nodes:
        return
    size = min(node.cluster_size for node in nodes)
    if size < _QUORUM:
        yield plural(size, "The cluster has {count} node.", "The cluster has {count} nodes.")
    names = sorted({node.name for node in nodes})
    is_causal = facts.config.database.causal_reads == "always" or all(node.is_causal for node in nodes)
    if len(names) > 1 and not is_causal:
        yield Sentence("Connections lead to several nodes: {names}.", names=", ".join(names))
    engine = _find_engine(facts)
    if engine is not None and engine.lower() != "innodb":
        yield Sentence("AuthMe's table is {engine}, which Galera does not replicate.", engine=engine)


def _find_engine(facts: Facts) -> str | None:
    try:
        return facts.player_table.engine
    except FactUnavailable:
        return None


CHECKS: Final[tuple[Check, ...]] = (cluster_is_fragile,)
