"""Hosts as they are: servers with settings of their own, tables that other programs made, damaged files."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from regsvc.core.errors import AuthMeUnavailable
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, create_table, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.services import ServiceHarness, open_services

NAME, PASSWORD = "mc-authme", "p@ss:w/ord#1%"
MODES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH"
OPTIONS = (
    f"--sql-mode={MODES}",
    "--default-time-zone=+08:00",
    "--wait-timeout=5",
    "--transaction-isolation=SERIALIZABLE",
    "--autocommit=OFF",
    "--character-set-server=latin1",
    "--collation-server=latin1_swedish_ci",
)
SECRET = "it's\"\\||-50%_"
TEXT = 'a "quote", it\'s \\ a || b -- 50% _'


@pytest.fixture(scope="module")
def odd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDBServer]:
    server = MariaDBServer(tmp_path_factory.mktemp("odd-mariadb"), options=OPTIONS)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def odd_schema(odd_server: MariaDBServer) -> Iterator[Database]:
    odd_server.run_as_root(
        f"CREATE DATABASE `{NAME}`",
        f"CREATE USER 'odd'@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL PRIVILEGES ON `{NAME}`.* TO 'odd'@'%'",
    )
    yield Database(odd_server.port, NAME, user="odd", password=PASSWORD)
    odd_server.run_as_root("DROP USER 'odd'@'%'", f"DROP DATABASE `{NAME}`")


@pytest.mark.one_database("mariadb")
def test_a_server_with_settings_of_its_own(
    odd_schema: Database, game_server: GameServer, clock: ManualClock, tmp_path: Path
) -> None:
    """Players of all ages are there, AuthMe's config comes from Windows; Alice registers, plays and is banned."""
    table = AuthMeTable(MariaDBSchema(odd_schema))
    create_table(table)
    table.database.execute("ALTER TABLE authme MODIFY id INT AUTO_INCREMENT")
    game_server.install_authme(table)
    config = game_server.authme_config
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes().replace(b"\n", b"\r\n"))
    old = {"password": "$SHA$00$00", "regdate": 1_600_000_000_000}
    insert_player(table, username="paul", realname="Player", email=None, **old)
    insert_player(table, username="nina", realname="", email="same@example.org", **old)
    insert_player(table, username="????", realname="????", email="same@example.org", **old)
    insert_player(table, username="sec", realname="Sec", email=None, password="x", regdate=1_600_000_000)
    bedrock = (".Ben Smith", "*Zoe", "-Ed-", "\uff21\uff22\uff23")
    for name in bedrock:
        insert_player(table, username=name.lower(), realname=name, email=None, **old)
    insert_player(table, id=2_147_483_646, username="last", realname="Last", email=None, **old)
    services = open_services(game_server, table, clock, tmp_path / "state", database__url="auto")
    services.sync()
    adopted = [services.user(name).username for name in ("paul", "nina", "????", "sec", "last", *bedrock)]
    assert adopted == ["paul", "nina", "????", "Sec", "Last", *bedrock]

    alice = services.approved("Alice", SECRET)
    assert services.authme.login("Alice", SECRET)
    assert services.login("Alice", SECRET).username == "Alice"
    assert alice.created_at == clock().replace(microsecond=alice.created_at.microsecond), "UTC, whatever the server's"
    services.decide("ban", "Alice", reason=TEXT)
    services.sync()
    assert (services.user("Alice").reason, services.is_locked("alice")) == (TEXT, True)
    services.decide("unban", "Alice")
    services.sync()
    assert services.authme.login("Alice", SECRET)
    services.close()


