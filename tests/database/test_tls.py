"""TLS to the database: as AuthMe's config says; without it, used where the server offers it, with any certificate."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.config.sections import Config
from regsvc.database.engine import open_database
from regsvc.database.location import location_warnings, resolve_location
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


@pytest.mark.parametrize(
    ("mode", "verifies"),
    [
        ("disabled", None),
        ("trust", (ssl.CERT_NONE, False)),
        ("verify_ca", (ssl.CERT_REQUIRED, False)),
        ("verify-full", (ssl.CERT_REQUIRED, True)),
    ],
)
def test_authmes_mode_for_mariadb_is_ours(mode: str, verifies: tuple[ssl.VerifyMode, bool] | None) -> None:
    authme = AuthMeConfig(backend="MARIADB", host="db.example.org", mariadb_ssl_mode=mode)
    context = resolve_location(Config(), authme).database.connect_params.get("ssl")
    assert (None if context is None else (context.verify_mode, context.check_hostname)) == verifies
    warnings = [warning for warning in location_warnings(Config(), authme) if "not encrypted" in warning]
    assert ["DataSource.MariaDbSslMode" in warning for warning in warnings] == ([True] if verifies is None else [])
