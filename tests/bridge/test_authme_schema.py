"""AuthMe's table belongs to AuthMe: its names, its absence, and that nothing of it is created or altered."""

import re
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugin_bridge.authme.config import AuthMeConfigError, ColumnNames, read_authme_config
from plugin_bridge.authme.mysql import MySqlPlayers
from plugin_bridge.authme.players import PlayerRow, PlayersUnavailable
from plugin_bridge.authme.table import AuthMePlayers
from regsvc.database.engine import open_database
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_tables import (
    AuthMeTable,
    TableShape,
    create_table,
    dump_table,
    find_player,
    insert_player,
)
from tests.support.authme.game_server import GameServer
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.players import ALICE, HASH, SHORT, OpenPlayers, add_row, delete_row, every_shape, seen

# --- names of tables and columns ---

RENAMED = {
    "username": "order",
    "realname": "group",
    "password": "select",
    "email": "e_mail_2",
    "regdate": "REGDATE",
    "hasSession": "key",
}


def make_renamed(table: AuthMeTable) -> AuthMeTable:
    """AuthMe does not quote names, so no host has such ones; the companion quotes and accepts them."""
    quote = '"' if table.database.kind == "sqlite" else "`"
    renamed = AuthMeTable(table.database, name="players", renamed=RENAMED)
    quoted = {column: f"{quote}{name}{quote}" for column, name in RENAMED.items()}
    create_table(AuthMeTable(table.database, name="players", renamed=quoted))
    return renamed


def test_table_and_columns_may_have_any_name(authme_table: AuthMeTable, open_players: OpenPlayers) -> None:
    renamed = open_players(make_renamed(authme_table))
    add_row(renamed, ALICE)
    row = seen(renamed)
    assert (row.realname, row.hash, row.email, row.regdate) == ("Alice", HASH, "alice@example.org", ALICE.regdate)
    assert renamed.update(row, {"hash": "new", "has_session": 1, "email": None})
    assert [[row.username for row in page] for page in renamed.pages(1)] == [["alice"]]
    assert renamed.find_colliding("alice") == seen(renamed)
    assert delete_row(renamed, seen(renamed))
    assert dump_table(authme_table) == []


@pytest.mark.parametrize("name", ["a b", "a;b", 'a"b', "a`b", "a.b", "", "x" * 65, "naïve", "a\nb"])
@pytest.mark.parametrize("key", ["mySQLTablename", "mySQLColumnName", "mySQLColumnPassword", "mySQLColumnEmail"])
def test_a_name_that_is_no_name_is_refused(
    game_server: GameServer, authme_table: AuthMeTable, name: str, key: str
) -> None:
    game_server.change_authme({f"DataSource.{key}": name})
    with pytest.raises(AuthMeConfigError, match=key):
        read_authme_config(game_server.authme_config)


def test_columns_are_found_whatever_their_case(authme_table: AuthMeTable, open_players: OpenPlayers) -> None:
    shouted = AuthMeTable(authme_table.database, renamed={"regdate": "RegDate", "email": "EMAIL"})
    players = open_players(shouted)
    add_row(players, ALICE)
    assert (seen(players).regdate, seen(players).email) == (ALICE.regdate, "alice@example.org")


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_the_table_may_stand_in_another_schema(
    mariadb: MariaDBServer, authme_table: AuthMeTable, database: Database
) -> None:
    with mariadb.fresh_database() as ours:
        opened = open_database(ours.url, SHORT)
        players = MySqlPlayers(opened, authme_table.name, ColumnNames(), schema=database.name)
        add_row(players, ALICE)
        assert players.update(seen(players), {"email": None})
        assert players.shares_transactions
        opened.close()
    assert find_player(authme_table, "alice") is not None


# --- a table that is unavailable, or changes ---


