"""The end of a ban at its time: the player is told, in their language, what they can do now."""

from datetime import timedelta

import pytest

from regsvc.database.models import OutboxEntry, User
from tests.support.services import ServiceHarness


def ban_until_over(services: ServiceHarness, *, silently: bool = False) -> None:
    services.decide("ban", "Alice", expires_at=services.clock() + timedelta(hours=1), is_silent=silently)
    OutboxEntry.delete().execute()
    services.clock.advance(hours=1)
    services.sync()


def only_mail(services: ServiceHarness) -> str:
    [mail] = services.app.outbox.claim_due(100)
    message = services.app.mail_renderer.render(mail).message
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


@pytest.mark.parametrize("silently", [False, True])
def test_who_was_approved_can_join_again(services: ServiceHarness, silently: bool) -> None:
    services.approved("Alice")
    ban_until_over(services, silently=silently)
    assert services.mails("Alice") == ["ban_ended"]
    assert "You can join the game again." in only_mail(services)


def test_who_waited_waits_again(services: ServiceHarness) -> None:
    services.register("Alice")
    User.update(language="zh").execute()
    ban_until_over(services)
    assert services.user("Alice").status == "pending"
    assert services.mails("Alice") == ["ban_ended_unapproved"]
    assert "但你目前还不能进入游戏" in only_mail(services)


def test_a_ban_that_olivia_lifts_is_another_mail(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice", expires_at=services.clock() + timedelta(hours=1))
    services.decide("unban", "Alice")
    assert services.mails("Alice")[-1] == "unbanned"
