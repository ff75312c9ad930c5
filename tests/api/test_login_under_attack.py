"""Logins under attack, and where limits are those a host starts with, refusals are 200, or hashing is slow."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from regsvc.auth.entitlement import Principal
from regsvc.core.rights import EVERYTHING
from regsvc.database.audit import Actor
from tests.support.authenticator import Authenticator
from tests.support.authme.authme_like import long_ago
from tests.support.authme.authme_tables import TableShape
from tests.support.captchas import answer_to
from tests.support.daemon import Reply
from tests.support.live_api import LiveApi
from tests.support.live_api import Reply as LiveReply
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.services import PASSWORD, MakeServices, ServiceHarness
from tests.support.stack import OPERATOR, MakeStack, Stack
from tests.support.together import at_once

# Mallory guesses Olivia's password without pause, from ever new addresses; Olivia is on a journey and wants in.


HOTEL = "203.0.113.80"
NEW = "a-new-secret-1"


class Siege:
    """An API, Mallory's guesses and Olivia's logins. Nothing but the login delays limits them."""

    def __init__(self, services: ServiceHarness, api: LiveApi) -> None:
        self.services = services
        self._api = api
        self._guesses = 0

    def post(self, path: str, client: str, **body: object) -> LiveReply:
        return self._api.request("POST", path, body, headers={"X-Forwarded-For": client})

    def log_in(self, client: str, password: str = PASSWORD, **fields: str) -> LiveReply:
        """Log in with these fields of a captcha or of a second factor."""
        return self.post("/api/admin/login", client, username=OPERATOR, password=password, **fields)

    def guess(self, times: int, *, with_captcha: bool = False) -> list[int]:
        """Guess this often, as soon as a delay allows; return the statuses."""
        statuses = []
        for _guess in range(times):
            self._guesses += 1
            client = f"198.51.{self._guesses // 250}.{self._guesses % 250}"
            statuses.append(self.log_in(client, "a wrong one", **(self.captcha() if with_captcha else {})).status)
            self.services.clock.advance(seconds=1)
        return statuses

    def guess_codes(self, hours: int, app: Authenticator) -> int:
        """Guess codes with the right password every five minutes; return how many were compared."""
        statuses = []
        for _guess in range(12 * hours):
            self._guesses += 1
            statuses.append(self.log_in(f"198.51.100.{self._guesses % 250}", totp=app.wrong_code()).status)
            self.services.clock.advance(minutes=5)
        assert set(statuses) <= {401, 429}
        return statuses.count(401)

    def recovery_code(self) -> str:
        """Return one of new recovery codes."""
        second_factors = self.services.app.second_factor.second_factors
        user_id = self.services.user(OPERATOR).id
        return self.services.app.worker.run_here(second_factors.replace_recovery_codes, user_id)[0]

    def captcha(self) -> dict[str, str]:
        token = self._api.request("GET", "/api/captcha/generate").json["token"]
        return {"captchaToken": token, "captchaAnswer": answer_to(self.services.app, token)}

    def link(self) -> str:
        """Return the token of a link that the host hands over."""
        handover, worker = self.services.app.password_mails, self.services.app.worker
        link, _is_for_team = worker.run_here(handover.create_link, OPERATOR, Principal(Actor("cli"), EVERYTHING))
        return link.link.partition("#token=")[2]


@pytest.fixture
def siege(make_services: MakeServices) -> Iterator[Siege]:
    services = make_services(
        auth__login_limits=["100000 per minute"],
        captcha__answers_per_client=["100000 per minute"],
    )
    long_ago(services.table).register(OPERATOR, PASSWORD)
    with LiveApi(services.app.features) as api:
        yield Siege(services, api)


def outcome(reply: LiveReply) -> tuple[int, object]:
    return reply.status, reply.json.get("code")


# R63
def test_a_solved_captcha_gets_her_in(siege: Siege) -> None:
    siege.guess(60)
    refused = siege.log_in(HOTEL)
    assert (outcome(refused), refused.json["captchaHelps"]) == ((429, "rate_limited"), True)
    assert outcome(siege.log_in(HOTEL, **siege.captcha() | {"captchaAnswer": "wrong"})) == (422, "invalid_captcha")
    assert siege.log_in(HOTEL, **siege.captcha()).status == 200


def test_captchas_give_no_room_to_guess(siege: Siege) -> None:
    """Who solves them has one more counter per account, which delays as the other does."""
    assert siege.guess(5) + siege.guess(5, with_captcha=True) == [401] * 10
    assert siege.guess(60, with_captcha=True).count(401) <= 7
    refused = siege.log_in(HOTEL, **siege.captcha())
    assert outcome(refused) == (429, "rate_limited")
    assert "captchaHelps" not in refused.json


# R63
def test_a_link_gets_her_in_for_good(siege: Siege) -> None:
    siege.guess(60)
    reset = {"token": siege.link(), "newPassword": NEW}
    assert siege.log_in(HOTEL).status == 429
    assert siege.post("/api/password/reset", HOTEL, **reset).status == 200
    siege.guess(60, with_captcha=True)
    siege.guess(60)
    assert siege.log_in("203.0.113.81", NEW).status == 429
    assert siege.log_in(HOTEL, NEW).status == 200


def test_a_link_ends_the_delay_of_her_own_mistakes(siege: Siege) -> None:
    assert siege.log_in(HOTEL).status == 200
    assert [siege.log_in(HOTEL, "forgotten").status for _try in range(7)] == [401] * 6 + [429]
    assert siege.post("/api/password/reset", HOTEL, token=siege.link(), newPassword=NEW).status == 200
    assert siege.log_in(HOTEL, NEW).status == 200


@pytest.mark.parametrize("name", [OPERATOR, "nobody"])
def test_the_reply_is_the_same_for_a_name_that_nobody_has(siege: Siege, name: str) -> None:
    replies = [siege.post("/api/login", HOTEL, username=name, password="a wrong one") for _try in range(7)]
    assert [reply.status for reply in replies] == [401] * 6 + [429]
    assert replies[-1].json["captchaHelps"] is True
    assert siege.post("/api/login", HOTEL, username=name, password="no", **siege.captcha()).status == 401


# --- Mallory knows the password, and guesses codes ---


@pytest.fixture
def app(siege: Siege) -> Authenticator:
    """Olivia's second factor; she has logged in with it."""
    app = Authenticator(now=siege.services.clock)
    assert siege.services.authme.set_totp(OPERATOR, app.secret)
    assert siege.log_in(HOTEL, totp=app.code()).status == 200
    return app