def test_a_table_that_is_not_there_yet_is_told_in_words(authme_table: AuthMeTable, players: AuthMePlayers) -> None:
    authme_table.database.execute(f"DROP TABLE {authme_table.name}")
    for call in (lambda: players.find("alice"), players.is_empty, lambda: next(players.pages(5))):
        with pytest.raises(PlayersUnavailable, match="no table authme yet"):
            call()
    with pytest.raises(PlayersUnavailable):
        add_row(players, ALICE)
    create_table(authme_table)
    assert add_row(players, ALICE)


def test_a_table_that_goes_away_between_two_looks_is_told_in_words(
    authme_table: AuthMeTable, players: AuthMePlayers
) -> None:
    add_row(players, ALICE)
    row = seen(players)
    authme_table.database.execute(f"DROP TABLE {authme_table.name}")
    with pytest.raises(PlayersUnavailable, match="no table authme yet"):
        players.update(row, {"hash": "new"})
    create_table(authme_table)
    assert players.is_empty()


def test_a_column_that_goes_away_between_two_looks_is_told_in_words(
    authme_table: AuthMeTable, players: AuthMePlayers
) -> None:
    add_row(players, ALICE)
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} DROP COLUMN totp")
    with pytest.raises(PlayersUnavailable, match="lacks a column"):
        players.find("alice")
    assert seen(players).totp is None


def test_a_table_without_a_needed_column_is_told_in_words(authme_table: AuthMeTable, players: AuthMePlayers) -> None:
    table = authme_table.name
    authme_table.database.execute(f"DROP TABLE {table}")
    authme_table.database.execute(f"CREATE TABLE {table} (username VARCHAR(255), realname VARCHAR(255))")
    with pytest.raises(PlayersUnavailable, match="has no column password"):
        players.find("alice")


def test_columns_that_authme_adds_are_seen_after_a_look(authme_table: AuthMeTable, open_players: OpenPlayers) -> None:
    full = AuthMeTable(authme_table.database, shape=TableShape.FULL)
    players = open_players(full)
    add_row(players, ALICE)
    assert seen(players).salt is None
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} ADD COLUMN salt VARCHAR(255)")
    players.refresh()
    assert players.update(seen(players), {"salt": "the-salt"})
    assert seen(players).salt == "the-salt"


@pytest.fixture
def sqlite_table(game_server: GameServer) -> AuthMeTable:
    game_server.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(game_server.authme_directory / "authme.db"))
    create_table(table)
    return table


def path_of(table: AuthMeTable) -> Path:
    assert isinstance(table.database, SqliteFile)
    return table.database.path


def test_a_missing_file_is_away_and_is_not_made(game_server: GameServer, open_players: OpenPlayers) -> None:
    game_server.authme_directory.mkdir(parents=True)
    path = game_server.authme_directory / "authme.db"
    players = open_players(AuthMeTable(SqliteFile(path)))
    with pytest.raises(PlayersUnavailable, match="cannot be opened"):
        players.find("alice")
    with pytest.raises(PlayersUnavailable):
        add_row(players, ALICE)
    assert not path.exists()


def test_a_file_that_is_no_database_is_away(sqlite_table: AuthMeTable, open_players: OpenPlayers) -> None:
    path_of(sqlite_table).write_bytes(b"no database at all, but long enough to look like one" * 40)
    with pytest.raises(PlayersUnavailable, match="cannot be used"):
        open_players(sqlite_table).find("alice")


def test_a_busy_file_is_away_and_nothing_is_lost(sqlite_table: AuthMeTable, open_players: OpenPlayers) -> None:
    players = open_players(sqlite_table)
    add_row(players, ALICE)
    row = seen(players)
    assert isinstance(sqlite_table.database, SqliteFile)
    with closing(sqlite_table.database.connect()) as authme:
        authme.execute("BEGIN EXCLUSIVE")
        for call in (
            lambda: players.find("alice"),
            lambda: players.update(row, {"hash": "new"}),
            lambda: delete_row(players, row),
            lambda: add_row(players, replace(ALICE, realname="Bob")),
        ):
            with pytest.raises(PlayersUnavailable, match="is busy"):
                call()
        authme.execute("ROLLBACK")
    assert players.update(row, {"hash": "new"})


