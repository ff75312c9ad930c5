"""TLS without TLS settings: used where the server offers it, with any certificate."""

from datetime import timedelta
from pathlib import Path

from regsvc.database.engine import open_database
from tests.support.certificate import Certificate
from tests.support.peers.mariadb import MariaDBServer


def cipher(server: MariaDBServer) -> str:
    """Return the cipher of our connection; empty when it is not encrypted."""
    with server.fresh_database() as schema:
        ours = open_database(schema.url, timedelta(seconds=5))
        with ours.connection_context():
            [(_name, used)] = ours.execute_sql("SHOW STATUS LIKE 'Ssl_cipher'").fetchall()
    return str(used)


def test_a_server_with_a_certificate_is_spoken_to_in_tls(tmp_path: Path, certificate: Certificate) -> None:
    options = (f"--ssl-cert={certificate.certificate_file}", f"--ssl-key={certificate.key_file}")
    server = MariaDBServer(tmp_path / "mariadb", options=options)
    server.start()
    try:
        assert cipher(server)
    finally:
        server.stop()


def test_one_without_is_spoken_to_all_the_same(mariadb: MariaDBServer) -> None:
    assert cipher(mariadb) == ""
