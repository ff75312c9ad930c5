"""The host changed AuthMe's algorithm: a login with a hash of the old one replaces it, as in AuthMe itself.

In the game and on the web, in any order, and at once; the password stays the same, so no session ends.
"""

from collections.abc import Callable
from functools import partial

import pytest

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, PlayersUnavailable
from plugin_bridge.authme.table import AuthMePlayers
from plugin_bridge.hashers import HASHERS, HashedPassword
from regsvc.auth.hashing import StoredPassword
from regsvc.core import errors
from regsvc.database.models import User
from tests.support.authme.authme_like import store_password
from tests.support.authme.authme_tables import TableShape, dump_table, find_player
from tests.support.authme.game_server import GameServer
from tests.support.meanwhile import meanwhile
from tests.support.services import PASSWORD, Away, MakeServices, ServiceHarness

Configure = Callable[..., None]

NEW = StoredPassword("$SHA$0123456789abcdef$new", None, "SHA256")


@pytest.fixture
def configure(game_server: GameServer, services: ServiceHarness) -> Configure:
    """`configure("BCRYPT", "SHA256")` writes AuthMe's config and restarts both programs."""

    def write(algorithm: str, *legacy: str) -> None:
        game_server.change_authme(
            {"settings.security.passwordHash": algorithm, "settings.security.legacyHashes": list(legacy)}
        )
        services.authme.algorithm = algorithm  # type: ignore[assignment]
        services.restart()

    return write


def is_bcrypt(services: ServiceHarness, name: str = "alice", password: str = PASSWORD) -> bool:
    stored = HashedPassword(str(services.row(name)["password"]), services.row(name).get("salt"))
    return stored.hash.startswith("$2a$04$") and HASHERS["BCRYPT"].verify(password, stored, name)