@pytest.mark.one_database("mariadb")
def test_a_table_that_belongs_to_wordpress(
    database: Database, game_server: GameServer, clock: ManualClock, tmp_path: Path
) -> None:
    """Names are there twice, by case, dates are 0000-00-00, and there are columns that are not AuthMe's."""
    columns = {"id": "ID", "username": "user_login", "realname": "display_name", "password": "user_pass"}
    columns |= {"email": "user_email", "regdate": "user_registered"}
    table = AuthMeTable(MariaDBSchema(database), name="wp_users", renamed=columns)
    with database.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(
            "CREATE TABLE wp_users (ID BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
            " user_login VARCHAR(60) COLLATE utf8mb4_bin NOT NULL DEFAULT '',"
            " user_pass VARCHAR(255) NOT NULL DEFAULT '',"
            " user_nicename VARCHAR(50) NOT NULL DEFAULT '', user_email VARCHAR(100) NOT NULL DEFAULT '',"
            " user_registered DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', user_status INT NOT NULL DEFAULT 0,"
            " display_name VARCHAR(250) NOT NULL DEFAULT '', ip VARCHAR(40) NULL, lastlogin BIGINT NULL,"
            " regip VARCHAR(40) NULL, isLogged SMALLINT NOT NULL DEFAULT 0, hasSession SMALLINT NOT NULL DEFAULT 0,"
            " totp VARCHAR(32) NULL, premiumUUID VARCHAR(36) NULL) CHARACTER SET utf8mb4"
        )
        cursor.execute(
            "INSERT INTO wp_users (user_login, display_name) VALUES ('bob', 'Bob'), ('Bob', 'Bob'), ('eve', '')"
        )
    game_server.authme_directory.mkdir(parents=True)
    game_server.install_authme(table)
    services = open_services(game_server, table, clock, tmp_path / "state", database__url="auto")
    report = services.sync()
    assert [it.username for it in report.conflicts] == ["Bob"]
    assert [services.user(name).username for name in ("bob", "eve")] == ["Bob", "eve"]
    services.close()


def zero(file: Path) -> None:
    file.write_bytes(b"")


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def overwrite(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:8192] = b"\xa5" * 4096
    file.write_bytes(content)


def use_wal(file: Path) -> None:
    with closing(sqlite3.connect(file)) as authme:
        authme.execute("PRAGMA journal_mode = WAL")


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere.sqlite"))
    file.symlink_to("elsewhere.sqlite")


def leave_hot_journal(file: Path) -> None:
    """Leave what AuthMe's process leaves when it is killed in a transaction that has spilled its pages."""
    with closing(sqlite3.connect(file, isolation_level=None)) as authme:
        authme.execute("PRAGMA cache_size = 1")
        authme.execute("PRAGMA synchronous = OFF")
        authme.execute("BEGIN IMMEDIATE")
        authme.executemany(
            "INSERT INTO authme (username, realname, password) VALUES (?, ?, 'x')",
            [(f"lost_{number}", f"Lost_{number}") for number in range(3000)],
        )
        for part in (file, file.with_name(f"{file.name}-journal")):
            shutil.copy(part, part.with_name(f"kept-{part.name}"))
        authme.execute("ROLLBACK")
    for part in (file, file.with_name(f"{file.name}-journal")):
        part.with_name(f"kept-{part.name}").rename(part)


@pytest.fixture
def with_bob(sqlite_services: ServiceHarness) -> ServiceHarness:
    assert sqlite_services.authme.register("Bob", "bobs-password")
    return sqlite_services


@pytest.fixture
def sqlite_services(game_server: GameServer, clock: ManualClock, tmp_path: Path) -> Iterator[ServiceHarness]:
    game_server.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(game_server.authme_directory / "authme.db"))
    create_table(table)
    game_server.install_authme(table)
    services = open_services(game_server, table, clock, tmp_path / "state")
    yield services
    services.close()


@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize("change", [use_wal, link, leave_hot_journal])
def test_a_file_that_authme_can_use_is_used(with_bob: ServiceHarness, change: Callable[[Path], None]) -> None:
    change(with_bob.game.authme_directory / "authme.db")
    with_bob.sync()
    assert with_bob.user("Bob").username == "Bob"
    with_bob.approved("Alice", "the-web-password")
    assert with_bob.authme.login("Alice", "the-web-password")
    assert with_bob.find_user("lost_1") is None


@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize("damage", [zero, truncate, overwrite])
def test_a_damaged_file_is_away_and_loses_nobody(with_bob: ServiceHarness, damage: Callable[[Path], None]) -> None:
    with_bob.sync()
    file = with_bob.game.authme_directory / "authme.db"
    whole = file.read_bytes()
    damage(file)
    with_bob.sync()
    with pytest.raises(AuthMeUnavailable):
        with_bob.register("Alice")
    with_bob.decide("ban", "Bob")
    backup = file.with_name("backup.db")
    backup.write_bytes(whole)
    backup.replace(file)
    with_bob.sync()
    assert with_bob.is_locked("bob")
    assert with_bob.register("Alice") == "pending"
