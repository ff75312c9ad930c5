"""The parts the other tests stand on: do they behave like the real thing?"""

import smtplib
import ssl
import tomllib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pymysql
import pytest

from regsvc.database.engine import open_database
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import Algorithm, AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, column_types, dump_table, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.certificate import Certificate
from tests.support.daemon import to_toml
from tests.support.manual_clock import ManualClock
from tests.support.migrated import fill_file, fill_schema
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.peers.smtp import MailServer

every_shape = pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)


def test_mariadb_gives_authme_one_schema_and_no_more(mariadb: MariaDBServer) -> None:
    with mariadb.fresh_database() as database:
        connection = database.connect()
        with connection.cursor() as cursor, pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("CREATE TABLE mysql.foreign_schema (a INT)")
        connection.close()


def test_mariadb_keeps_what_was_committed_before_it_was_killed(
    mariadb: MariaDBServer,
) -> None:
    with mariadb.fresh_database() as database:
        connection = database.connect()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a INT) ENGINE=InnoDB")
            cursor.execute("INSERT INTO t VALUES (7)")
        mariadb.kill()
        mariadb.start()
        connection.close()
        connection = database.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT a FROM t")
            assert cursor.fetchall() == ((7,),)
        connection.close()


def test_a_copy_of_our_tables_is_what_the_migrator_makes(mariadb: MariaDBServer) -> None:
    with mariadb.fresh_database() as first, mariadb.fresh_database() as made, mariadb.fresh_database() as copied:
        fill_schema(first)  # the first one of a process may be no copy
        fill_schema(copied)
        ours = open_database(made.url, timedelta(seconds=5))
        bind_models(ours)
        with ours.connection_context():
            migrate(ours, ManualClock())
        assert len(told(made)) > 20
        assert told(copied) == told(made)


def test_so_is_a_copy_of_our_file(tmp_path: Path) -> None:
    fill_file(tmp_path / "copied.db")
    ours = open_database(f"sqlite:///{tmp_path / 'made.db'}", timedelta(seconds=5))
    bind_models(ours)
    with ours.connection_context():
        migrate(ours, ManualClock())
    made, copied = (SqliteFile(tmp_path / f"{name}.db") for name in ("made", "copied"))
    for question in ("SELECT type, name, sql FROM sqlite_master", "SELECT * FROM regsvc_migration"):
        assert copied.query(question) == made.query(question) != []
    assert copied.query("PRAGMA journal_mode") == [{"journal_mode": "wal"}]


def told(schema: Database) -> list[object]:
    """Everything the server says of a schema's tables, views and triggers, and the rows of the migrations."""
    with closing(schema.connect()) as connection, connection.cursor() as cursor:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        names = {name: "TABLE" for name, _kind in rows("SHOW FULL TABLES")}
        names |= {name: "TRIGGER" for name, *_rest in rows("SHOW TRIGGERS")}
        created = [(rows(f"SHOW CREATE {kind} `{name}`")[0])[:4] for name, kind in names.items()]
        return [*created, *rows("SELECT * FROM regsvc_migration")]


@every_shape
def test_alice_registers_plays_and_leaves(authme: AuthMeLike) -> None:
    assert authme.register("Alice", "s3cret", email="alice@example.org")
    assert not authme.register("ALICE", "other")
    assert not authme.login("Alice", "wrong")
    assert authme.login("Alice", "s3cret")
    assert authme.get("alice")["isLogged"] == 1
    assert authme.change_password("Alice", "s3cret", "n3wer")
    authme.quit("Alice")
    assert authme.login("Alice", "n3wer")
    assert authme.unregister("Alice", "n3wer")
    assert authme.find("Alice") is None


@every_shape
def test_a_registration_leaves_out_what_authme_leaves_out(authme: AuthMeLike) -> None:
    authme.register("Bob", "s3cret")
    row = authme.get("Bob")
    assert (row["username"], row["realname"]) == ("bob", "Bob")
    assert (row["ip"], row["lastlogin"], row["world"]) == (None, None, "world")
    assert row["email"] == ("your@email.com" if authme.table.shape is TableShape.OLD else None)
    assert abs(row["regdate"] / 1000 - datetime.now(UTC).timestamp()) < 60


def test_an_outside_change_does_not_reach_who_is_online(authme: AuthMeLike) -> None:
    authme.register("Bob", "old-one")
    authme.login("Bob", "old-one")
    AuthMeLike(authme.table).set_password("Bob", "from-outside")
    assert authme.change_password("Bob", "old-one", "in-game")
    authme.quit("Bob")
    assert authme.login("Bob", "in-game")


