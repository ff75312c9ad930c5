"""Stories of single names: decisions on the web reach the game, and changes in the game reach us."""

from functools import partial
from typing import get_args

import pytest
from msgspec import to_builtins

from plugin_bridge.authme.players import lock_text
from regsvc.accounts.access import PLAYER_PENDING
from regsvc.core import errors
from regsvc.database.audit import Actor
from regsvc.database.models import UNVERIFIED
from regsvc.sync.effects import ConflictCause
from regsvc.sync.reconciler import unlock_all
from regsvc.sync.report import SyncConflictFields, describe_conflicts
from tests.support.authme.authme_tables import dump_table, find_player, insert_player
from tests.support.meanwhile import meanwhile
from tests.support.services import PASSWORD, Away, MakeServices, ServiceHarness

ALICE = Actor("Alice")


# --- bans ---


def test_a_ban_locks_and_an_unban_gives_everything_back(services: ServiceHarness) -> None:
    services.approved("Alice")
    premium = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    services.table.database.execute(f"UPDATE {services.table.name} SET premiumUUID = ?, hasSession = 1", (premium,))
    before = services.row("alice")
    services.login("Alice", PASSWORD)
    services.decide("ban", "Alice", reason="griefing")
    banned = services.row("alice")
    assert banned == {**before, "password": lock_text(before["password"]), "hasSession": 0, "premiumUUID": None}
    assert services.sessions("Alice") == 0
    assert services.plugin("Alice") == "locked"
    services.decide("unban", "Alice")
    assert services.row("alice") == {**before, "hasSession": 0}
    assert services.player("Alice").kept_hash is None


# --- names that another player registers in the game ---


def test_a_foreign_row_in_the_queue_is_locked_and_approval_gives_the_name_to_the_applicant(
    services: ServiceHarness,
) -> None:
    services.register("Alice")
    services.authme.register("Alice", "foreign-password", email="foreign@example.org")
    assert services.sync().locked == 1
    assert services.plugin("Alice") == "conflict"
    assert services.player("Alice").plugin_since == services.clock()
    assert services.player("Alice").kept_origin == UNVERIFIED
    assert not services.authme.login("Alice", "foreign-password")
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", "foreign-password")
    services.decide("approve", "Alice")
    assert services.authme.login("Alice", PASSWORD)
    assert not services.authme.login("Alice", "foreign-password")
    assert services.row("alice")["email"] == "alice@example.org"
    assert services.plugin("Alice") == "synced"


