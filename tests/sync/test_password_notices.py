"""Passwords that change in the game: which changes are told, and how many."""

import logging
from collections.abc import Callable

import pytest

from regsvc.database.models import Link, OutboxEntry, User
from tests.support.authme.game_server import GameServer
from tests.support.services import PASSWORD, MakeServices, ServiceHarness

Configure = Callable[..., None]
PLAYERS = 60


def told(services: ServiceHarness, name: str) -> int:
    return services.mails(name).count("password_changed")


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


def test_authmes_rehash_at_a_login_is_no_change(services: ServiceHarness, configure: Configure) -> None:
    """The row says as much as after a change that comes with the login; what comes later is told."""
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    services.authme.set_password("Alice", PASSWORD)  # what AuthMe writes at the login
    services.sync()
    assert told(services, "Alice") == 0
    services.authme.set_password("Alice", "a-newer-password")
    services.sync()
    assert told(services, "Alice") == 1


def test_a_change_to_a_legacy_form_or_within_the_new_one_is_one(services: ServiceHarness, configure: Configure) -> None:
    services.approved("Alice")
    configure("BCRYPT", "SHA256")
    services.authme.algorithm = "SHA256"
    services.authme.set_password("Alice", "another-password")
    services.sync()
    assert told(services, "Alice") == 1


def test_who_was_to_be_told_is_told_once_though_the_run_is_repeated(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.set_password("Alice", "another-password")
    for _run in range(3):
        services.sync()
    assert told(services, "Alice") == 1
    assert Link.select().where(Link.undoes).count() == 1


def test_a_login_on_the_web_that_sees_it_first_tells_it(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.set_password("Alice", "another-password")
    services.login("Alice", "another-password")
    assert told(services, "Alice") == 1


def test_a_host_who_writes_many_passwords_does_not_mail_everybody(
    make_services: MakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    services = make_services(sync__new_players="approved", verification__limits_total_forgot=["7 per hour"])
    names = [f"Player{number}" for number in range(PLAYERS)]
    for name in names:
        services.authme.register(name, PASSWORD, email=f"{name.lower()}@example.org")
    services.sync()
    User.update(is_email_verified=True).execute()
    for name in names:
        services.authme.set_password(name, "another-password")
    with caplog.at_level(logging.WARNING):
        services.sync()
    mails = OutboxEntry.select().where(OutboxEntry.template == "password_changed").count()
    assert (mails, Link.select().where(Link.undoes).count()) == (7, 7)
    assert f"{PLAYERS - 7} players are not told that their password was changed" in caplog.text
    assert len(services.audits("user.password_changed")) == PLAYERS
    services.clock.advance(hours=1, minutes=1)
    services.authme.set_password(names[-1], "one-more-password")
    services.sync()
    assert told(services, names[-1]) == 1


def test_the_address_of_the_client_is_forgotten_with_the_others(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.set_password("Alice", "another-password")
    services.find_mailed_link()
    [entry] = OutboxEntry.select().where(OutboxEntry.template == "password_changed")
    assert entry.payload is not None
    assert entry.outcome == "sent"
    services.restart(retention__addresses="1 hour", retention__outbox="1 day")
    services.clock.advance(hours=2)
    run = services.app.retention.start()
    list(run.batches())
    assert run.counts["addresses of clients: mails"] == 1
    entry = OutboxEntry.get_by_id(entry.id)
    assert entry.payload is None
    text = str(services.app.mail_renderer.render(entry).message.get_body(("plain",)))
    assert "Where:" not in text
    assert "The password of your account" in text
