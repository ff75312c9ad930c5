"""The host changed AuthMe's algorithm: whoever logs in with a hash of the old one gets a new one, as in AuthMe itself.

In the game and on the web, in any order, and at once; it is the same password, so that nobody is logged out by it.
"""

from collections.abc import Callable

import pytest

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, PlayersAway
from plugin_bridge.authme.table import AuthMePlayers
from plugin_bridge.hashers import HASHERS, HashedPassword
from regsvc.auth.hashing import StoredPassword
from regsvc.core import errors
from tests.bridge.hash_formulas import FORMULAS
from tests.support.authme_like import store_password
from tests.support.authme_tables import TableShape, dump_table
from tests.support.game_server import GameServer
from tests.support.services import PASSWORD, Away, House, MakeHouse

NEW = StoredPassword("$SHA$0123456789abcdef$new", None, "SHA256")


@pytest.fixture
def configure(game_server: GameServer, house: House) -> Callable[..., None]:
    """`configure("BCRYPT", "SHA256")`: what the host writes into AuthMe's config, and starts both programs again."""

    def write(algorithm: str, *legacy: str) -> None:
        game_server.change_authme(
            {"settings.security.passwordHash": algorithm, "settings.security.legacyHashes": list(legacy)}
        )
        house.authme.algorithm = algorithm  # type: ignore[assignment]
        house.restart()

    return write


def is_bcrypt(house: House, name: str = "alice", password: str = PASSWORD) -> bool:
    stored = HashedPassword(str(house.row(name)["password"]), house.row(name).get("salt"))
    return stored.hash.startswith("$2a$04$") and FORMULAS["BCRYPT"](password, stored, name)


