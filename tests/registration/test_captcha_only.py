"""Registrations that require a captcha only: races, the limit per client, and links that an operator hands over."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from regsvc.accounts.password_changes import PasswordLinkReply
from regsvc.auth.entitlement import Principal
from regsvc.core import errors
from regsvc.core.rights import EVERYTHING
from regsvc.database.audit import Actor
from regsvc.database.models import OutboxEntry, User
from tests.support.captchas import answer_to
from tests.support.live_api import LiveApi, Reply
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness
from tests.support.together import at_once

MANY = 20
NEW = "a-new-secret-1"
PLENTY = ["100000 per minute"]

Register = Callable[..., Callable[[], Reply]]
HOST = Principal(Actor("cli:host"), EVERYTHING)


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(
        registration__methods=["captcha"],
        registration__limits_per_client=PLENTY,
        registration__limits_total=PLENTY,
        captcha__answers_per_client=PLENTY,
        database__busy_timeout="20 seconds",
    )


@pytest.fixture
def register(services: ServiceHarness) -> Iterator[Register]:
    """Return a function that answers a captcha and returns the request to send."""
    with LiveApi(services.app.features) as api:

        def make(name: str, **fields: object) -> Callable[[], Reply]:
            token = api.request("GET", "/api/captcha/generate").json["token"]
            proof = {"captchaToken": token, "captchaAnswer": answer_to(services.app, token)}
            body = {"username": name, "password": PASSWORD, **fields, **proof}
            return partial(api.request, "POST", "/api/register", body)

        yield make


def outcomes(replies: list[Reply]) -> Counter[tuple[int, object]]:
    return Counter((reply.status, reply.json.get("code")) for reply in replies)


def make_link(services: ServiceHarness, name: str) -> PasswordLinkReply:
    return services.app.worker.run_here(services.app.password_mails.create_link, name, HOST)[0]


def reset(services: ServiceHarness, link: PasswordLinkReply, password: str = NEW) -> None:
    token = link.link.partition("#token=")[2]
    asyncio.run(services.app.password_changes.reset(token, password, CALLER))


def test_one_name_goes_to_one_of_many(services: ServiceHarness, register: Register) -> None:
    names = ["ALICE" if number % 2 else "Alice" for number in range(MANY)]
    replies = at_once([register(name, password=f"secret-{number}") for number, name in enumerate(names)])
    assert outcomes(replies) == {(201, None): 1, (409, "username_taken"): MANY - 1}
    assert User.select().count() == 1


def test_one_address_may_be_given_by_many(services: ServiceHarness, register: Register) -> None:
    replies = at_once([register(f"Alice{number}", email="alice@example.org") for number in range(MANY)])
    assert outcomes(replies) == {(201, None): MANY}
    assert User.select().where(User.email_key.is_null(), ~User.is_email_verified).count() == MANY
    assert OutboxEntry.select().count() == 0


def test_the_limit_per_client_holds_for_many_at_once(services: ServiceHarness) -> None:
    services.restart(registration__limits_per_client=["3 per hour"])
    with LiveApi(services.app.features) as api:

        def captcha() -> dict[str, str]:
            token = api.request("GET", "/api/captcha/generate").json["token"]
            return {"captchaToken": token, "captchaAnswer": answer_to(services.app, token)}

        bodies = [{"username": f"Alice{number}", "password": PASSWORD, **captcha()} for number in range(MANY)]
        replies = at_once([partial(api.request, "POST", "/api/register", body) for body in bodies])
    assert outcomes(replies) == {(201, None): 3, (429, "rate_limited"): MANY - 3}
    assert User.select().count() == 3


def test_an_ipv6_subscriber_is_one_client(services: ServiceHarness) -> None:
    services.restart(registration__limits_per_client=["2 per hour"])
    with LiveApi(services.app.features) as api:

        def register(number: int) -> int:
            token = api.request("GET", "/api/captcha/generate").json["token"]
            proof = {"captchaToken": token, "captchaAnswer": answer_to(services.app, token)}
            body = {"username": f"Alice{number}", "password": PASSWORD, **proof}
            network = {"X-Forwarded-For": f"2001:db8:1:{number:x}::7"}
            return api.request("POST", "/api/register", body, network).status

        assert [register(number) for number in range(3)] == [201, 201, 429]


def test_all_networks_together_have_a_limit_and_one_has_half_of_it(services: ServiceHarness) -> None:
    services.restart(registration__limits_total=["12 per hour"])
    with LiveApi(services.app.features) as api:

        def register(number: int, client: str) -> int:
            token = api.request("GET", "/api/captcha/generate").json["token"]
            proof = {"captchaToken": token, "captchaAnswer": answer_to(services.app, token)}
            body = {"username": f"Alice{number}", "password": PASSWORD, **proof}
            return api.request("POST", "/api/register", body, {"X-Forwarded-For": client}).status

        assert [register(number, "203.0.113.50") for number in range(7)] == [201] * 6 + [429]
        one_each = [register(7 + number, f"198.51.100.{number}") for number in range(7)]
        assert one_each == [201] * 6 + [429]
        services.clock.advance(hours=1)
        assert register(14, "198.51.100.9") == 201
    assert User.select().count() == 13


def test_a_link_lasts_an_hour_and_proves_no_address(services: ServiceHarness) -> None:
    services.authme.register("Bob", PASSWORD, email="bob@example.org")
    services.sync()
    services.decide("approve", "Bob")
    late = make_link(services, "bob")
    assert (late.username, late.status) == ("Bob", "approved")
    services.clock.advance(hours=1)
    with pytest.raises(errors.ResetTokenInvalid):
        reset(services, late)
    services.app.links.purge_expired()
    reset(services, make_link(services, "Bob"))
    assert services.authme.login("Bob", NEW)
    assert (services.user("Bob").email, services.user("Bob").is_email_verified) == ("bob@example.org", False)


def test_another_password_ends_the_link(services: ServiceHarness) -> None:
    services.authme.register("Bob", PASSWORD)
    services.sync()
    link = make_link(services, "Bob")
    services.set_password("Bob", "chosen-by-olivia")
    with pytest.raises(errors.ResetTokenInvalid):
        reset(services, link)


def test_the_name_taken_in_the_game_meanwhile_goes_to_its_owner_and_keeps_nothing(
    services: ServiceHarness, register: Register
) -> None:
    """Mallory registers Alice's name in the game, with an address of his own, to which AuthMe would mail a password."""
    assert register("Alice")().status == 201
    services.authme.register("Alice", "mallorys-secret", email="mallory@example.org")
    services.sync()
    services.decide("approve", "Alice")
    reset(services, make_link(services, "Alice"))
    services.sync()
    assert services.authme.login("Alice", NEW)
    assert not services.authme.login("Alice", "mallorys-secret")
    assert services.row("alice")["email"] == "your@email.com"
    assert services.user("Alice").email is None


def test_the_operators_name_is_not_to_be_had(services: ServiceHarness, register: Register) -> None:
    assert outcomes([register("olivia")()]) == {(422, "reserved_username"): 1}
    assert services.find_user("Olivia") is None