def test_a_file_that_was_replaced_is_opened_anew(
    sqlite_table: AuthMeTable, open_players: OpenPlayers, tmp_path: Path
) -> None:
    players = open_players(sqlite_table)
    add_row(players, ALICE)
    backup = tmp_path / "backup.db"
    create_table(AuthMeTable(SqliteFile(backup)))
    insert_player(AuthMeTable(SqliteFile(backup)), username="bob", realname="Bob", password="x")
    backup.replace(path_of(sqlite_table))
    assert players.find("alice") is None
    assert players.find("bob") is not None
    add_row(players, ALICE)
    assert find_player(sqlite_table, "alice") is not None


def test_each_thread_notices_that_the_file_was_replaced(
    sqlite_table: AuthMeTable, open_players: OpenPlayers, tmp_path: Path
) -> None:
    players = open_players(sqlite_table)
    is_open, is_replaced = threading.Event(), threading.Event()
    found: list[PlayerRow | None] = []

    def look_twice() -> None:
        found.append(players.find("bob"))
        is_open.set()
        is_replaced.wait(timeout=10)
        found.append(players.find("bob"))
        players.close()

    thread = threading.Thread(target=look_twice)
    thread.start()
    assert is_open.wait(timeout=10)
    backup = AuthMeTable(SqliteFile(tmp_path / "backup.db"))
    create_table(backup)
    insert_player(backup, username="bob", realname="Bob", password="x")
    path_of(backup).replace(path_of(sqlite_table))
    assert players.find("bob") is not None
    is_replaced.set()
    thread.join()
    assert found[0] is None
    assert found[1] is not None


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_login_without_rights_on_the_table_is_told_in_words(
    mariadb: MariaDBServer, authme_table: AuthMeTable, database: Database
) -> None:
    mariadb.run_as_root(
        "CREATE USER 'reader'@'%' IDENTIFIED BY 'reader-password'",
        f"GRANT SELECT ON `{database.name}`.* TO 'reader'@'%'",
    )
    try:
        opened = open_database(replace(database, user="reader", password="reader-password").url, SHORT)
        players = MySqlPlayers(opened, authme_table.name, ColumnNames())
        assert players.is_empty()
        with pytest.raises(PlayersUnavailable, match="grant it the right"):
            add_row(players, ALICE)
        opened.close()
    finally:
        mariadb.run_as_root("DROP USER 'reader'@'%'")


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(("engine", "is_shared"), [("InnoDB", True), ("MyISAM", False)])
def test_a_transaction_is_shared_with_a_table_that_has_them(
    authme_table: AuthMeTable, players: AuthMePlayers, engine: str, is_shared: bool
) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} ENGINE = {engine}")
    assert players.shares_transactions is is_shared


# --- nothing is altered ---


def schema_of(table: AuthMeTable) -> Any:
    """Return the definition of the table, and what the database says of its file."""
    if isinstance(table.database, SqliteFile):
        with closing(table.database.connect()) as connection:
            journal = connection.execute("PRAGMA journal_mode").fetchone()
        return table.database.query("SELECT * FROM sqlite_master"), journal, table.database.path.stat().st_ino
    [made] = table.database.query(f"SHOW CREATE TABLE `{table.name}`")
    counter = re.compile(r" AUTO_INCREMENT=\d+")  # the next id: inserting is allowed
    return counter.sub("", made["Create Table"]), table.database.query("SHOW TABLES")


@every_shape
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_guest_changes_no_schema_and_no_file(authme_table: AuthMeTable, players: AuthMePlayers, journal: str) -> None:
    if isinstance(authme_table.database, SqliteFile):
        with closing(sqlite3.connect(authme_table.database.path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {journal}")
    before = schema_of(authme_table)
    players.refresh()
    add_row(players, ALICE)
    assert players.update(seen(players), {"hash": "new", "email": "new@example.org"})
    assert [len(page) for page in players.pages(2)] == [1]
    assert players.find_colliding("alice") is not None
    assert delete_row(players, seen(players))
    players.close()
    assert schema_of(authme_table) == before