def test_a_name_that_left_and_came_back_is_locked_until_it_is_opened(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    services.authme.unregister_from_console("Alice")
    assert services.sync().removed == 1
    assert services.plugin("Alice") == "absent"
    assert services.sync().counts() == {"scanned": 1}
    services.clock.advance(hours=1)
    services.authme.register("Alice", "foreign-password")
    assert services.sync().locked == 1
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", "foreign-password")
    for _again in range(2):
        services.sync()
    assert len(services.audits("sync.player_removed", "Alice")) == 1
    assert len(services.audits("sync.player_returned", "Alice")) == 1
    assert services.details("sync.player_locked", "Alice") == [{"reason": "returned"}]
    services.login("Alice", PASSWORD)
    assert services.authme.login("Alice", PASSWORD)
    assert services.plugin("Alice") == "synced"


def test_who_left_comes_back_by_a_new_password(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    services.authme.unregister_from_console("Alice")
    services.set_password("Alice", "newer-password")
    assert services.authme.login("Alice", "newer-password")
    assert len(services.audits("sync.player_removed", "Alice")) == 1


def test_an_operators_name_is_left_open_in_the_game_and_never_believed(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.game.write_operators("Olivia", "Alice")
    services.app.registration.create_user("Alice", None, PASSWORD, ALICE)
    services.authme.unregister_from_console("Alice")
    services.sync()
    services.authme.register("Alice", "foreign-password")
    services.sync()
    assert (services.is_locked("alice"), services.plugin("Alice")) == (False, "returned")
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", "foreign-password")
    assert services.authme.login("Alice", "foreign-password")


# --- deleting ---


def test_a_row_that_a_crash_left_behind_a_deletion_is_removed_once_more(services: ServiceHarness) -> None:
    services.approved("Alice")
    row = {column: value for column, value in services.row("alice").items() if column != "id"}
    services.decide("delete", "Alice")
    insert_player(services.table, **row)  # as if we had been killed before it
    assert services.sync().removed == 1
    assert find_player(services.table, "alice") is None
    insert_player(services.table, **row | {"password": lock_text(row["password"])})
    assert services.sync().removed == 1
    insert_player(services.table, **row | {"regdate": row["regdate"] + 1})
    assert services.sync().adopted == 1


def test_a_registration_ends_the_tombstone(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("delete", "Alice")
    assert services.player("Alice").tombstone_at is not None
    services.register("Alice")
    assert services.player("Alice").tombstone_at is None


# --- the merge ---


def test_a_password_changed_in_the_game_ends_the_web_sessions(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.login("Alice", PASSWORD)
    services.authme.set_password("Alice", "changed-in-game")
    assert services.sync().updated == 1
    assert services.sessions("Alice") == 0
    assert services.user("Alice").password_hash is None
    with pytest.raises(errors.BadCredentials):
        services.login("Alice", PASSWORD)
    services.login("Alice", "changed-in-game")


def test_an_email_conflict_is_told_once_and_outlives_a_ban(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.set_email("Alice", "other@example.org")
    report = services.sync()
    assert to_builtins(report.conflicts) == [{"username": "alice", "field": "email", "kept": "both", "why": "unproven"}]
    [told] = describe_conflicts(report.conflicts)
    assert told == ("1 e-mail address differs (each side keeps its own, since ours is proven and the game proves none)")
    for _again in range(2):
        assert services.sync().conflicts == []
    services.decide("ban", "Alice")
    services.decide("unban", "Alice")
    assert services.sync().counts() == {"scanned": 1}
    assert services.row("alice")["email"] == "other@example.org"
    assert services.user("Alice").email == "alice@example.org"
    assert services.plugin("Alice") == "conflict"
    assert services.details("sync.conflict") == [{"field": "email", "kept": "both"}]
    services.authme.set_email("Alice", "ALICE@example.org")
    services.sync()
    assert services.plugin("Alice") == "synced"


def test_each_cause_has_a_sentence_of_its_own() -> None:
    of_names = {"unfindable", "collides", "foreign", "unapproved"}
    found = [
        SyncConflictFields(username="alice", field="name" if cause in of_names else "email", kept="both", why=cause)
        for cause in get_args(ConflictCause)
    ]
    assert len(set(describe_conflicts(found))) == len(found)


def test_a_row_that_is_left_open_is_told_by_its_cause(make_services: MakeServices) -> None:
    services = make_services(sync__unapproved_players="report")
    services.authme.register("Alice", "her-password")
    services.register("Bob")
    services.authme.register("Bob", "a-strangers")
    told = services.sync().conflicts + services.sync().conflicts
    assert {(conflict.username, conflict.why) for conflict in told} == {
        ("alice", "unapproved"),
        ("bob", "foreign"),
    }


def test_an_adopted_players_new_email_is_taken_over_if_it_is_free(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.register("Bob", "bobs-password", email="bob@example.org")
    services.sync()
    services.authme.set_email("Bob", "bob.two@example.org")
    assert services.sync(allow_mass_changes=True).updated == 0  # pending and locked: not merged
    services.decide("approve", "Bob")
    assert (services.user("Bob").email, services.user("Bob").is_email_verified) == ("bob.two@example.org", False)
    services.authme.set_email("Bob", "alice@example.org")
    told = services.sync().conflicts
    assert to_builtins(told) == [{"username": "bob", "field": "email", "kept": "both", "why": "taken"}]
    assert "belongs to another user here)" in describe_conflicts(told)[0]
    bob = services.user("Bob")
    assert (bob.email, bob.email_key, bob.is_email_verified) == ("alice@example.org", None, False), "a mere note"
    assert services.user("Alice").email == "alice@example.org"


def test_the_case_of_a_name_is_learnt_from_the_game(services: ServiceHarness) -> None:
    insert_player(services.table, username="alice", realname="Player", password="x", regdate=1)
    services.sync()
    assert services.user("alice").username == "alice"
    services.authme.join("ALICE")
    services.sync()
    assert services.user("alice").username == "ALICE"


# --- AuthMe's table unavailable (SQLite), and refusing ---

sqlite_only = pytest.mark.parametrize("database_kind", ["sqlite"])


@sqlite_only
def test_an_approval_while_the_file_is_busy_reclaims_a_foreign_row_later(services: ServiceHarness) -> None:
    services.register("Alice")
    services.authme.register("Alice", "foreign-password")
    services.sync()
    with Away(services.table):
        services.decide("approve", "Alice")
    assert services.sync().restored == 1
    assert services.authme.login("Alice", PASSWORD)


def test_a_deletion_takes_the_row_that_changed_while_it_waited(services: ServiceHarness) -> None:
    """Alice changes her password in the game while the deletion waits for the lock on her user."""
    services.approved("Alice")
    change = partial(services.authme.set_password, "Alice", "changed-in-game")
    with meanwhile(services.app.reconciler.loader, "load_user_for_update", change):
        services.decide("delete", "Alice")
    assert find_player(services.table, "alice") is None


def test_an_empty_table_is_not_believed_about_one_name_either(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.table.database.execute(f"DELETE FROM {services.table.name}")
    services.set_password("Alice", "newer-password")
    assert services.player("Alice").presence == "present"
    assert services.audits("sync.player_removed") == []
    assert find_player(services.table, "alice") is None, "the host is about to restore it"


def test_a_name_that_only_collides_is_a_conflict_and_is_not_written(services: ServiceHarness) -> None:
    foreign = "Alice" if services.table.database.kind == "sqlite" else "älice"
    services.register("Alice")
    insert_player(services.table, username=foreign, realname=foreign, password="x", regdate=1)
    before = dump_table(services.table)
    assert services.decide("approve", "Alice").warnings == (PLAYER_PENDING,)
    assert (services.user("Alice").status, services.plugin("Alice")) == ("approved", "conflict")
    for _again in range(2):
        assert {"username": "alice", "field": "name", "kept": "both", "why": "collides"} in to_builtins(
            services.sync().conflicts
        )
    assert len(services.audits("sync.conflict", "Alice")) == 1
    services.login("Alice", PASSWORD)
    assert {row["username"]: row for row in dump_table(services.table)}.items() >= {
        row["username"]: row for row in before
    }.items()
    assert find_player(services.table, "alice") is None
    services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username = ?", (foreign,))
    assert services.sync().provisioned == 1
    assert services.plugin("Alice") == "synced"


# --- unlocking everything ---


def test_unlock_all_unlocks_everything_we_locked(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.register("Carol")
    services.authme.register("Carol", "foreign-password")
    insert_player(services.table, username="dave", realname="Dave", password="x" * 255, regdate=1)
    insert_player(services.table, username="eve", realname="Eve", password="!locked!" + "0" * 32, regdate=1)
    before = dump_table(services.table)
    services.decide("ban", "Alice")
    services.decide("ban", "Dave")
    services.sync()
    assert [services.is_locked(name) for name in ("alice", "carol", "dave", "eve")] == [True] * 4
    players, table = services.app.context.location.players, services.table
    is_mariadb = table.database.kind == "mariadb"
    trigger = f"CREATE TRIGGER no BEFORE UPDATE ON {table.name} WHEN new.username = 'dave'"
    refusal = f"{trigger} BEGIN SELECT RAISE(ABORT, 'no'); END"
    narrowed, widened = (f"ALTER TABLE {table.name} MODIFY password VARCHAR({size}) NOT NULL" for size in (250, 255))
    table.database.execute(narrowed if is_mariadb else refusal)
    unlocked, failed = unlock_all(players)
    assert (unlocked, [*failed]) == (2, ["dave", "eve"])  # the refused one keeps nobody behind it locked
    assert "AuthMe's table" in failed["dave"]
    assert "the password hash is unknown" in failed["eve"]
    table.database.execute(widened if is_mariadb else "DROP TRIGGER no")
    assert unlock_all(players) == (1, {"eve": failed["eve"]})
    assert dump_table(table) == before
    assert services.player("Dave").kept_hash is None
