"""Findings about a Galera cluster; its nodes are made up here, and real in tests/cluster/examination.py."""

from itertools import cycle

import pytest

from regsvc.doctor.facts import databases
from regsvc.doctor.facts.databases import ClusterNode
from tests.support.authme.authme_database import DatabaseKind
from tests.support.doctor_case import DoctorCase


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "mariadb"


def connect_to(monkeypatch: pytest.MonkeyPatch, *nodes: ClusterNode) -> None:
    """Let connections lead to these nodes in turn."""
    turns = cycle(nodes)
    monkeypatch.setattr(databases, "find_cluster_node", lambda database: next(turns))


def node(name: str, *, size: int = 3, is_causal: bool = False) -> ClusterNode:
    return ClusterNode(name, size, is_causal)


def test_three_nodes_with_one_writer_are_healthy(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor_case.start_once()
    connect_to(monkeypatch, node("first"))
    assert doctor_case.findings() == []


def test_two_nodes_have_no_quorum_when_one_fails(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to(monkeypatch, node("first", size=2))
    assert doctor_case.only_finding("database.galera").title == "The cluster has 2 nodes."


def test_several_writers_have_to_be_causal(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to(monkeypatch, node("first"), node("second"))
    assert "first, second" in doctor_case.only_finding("database.galera").title
    connect_to(monkeypatch, node("first", is_causal=True), node("second", is_causal=True))
    assert doctor_case.findings() == []


def test_a_table_that_is_not_replicated(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor_case.table.database.execute(f"ALTER TABLE {doctor_case.table.name} ENGINE=MyISAM")
    connect_to(monkeypatch, node("first"))
    assert {finding.id for finding in doctor_case.findings()} >= {"database.galera", "table.not_transactional"}
