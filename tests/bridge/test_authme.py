"""AuthMe's table as a model: reading, inserting, compare-and-set; on both databases, in the shapes that hosts have."""

from dataclasses import replace

import pytest

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, lock_text
from plugin_bridge.authme.table import AuthMePlayers
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, dump_table, find_player, insert_player
from tests.support.players import ALICE, HASH, add_row, delete_row, every_shape, seen

# --- reading ---


def test_a_row_is_found_by_its_exact_name(players: AuthMePlayers, authme: AuthMeLike) -> None:
    authme.register("Alice", "s3cret", email="alice@example.org")
    stored = authme.get("Alice")
    assert players.find("alice") == PlayerRow(
        username="alice",
        realname="Alice",
        hash=stored["password"],
        email="alice@example.org",
        regdate=stored["regdate"],
        has_session=0,
        is_logged=0,
    )
    assert players.find("Alice") is None
    assert players.find("bob") is None
    assert players.find_many([]) == {}
    assert set(players.find_many(["alice", "bob", "ALICE"])) == {"alice"}


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_names_that_the_collation_takes_for_the_same_are_not(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="älice", realname="Älice", password="x")
    assert players.find("alice") is None
    assert players.find_many(["alice", "alice "]) == {}
    colliding = players.find_colliding("alice")
    assert colliding is not None
    assert colliding.username == "älice"
    assert not add_row(players, ALICE)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_name_in_another_case_keeps_a_new_one_out(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    """AuthMe finds either of the two; the file's own unique key would allow both."""
    insert_player(authme_table, username="Alice", realname="Alice", password="x")
    assert players.find("alice") is None
    colliding = players.find_colliding("alice")
    assert colliding is not None
    assert colliding.username == "Alice"
    assert not add_row(players, ALICE)
    assert len(dump_table(authme_table)) == 1


@every_shape
def test_what_stands_for_nothing_comes_as_it_stands(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="alice", realname="Player", password="x")
    row = players.find("alice")
    assert row is not None
    assert row.email == ("your@email.com" if authme_table.shape is TableShape.OLD else None)
    assert (row.known_email, row.known_realname, row.last_login, row.salt) == (None, None, None, None)
    assert row.regdate == 0


@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_an_old_table_in_latin1_is_read_as_text(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="alice", realname="Alice", password="x", email="jürgen@exämple.org")
    row = players.find("alice")
    assert row is not None
    assert row.email == "jürgen@exämple.org"


def test_all_rows_come_in_pages_in_the_order_of_their_names(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    names = ["delta", "alice", "_bob", "charlie", "alice2", "9lives", "zoë"]
    assert list(players.pages(3)) == []
    assert players.is_empty()
    for name in names:
        insert_player(authme_table, username=name, realname=name, password="x")
    for size in (1, 2, 3, 7, 8):
        pages = [[row.username for row in page] for page in players.pages(size)]
        assert sorted(name for page in pages for name in page) == sorted(names)
        assert all(len(page) == size for page in pages[:-1])
    assert not players.is_empty()


def test_a_name_that_appears_between_two_pages_is_not_missed(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    for name in ("alice", "bob", "delta"):
        insert_player(authme_table, username=name, realname=name, password="x")
    pages = players.pages(2)
    assert [row.username for row in next(pages)] == ["alice", "bob"]
    insert_player(authme_table, username="charlie", realname="charlie", password="x")
    authme_table.database.execute(f"DELETE FROM {authme_table.name} WHERE username = 'bob'")
    assert {row.username for page in pages for row in page} == {"charlie", "delta"}


# --- inserting ---


@every_shape
def test_an_inserted_row_is_as_authmes_own(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    """Return every column of the two rows except those that identify the player."""
    AuthMeLike(authme_table).register("Bob", "s3cret", email="bob@example.org", ip="198.51.100.7")
    salt = "the-salt" if authme_table.has_salt else None
    add_row(players, replace(ALICE, salt=salt, uuid="069a79f4-44e9-4726-a5be-fca90e38aaf5"))
    alice, bob = find_player(authme_table, "alice"), find_player(authme_table, "bob")
    assert alice is not None
    assert bob is not None
    given = {
        "username": "alice",
        "realname": "Alice",
        "password": HASH,
        "email": "alice@example.org",
        "regdate": 1_900_000_000_123,
        "regip": "2001:db8:0:0:0:0:0:1",
    }
    if authme_table.shape is TableShape.FULL:
        given |= {"salt": "the-salt", "uuid": "069a79f4-44e9-4726-a5be-fca90e38aaf5"}
    assert alice == {**bob, **given, "id": alice["id"]}
    assert (alice["ip"], alice["lastlogin"], alice["x"], alice["world"]) == (None, None, 0, "world")
    assert (alice["id"] is None) == (authme_table.database.kind == "sqlite")


@every_shape
def test_an_email_that_is_not_known_is_left_to_the_columns_default(
    players: AuthMePlayers, authme_table: AuthMeTable
) -> None:
    add_row(players, replace(ALICE, email=None, regip=None))
    row = find_player(authme_table, "alice")
    assert row is not None
    assert row["email"] == ("your@email.com" if authme_table.shape is TableShape.OLD else None)
    assert row["regip"] is None


def test_a_name_that_is_taken_is_not_inserted_again(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    add_row(players, ALICE)
    before = dump_table(authme_table)
    assert not add_row(players, replace(ALICE, realname="ALICE", hash="another"))
    assert dump_table(authme_table) == before


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_value_that_the_charset_lacks_is_refused_in_words(players: AuthMePlayers) -> None:
    with pytest.raises(PlayerRefused, match="charset"):
        add_row(players, replace(ALICE, hash="😀"))
    assert players.is_empty()


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_used_up_ids_are_told_in_words(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    authme_table.database.execute(f"ALTER TABLE {authme_table.name} AUTO_INCREMENT = 16777216")
    with pytest.raises(PlayerRefused, match="no numbers left"):
        add_row(players, ALICE)
    assert players.is_empty()


def test_a_column_that_only_the_host_knows_of_is_refused_in_words(
    players: AuthMePlayers, authme_table: AuthMeTable
) -> None:
    if authme_table.database.kind == "mariadb":
        authme_table.database.execute(f"ALTER TABLE {authme_table.name} ADD COLUMN shoe_size INT NOT NULL")
    else:
        authme_table.database.execute(f"DROP TABLE {authme_table.name}")
        authme_table.database.execute(
            f"CREATE TABLE {authme_table.name} (username TEXT UNIQUE, realname TEXT, password TEXT, size INT NOT NULL)"
        )
    with pytest.raises(PlayerRefused, match="column"):
        add_row(players, ALICE)


# --- compare and set ---


@every_shape
def test_an_update_writes_what_changed_and_nothing_else(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    insert_player(
        authme_table,
        username="alice",
        realname="Alice",
        password=HASH,
        regdate=7,
        lastlogin=8,
        ip="198.51.100.7",
        isLogged=1,
        hasSession=1,
        x=1.5,
        pitch=2.25,
        premiumUUID="069a79f4-44e9-4726-a5be-fca90e38aaf5",
        totp="JBSWY3DPEHPK3PXP",
    )
    [before] = dump_table(authme_table)
    assert players.update(seen(players), {"hash": lock_text(HASH), "has_session": 0, "premium_uuid": None})
    [after] = dump_table(authme_table)
    assert {name for name in before if before[name] != after[name]} == {"password", "hasSession", "premiumUUID"}


@every_shape
@pytest.mark.parametrize(
    ("column", "was", "became"),
    [
        ("password", "Hash", "hash"),
        ("password", "hash", "hash "),
        ("email", "a@example.org", "A@example.org"),
        ("email", "e@example.org", "é@example.org"),
        ("email", "a@example.org", ""),
        ("realname", "Alice", "alice"),
        ("realname", "Alice", "Alicé"),
        ("regdate", 7, 8),
    ],
)
def test_nothing_is_written_when_a_compared_column_changed_meanwhile(
    players: AuthMePlayers, authme_table: AuthMeTable, column: str, was: object, became: object
) -> None:
    """Byte for byte, whatever the column's collation says."""
    values: dict[str, object] = {"username": "alice", "realname": "Alice", "password": "hash", "regdate": 7}
    insert_player(authme_table, **values | {column: was})
    row = seen(players)
    authme_table.database.execute(f"UPDATE {authme_table.name} SET {column} = ?", (became,))
    before = dump_table(authme_table)
    changes = {"hash": "new", "email": "new@example.org", "realname": "NEW"}
    assert not players.update(row, changes)
    assert dump_table(authme_table) == before
    assert players.update(seen(players), changes)


@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
@pytest.mark.parametrize("column", ["email", "salt", "premiumUUID", "totp"])
@pytest.mark.parametrize("is_null_first", [True, False])
def test_null_is_a_value_like_any_other(
    players: AuthMePlayers, authme_table: AuthMeTable, column: str, is_null_first: bool
) -> None:
    was, became = (None, "") if is_null_first else ("", None)
    field = {"premiumUUID": "premium_uuid"}.get(column, column)
    insert_player(authme_table, username="alice", realname="Alice", password="x", **{column: was})
    row = seen(players)
    authme_table.database.execute(f"UPDATE {authme_table.name} SET {column} = ?", (became,))
    assert not players.update(row, {field: "new"})
    assert players.update(seen(players), {field: "new"})
    assert getattr(seen(players), field) == "new"
    assert players.update(seen(players), {field: None})
    assert getattr(seen(players), field) is None


def test_another_column_may_change_meanwhile(players: AuthMePlayers, authme: AuthMeLike) -> None:
    authme.register("Alice", "s3cret")
    row = seen(players)
    authme.login("Alice", "s3cret")
    assert players.update(row, {"email": "alice@example.org"})
    assert authme.get("Alice")["isLogged"] == 1
    assert authme.get("Alice")["email"] == "alice@example.org"


def test_a_row_registered_anew_is_not_the_one_that_was_seen(players: AuthMePlayers, authme: AuthMeLike) -> None:
    add_row(players, ALICE)
    row = seen(players)
    authme.unregister_from_console("Alice")
    add_row(players, replace(ALICE, regdate=ALICE.regdate + 1))
    assert not players.update(row, {"hash": "new"})
    assert not delete_row(players, row)
    authme.unregister_from_console("Alice")
    assert not players.update(row, {"hash": "new"})


def test_a_name_that_is_only_alike_is_not_written(players: AuthMePlayers, authme_table: AuthMeTable) -> None:
    insert_player(authme_table, username="ALICE", realname="Alice", password=HASH, regdate=ALICE.regdate)
    before = dump_table(authme_table)
    row = PlayerRow("alice", "Alice", HASH, regdate=ALICE.regdate)
    assert not players.update(row, {"hash": "new"})
    assert not delete_row(players, row)
    assert dump_table(authme_table) == before


def test_a_row_is_deleted_if_hash_and_regdate_are_as_seen(
    players: AuthMePlayers, authme: AuthMeLike, authme_table: AuthMeTable
) -> None:
    add_row(players, ALICE)
    add_row(players, replace(ALICE, realname="Bob"))
    row = seen(players)
    authme.set_password("Alice", "changed")
    assert not delete_row(players, row)
    assert delete_row(players, seen(players))
    assert not delete_row(players, row)
    assert find_player(authme_table, "alice") is None
    assert find_player(authme_table, "bob") is not None
