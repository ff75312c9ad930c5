"""A balancer that spreads the connections of each companion over all nodes, and a cluster that is busy."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from tests.support.certificate import make_certificate
from tests.support.cluster.companions import Companion, Place, running
from tests.support.cluster.galera import GaleraNode
from tests.support.cluster.haproxy import HAProxy
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.ports import free_port

PEOPLE = 10
LEASTCONN = {
    "mode tcp\n": "mode tcp\n    balance leastconn\n",
    " backup on-marked-up shutdown-backup-sessions": "",
    " backup\n": "\n",
    " on-marked-up shutdown-backup-sessions": "",
}


@contextmanager
def large_transactions(place: Place) -> Iterator[None]:
    """Commit transactions of thousands of rows on the first node, which the others apply late."""
    schema, is_over = place.schema_at(place.nodes[0]), threading.Event()
    schema.execute("CREATE TABLE lag (id INT PRIMARY KEY, text VARCHAR(200))")

    def write() -> None:
        with closing(schema.database.connect()) as connection, connection.cursor() as cursor:
            while not is_over.is_set():
                cursor.execute("INSERT INTO lag SELECT seq, REPEAT('x', 200) FROM seq_1_to_3000")
                cursor.execute("DELETE FROM lag")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_no_mail_is_dropped_because_its_row_is_still_on_its_way(place: Place, nodes: Sequence[GaleraNode]) -> None:
    # as the sample says
    nodes[0].run_as_root("CREATE USER IF NOT EXISTS 'haproxy'@'127.0.0.1'")
    certificate = make_certificate(place.directory)
    ports = [free_port() for _number in range(3)]
    with HAProxy(place.directory / "haproxy", nodes, ports, certificate, LEASTCONN) as haproxy:
        all_over = [Companion(place, name, haproxy.database_port) for name in "abc"]
        with running(all_over) as companions, large_transactions(place), registering(companions) as registrants:
            registrants.wait_for_more(PEOPLE, *companions)
    check_nothing_is_lost(place, registrants)
    assert set(registrants.answers) == {(200, None), (201, None)}
    dropped = "SELECT COUNT(*) AS n FROM regsvc_outbox WHERE outcome <> 'sent'"
    assert place.query(nodes[0], dropped) == [{"n": 0}]
