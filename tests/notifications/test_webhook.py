"""Events of the webhook: every registration and every decision, whatever its origin, and nothing rolled back."""

import json
from datetime import timedelta
from typing import Any

import pytest

from regsvc.core.errors import UsernameTaken, WrongStatus
from regsvc.database.models import OutboxEntry, Review, User
from regsvc.notifications.mail.queue import MailQueue
from tests.support.manual_clock import ManualClock
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

pytestmark = pytest.mark.one_database("sqlite")

URL = "https://hooks.example.org/hooks/a-secret-token"


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(webhook__url=URL)


def payloads() -> list[dict[str, Any]]:
    """All payloads so far, oldest first."""
    query = OutboxEntry.select().where(OutboxEntry.kind == "webhook").order_by(OutboxEntry.id)
    return [json.loads(entry.payload or "") for entry in query]


def events() -> list[tuple[str, str, str]]:
    """Event, user and the status afterwards."""
    return [(event["event"], event["username"], event["status"]) for event in payloads()]


def test_an_event_says_what_when_and_why_and_no_more(services: ServiceHarness, clock: ManualClock) -> None:
    """R23: no password, no address, no e-mail."""
    services.approved("Alice")
    end = clock() + timedelta(days=1)
    services.decide("ban", "Alice", reason="griefing", expires_at=end)
    event = payloads()[-1]
    delivery = event.pop("delivery")
    assert event == {
        "event": "banned",
        "username": "Alice",
        "status": "banned",
        "reason": "griefing",
        "at": round(clock().timestamp() * 1000),
        "expiresAt": round(end.timestamp() * 1000),
    }
    assert len({event["delivery"] for event in payloads()} | {delivery}) == 3
    written = json.dumps(payloads())
    assert "@" not in written
    assert "198.51.100" not in written
    assert PASSWORD not in written
    assert URL not in repr(list(OutboxEntry.select().dicts()))


def test_what_was_refused_is_not_told(services: ServiceHarness) -> None:
    services.approved("Alice")
    before = events()
    with pytest.raises(WrongStatus):
        services.decide("approve", "Alice")
    with pytest.raises(UsernameTaken):
        services.register("Alice", email="other@example.org")
    assert events() == before


# R42
@pytest.mark.every_database
def test_an_event_goes_with_its_cause(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    services.register("Alice")
    before = events()
    with monkeypatch.context() as broken:
        broken.setattr(MailQueue, "send", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            services.decide("approve", "Alice")
    assert (services.user("Alice").status, events()) == ("pending", before)


def test_without_a_review_both_steps_are_told(services: ServiceHarness) -> None:
    services.restart(registration__approval=False)
    services.register("Alice")
    assert events() == [("registered", "Alice", "pending"), ("approved", "Alice", "approved")]


def test_what_was_typed_as_sql_is_told(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.approved("Bob")
    before = len(events())
    services.ours.execute("UPDATE regsvc_user SET status = 'banned', reason = 'griefing' WHERE username_key = 'alice'")
    services.ours.execute("DELETE FROM regsvc_user WHERE username_key = 'bob'")
    services.sync()
    assert sorted(events()[before:]) == [("banned", "Alice", "banned"), ("deleted", "bob", "deleted")]


def test_the_clock_lifts_a_ban_and_it_is_told(services: ServiceHarness, clock: ManualClock) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice", expires_at=clock() + timedelta(hours=1))
    clock.advance(hours=2)
    services.sync()
    assert events()[-1] == ("unbanned", "Alice", "approved")


def test_players_who_were_there_before_us_are_no_news(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob"):
        services.authme.register(name, "a-password")
    services.sync()
    assert User.select().count() == 2
    assert events() == []


def test_without_an_address_nothing_is_written(services: ServiceHarness) -> None:
    services.restart(webhook__url="")
    services.approved("Alice")
    assert events() == []
    assert Review.select().count() == 1