def changed_columns(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {column for column in before if before[column] != after[column]}


def test_a_login_with_a_legacy_hash_changes_the_hash_and_nothing_else(
    services: ServiceHarness, configure: Configure
) -> None:
    services.approved("Alice")
    services.login("Alice", PASSWORD)
    configure("BCRYPT", "SHA256")
    [before] = dump_table(services.table)
    services.login("Alice", PASSWORD)
    [after] = dump_table(services.table)
    assert is_bcrypt(services)
    assert changed_columns(before, after) == {"password"}
    assert services.authme.login("Alice", PASSWORD)
    assert (services.user("Alice").password_hash, services.user("Alice").password_algorithm) == (
        services.row("alice")["password"],
        "BCRYPT",
    )


def test_nothing_is_left_for_the_sync_and_nobody_is_logged_out(services: ServiceHarness, configure: Configure) -> None:
    services.approved("Alice")
    services.authme.register("Bob", "bobs-password")
    services.sync()
    services.decide("approve", "Bob")
    configure("BCRYPT", "SHA256")
    services.login("Alice", PASSWORD)
    services.login("Bob", "bobs-password")
    dumped = dump_table(services.table)
    assert services.sync().counts() == {"scanned": 2}
    assert dump_table(services.table) == dumped
    assert is_bcrypt(services)
    assert is_bcrypt(services, "bob", "bobs-password")
    assert (services.sessions("Alice"), services.sessions("Bob")) == (1, 1)
    assert services.audits("user.password_changed") == []
    assert services.user("Bob").password_hash is None
    services.login("Alice", PASSWORD)
    assert dump_table(services.table) == dumped


def test_a_player_whom_only_authme_knew_is_adopted_and_rehashed(services: ServiceHarness, configure: Configure) -> None:
    configure("BCRYPT", "SHA256")
    services.restart(sync__new_players="approved")
    services.authme.algorithm = "SHA256"
    services.authme.register("Bob", "bobs-password")
    services.login("Bob", "bobs-password")
    assert is_bcrypt(services, "bob", "bobs-password")
    assert services.player("Bob").base_hash == services.row("bob")["password"]


def test_a_wrong_password_and_a_banned_user_leave_the_legacy_hash(
    services: ServiceHarness, configure: Configure
) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    before = dump_table(services.table)
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", "another-password")
    assert dump_table(services.table) == before
    services.decide("ban", "Alice", reason="griefing")
    before = dump_table(services.table)
    with pytest.raises(errors.Banned):
        services.login("Alice", PASSWORD)
    assert dump_table(services.table) == before


def test_a_hash_of_an_algorithm_that_is_not_legacy_is_a_wrong_password(
    services: ServiceHarness, configure: Configure
) -> None:
    services.authme.register("Bob", "bobs-password")
    services.sync()
    services.decide("approve", "Bob")
    configure("BCRYPT")
    with pytest.raises(errors.BadCredentials):
        services.login("Bob", "bobs-password")


# --- the column of the salt ---


@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
class TestSalts:
    def test_the_salt_goes_with_the_algorithm_that_had_one(
        self, services: ServiceHarness, configure: Configure
    ) -> None:
        configure("SALTEDSHA512")
        services.approved("Alice")
        assert services.row("alice")["salt"] is not None
        configure("BCRYPT", "SALTEDSHA512")
        services.login("Alice", PASSWORD)
        assert is_bcrypt(services)
        assert services.row("alice")["salt"] is None
        assert services.player("Alice").base_salt is None
        assert services.sync().counts() == {"scanned": 1}

    def test_the_salt_comes_with_the_algorithm_that_has_one(
        self, services: ServiceHarness, configure: Configure
    ) -> None:
        services.approved("Alice")
        configure("SALTEDSHA512", "SHA256")
        services.login("Alice", PASSWORD)
        row = services.row("alice")
        assert HASHERS["SALTEDSHA512"].verify(PASSWORD, HashedPassword(str(row["password"]), str(row["salt"])), "alice")
        assert services.player("Alice").base_salt == row["salt"]
        assert services.authme.login("Alice", PASSWORD)
        assert services.sync().counts() == {"scanned": 1}


def test_a_salt_column_that_authme_has_not_made_yet_keeps_the_legacy_hash(
    services: ServiceHarness, game_server: GameServer, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    services.approved("Alice")
    game_server.change_authme({"DataSource.mySQLColumnSalt": "salt"})
    configure("SALTEDSHA512", "SHA256")
    before = dump_table(services.table)
    services.login("Alice", PASSWORD)
    assert dump_table(services.table) == before
    assert "has no column for the salt yet" in caplog.text


# --- AuthMe does it, too ---


def test_authme_was_first(services: ServiceHarness, configure: Configure) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    services.authme.set_password("Alice", PASSWORD)  # as it does when she logs in
    dumped = dump_table(services.table)
    services.login("Alice", PASSWORD)
    assert dump_table(services.table) == dumped
    assert services.sync().counts() == {"scanned": 1}


def test_authme_comes_after(services: ServiceHarness, configure: Configure) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    services.login("Alice", PASSWORD)
    services.authme.set_password("Alice", PASSWORD)  # it had read the row before
    dumped = dump_table(services.table)
    services.sync()
    assert dump_table(services.table) == dumped
    assert services.player("Alice").base_hash == services.row("alice")["password"]
    services.login("Alice", PASSWORD)
    assert services.authme.login("Alice", PASSWORD)


@pytest.mark.parametrize("password", [PASSWORD, "a-newer-password"], ids=["rehashed", "changed"])
def test_authme_is_there_between_our_look_and_our_write(
    services: ServiceHarness, configure: Configure, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    update, base = AuthMePlayers.update, services.player("Alice").base_hash

    def too_late(players: AuthMePlayers, seen: PlayerRow, changes: dict[str, str | int | None]) -> bool:
        services.authme.set_password("Alice", password)
        return update(players, seen, changes)

    with monkeypatch.context() as patch:
        patch.setattr(AuthMePlayers, "update", too_late)
        services.login("Alice", PASSWORD)
    assert is_bcrypt(services, password=password)
    assert services.player("Alice").base_hash == base, "nothing was written"
    services.sync()
    assert is_bcrypt(services, password=password)
    assert services.authme.login("Alice", password)
    services.login("Alice", password)
    assert services.player("Alice").base_hash == services.row("alice")["password"]


# --- what can go wrong ---


def test_only_the_last_synced_row_is_rehashed(services: ServiceHarness) -> None:
    services.approved("Alice")
    reconciler, stored = (
        services.app.reconciler,
        StoredPassword(str(services.row("alice")["password"]), None, None),
    )
    before = dump_table(services.table)
    assert not reconciler.rehash("alice", StoredPassword("$SHA$other$hash", None, None), NEW)
    assert not reconciler.rehash("nobody", stored, NEW)
    services.authme.set_password("Alice", "a-newer-password")
    changed = StoredPassword(str(services.row("alice")["password"]), None, None)
    assert not reconciler.rehash("alice", changed, NEW)  # the sync has not seen it yet
    assert not reconciler.rehash("alice", stored, NEW)
    assert dump_table(services.table) != before
    assert services.row("alice")["password"] == changed.hash


def test_of_two_logins_at_once_one_rehashes(services: ServiceHarness) -> None:
    services.approved("Alice")
    stored = StoredPassword(str(services.row("alice")["password"]), None, None)
    other = StoredPassword("$SHA$0123456789abcdef$other", None, "SHA256")
    assert services.app.reconciler.rehash("alice", stored, NEW)
    assert not services.app.reconciler.rehash("alice", stored, other)
    assert services.row("alice")["password"] == NEW.hash == services.player("Alice").base_hash


def test_a_password_set_on_the_web_that_is_not_in_the_row_yet_stays(services: ServiceHarness) -> None:
    services.approved("Alice")
    stored = StoredPassword(str(services.row("alice")["password"]), None, None)
    User.update(password_hash="$SHA$newer$newer").execute()
    assert services.app.reconciler.rehash("alice", stored, NEW)
    assert services.user("Alice").password_hash == "$SHA$newer$newer"


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_busy_file_leaves_it_to_the_next_login(services: ServiceHarness) -> None:
    services.approved("Alice")
    stored = StoredPassword(str(services.row("alice")["password"]), None, None)
    with Away(services.table), pytest.raises(PlayersUnavailable):
        services.app.reconciler.rehash("alice", stored, NEW)
    assert services.player("Alice").base_hash == stored.hash == services.row("alice")["password"]
    assert services.app.reconciler.rehash("alice", stored, NEW)


def test_a_login_succeeds_whatever_becomes_of_the_row(
    services: ServiceHarness, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    before = dump_table(services.table)
    for failure in (PlayersUnavailable("The file is busy."), PlayerRefused("It does not take this.")):

        def fails(*_given: object, failure: Exception = failure) -> bool:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(AuthMePlayers, "update", fails)
            services.login("Alice", PASSWORD)
    assert dump_table(services.table) == before
    assert services.sessions("Alice") == 2
    assert services.sync().counts() == {"scanned": 1}


def test_killed_between_the_row_and_our_side_it_looks_like_authmes_own(
    services: ServiceHarness, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")

    class Killed(BaseException):
        """Ends the process: no code of ours catches it."""

    def killed(point: str) -> None:
        if point == "after player write":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("regsvc.database.failpoints.reach", killed)
        with pytest.raises(Killed):
            services.login("Alice", PASSWORD)
    services.restart()
    services.sync()
    assert is_bcrypt(services) == (services.table.database.kind == "sqlite")
    assert services.plugin("Alice") == "synced"
    services.login("Alice", PASSWORD)
    assert is_bcrypt(services)
    assert services.authme.login("Alice", PASSWORD)
    assert services.sync().counts() == {"scanned": 1}


# --- algorithms with rules of their own ---


@pytest.mark.parametrize("algorithm", ["PBKDF2DJANGO"])
def test_a_password_that_the_new_algorithm_would_mix_up_keeps_its_hash(
    services: ServiceHarness, game_server: GameServer, configure: Configure, algorithm: str
) -> None:
    game_server.change_authme({"settings.restrictions.allowedPasswordCharacters": ".*"})
    services.restart()
    services.approved("Alice", "пароль-пароль")
    configure(algorithm, "SHA256")
    before = dump_table(services.table)
    services.login("Alice", "пароль-пароль")
    assert dump_table(services.table) == before
    with pytest.raises(errors.InvalidPassword):
        services.set_password("Alice", "другой-пароль")
    with pytest.raises(errors.InvalidPassword):
        services.register("Bob", "пароль-боба")
    services.set_password("Alice", "another-password")
    stored = HashedPassword(str(services.row("alice")["password"]))
    assert HASHERS[algorithm].verify("another-password", stored, "alice")


def test_the_table_of_a_forum_gets_no_rows_of_ours(make_services: MakeServices, game_server: GameServer) -> None:
    game_server.change_authme({"settings.security.passwordHash": "PHPBB"})
    services = make_services()
    services.approved("Alice")
    services.sync()
    assert dump_table(services.table) == []
    assert services.plugin("Alice") == "absent"
    services.login("Alice", PASSWORD)  # on the web she is known
    assert dump_table(services.table) == []
    services.restart(sync__on_player_removed="restore")
    services.set_password("Alice", "a-newer-password")
    services.sync()
    assert dump_table(services.table) == []


def test_who_registered_at_the_forum_logs_in_and_changes_the_password(
    make_services: MakeServices, game_server: GameServer
) -> None:
    game_server.change_authme({"settings.security.passwordHash": "WORDPRESS"})
    services = make_services(sync__new_players="approved")
    services.authme.register("Bob", "a-placeholder")
    stored = HASHERS["WORDPRESS"].hash("bobs-password", "bob")
    column = services.table.column("password")
    services.table.database.execute(f"UPDATE {services.table.name} SET {column} = ?", (stored.hash,))
    services.sync()
    services.login("Bob", "bobs-password")
    assert services.row("bob")["password"] == stored.hash
    services.set_password("Bob", "newer-password")
    assert HASHERS["WORDPRESS"].verify("newer-password", HashedPassword(str(services.row("bob")["password"])), "bob")
    services.login("Bob", "newer-password")


# --- hashes of ours that AuthMe does not verify, such as imported ones ---


def approve_with_bcrypt(services: ServiceHarness, name: str) -> None:
    """Approve a user whose own hash is of an algorithm that is neither AuthMe's configured one nor a legacy one."""
    services.register(name)
    hashed = store_password("BCRYPT", PASSWORD).hash
    User.update(password_hash=hashed, password_algorithm="BCRYPT").where(User.username == name).execute()
    services.decide("approve", name)
    services.sync()
    assert find_player(services.table, name.lower()) is None


def test_the_first_login_on_the_web_replaces_it_and_the_player_can_play(services: ServiceHarness) -> None:
    approve_with_bcrypt(services, "Alice")
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", "another-password")
    assert find_player(services.table, "alice") is None
    services.login("Alice", PASSWORD)
    assert services.user("Alice").password_algorithm == "SHA256"
    assert services.authme.login("Alice", PASSWORD)
    assert not services.sync().has_effects
    services.login("Alice", PASSWORD)
    assert services.sessions("Alice") == 2


def test_a_password_that_was_set_while_the_old_one_was_checked_stays(services: ServiceHarness) -> None:
    approve_with_bcrypt(services, "Alice")
    reset = partial(services.set_password, "Alice", "newer-password")
    hashing = services.app.hashing
    with meanwhile(hashing, "verify_in_pool", reset), pytest.raises(errors.BadCredentials):
        services.login("Alice", PASSWORD)
    assert services.login("Alice", "newer-password").username == "Alice"


def test_a_name_that_another_player_registered_goes_back_to_its_owner(services: ServiceHarness) -> None:
    approve_with_bcrypt(services, "Alice")
    assert services.authme.register("Alice", "mallorys-password")
    services.sync()
    assert services.is_locked("alice")
    services.login("Alice", PASSWORD)
    assert services.authme.login("Alice", PASSWORD)
    assert not services.authme.login("Alice", "mallorys-password")