@pytest.mark.parametrize("algorithm", ["SHA256", "BCRYPT", "SALTEDSHA512"])
@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
def test_every_algorithm_of_ours_lets_its_own_player_in(authme_table: AuthMeTable, algorithm: Algorithm) -> None:
    plugin = AuthMeLike(authme_table, algorithm)
    plugin.register("Alice", "s3cret")
    assert plugin.login("Alice", "s3cret")
    assert not plugin.login("Alice", "S3cret")


def test_a_purge_takes_who_was_away(authme_table: AuthMeTable) -> None:
    long_ago = datetime(2024, 5, 1, tzinfo=UTC)
    AuthMeLike(authme_table, now=lambda: long_ago).register("Gone", "s3cret")
    plugin = AuthMeLike(authme_table)
    plugin.register("Here", "s3cret")
    assert plugin.purge(long_ago + timedelta(days=60)) == 1
    assert plugin.find("Gone") is None


@every_shape
def test_a_dump_shows_every_byte(authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="alice", realname="Alice", password="x", yaw=1.25, email="a@b.cd")
    before = dump_table(authme_table)
    assert list(before[0]) == list(column_types(authme_table))
    authme_table.database.execute(f"UPDATE {authme_table.name} SET realname = 'alice'")
    after = dump_table(authme_table)
    assert {name for name in before[0] if before[0][name] != after[0][name]} == {"realname"}


def test_every_sqlite_row_has_no_id(game_server: GameServer, authme: AuthMeLike) -> None:
    authme.register("Alice", "s3cret")
    has_id = authme.get("Alice")["id"] is not None
    assert has_id == (authme.table.database.kind == "mariadb")


def write_mail(recipient: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "companion@example.org"
    message["To"] = recipient
    message["Subject"] = "Dein Code — bitte"
    message.set_content("123456\n")
    return message


def send(server: MailServer, recipient: str) -> None:
    with smtplib.SMTP(server.host, server.port) as client:
        client.send_message(write_mail(recipient))


def test_a_letter_arrives(smtp: MailServer) -> None:
    send(smtp, "alice@example.org")
    letter = smtp.wait_for("alice@example.org")
    assert (letter.subject, letter.text.strip()) == ("Dein Code — bitte", "123456")
    assert letter.sender == "companion@example.org"
    assert not letter.is_encrypted


def test_a_mail_server_can_be_difficult(smtp: MailServer) -> None:
    smtp.refuse("gone@example.org")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(smtp, "gone@example.org")
    smtp.postpone("later@example.org", times=1)
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(smtp, "later@example.org")
    smtp.wait_for_refusal("later@example.org")
    send(smtp, "later@example.org")
    assert smtp.wait_for("later@example.org")


def test_a_mail_server_comes_back_on_its_port(smtp: MailServer) -> None:
    with smtplib.SMTP(smtp.host, smtp.port) as client:
        client.noop()
        smtp.stop()
        with pytest.raises(smtplib.SMTPServerDisconnected):
            client.noop()
    with pytest.raises(ConnectionRefusedError):
        send(smtp, "alice@example.org")
    smtp.start()
    send(smtp, "alice@example.org")
    assert smtp.wait_for("alice@example.org")


def test_a_mail_server_with_starttls_wants_its_account(certificate: Certificate) -> None:
    server = MailServer(tls=certificate.server_context(), account=("olivia", "s3cret"))
    server.start()
    try:
        trusting = ssl.create_default_context(cafile=str(certificate.certificate_file))
        with smtplib.SMTP(server.host, server.port) as client:
            client.starttls(context=trusting)
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login("olivia", "wrong")
            client.login("olivia", "s3cret")
            client.send_message(write_mail("alice@example.org"))
        letter = server.wait_for("alice@example.org")
        assert (letter.login, letter.is_encrypted) == ("olivia", True)
    finally:
        server.stop()


def test_the_generated_config_is_toml() -> None:
    config: dict[str, dict[str, Any]] = {
        "server": {"name": 'Ümläut "quoted"', "port": 8080},
        "registration": {"open": True, "methods": ["email", "captcha"]},
        "downloads": {"pack": {"name": "Pack"}},
    }
    assert tomllib.loads(to_toml(config)) == config
