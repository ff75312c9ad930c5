"""AuthMe's table is away: what needs no player goes on, and the row follows when the table is there again."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regsvc.core import errors
from regsvc.database.models import User
from tests.support.authme_database import SqliteFile
from tests.support.services import PASSWORD, House


@contextmanager
def authme_away(house: House) -> Iterator[None]:
    """The table has another name meanwhile."""
    table = house.table
    table.database.execute(f"ALTER TABLE {table.name} RENAME TO elsewhere")
    try:
        yield
    finally:
        table.database.execute(f"ALTER TABLE elsewhere RENAME TO {table.name}")


def type_status(house: House, name: str, status: str) -> None:
    house.ours.execute("UPDATE regsvc_user SET status = ? WHERE username = ?", (status, name))


def test_a_typed_ban_is_carried_out_and_the_row_is_locked_later(house: House) -> None:
    house.approved("Alice")
    house.login("Alice", PASSWORD)
    with authme_away(house):
        type_status(house, "Alice", "banned")
        report = house.sync()
        assert report.away is not None
        assert (report.locked, len(report.errors)) == (0, 1)
        assert house.user("Alice").applied_status == "banned"
        assert (house.sessions("Alice"), house.mails("Alice")[-1]) == (0, "banned")
        assert [entry.operator for entry in house.audits("user.banned", "Alice")] == ["sql"]
        house.sync()
        assert len(house.audits("user.banned", "Alice")) == 1
    assert house.authme.login("Alice", PASSWORD)
    assert house.sync().locked == 1
    assert not house.authme.login("Alice", PASSWORD)
    assert len(house.audits("user.banned", "Alice")) == 1


def test_a_typed_approval_is_carried_out_and_the_row_is_made_later(house: House) -> None:
    house.register("Alice")
    with authme_away(house):
        type_status(house, "Alice", "approved")
        house.sync()
        assert (house.user("Alice").applied_status, house.mails("Alice")[-1]) == ("approved", "approved")
    assert house.sync().provisioned == 1
    assert house.authme.login("Alice", PASSWORD)


def test_a_typed_approval_takes_no_strangers_row_for_the_users(house: House) -> None:
    """R52: who registered the name in the game meanwhile does not keep the password he chose."""
    house.register("Alice")
    house.authme.register("Alice", "the-strangers")
    house.sync()
    with authme_away(house):
        type_status(house, "Alice", "approved")
        house.sync()
    house.sync()
    assert not house.authme.login("Alice", "the-strangers")
    assert house.authme.login("Alice", PASSWORD)


def test_an_illegal_edit_is_put_back(house: House) -> None:
    house.approved("Alice")
    with authme_away(house):
        type_status(house, "Alice", "pending")
        house.sync()
        assert house.user("Alice").status == "approved"
        assert len(house.audits("sync.edit_refused", "Alice")) == 1


def test_a_ban_ends_and_the_row_is_opened_later(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice", expires_at=house.clock().replace(year=2032))
    house.clock.advance(days=400)
    with authme_away(house):
        house.sync()
        assert house.user("Alice").status == "approved"
        assert not house.mails("Alice")[-1].startswith("unban")
    assert house.sync().restored == 1
    assert house.authme.login("Alice", PASSWORD)


def test_the_brake_holds_for_what_was_typed(house: House) -> None:
    """R54"""
    for number in range(30):
        house.register(f"Player{number}", password=None)
    with authme_away(house):
        house.ours.execute("UPDATE regsvc_user SET status = 'rejected'", ())
        report = house.sync()
        assert report.braked is not None
        assert (report.braked.edited, report.braked.locked, report.braked.removed) == (30, 0, 0)
        assert User.select().where(User.applied_status == "rejected").count() == 0
        house.sync(allow_mass_changes=True)
        assert User.select().where(User.applied_status == "rejected").count() == 30


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_one_user_with_a_date_that_is_none_stops_nobody_else(house: House) -> None:
    """MariaDB refuses such a statement; SQLite stores whatever is typed."""
    assert isinstance(house.ours, SqliteFile)
    for name in ("Alice", "Bob"):
        house.approved(name)
    type_status(house, "Bob", "banned")
    house.ours.execute("UPDATE regsvc_user SET ban_expires_at = 'tomorrow' WHERE username = 'Alice'", ())
    report = house.sync()
    assert [error["username"] for error in report.errors] == ["alice"]
    assert report.locked == 1


def test_a_name_somebody_else_decided_first_stops_nobody_else(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule met another decision and refused: told for this name, and the next one is looked at."""
    for name in ("Alice", "Bob"):
        house.approved(name)
        type_status(house, name, "banned")
    carry_out = type(house.app.reconciler._world.transitions).carry_out_edit

    def too_late_for_alice(transitions: object, user: User, *args: object) -> str | None:
        if user.username == "Alice":
            raise errors.WrongStatus("approved")
        return carry_out(transitions, user, *args)  # type: ignore[arg-type]

    def too_late_for_one(*given: object) -> None:
        raise errors.WrongStatus("approved")

    monkeypatch.setattr("regsvc.users.transitions.Transitions.carry_out_edits", too_late_for_one)
    monkeypatch.setattr("regsvc.users.transitions.Transitions.carry_out_edit", too_late_for_alice)
    report = house.sync()
    assert [error["username"] for error in report.errors] == ["alice"]
    assert report.locked == 1