def changed_columns(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {column for column in before if before[column] != after[column]}


def test_a_login_with_a_legacy_hash_changes_the_hash_and_nothing_else(
    house: House, configure: Callable[..., None]
) -> None:
    house.approved("Alice")
    house.login("Alice", PASSWORD)
    configure("BCRYPT", "SHA256")
    [before] = dump_table(house.table)
    house.login("Alice", PASSWORD)
    [after] = dump_table(house.table)
    assert is_bcrypt(house)
    assert changed_columns(before, after) == {"password"}
    assert house.authme.login("Alice", PASSWORD)
    assert (house.user("Alice").password_hash, house.user("Alice").password_algorithm) == (
        house.row("alice")["password"],
        "BCRYPT",
    )


def test_nothing_is_left_for_the_sync_and_nobody_is_logged_out(house: House, configure: Callable[..., None]) -> None:
    house.approved("Alice")
    house.authme.register("Bob", "bobs-password")
    house.sync()
    house.decide("approve", "Bob")
    configure("BCRYPT", "SHA256")
    house.login("Alice", PASSWORD)
    house.login("Bob", "bobs-password")
    dumped = dump_table(house.table)
    assert house.sync().counts() == {"scanned": 2}
    assert dump_table(house.table) == dumped
    assert is_bcrypt(house)
    assert is_bcrypt(house, "bob", "bobs-password")
    assert (house.sessions("Alice"), house.sessions("Bob")) == (1, 1)
    assert house.audits("user.password_changed") == []
    assert house.user("Bob").password_hash is None
    house.login("Alice", PASSWORD)
    assert dump_table(house.table) == dumped


def test_a_player_whom_only_authme_knew_is_adopted_and_rehashed(house: House, configure: Callable[..., None]) -> None:
    configure("BCRYPT", "SHA256")
    house.restart(sync__new_players="approved")
    house.authme.algorithm = "SHA256"
    house.authme.register("Bob", "bobs-password")
    house.login("Bob", "bobs-password")
    assert is_bcrypt(house, "bob", "bobs-password")
    assert house.player("Bob").base_hash == house.row("bob")["password"]


def test_a_wrong_password_leaves_the_legacy_hash(house: House, configure: Callable[..., None]) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    before = dump_table(house.table)
    with pytest.raises(errors.BadCredentials):
        house.login("Alice", "another-password")
    assert dump_table(house.table) == before


def test_a_banned_user_keeps_the_hash(house: House, configure: Callable[..., None]) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    house.decide("ban", "Alice", reason="griefing")
    before = dump_table(house.table)
    with pytest.raises(errors.Banned):
        house.login("Alice", PASSWORD)
    assert dump_table(house.table) == before


def test_a_hash_of_an_algorithm_that_is_not_legacy_is_a_wrong_password(
    house: House, configure: Callable[..., None]
) -> None:
    house.authme.register("Bob", "bobs-password")
    house.sync()
    house.decide("approve", "Bob")
    configure("BCRYPT")
    with pytest.raises(errors.BadCredentials):
        house.login("Bob", "bobs-password")


# --- the column of the salt ---


@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
class TestSalts:
    def test_the_salt_goes_with_the_algorithm_that_had_one(self, house: House, configure: Callable[..., None]) -> None:
        configure("SALTEDSHA512")
        house.approved("Alice")
        assert house.row("alice")["salt"] is not None
        configure("BCRYPT", "SALTEDSHA512")
        house.login("Alice", PASSWORD)
        assert is_bcrypt(house)
        assert house.row("alice")["salt"] is None
        assert house.player("Alice").base_salt is None
        assert house.sync().counts() == {"scanned": 1}

    def test_the_salt_comes_with_the_algorithm_that_has_one(self, house: House, configure: Callable[..., None]) -> None:
        house.approved("Alice")
        configure("SALTEDSHA512", "SHA256")
        house.login("Alice", PASSWORD)
        row = house.row("alice")
        assert FORMULAS["SALTEDSHA512"](PASSWORD, HashedPassword(str(row["password"]), str(row["salt"])), "alice")
        assert house.player("Alice").base_salt == row["salt"]
        assert house.authme.login("Alice", PASSWORD)
        assert house.sync().counts() == {"scanned": 1}


def test_a_salt_column_that_authme_has_not_made_yet_keeps_the_legacy_hash(
    house: House, game_server: GameServer, configure: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    house.approved("Alice")
    game_server.change_authme({"DataSource.mySQLColumnSalt": "salt"})
    configure("SALTEDSHA512", "SHA256")
    before = dump_table(house.table)
    house.login("Alice", PASSWORD)
    assert dump_table(house.table) == before
    assert "has no column for the salt yet" in caplog.text


# --- AuthMe does it, too ---


def test_authme_was_first(house: House, configure: Callable[..., None]) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    house.authme.set_password("Alice", PASSWORD)  # what it does at a login of hers
    dumped = dump_table(house.table)
    house.login("Alice", PASSWORD)
    assert dump_table(house.table) == dumped
    assert house.sync().counts() == {"scanned": 1}


def test_authme_comes_after(house: House, configure: Callable[..., None]) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    house.login("Alice", PASSWORD)
    house.authme.set_password("Alice", PASSWORD)  # it had read the row before
    dumped = dump_table(house.table)
    house.sync()
    assert dump_table(house.table) == dumped
    assert house.player("Alice").base_hash == house.row("alice")["password"]
    house.login("Alice", PASSWORD)
    assert house.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("password", [PASSWORD, "a-newer-password"], ids=["rehashed", "changed"])
def test_authme_is_there_between_our_look_and_our_write(
    house: House, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    update = AuthMePlayers.update

    def too_late(players: AuthMePlayers, seen: PlayerRow, changes: dict[str, str | int | None]) -> bool:
        house.authme.set_password("Alice", password)
        return update(players, seen, changes)

    with monkeypatch.context() as patch:
        patch.setattr(AuthMePlayers, "update", too_late)
        house.login("Alice", PASSWORD)
    assert is_bcrypt(house, password=password)
    house.sync()
    assert is_bcrypt(house, password=password)
    assert house.authme.login("Alice", password)
    house.login("Alice", password)
    assert house.player("Alice").base_hash == house.row("alice")["password"]


# --- what can go wrong ---


def test_only_the_row_agreed_on_is_rehashed(house: House) -> None:
    house.approved("Alice")
    reconciler, stored = house.app.reconciler, StoredPassword(str(house.row("alice")["password"]), None, None)
    before = dump_table(house.table)
    assert not reconciler.rehash("alice", StoredPassword("$SHA$other$hash", None, None), NEW)
    assert not reconciler.rehash("nobody", stored, NEW)
    house.authme.set_password("Alice", "a-newer-password")
    changed = StoredPassword(str(house.row("alice")["password"]), None, None)
    assert not reconciler.rehash("alice", changed, NEW)  # the sync has not seen it yet
    assert not reconciler.rehash("alice", stored, NEW)
    assert dump_table(house.table) != before
    assert house.row("alice")["password"] == changed.hash


def test_of_two_logins_at_once_one_rehashes(house: House) -> None:
    house.approved("Alice")
    stored = StoredPassword(str(house.row("alice")["password"]), None, None)
    other = StoredPassword("$SHA$0123456789abcdef$other", None, "SHA256")
    assert house.app.reconciler.rehash("alice", stored, NEW)
    assert not house.app.reconciler.rehash("alice", stored, other)
    assert house.row("alice")["password"] == NEW.hash == house.player("Alice").base_hash


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_busy_file_leaves_it_to_the_next_login(house: House) -> None:
    house.approved("Alice")
    stored = StoredPassword(str(house.row("alice")["password"]), None, None)
    with Away(house.table), pytest.raises(PlayersAway):
        house.app.reconciler.rehash("alice", stored, NEW)
    assert house.player("Alice").base_hash == stored.hash == house.row("alice")["password"]
    assert house.app.reconciler.rehash("alice", stored, NEW)


def test_a_login_succeeds_whatever_becomes_of_the_row(
    house: House, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")
    before = dump_table(house.table)
    for failure in (PlayersAway("The file is busy."), PlayerRefused("It does not take this.")):

        def fails(*_given: object, failure: Exception = failure) -> bool:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(AuthMePlayers, "update", fails)
            house.login("Alice", PASSWORD)
    assert dump_table(house.table) == before
    assert house.sessions("Alice") == 2
    assert house.sync().counts() == {"scanned": 1}


def test_killed_between_the_row_and_our_side_it_looks_like_authmes_own(
    house: House, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    house.approved("Alice")
    configure("BCRYPT", "SHA256")

    class Killed(BaseException):
        """Nothing of ours catches it."""

    def killed(point: str) -> None:
        if point == "after player write":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("regsvc.sync.rehash.reach", killed)
        with pytest.raises(Killed):
            house.login("Alice", PASSWORD)
    house.restart()
    house.sync()
    assert is_bcrypt(house) == (house.table.database.kind == "sqlite")
    assert house.plugin("Alice") == "synced"
    house.login("Alice", PASSWORD)
    assert is_bcrypt(house)
    assert house.authme.login("Alice", PASSWORD)
    assert house.sync().counts() == {"scanned": 1}


# --- algorithms with rules of their own ---


@pytest.mark.parametrize("algorithm", ["PBKDF2DJANGO"])
def test_a_password_that_the_new_algorithm_would_mix_up_keeps_its_hash(
    house: House, game_server: GameServer, configure: Callable[..., None], algorithm: str
) -> None:
    game_server.change_authme({"settings.restrictions.allowedPasswordCharacters": ".*"})
    house.restart()
    house.approved("Alice", "пароль-пароль")
    configure(algorithm, "SHA256")
    before = dump_table(house.table)
    house.login("Alice", "пароль-пароль")
    assert dump_table(house.table) == before
    with pytest.raises(errors.InvalidPassword):
        house.set_password("Alice", "другой-пароль")
    with pytest.raises(errors.InvalidPassword):
        house.register("Bob", "пароль-боба")
    house.set_password("Alice", "another-password")
    stored = HashedPassword(str(house.row("alice")["password"]))
    assert FORMULAS[algorithm]("another-password", stored, "alice")


@pytest.mark.parametrize("algorithm", ["PHPBB", "WORDPRESS", "XFBCRYPT"])
def test_the_table_of_a_forum_gets_no_rows_of_ours(
    make_house: MakeHouse, game_server: GameServer, algorithm: str
) -> None:
    game_server.change_authme({"settings.security.passwordHash": algorithm})
    house = make_house()
    house.approved("Alice")
    house.sync()
    assert dump_table(house.table) == []
    assert house.plugin("Alice") == "absent"
    house.login("Alice", PASSWORD)  # on the web she is known
    assert dump_table(house.table) == []
    house.restart(sync__on_player_removed="restore")
    house.set_password("Alice", "a-newer-password")
    house.sync()
    assert dump_table(house.table) == []


def test_who_registered_at_the_forum_logs_in_and_changes_the_password(
    make_house: MakeHouse, game_server: GameServer
) -> None:
    game_server.change_authme({"settings.security.passwordHash": "WORDPRESS"})
    house = make_house(sync__new_players="approved")
    house.authme.register("Bob", "a-placeholder")
    stored = HASHERS["WORDPRESS"].hash("bobs-password", "bob")
    column = house.table.column("password")
    house.table.database.execute(f"UPDATE {house.table.name} SET {column} = ?", (stored.hash,))
    house.sync()
    house.login("Bob", "bobs-password")
    assert house.row("bob")["password"] == stored.hash
    house.set_password("Bob", "newer-password")
    assert FORMULAS["WORDPRESS"]("newer-password", HashedPassword(str(house.row("bob")["password"])), "bob")
    house.login("Bob", "newer-password")


def test_the_stand_in_makes_what_authme_makes() -> None:
    """The tests above lean on it."""
    stored = store_password("BCRYPT", PASSWORD)
    assert FORMULAS["BCRYPT"](PASSWORD, HashedPassword(stored.hash), "alice")
