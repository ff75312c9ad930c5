"""Single names, told as stories: what the web decides reaches the game, and what the game does reaches us."""

from datetime import timedelta

import pytest

from plugin_bridge.authme.players import lock_text
from regsvc.accounts.player_warnings import PLAYER_PENDING
from regsvc.core import errors
from regsvc.database.audit import Actor
from tests.support.authme_tables import dump_table, find_player, insert_player
from tests.support.services import OLIVIA, PASSWORD, Away, House

ALICE = Actor("Alice")


def test_alice_is_approved_and_plays(house: House) -> None:
    assert house.register("Alice") == "pending"
    assert house.plugin("Alice") == "absent"
    assert house.decide("approve", "Alice").warnings == ()
    assert house.authme.login("Alice", PASSWORD)
    row = house.row("alice")
    assert (row["realname"], row["email"], row["regip"]) == ("Alice", "alice@example.org", "198.51.100.7")
    assert row["regdate"] == int(house.clock().timestamp() * 1000)
    assert house.plugin("Alice") == "synced"
    assert house.sync().counts() == {"scanned": 1}


def test_without_a_password_alice_waits_for_the_mailed_link(house: House) -> None:
    house.approved("Alice", password=None)
    assert find_player(house.table, "alice") is None
    assert house.mails("Alice") == ["approved_set_password"]
    house.set_password("Alice", PASSWORD)
    assert house.authme.login("Alice", PASSWORD)


# --- bans ---


def test_a_ban_locks_and_an_unban_gives_everything_back(house: House) -> None:
    house.approved("Alice")
    premium = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    house.table.database.execute(f"UPDATE {house.table.name} SET premiumUUID = ?, hasSession = 1", (premium,))
    before = house.row("alice")
    house.login("Alice", PASSWORD)
    house.decide("ban", "Alice", reason="griefing")
    banned = house.row("alice")
    assert banned == {**before, "password": lock_text(before["password"]), "hasSession": 0, "premiumUUID": None}
    assert house.sessions("Alice") == 0
    assert house.plugin("Alice") == "locked"
    house.decide("unban", "Alice")
    assert house.row("alice") == {**before, "hasSession": 0}
    assert house.player("Alice").kept_hash is None