def test_few_codes_are_compared_whatever_the_delays_allow(siege: Siege, app: Authenticator) -> None:
    assert siege.guess_codes(1, app) == 10
    assert siege.guess_codes(23, app) == 10
    assert siege.guess_codes(1, app) == 10, "another day"


def test_a_recovery_code_gets_her_in_meanwhile(siege: Siege, app: Authenticator) -> None:
    siege.guess_codes(4, app)
    refused = siege.log_in(HOTEL, totp=app.code())
    assert (outcome(refused), refused.json["fault"]) == ((429, "rate_limited"), "app_codes")
    assert "recovery code" in refused.json["message"]
    assert siege.log_in(HOTEL, totp=siege.recovery_code()).status == 200
    assert siege.log_in(HOTEL, totp=app.code()).status == 200


def test_so_does_another_password(siege: Siege, app: Authenticator) -> None:
    siege.guess_codes(4, app)
    assert siege.post("/api/password/reset", HOTEL, token=siege.link(), newPassword=NEW).status == 200
    assert siege.log_in(HOTEL, NEW, totp=app.code()).status == 200
    assert outcome(siege.log_in("203.0.113.81", totp=app.wrong_code())) == (401, "bad_credentials")


# POST /api/login where limits are those a host starts with, refusals are 200, or hashing is slow.


LIMIT = 5


def log_in(stack: Stack, username: str, password: str, client: str, **fields: object) -> Reply:
    body = {"username": username, "password": password, **fields}
    return stack.post("/api/login", body, headers={"X-Forwarded-For": client})


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    return make_stack(config={"auth": {"login_limits": ["5 per minute"]}})


def test_a_client_may_try_five_names_a_minute(strict: Stack) -> None:
    alice = strict.pending("alice")
    for number in range(LIMIT):
        assert_refused(log_in(strict, f"nobody{number}", "x", "192.0.2.1"), 401, "bad_credentials")
    reply = log_in(strict, alice.name, alice.password, "192.0.2.1", language="zh")
    payload = assert_refused(reply, 429, "rate_limited", language="zh")
    assert 50 <= payload["remainingSeconds"] <= 60
    assert log_in(strict, alice.name, alice.password, "192.0.2.2").status == 200


def test_an_ipv6_subscriber_with_many_networks_has_four_times_as_many(strict: Stack) -> None:
    alice = strict.pending("alice")
    assert log_in(strict, alice.name, alice.password, "2001:db8:1::1").status == 200  # is not counted
    for number in range(4 * LIMIT):
        reply = log_in(strict, f"nobody{number}", "x", f"2001:db8:1:{number:x}::1")
        assert_refused(reply, 401, "bad_credentials")
    assert_refused(log_in(strict, "nobody", "x", "2001:db8:1:ffff::1"), 429, "rate_limited")
    assert log_in(strict, alice.name, alice.password, "2001:db8:2::1").status == 200


def test_lies_about_the_client_fill_one_bucket(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"login_limits": ["20 per minute"]}, "http": {"trusted_proxies": []}})
    for number in range(20):
        assert log_in(stack, f"nobody{number}", "x", f"198.51.100.{number}").status == 401
    assert_refused(log_in(stack, "nobody", "x", "198.51.100.99"), 429, "rate_limited")


@pytest.fixture(scope="module")
def softened(make_stack: MakeStack) -> Stack:
    """For a front end that wants 200 for a refusal; its AuthMe table is an old one in latin1."""
    return make_stack("mariadb", config={"http": {"legacy_status": True}}, shape=TableShape.OLD)


@pytest.mark.parametrize("name", ["😀", "İ" * 255, "ŝ", "日本語", "a\u0301"])
def test_a_name_the_table_cannot_hold_is_just_unknown(softened: Stack, name: str) -> None:
    assert_refused_as_200(log_in(softened, name, "password-1", "192.0.2.1"), "bad_credentials")


@pytest.fixture(scope="module")
def slow(make_stack: MakeStack) -> Stack:
    """A stack where a hash takes a quarter of a second, and one request may wait."""
    return make_stack(
        config={"auth": {"max_concurrent_hashes": 1, "max_waiting_hashes": 1}},
        authme={"settings.security.passwordHash": "BCRYPT", "ExternalBoardOptions.bCryptLog2Round": 12},
    )


def test_more_logins_than_can_wait_are_told_to_come_back_at_once(slow: Stack) -> None:
    alice = slow.newcomer("alice")
    logins = [partial(log_in, slow, f"nobody{number}", "x", "192.0.2.1") for number in range(8)]
    replies = at_once(logins)
    assert Counter(reply.status for reply in replies).keys() == {401, 503}
    for reply in replies:
        if reply.status == 503:
            assert_refused(reply, 503, "overloaded")
    assert slow.status(alice) is None
