"""Pages of writes to AuthMe's table: each write has the result it would have alone, in few statements."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from plugin_bridge.authme import sqlite as sqlite_writes
from plugin_bridge.authme.players import (
    NewPlayer,
    NoPlayers,
    PlayerRefused,
    PlayerRow,
    PlayersUnavailable,
    RowDelete,
    RowUpdate,
    RowWrite,
    WriteResult,
    lock_text,
)
from plugin_bridge.authme.table import AuthMePlayers
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, TableShape, dump_table, insert_player
from tests.support.players import ALICE, HASH, OpenPlayers, add_row, every_shape, seen

DONE = WriteResult(is_written=True)
LOST = WriteResult(is_written=False)
WITHOUT_EMAIL = WriteResult(is_written=True, is_email_refused=True)
MANY = 500
CHARSETS = ["utf8mb4", "utf8mb3", "latin1"]

on_mariadb = pytest.mark.parametrize("database_kind", ["mariadb"])
on_sqlite = pytest.mark.parametrize("database_kind", ["sqlite"])


def add_players(table: AuthMeTable, players: AuthMePlayers, count: int) -> list[PlayerRow]:
    """Add players to the game: player000, player001, …"""
    new = [replace(ALICE, realname=f"Player{n:03}", email=f"p{n}@example.org", regdate=n + 1) for n in range(count)]
    assert write(players, list(new)) == [DONE] * count
    rows = players.find_many([player.username for player in new])
    return [rows[player.username] for player in new]


def write(players: AuthMePlayers, writes: list[RowWrite]) -> list[WriteResult]:
    """Write inside a transaction, as the sync does where it shares one."""
    if players.shares_transactions:
        with players._database.atomic():
            return players.write_many(writes)
    return players.write_many(writes)


@contextmanager
def recorded_sql(players: AuthMePlayers, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record every statement."""
    statements: list[str] = []
    execute: Any = players._database.execute_sql

    def recording(sql: str, *args: Any, **kwargs: Any) -> Any:
        statements.append(sql)
        return execute(sql, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(players._database, "execute_sql", recording)
        yield statements


def locked(row: PlayerRow) -> RowUpdate:
    return RowUpdate(row, {"hash": lock_text(row.hash), "has_session": 0, "premium_uuid": None})


# --- results ---


@every_shape
def test_each_write_of_a_page_has_the_result_it_would_have_alone(
    players: AuthMePlayers, authme_table: AuthMeTable
) -> None:
    rows = add_players(authme_table, players, 12)
    table = authme_table.name
    authme_table.database.execute(f"UPDATE {table} SET password = 'in game' WHERE username = 'player001'")
    authme_table.database.execute(f"UPDATE {table} SET password = 'in game' WHERE username = 'player004'")
    authme_table.database.execute(f"DELETE FROM {table} WHERE username = 'player002'")
    bob = NewPlayer("Bob", HASH, None, "bob@example.org", 5, "198.51.100.7")
    results = write(
        players,
        [
            locked(rows[0]),
            locked(rows[1]),
            locked(rows[2]),
            RowDelete(rows[3]),
            RowDelete(rows[4]),
            RowUpdate(rows[5], {"hash": HASH}),  # changes nothing
            bob,
            replace(ALICE, realname="Player006"),
            RowUpdate(rows[7], {"hash": "new"}),
            RowUpdate(rows[8], {"hash": "newer", "realname": "Eight"}),
            locked(rows[9]),
            RowDelete(replace(rows[10], regdate=999)),
        ],
    )
    assert results == [DONE, LOST, LOST, DONE, LOST, DONE, DONE, LOST, DONE, DONE, DONE, LOST]
    now = {row.username: row for page in players.pages(100) for row in page}
    assert now["player000"] == replace(rows[0], hash=lock_text(HASH))
    assert now["player001"] == replace(rows[1], hash="in game")
    assert {"player002", "player003"}.isdisjoint(now)
    assert now["player004"] == replace(rows[4], hash="in game")
    assert [now[f"player{n:03}"] for n in (5, 6, 10, 11)] == [rows[n] for n in (5, 6, 10, 11)]
    assert (now["bob"].realname, now["bob"].email) == ("Bob", "bob@example.org")
    assert now["player007"] == replace(rows[7], hash="new")
    assert now["player008"] == replace(rows[8], hash="newer", realname="Eight")
    assert now["player009"] == replace(rows[9], hash=lock_text(HASH))


def test_an_empty_page_writes_nothing(players: AuthMePlayers) -> None:
    assert players.write_many([]) == []


def test_writes_of_one_name_happen_in_their_order(players: AuthMePlayers) -> None:
    add_row(players, ALICE)
    row = seen(players)
    writes: list[RowWrite] = [
        RowUpdate(row, {"hash": "new"}),
        RowDelete(row),
        RowDelete(replace(row, hash="new")),
        replace(ALICE, hash="newer"),
    ]
    assert write(players, writes) == [DONE, LOST, DONE, DONE]
    assert seen(players).hash == "newer"


@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
def test_null_and_empty_are_different_in_a_page(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    for name, salt, email in (("alice", None, ""), ("bob", "", None), ("carol", "s", "c@example.org")):
        insert_player(authme_table, username=name, realname=name, password="x", salt=salt, email=email)
    rows = [seen(players, name) for name in ("alice", "bob", "carol")]
    changes: dict[str, str | int | None] = {"salt": "new", "email": "new@example.org"}
    wrong = [replace(row, salt=None if row.salt == "" else "") for row in rows]
    assert write(players, [RowUpdate(row, changes) for row in wrong]) == [LOST] * 3
    assert write(players, [RowUpdate(row, changes) for row in rows]) == [DONE] * 3
    now = [seen(players, row.username) for row in rows]
    assert {(row.salt, row.email) for row in now} == {("new", "new@example.org")}
    back: list[RowWrite] = [
        RowUpdate(row, {"salt": before.salt, "email": before.email}) for row, before in zip(now, rows, strict=True)
    ]
    assert write(players, back) == [DONE] * 3
    assert [seen(players, row.username) for row in rows] == rows


def test_a_column_that_the_table_lacks_is_left_out_but_no_salt_is_lost(players: AuthMePlayers) -> None:
    add_row(players, ALICE)
    add_row(players, replace(ALICE, realname="Bob"))
    alice, bob = seen(players), seen(players, "bob")
    results = write(
        players,
        [
            RowUpdate(alice, {"hash": "new", "uuid": "069a79f4-44e9-4726-a5be-fca90e38aaf5"}),
            RowUpdate(bob, {"hash": "new", "salt": "the-salt"}),
            replace(ALICE, realname="Carol", salt="the-salt"),
        ],
    )
    assert results[0] == DONE
    for result in results[1:]:
        assert not result.is_written
        assert isinstance(result.refused, PlayerRefused)
        assert "mySQLColumnSalt" in str(result.refused)
    assert (seen(players).hash, seen(players, "bob").hash, players.find("carol")) == ("new", HASH, None)


def test_without_authme_nothing_is_written() -> None:
    nobody, row = NoPlayers(), PlayerRow("alice", "Alice", "x")
    assert nobody.write_many([RowUpdate(row, {"hash": "y"}), RowDelete(row)]) == [LOST, LOST]
    with pytest.raises(PlayersUnavailable):
        nobody.write_many([ALICE])


# --- MariaDB: charsets, collations and engines ---


@on_mariadb
@pytest.mark.parametrize("charset", CHARSETS)
def test_one_row_that_a_page_cannot_write_keeps_no_other_from_it(
    players: AuthMePlayers, authme_table: AuthMeTable, charset: str
) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} CONVERT TO CHARACTER SET {charset}")
    rows = add_players(authme_table, players, 40)
    writes: list[RowWrite] = [RowUpdate(row, {"email": f"{row.username}@exämple.org"}) for row in rows]
    writes[3] = RowUpdate(rows[3], {"email": "😀@example.org"})
    writes[4] = RowUpdate(rows[4], {"email": "ж@example.org", "realname": "Four"})
    writes[5] = RowUpdate(rows[5], {"email": "long@example.org" * 20, "realname": "Five"})
    writes[6] = RowUpdate(rows[6], {"realname": None})
    writes += [
        replace(ALICE, realname="Zoe", email="ж@example.org"),
        replace(ALICE, realname="Zack", email="zack@example.org"),
        replace(ALICE, realname="Zebra", hash="x" * 300),
    ]
    results = write(players, writes)
    has_emoji, has_cyrillic = charset == "utf8mb4", charset != "latin1"
    assert results[3] == (DONE if has_emoji else WITHOUT_EMAIL)
    assert results[4] == (DONE if has_cyrillic else WITHOUT_EMAIL)
    assert results[5] == WITHOUT_EMAIL
    assert isinstance(results[6].refused, PlayerRefused)
    assert isinstance(results[42].refused, PlayerRefused)
    assert results[40:42] == [DONE if has_cyrillic else WITHOUT_EMAIL, DONE]
    assert [result for number, result in enumerate(results) if number not in {3, 4, 5, 6, 40, 42}] == [DONE] * 37
    now = players.find_many([f"player{n:03}" for n in range(40)])
    assert now["player002"].email == "player002@exämple.org"
    assert now["player003"].email == ("😀@example.org" if has_emoji else rows[3].email)
    assert (now["player004"].realname, now["player005"].realname, now["player005"].email) == (
        "Four",
        "Five",
        rows[5].email,
    )
    assert now["player006"] == rows[6]
    assert seen(players, "zoe").email == ("ж@example.org" if has_cyrillic else default_email(authme_table))


def default_email(table: AuthMeTable) -> str | None:
    return "your@email.com" if table.shape is TableShape.OLD else None


@on_mariadb
@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("is_unique", [True, False])
def test_names_that_the_collation_equates_are_different_rows(
    players: AuthMePlayers, authme_table: AuthMeTable, charset: str, is_unique: bool
) -> None:
    table, database = authme_table.name, authme_table.database
    database.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}")
    if not is_unique:
        database.execute(f"ALTER TABLE {table} DROP INDEX username, ADD INDEX (username)")
        insert_player(authme_table, username="ALICE", realname="Alice", password=HASH, regdate=ALICE.regdate)
    add_row(players, replace(ALICE, realname="álice"))
    add_row(players, replace(ALICE, realname="Bob"))
    bob = seen(players, "bob")
    twin = PlayerRow("alice", "Alice", HASH, regdate=ALICE.regdate)
    before = dump_table(authme_table)
    assert write(players, [RowUpdate(twin, {"hash": "new"}), RowDelete(replace(twin, username="ALIcE"))]) == [LOST] * 2
    assert dump_table(authme_table) == before
    writes: list[RowWrite] = [RowUpdate(twin, {"hash": "new"}), RowUpdate(bob, {"hash": "new"})]
    assert write(players, writes) == [LOST, DONE]
    if is_unique:
        inserted = write(players, [replace(ALICE, realname=name) for name in ("Alice", "Carol", "Cárol")])
        assert inserted == [LOST, DONE, LOST]
    assert seen(players, "álice").hash == HASH


