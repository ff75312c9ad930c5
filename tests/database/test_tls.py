"""TLS to the database: as AuthMe's config says; without it, used where the server offers it, with any certificate."""

import ssl
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.config.sections import Config
from regsvc.database.engine import open_database
from regsvc.database.location import location_warnings, resolve_location
from tests.support.certificate import Certificate
from tests.support.peers.mariadb import MariaDBServer
from tests.support.quick_start import REPOSITORY


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


def test_a_login_by_sha_256_without_tls_loads_what_encrypts_its_password() -> None:
    """MySQL's default; no other login loads it."""
    program = """
import sys
from threading import Thread
from regsvc.database import engine
assert sys.modules["cryptography"] is None
passwords = [b"correct horse", b"battery staple"]
def encrypt(password):
    encrypted.append(engine._auth.sha2_rsa_encrypt(password, bytes(20), public_key))
public_key, encrypted = sys.stdin.buffer.read(), []
threads = [Thread(target=encrypt, args=(password,)) for password in passwords]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*(one.hex() for one in encrypted))"""
    key = rsa.generate_private_key(65537, 2048)
    given = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, input=given, capture_output=True, check=True)
    scheme = OAEP(MGF1(SHA1()), SHA1(), None)
    assert {key.decrypt(bytes.fromhex(text), scheme) for text in ran.stdout.decode().split()} == {
        b"correct horse\0",
        b"battery staple\0",
    }


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
    warnings = [warning for warning in location_warnings(authme) if "not encrypted" in warning]
    assert ["DataSource.MariaDbSslMode" in warning for warning in warnings] == ([True] if verifies is None else [])
