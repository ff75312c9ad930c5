"""An older backup of AuthMe's table is restored: nothing that it undoes is believed before a person says so."""

import logging

import pytest

from regsvc.sync.report import describe_plan
from tests.support.authme.authme_tables import AuthMeTable, dump_table
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

PLAYERS = 100
CHANGED = [f"Player{number:04}" for number in range(30)]

Hashes = dict[str, str]


@pytest.fixture
def adopted(make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock) -> ServiceHarness:
    insert_player_rows(authme_table, make_player_rows(PLAYERS, clock))
    services = make_services()
    services.sync()
    return services


def hashes(services: ServiceHarness) -> Hashes:
    """Return the hashes of those who change their password."""
    rows = services.table.database.query(f"SELECT username, password FROM {services.table.name}")
    return {str(row["username"]): str(row["password"]) for row in rows if str(row["username"]) <= CHANGED[-1].lower()}


def restore(services: ServiceHarness, backup: Hashes) -> None:
    for name, hash_ in backup.items():
        services.table.database.execute(
            f"UPDATE {services.table.name} SET password = ? WHERE username = ?", (hash_, name)
        )


def change_passwords(services: ServiceHarness, password: str) -> None:
    for name in CHANGED:
        services.authme.set_password(name, password)
    report = services.sync()
    assert (report.updated, report.held_back) == (len(CHANGED), None), "changes to new passwords are everyday ones"


def test_passwords_that_become_earlier_ones_again_are_held_back(adopted: ServiceHarness) -> None:
    older = hashes(adopted)
    change_passwords(adopted, "changed-in-the-game")
    newer = hashes(adopted)
    restore(adopted, older)
    adopted.authme.set_password("Player0099", "and-an-everyday-one")

    report = adopted.sync()
    assert report.held_back is not None
    assert (report.held_back.passwords, report.held_back.removed, report.updated) == (30, 0, 1)
    assert adopted.plan().held_back == report.held_back
    assert adopted.details("sync.braked")[-1]["passwords"] == 30
    assert adopted.player("player0000").base_hash == newer["player0000"]

    restore(adopted, newer)
    assert (adopted.sync().held_back, adopted.sync().counts()) == (None, {"scanned": PLAYERS})

    restore(adopted, older)
    assert adopted.sync().held_back is not None
    allowed = adopted.sync(allow_mass_changes=True)
    assert (allowed.updated, allowed.held_back) == (30, None)
    assert adopted.player("player0000").base_hash == older["player0000"]
    assert adopted.sync().counts() == {"scanned": PLAYERS}


def test_the_log_says_what_to_do(adopted: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    older = hashes(adopted)
    change_passwords(adopted, "changed-in-the-game")
    restore(adopted, older)
    remove = f"DELETE FROM {adopted.table.name} WHERE username LIKE ?"
    adopted.table.database.execute(remove, ("player009%",))
    with caplog.at_level(logging.WARNING, "regsvc.sync.run"):
        adopted.sync()
        adopted.sync()
    [told] = caplog.messages
    for words in (
        "10 players whose rows are gone from AuthMe’s table and 30 passwords that are earlier ones again: more than 20",
        "If that is meant, run companion sync --allow-mass-changes",
        "restore a newer one",
        'set sync.on_player_removed = "restore", restart the companion, and then run the command',
    ):
        assert words in told, told


def test_a_few_are_everyday_changes(adopted: ServiceHarness) -> None:
    """An algorithm without a salt gives the same hash for the same password."""
    older = hashes(adopted)
    change_passwords(adopted, "changed-in-the-game")
    restore(adopted, {name.lower(): older[name.lower()] for name in CHANGED[:20]})
    report = adopted.sync()
    assert (report.updated, report.held_back) == (20, None)


def test_a_backup_of_some_changes_ago_is_recognized(adopted: ServiceHarness) -> None:
    older = hashes(adopted)
    for number in range(3):
        change_passwords(adopted, f"changed-{number}")
    restore(adopted, older)
    held_back = adopted.sync().held_back
    assert held_back is not None
    assert held_back.passwords == 30


def test_only_the_newest_of_many_hashes_are_remembered(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.sync()
    for number in range(12):
        services.authme.set_password("Alice", f"changed-{number}")
        services.sync()
    marks = str(services.player("Alice").earlier_hashes).split()
    assert len(marks) == 8
    assert {len(mark) for mark in marks} == {4}
    services.set_password("Alice", "set-on-the-web")
    assert str(services.player("Alice").earlier_hashes).split()[:7] == marks[1:]


def test_a_login_while_they_are_held_back_takes_the_password_of_the_game(adopted: ServiceHarness) -> None:
    for name in CHANGED:
        adopted.authme.set_password(name, "earlier-password")
    adopted.sync()
    older = hashes(adopted)
    change_passwords(adopted, "changed-in-the-game")
    restore(adopted, older)
    adopted.sync()
    assert adopted.login("Player0000", "earlier-password").token
    held_back = adopted.sync().held_back
    assert held_back is not None
    assert held_back.passwords == 30, "a login believes no password that the sync does not"


def test_it_was_not_meant_and_there_is_no_newer_backup(adopted: ServiceHarness) -> None:
    """Players who registered since are gone: they come back with their last passwords."""
    adopted.table.database.execute(f"DELETE FROM {adopted.table.name} WHERE username LIKE ?", ("player00%",))
    held_back = adopted.sync().held_back
    assert held_back is not None
    assert (held_back.removed, held_back.missing) == (100, 100)
    before = adopted.player("player0001").base_hash
    adopted.restart(sync__on_player_removed="restore")
    planned = adopted.plan(max_names=2)
    assert planned.removed == planned.provisioned == 0
    assert planned.changes_held_back["returning"].count == 100
    told = "\n".join(describe_plan(planned, 2))
    assert "100 players whose rows are gone are added again: player0000, player0001 and 98 more" in told
    assert 'set sync.on_player_removed = "respect"' in told
    adopted.sync(allow_mass_changes=True)
    assert len(dump_table(adopted.table)) == PLAYERS
    assert hashes(adopted)["player0001"] == before
