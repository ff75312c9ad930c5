"""Right answers to captchas, over HTTP and beside each kind of database.

The process is this one, because only here the answer can be looked up; everything in it is real.
"""

from collections.abc import Iterator

import pytest

from regsvc.core.email_address import parse_email
from tests.support.captchas import answer_to
from tests.support.live_api import LiveApi, Reply
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness

PLENTY = ["100000 per minute"]


class Booth:
    """Services and API of a host that requires captchas everywhere."""

    def __init__(self, services: ServiceHarness, api: LiveApi) -> None:
        self.services = services
        self._api = api

    def post(self, path: str, **body: object) -> Reply:
        return self._api.request("POST", path, body)

    def captcha(self) -> dict[str, str]:
        """The fields that answer a new challenge rightly."""
        token = self._api.request("GET", "/api/captcha/generate").json["token"]
        return {"captchaToken": token, "captchaAnswer": answer_to(self.services.app, token)}

    def code(self, name: str) -> str:
        """The verification code on its way to this person."""
        codes = self.services.app.codes
        issued = codes.find_sendable(codes.issue(parse_email(f"{name}@example.org").key, "register", CALLER))
        assert issued is not None
        return codes.code_of(issued)

    def register(self, name: str, code: str, captcha: dict[str, str]) -> Reply:
        email = f"{name}@example.org"
        return self.post("/api/register", username=name, email=email, code=code, password=PASSWORD, **captcha)

    def log_in(self, name: str, captcha: dict[str, str], password: str = PASSWORD) -> Reply:
        return self.post("/api/login", username=name, password=password, **captcha)

    def send(self, name: str, captcha: dict[str, str]) -> Reply:
        return self.post("/api/verify/send", email=f"{name}@example.org", **captcha)

    def forget(self, name: str, captcha: dict[str, str]) -> Reply:
        return self.post("/api/password/forgot", email=f"{name}@example.org", **captcha)


@pytest.fixture
def booth(make_services: MakeServices) -> Iterator[Booth]:
    services = make_services(
        registration__methods=["email", "captcha"],
        captcha__also_for=["verify_send", "login", "forgot"],
        captcha__answers_per_client=PLENTY,
        verification__limits_per_client=PLENTY,
        database__busy_timeout="20 seconds",
    )
    with LiveApi(services.app.features) as api:
        yield Booth(services, api)


def outcome(reply: Reply) -> tuple[int, object]:
    return reply.status, reply.json.get("code")


def test_the_fifth_refusal_does(booth: Booth) -> None:
    booth.services.authme.register("bob", "bobs-secret")
    captcha, code = booth.captcha(), booth.code("alice")
    for _refusal in range(4):
        assert outcome(booth.register("bob", booth.code("bob"), captcha)) == (409, "username_taken")
    assert outcome(booth.register("alice", "0", captcha)) == (422, "invalid_code"), "four burned nothing"
    assert outcome(booth.register("alice", code, captcha)) == (422, "invalid_captcha")
    assert booth.register("alice", code, booth.captcha()).status == 201, "the code was not burned with it"


def test_what_is_wrong_at_a_glance_does_not_use_it(booth: Booth) -> None:
    """A name, address or password that breaks a rule is refused before the captcha is checked."""
    captcha, code = booth.captcha(), booth.code("alice")
    for _mistake in range(10):
        assert outcome(booth.register("a", code, captcha)) == (422, "invalid_username")
    assert booth.register("alice", code, captcha).status == 201


def test_a_wrong_answer_counts_no_try_of_the_code(booth: Booth) -> None:
    code = booth.code("alice")
    for _wrong in range(10):
        assert outcome(booth.register("alice", "0", booth.captcha() | {"captchaAnswer": "wrong"}))[1] == (
            "invalid_captcha"
        )
    assert booth.register("alice", code, booth.captcha()).status == 201


def test_a_login_spends_it_whatever_comes_of_it(booth: Booth) -> None:
    booth.register("alice", booth.code("alice"), booth.captcha())
    for password, expected in ((PASSWORD, (200, None)), ("a wrong one", (401, "bad_credentials"))):
        captcha = booth.captcha()
        assert outcome(booth.log_in("alice", captcha, password)) == expected
        assert outcome(booth.log_in("alice", captcha)) == (422, "invalid_captcha")


# R60
def test_a_forgotten_password_needs_one_where_the_host_wants_it(booth: Booth) -> None:
    booth.register("alice", booth.code("alice"), booth.captcha())
    for name in ("alice", "nobody"):
        assert outcome(booth.forget(name, {})) == (422, "captcha_required")
        assert outcome(booth.forget(name, booth.captcha() | {"captchaAnswer": "wrong"})) == (422, "invalid_captcha")
        captcha = booth.captcha()
        assert outcome(booth.forget(name, captcha)) == (200, None)
        assert outcome(booth.forget(name, captcha)) == (422, "invalid_captcha")
    assert booth.services.mails("alice") == ["reset_password"]


def test_a_login_without_captcha_is_no_failed_login(booth: Booth) -> None:
    booth.register("alice", booth.code("alice"), booth.captcha())
    for _login in range(10):
        assert outcome(booth.log_in("alice", {}, "a wrong one")) == (422, "captcha_required")
    assert not booth.services.audits("user.login_failed")
    assert booth.log_in("alice", booth.captcha()).status == 200, "nothing delays her"


def test_a_mailed_code_spends_it_whatever_comes_of_it(booth: Booth) -> None:
    for expected in ((200, None), (429, "rate_limited")):
        captcha = booth.captcha()
        assert outcome(booth.send("alice", captcha)) == expected
        assert outcome(booth.send("bob", captcha)) == (422, "invalid_captcha")


def test_a_captcha_may_be_answered_at_any_door_but_once(booth: Booth) -> None:
    captcha = booth.captcha()
    assert booth.send("alice", captcha).status == 200
    assert outcome(booth.register("alice", booth.code("alice"), captcha)) == (422, "invalid_captcha")