def test_a_ban_ends_by_itself(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice", expires_at=house.clock() + timedelta(hours=1))
    house.clock.advance(minutes=59)
    assert house.sync().counts() == {"scanned": 1}
    house.clock.advance(minutes=1)
    assert house.sync().restored == 1
    assert house.user("Alice").status == "approved"
    assert house.authme.login("Alice", PASSWORD)
    assert [entry.operator for entry in house.audits("user.unbanned")] == ["sync"]


def test_a_ban_of_a_pending_user_ends_in_the_queue(house: House) -> None:
    house.register("Alice")
    house.decide("ban", "Alice", expires_at=house.clock() + timedelta(hours=1))
    house.decide("ban", "Alice", expires_at=house.clock() + timedelta(hours=2), reason="more of it")
    house.clock.advance(hours=2)
    house.sync()
    assert (house.user("Alice").status, house.user("Alice").banned_from) == ("pending", None)
    assert find_player(house.table, "alice") is None


def test_a_banned_player_who_gets_a_fresh_hash_is_locked_again(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice")
    house.authme.set_password("Alice", "recovered-by-mail")
    assert house.sync().locked == 1
    assert house.is_locked("alice")
    house.decide("unban", "Alice")
    assert house.authme.login("Alice", "recovered-by-mail")


def test_a_password_set_while_banned_is_the_one_to_play_with_later(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice")
    house.set_password("Alice", "newer-password")
    assert house.is_locked("alice")
    house.decide("unban", "Alice")
    assert house.authme.login("Alice", "newer-password")


# --- names that somebody else registers in the game ---


def test_a_stranger_in_the_queue_is_locked_and_approval_gives_the_name_to_the_applicant(house: House) -> None:
    house.register("Alice")
    house.authme.register("Alice", "strangers-password", email="stranger@example.org")
    assert house.sync().locked == 1
    assert house.plugin("Alice") == "conflict"
    assert house.player("Alice").plugin_since == house.clock()
    assert house.player("Alice").kept_origin == "stranger"
    assert not house.authme.login("Alice", "strangers-password")
    with pytest.raises(errors.BadCredentials):
        house.login("Alice", "strangers-password")
    house.decide("approve", "Alice")
    assert house.authme.login("Alice", PASSWORD)
    assert not house.authme.login("Alice", "strangers-password")
    assert house.row("alice")["email"] == "alice@example.org"
    assert house.plugin("Alice") == "synced"


def test_a_stranger_in_the_queue_stays_locked_until_the_mailed_link_is_used(house: House) -> None:
    house.register("Alice", password=None)
    house.authme.register("Alice", "strangers-password")
    house.sync()
    house.decide("approve", "Alice")
    assert house.is_locked("alice")
    assert house.plugin("Alice") == "returned"
    assert house.sync().counts() == {"scanned": 1}
    house.set_password("Alice", PASSWORD)
    assert house.authme.login("Alice", PASSWORD)


def test_a_rejected_name_that_is_registered_in_the_game_is_locked(house: House) -> None:
    house.register("Alice")
    house.decide("reject", "Alice")
    house.authme.register("Alice", "strangers-password")
    assert house.sync().locked == 1
    assert house.plugin("Alice") == "conflict"


def test_a_name_that_left_and_came_back_is_locked_until_it_is_opened(house: House) -> None:
    house.approved("Bob")
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    assert house.sync().removed == 1
    assert house.plugin("Alice") == "absent"
    assert house.sync().counts() == {"scanned": 1}
    house.clock.advance(hours=1)
    house.authme.register("Alice", "strangers-password")
    assert house.sync().locked == 1
    assert (house.plugin("Alice"), house.is_locked("alice")) == ("returned", True)
    with pytest.raises(errors.BadCredentials):
        house.login("Alice", "strangers-password")
    for _again in range(2):
        house.sync()
    assert len(house.audits("sync.player_removed", "Alice")) == 1
    assert len(house.audits("sync.player_returned", "Alice")) == 1
    assert house.details("sync.player_locked", "Alice") == [{"reason": "returned"}]
    house.login("Alice", PASSWORD)
    assert house.authme.login("Alice", PASSWORD)
    assert house.plugin("Alice") == "synced"


def test_an_operators_approval_opens_a_row_that_came_back(house: House) -> None:
    house.approved("Bob")
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    house.sync()
    house.authme.register("Alice", "strangers-password")
    house.sync()
    house.decide("approve", "Alice")
    assert house.authme.login("Alice", PASSWORD)


def test_a_row_that_was_swapped_between_two_looks_came_back_too(house: House) -> None:
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    house.clock.advance(seconds=1)
    house.authme.register("Alice", "strangers-password")
    assert house.sync().locked == 1
    assert house.plugin("Alice") == "returned"


def test_an_adopted_player_who_came_back_gets_the_password_of_the_last_agreement(house: House) -> None:
    house.authme.register("Alice", "her-first-password")
    house.sync()
    house.decide("approve", "Alice")
    house.authme.unregister_from_console("Alice")
    house.sync()
    house.clock.advance(hours=1)
    house.authme.register("Alice", "strangers-password")
    house.sync()
    house.decide("approve", "Alice")
    assert house.authme.login("Alice", "her-first-password")


def test_who_left_comes_back_by_a_new_password(house: House) -> None:
    house.approved("Bob")
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    house.set_password("Alice", "newer-password")
    assert house.authme.login("Alice", "newer-password")
    assert len(house.audits("sync.player_removed", "Alice")) == 1


def test_an_operators_name_is_left_open_in_the_game_and_never_believed(house: House) -> None:
    house.approved("Bob")
    house.game.write_operators("Olivia", "Alice")
    house.app.password_changes.create_user("Alice", None, PASSWORD, ALICE)
    house.authme.unregister_from_console("Alice")
    house.sync()
    house.authme.register("Alice", "strangers-password")
    house.sync()
    assert (house.is_locked("alice"), house.plugin("Alice")) == (False, "returned")
    with pytest.raises(errors.BadCredentials):
        house.login("Alice", "strangers-password")
    assert house.authme.login("Alice", "strangers-password")


# --- deleting ---


def test_a_deleted_user_takes_the_row_along_and_the_name_is_free(house: House) -> None:
    house.approved("Alice")
    house.decide("delete", "Alice")
    assert find_player(house.table, "alice") is None
    assert house.find_user("Alice") is None
    house.authme.register("Alice", "a-new-player")
    house.sync()
    assert house.user("Alice").status == "pending"
    assert house.user("Alice").origin == "adopted"


def test_a_row_that_a_crash_left_behind_a_deletion_is_removed_once_more(house: House) -> None:
    house.approved("Alice")
    row = {column: value for column, value in house.row("alice").items() if column != "id"}
    house.decide("delete", "Alice")
    insert_player(house.table, **row)  # as if we had been killed before it
    assert house.sync().removed == 1
    assert find_player(house.table, "alice") is None
    insert_player(house.table, **row | {"password": lock_text(row["password"])})
    assert house.sync().removed == 1
    insert_player(house.table, **row | {"regdate": row["regdate"] + 1})
    assert house.sync().adopted == 1


def test_a_registration_ends_the_tombstone(house: House) -> None:
    house.approved("Alice")
    house.decide("delete", "Alice")
    assert house.player("Alice").tombstone_at is not None
    house.register("Alice")
    assert house.player("Alice").tombstone_at is None


# --- players who are only AuthMe's yet ---


def test_a_player_is_adopted_at_login_after_the_right_password(house: House) -> None:
    house.clock.advance(days=1)
    house.authme.register("Bob", "bobs-password")
    with pytest.raises(errors.BadCredentials):
        house.login("Bob", "wrong")
    assert house.find_user("Bob") is None
    assert house.login("bob", "bobs-password").status == "pending"
    assert house.is_locked("bob")
    house.decide("approve", "Bob")
    assert house.authme.login("Bob", "bobs-password")


def test_a_player_is_adopted_when_an_admin_names_him(house: House) -> None:
    house.authme.register("Bob", "bobs-password")
    assert house.decide("ban", "bob").status == "banned"
    assert house.is_locked("bob")
    assert house.user("Bob").origin == "adopted"


# --- the merge ---


def test_a_password_changed_in_the_game_ends_the_web_sessions(house: House) -> None:
    house.approved("Alice")
    house.login("Alice", PASSWORD)
    house.authme.set_password("Alice", "changed-in-game")
    assert house.sync().updated == 1
    assert house.sessions("Alice") == 0
    assert house.user("Alice").password_hash is None
    with pytest.raises(errors.BadCredentials):
        house.login("Alice", PASSWORD)
    house.login("Alice", "changed-in-game")


def test_a_password_set_through_us_is_the_newest_word(house: House) -> None:
    house.approved("Alice")
    house.authme.set_password("Alice", "changed-in-game")
    house.set_password("Alice", "newer-password")
    assert house.authme.login("Alice", "newer-password")
    assert house.row("alice")["hasSession"] == 0
    assert house.audits("sync.conflict") == []


def test_an_email_conflict_is_told_once_and_outlives_a_ban(house: House) -> None:
    house.approved("Alice")
    house.authme.set_email("Alice", "other@example.org")
    assert house.sync().conflicts == [{"username": "alice", "field": "email", "kept": "both"}]
    for _again in range(2):
        assert house.sync().conflicts == []
    house.decide("ban", "Alice")
    house.decide("unban", "Alice")
    assert house.sync().counts() == {"scanned": 1}
    assert house.row("alice")["email"] == "other@example.org"
    assert house.user("Alice").email == "alice@example.org"
    assert house.plugin("Alice") == "conflict"
    assert house.details("sync.conflict") == [{"field": "email", "kept": "both"}]
    house.authme.set_email("Alice", "ALICE@example.org")
    house.sync()
    assert house.plugin("Alice") == "synced"


def test_an_adopted_players_new_email_is_taken_over_if_it_is_free(house: House) -> None:
    house.approved("Alice")
    house.authme.register("Bob", "bobs-password", email="bob@example.org")
    house.sync()
    house.authme.set_email("Bob", "bob.two@example.org")
    assert house.sync(allow_mass_changes=True).updated == 0  # pending and locked: not merged
    house.decide("approve", "Bob")
    assert (house.user("Bob").email, house.user("Bob").is_email_verified) == ("bob.two@example.org", False)
    house.authme.set_email("Bob", "alice@example.org")
    assert house.sync().conflicts == [{"username": "bob", "field": "email", "kept": "both"}]
    assert house.user("Bob").email == "bob.two@example.org"
    assert house.user("Alice").email == "alice@example.org"


def test_the_case_of_a_name_is_learnt_from_the_game(house: House) -> None:
    insert_player(house.table, username="alice", realname="Player", password="x", regdate=1)
    house.sync()
    assert house.user("alice").username == "alice"
    house.authme.join("ALICE")
    house.sync()
    assert house.user("alice").username == "ALICE"


# --- AuthMe away (SQLite), and refusing ---

sqlite_only = pytest.mark.parametrize("database_kind", ["sqlite"])


@sqlite_only
def test_a_busy_file_makes_a_wish_that_the_next_look_fulfils(house: House) -> None:
    house.register("Alice")
    with Away(house.table):
        assert house.decide("approve", "Alice").warnings == (PLAYER_PENDING,)
    assert find_player(house.table, "alice") is None
    assert house.sync().provisioned == 1
    assert house.authme.login("Alice", PASSWORD)
    with Away(house.table):
        assert house.decide("ban", "Alice").warnings == (PLAYER_PENDING,)
    assert not house.is_locked("alice")
    assert house.sync().locked == 1
    with Away(house.table):
        assert house.decide("delete", "Alice").warnings == (PLAYER_PENDING,)
    assert house.sync().removed == 1
    assert find_player(house.table, "alice") is None
    assert [entry.operator for entry in house.audits("user.deleted")] == ["Olivia"]


@sqlite_only
def test_an_approval_while_the_file_is_busy_opens_a_strangers_row_later(house: House) -> None:
    house.register("Alice")
    house.authme.register("Alice", "strangers-password")
    house.sync()
    with Away(house.table):
        house.decide("approve", "Alice")
    assert house.sync().restored == 1
    assert house.authme.login("Alice", PASSWORD)


@sqlite_only
def test_a_password_set_while_the_file_is_busy_is_written_later(house: House) -> None:
    house.approved("Bob")
    house.approved("Alice")
    house.authme.unregister_from_console("Alice")
    house.sync()
    user = house.user("Alice")
    stored = house.app.password_parts.passwords.hash("newer-password", "Alice")
    owner = house.app.accounts.get_password_owner("Alice", OLIVIA)
    with Away(house.table):
        decided = house.app.worker.run_here(house.app.accounts.set_password, owner, stored, ALICE)
    assert decided.warnings == (PLAYER_PENDING,)
    assert (user.id, house.sync().provisioned) == (owner.user_id, 1)
    assert house.authme.login("Alice", "newer-password")


def test_an_empty_table_is_not_believed_about_one_name_either(house: House) -> None:
    house.approved("Alice")
    house.table.database.execute(f"DELETE FROM {house.table.name}")
    house.login("Alice", PASSWORD)
    assert house.player("Alice").presence == "present"
    assert house.audits("sync.player_removed") == []


def test_a_name_that_only_collides_is_a_conflict_and_is_not_written(house: House) -> None:
    foreign = "Alice" if house.table.database.kind == "sqlite" else "älice"
    house.register("Alice")
    insert_player(house.table, username=foreign, realname=foreign, password="x", regdate=1)
    before = dump_table(house.table)
    assert house.decide("approve", "Alice").warnings == (PLAYER_PENDING,)
    assert (house.user("Alice").status, house.plugin("Alice")) == ("approved", "conflict")
    for _again in range(2):
        assert {"username": "alice", "field": "name", "kept": "both"} in house.sync().conflicts
    assert len(house.audits("sync.conflict", "Alice")) == 1
    house.login("Alice", PASSWORD)
    assert {row["username"]: row for row in dump_table(house.table)}.items() >= {
        row["username"]: row for row in before
    }.items()
    assert find_player(house.table, "alice") is None
    house.table.database.execute(f"DELETE FROM {house.table.name} WHERE username = ?", (foreign,))
    assert house.sync().provisioned == 1
    assert house.plugin("Alice") == "synced"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_an_email_that_authmes_table_cannot_hold_is_told_once_and_the_player_plays(house: House) -> None:
    house.register("Alice", email="älice@example.org")
    house.table.database.execute(f"ALTER TABLE {house.table.name} MODIFY email VARCHAR(255) CHARACTER SET ascii NULL")
    assert house.decide("approve", "Alice").warnings == ()
    assert house.authme.login("Alice", PASSWORD)
    assert house.authme.get("Alice")["email"] is None
    assert house.plugin("Alice") == "conflict"
    report = house.sync()
    assert (report.updated, report.conflicts, report.errors) == (0, [], [])


# --- leaving us ---


def test_a_release_unlocks_everything_we_locked(house: House) -> None:
    house.approved("Alice")
    house.register("Carol")
    house.authme.register("Carol", "strangers-password")
    insert_player(house.table, username="dave", realname="Dave", password="x" * 255, regdate=1)
    insert_player(house.table, username="eve", realname="Eve", password="!locked!" + "0" * 32, regdate=1)
    before = dump_table(house.table)
    house.decide("ban", "Alice")
    house.decide("ban", "Dave")
    house.sync()
    assert [house.is_locked(name) for name in ("alice", "carol", "dave", "eve")] == [True] * 4
    assert house.app.release.run() == (3, ["eve"])
    assert dump_table(house.table) == before
    assert house.player("Dave").kept_hash is None
