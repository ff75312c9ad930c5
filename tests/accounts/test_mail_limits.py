"""Mails to one address: a stranger who requests them leaves some to its owner."""

import asyncio
from collections.abc import Callable

import pytest

from regsvc.core.addresses import Caller
from regsvc.core.errors import RateLimited
from tests.support.services import CALLER, PASSWORD, ServiceHarness

MALLORY = Caller("203.0.113.9", "203.0.113.9", "en", "request-2")
PHONE = Caller("2001:db8:3:4::5", "2001:db8:3:4::/64", "en", "request-3")

SPELLINGS = (
    "alice@example.org",
    "alice+1@example.org",
    "ALICE+2@example.org",
    "a.lice@example.org",
    "al.ic.e+3@example.org",
)
"""Of one address, as far as many mail services are concerned."""

Ask = Callable[[Caller], bool]


@pytest.fixture(params=["code", "link"])
def ask(request: pytest.FixtureRequest, services: ServiceHarness) -> Ask:
    """Request a code or a link for Alice's address, a minute after the last; returns whether it is accepted."""
    app = services.app

    def ask(caller: Caller) -> bool:
        services.clock.advance(minutes=1)
        if request.param == "code":
            asked = app.verification.send_code("alice@example.org", "register", caller)
        else:
            asked = app.password_mails.forgot("alice@example.org", caller)  # type: ignore[assignment]
        try:
            asyncio.run(asked)
        except RateLimited:
            return False
        return True

    return ask


# R60
def test_a_stranger_leaves_mails_to_the_owner_of_an_address(services: ServiceHarness, ask: Ask) -> None:
    services.approved("Alice")
    assert [ask(MALLORY) for _try in range(20)].count(True) == 7
    assert [ask(PHONE) for _try in range(3)] == [True, False, False]
    services.login("Alice", PASSWORD)
    assert [ask(CALLER) for _try in range(3)] == [True, True, False], "all that is left, since she logged in there"


# R60
def test_a_mailbox_has_one_limit_however_its_address_is_written(services: ServiceHarness) -> None:
    def ask(email: str) -> bool:
        try:
            asyncio.run(services.app.verification.send_code(email, "register", MALLORY))
        except RateLimited:
            return False
        return True

    assert [ask(email) for email in SPELLINGS] == [True] + [False] * 4
    services.clock.advance(minutes=1)
    assert [ask(email) for email in reversed(SPELLINGS)] == [True] + [False] * 4
    assert ask("bob@example.org")