@on_mariadb
def test_a_name_that_the_charset_lacks_has_no_row(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} CONVERT TO CHARACTER SET latin1")
    insert_player(authme_table, username="?", realname="?", password="x", regdate=1)
    add_row(players, ALICE)
    unknown = PlayerRow("ж", "?", "x", regdate=1)
    assert write(players, [locked(unknown)]) == [LOST]
    assert write(players, [RowDelete(unknown), RowDelete(seen(players))]) == [LOST, DONE]
    assert len(dump_table(authme_table)) == 1


@on_mariadb
def test_an_email_that_the_server_changed_silently_is_told(
    players: AuthMePlayers, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy, or a trigger, may keep our session from being strict."""
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} CONVERT TO CHARACTER SET latin1")
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} MODIFY email VARCHAR(20) NULL")
    add_row(players, ALICE)
    add_row(players, replace(ALICE, realname="Bob"))
    add_row(players, replace(ALICE, realname="Carol"))
    players._database.execute_sql("SET SESSION sql_mode = ''")
    for emails, expected in (
        (["ж@example.org", "bob@new.org", "ä@new.org"], [WITHOUT_EMAIL, DONE, DONE]),
        (["a@new.org", "bob@a-long-domain.example.org", "c@new.org"], [DONE, WITHOUT_EMAIL, DONE]),
    ):
        writes: list[RowWrite] = [
            RowUpdate(seen(players, name), {"email": email})
            for name, email in zip(("alice", "bob", "carol"), emails, strict=True)
        ]
        assert write(players, writes) == expected
    assert write(players, [RowUpdate(seen(players), {"email": "ж@example.org"})]) == [WITHOUT_EMAIL]
    assert write(players, [replace(ALICE, realname="Dave", email="ж@example.org")]) == [WITHOUT_EMAIL]


@on_mariadb
def test_a_table_that_cannot_be_rolled_back_is_written_row_by_row(
    players: AuthMePlayers, authme_table: AuthMeTable
) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} ENGINE = MyISAM")
    assert not players.shares_transactions
    rows = add_players(authme_table, players, 5)
    authme_table.database.execute(f"UPDATE {authme_table.name} SET password = 'new' WHERE username = 'player002'")
    assert write(players, [locked(row) for row in rows]) == [DONE, DONE, LOST, DONE, DONE]
    assert write(players, [RowUpdate(row, {"email": "😀@example.org"}) for row in rows]) == [WITHOUT_EMAIL] * 5


@on_mariadb
def test_what_a_page_wrote_is_rolled_back_with_the_transaction(
    players: AuthMePlayers, authme_table: AuthMeTable
) -> None:
    rows = add_players(authme_table, players, 10)
    before = dump_table(authme_table)
    with players._database.atomic() as transaction:
        players.write_many([locked(row) for row in rows[:5]] + [RowDelete(row) for row in rows[5:]])
        transaction.rollback()
    assert dump_table(authme_table) == before


@on_mariadb
@pytest.mark.parametrize("charset", CHARSETS)
def test_a_page_is_few_statements_by_the_index_of_names(
    players: AuthMePlayers, authme_table: AuthMeTable, charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} CONVERT TO CHARACTER SET {charset}")
    rows = add_players(authme_table, players, MANY)
    assert write(players, [locked(row) for row in rows[:2]]) == [DONE] * 2  # the table's charset is known now
    rows[:2] = [seen(players, row.username) for row in rows[:2]]
    with players._database.atomic():
        before = handler_reads(players)
        with recorded_sql(players, monkeypatch) as statements:
            emails = [RowUpdate(row, {"email": f"new{n}@example.org"}) for n, row in enumerate(rows)]
            assert players.write_many(emails) == [DONE] * MANY
        assert len(statements) == 3  # savepoint, UPDATE, release
        reads = handler_reads(players)
        assert reads["Handler_read_key"] - before["Handler_read_key"] >= MANY
        assert reads["Handler_read_next"] - before["Handler_read_next"] <= MANY
        with recorded_sql(players, monkeypatch) as statements:
            assert players.write_many([RowDelete(row) for row in rows]) == [DONE] * MANY
        assert len(statements) == 3


def handler_reads(players: AuthMePlayers) -> dict[str, int]:
    """Count the session's reads of rows: by key, and of the rows that follow."""
    rows = players._database.execute_sql("SHOW SESSION STATUS").fetchall()
    return {name: int(count) for name, count in rows if name.startswith("Handler_read")}


@on_mariadb
def test_one_write_is_one_statement(players: AuthMePlayers, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded_sql(players, monkeypatch) as statements:
        assert players.write_many([ALICE]) == [DONE]
    assert ["INSERT" in statements[-2], statements[-1].split()[0]] == [True, "SELECT"]  # which tells whose row it is
    row = seen(players)
    for changes in (locked(row), RowUpdate(replace(row, hash=lock_text(HASH)), {"email": "new@example.org"})):
        with recorded_sql(players, monkeypatch) as statements:
            assert players.write_many([changes]) == [DONE]
        assert [sql.split()[0] for sql in statements] == ["UPDATE"]


# --- SQLite: the file is held for short ---


@on_sqlite
def test_the_file_is_let_go_every_few_milliseconds(
    players: AuthMePlayers, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,000 writes, each a millisecond by this clock, no 21 share a transaction."""
    rows = add_players(authme_table, players, 2000)
    ticks, traced = iter(range(1_000_000)), list[str]()
    monkeypatch.setattr(sqlite_writes, "monotonic", lambda: next(ticks) / 1000)
    connection: Any = players._database.connection()
    connection.set_trace_callback(traced.append)
    assert players.write_many([locked(row) for row in rows]) == [DONE] * 2000
    connection.set_trace_callback(None)
    transactions = " ".join(sql.split()[0] for sql in traced).split("BEGIN")[1:]
    assert all(transaction.endswith("COMMIT ") for transaction in transactions[:-1])
    assert max(transaction.count("UPDATE") for transaction in transactions) <= 21


@on_sqlite
def test_a_busy_file_is_told_and_the_page_can_be_repeated(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    rows = add_players(authme_table, players, 3)
    assert isinstance(authme_table.database, SqliteFile)
    authme = authme_table.database.connect()
    authme.execute("BEGIN EXCLUSIVE")
    with pytest.raises(PlayersUnavailable, match="is busy"):
        players.write_many([locked(row) for row in rows])
    authme.execute("ROLLBACK")
    authme.close()
    assert players.write_many([locked(row) for row in rows]) == [DONE] * 3


@on_sqlite
def test_a_name_in_another_case_keeps_a_page_of_new_ones_out(
    players: AuthMePlayers, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_player(authme_table, username="Alice", realname="Alice", password="x")
    new: list[RowWrite] = [replace(ALICE, realname=name) for name in ("Alice", "Bob", "bob")]
    assert players.write_many(new) == [LOST, DONE, LOST]
    # AuthMe adds a player after the look at the names and before the transaction
    find_taken = sqlite_writes.SqliteWriter._find_taken

    def find_then_register(*args: Any) -> set[str]:
        found = find_taken(*args)
        insert_player(authme_table, username="Dave", realname="Dave", password="x")
        return found

    monkeypatch.setattr(sqlite_writes.SqliteWriter, "_find_taken", find_then_register)
    new = [replace(ALICE, realname=name) for name in ("Carol", "Dave")]
    assert players.write_many(new) == [DONE, LOST]


@on_sqlite
def test_a_page_accepts_values_of_any_type(authme_table: AuthMeTable, open_players: OpenPlayers) -> None:
    """Texts that are not UTF-8, blobs, and numbers as text: compared as they are read."""
    table = authme_table.name
    for name, password, email, regdate in (
        ("alice", b"\xff\xfehash", 7, b"12"),
        ("bob", "x", b"bob@example.org", "3.5"),
        ("carol", "x", None, "1900000000123"),
    ):
        insert_player(authme_table, username=name, realname=name, password=password, email=email, regdate=regdate)
    authme_table.database.execute(f"UPDATE {table} SET password = CAST(password AS TEXT)")
    players = open_players(authme_table)
    rows = [seen(players, name) for name in ("alice", "bob", "carol")]
    updates: list[RowWrite] = [RowUpdate(row, {"hash": "new", "email": "new@example.org"}) for row in rows]
    assert players.write_many(updates) == [DONE] * 3
    assert players.write_many(updates) == [LOST] * 3
