"""AuthMe's table is unavailable: what needs no row goes on, and the row follows later."""

from collections.abc import Sequence
from typing import Any

import pytest

from regsvc.core import errors
from regsvc.database.models import User
from regsvc.users.transitions import Transitions
from tests.support.services import PASSWORD, ServiceHarness, authme_away


def edit_status(services: ServiceHarness, name: str, status: str) -> None:
    services.ours.execute("UPDATE regsvc_user SET status = ? WHERE username = ?", (status, name))


def test_a_ban_in_sql_is_applied_and_the_row_is_locked_later(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.login("Alice", PASSWORD)
    with authme_away(services):
        edit_status(services, "Alice", "banned")
        report = services.sync()
        assert report.unavailable is not None
        assert (report.locked, len(report.errors)) == (0, 1)
        assert services.user("Alice").applied_status == "banned"
        assert (services.sessions("Alice"), services.mails("Alice")[-1]) == (0, "banned")
        assert [entry.operator for entry in services.audits("user.banned", "Alice")] == ["sql"]
        services.sync()
        assert len(services.audits("user.banned", "Alice")) == 1
    assert services.authme.login("Alice", PASSWORD)
    assert services.sync().locked == 1
    assert not services.authme.login("Alice", PASSWORD)
    assert len(services.audits("user.banned", "Alice")) == 1


def test_an_approval_in_sql_is_applied_and_the_row_is_made_later(services: ServiceHarness) -> None:
    services.register("Alice")
    with authme_away(services):
        edit_status(services, "Alice", "approved")
        services.sync()
        assert (services.user("Alice").applied_status, services.mails("Alice")[-1]) == ("approved", "approved")
    assert services.sync().provisioned == 1
    assert services.authme.login("Alice", PASSWORD)


def test_an_approval_in_sql_takes_no_foreign_row_for_the_users(services: ServiceHarness) -> None:
    """R52: a player who registered the name in the game in the meantime does not keep the chosen password."""
    services.register("Alice")
    services.authme.register("Alice", "foreign-password")
    services.sync()
    with authme_away(services):
        edit_status(services, "Alice", "approved")
        services.sync()
    services.sync()
    assert not services.authme.login("Alice", "foreign-password")
    assert services.authme.login("Alice", PASSWORD)


def test_a_ban_ends_and_the_row_is_opened_later(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice", expires_at=services.clock().replace(year=2032))
    services.clock.advance(days=400)
    with authme_away(services):
        services.sync()
        assert services.user("Alice").status == "approved"
        assert not services.mails("Alice")[-1].startswith("unban")
    assert services.sync().restored == 1
    assert services.authme.login("Alice", PASSWORD)


def test_the_mass_change_guard_covers_sql_edits(services: ServiceHarness) -> None:
    """R54"""
    for number in range(30):
        services.register(f"Player{number}", password=None)
    with authme_away(services):
        services.ours.execute("UPDATE regsvc_user SET status = 'rejected'", ())
        report = services.sync()
        assert report.held_back is not None
        assert (report.held_back.edited, report.held_back.locked, report.held_back.removed) == (30, 0, 0)
        assert User.select().where(User.applied_status == "rejected").count() == 0
        services.sync(allow_mass_changes=True)
        assert User.select().where(User.applied_status == "rejected").count() == 30


def test_a_name_somebody_else_decided_first_stops_nobody_else(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transition is refused because of another decision: reported for this name, and the run goes on."""
    for name in ("Alice", "Bob"):
        services.approved(name)
        edit_status(services, name, "banned")
    carry_out = Transitions.apply_sql_edits

    def too_late_for_alice(transitions: Transitions, users: Sequence[User], **options: Any) -> None:
        if "Alice" in [user.username for user in users]:
            raise errors.WrongStatus("approved")
        carry_out(transitions, users, **options)

    monkeypatch.setattr(Transitions, "apply_sql_edits", too_late_for_alice)
    report = services.sync()
    assert [error.username for error in report.errors] == ["alice"]
    assert report.locked == 1


def test_decisions_are_made_while_the_table_is_missing_since_the_start(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.register("Bob")
    with authme_away(services):
        services.restart()
        assert services.decide("ban", "Alice").warnings == ("player_pending",)
        assert services.decide("approve", "Bob").warnings == ("player_pending",)
    services.sync()
    assert services.is_locked("alice")
    assert services.authme.login("Bob", PASSWORD)
