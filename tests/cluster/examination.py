"""`companion doctor` on a cluster."""

from collections.abc import Sequence

from regsvc.config.loader import load_config
from regsvc.doctor.checkup import examine
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.finding import FindingFields
from tests.support.cluster.companions import Companion
from tests.support.cluster.galera import GaleraNode
from tests.support.doctor_case import HEALTHY_HOST


def findings_of(companion: Companion) -> list[FindingFields]:
    """Return what is found about this companion's node."""
    checkup = examine(Facts(load_config(companion.daemon.config_file, {}), HEALTHY_HOST))
    return [finding for finding in checkup.findings if finding.id == "database.galera"]


def test_a_cluster_that_lost_a_node(nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    assert [findings_of(companion) for companion in companions] == [[], [], []]
    nodes[2].stop()
    assert [finding.title for finding in findings_of(companions[0])] == ["The cluster has 2 nodes."]
