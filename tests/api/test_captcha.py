"""Captchas: pictures and work, their right answers, and the refusals of routes that require one."""

import base64
import io
import time
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from regsvc.core.email_address import parse_email
from tests.support.captchas import answer_to
from tests.support.daemon import Reply
from tests.support.live_api import LiveApi
from tests.support.live_api import Reply as LiveReply
from tests.support.puzzles import solve
from tests.support.refusals import assert_refused
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Stack

# GET /api/captcha/generate, and the refusals of routes that require a captcha.


GENERATE = "/api/captcha/generate"
STRICT = {
    "registration": {"methods": ["email", "captcha"]},
    "captcha": {"also_for": ["verify_send", "login"], "answers_per_client": ["100000 per minute"]},
}
BODIES: dict[str, dict[str, Any]] = {
    "/api/register": {"username": "Alice", "email": "alice@example.org", "code": "123456"},
    "/api/verify/send": {"email": "alice@example.org"},
    "/api/login": {"username": "Alice", "password": "alices-secret"},
    "/api/admin/login": {"username": OPERATOR, "password": OPERATORS_PASSWORD},
}


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    """Asks for a captcha wherever one can be asked for."""
    return make_stack(config=STRICT)


def picture_in(reply: Reply) -> Image.Image:
    head, _comma, body = reply.json["image"].partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body, validate=True)))


def test_a_picture_a_token_and_an_end(stack: Stack) -> None:
    """Also where nothing asks for captchas, and at the address that older front ends know."""
    reply = stack.get(GENERATE)
    assert reply.status == 200
    assert stack.get("/api/captcha").json.keys() == reply.json.keys()
    assert reply.json.keys() == {"success", "token", "image", "expiresAt", "expiresInSeconds"}
    assert abs(reply.json["expiresAt"] / 1000 - time.time() - 300) < 10
    assert reply.json["expiresInSeconds"] == 300
    assert reply.headers["Cache-Control"] == "no-store"
    with picture_in(reply) as picture:
        assert picture.format == "PNG"
        assert picture.width >= 150
        assert picture.height >= 50


def test_nothing_tells_the_answer(strict: Stack) -> None:
    """Neither the reply nor the log: not in a field, not in the picture's own words."""
    reply = strict.get(GENERATE)
    with picture_in(reply) as picture:
        picture.load()
        assert not picture.info.keys() - {"transparency"}
    assert not [line for line in strict.daemon.log if reply.json["token"] in line]


def test_the_text_kind_is_as_long_as_the_host_says(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"type": "text", "length": 8}})
    with picture_in(stack.get(GENERATE)) as long:
        assert long.width > 300
    assert stack.get("/api/config").json["config"]["captcha"]["type"] == "text"


@pytest.mark.parametrize("path", BODIES)
def test_who_has_no_captcha_is_asked_for_one(strict: Stack, path: str) -> None:
    body = BODIES[path]
    assert_refused(strict.post(path, body), 422, "captcha_required", field="captchaToken")
    token = strict.get(GENERATE).json["token"]
    assert_refused(strict.post(path, body | {"captchaToken": token}), 422, "captcha_required", field="captchaAnswer")
    chinese = strict.post(path, body | {"captchaToken": None, "captchaAnswer": "29", "language": "zh"})
    assert_refused(chinese, 422, "captcha_required", field="captchaToken", language="zh")


def test_the_config_tells_where_it_is_asked_for(strict: Stack) -> None:
    payload = strict.get("/api/config").json["config"]
    assert payload["authMethods"] == ["email", "captcha"]
    assert payload["captcha"]["requiredFor"] == ["register", "verify_send", "login"]


# GET /api/captcha/work: captchas without a picture, which a program of the client solves.


WORK = "/api/captcha/work"
STRICT_AT_CODES = {"registration": {"methods": ["email", "captcha"]}, "captcha": {"also_for": ["verify_send"]}}


@pytest.fixture(scope="module")
def strict_at_codes(make_stack: MakeStack) -> Stack:
    """Asks for a captcha before it mails a code."""
    return make_stack(config=STRICT_AT_CODES)


def send(stack: Stack, name: str, captcha: dict[str, str]) -> Reply:
    return stack.post("/api/verify/send", {"email": f"{name}@example.org", **captcha})


def test_a_puzzle_a_token_and_an_end(stack: Stack) -> None:
    """Also where nothing asks for captchas."""
    reply = stack.get(WORK)
    assert reply.status == 200
    assert reply.json.keys() == {
        *("success", "token", "salt", "hash", "maxNumber", "expiresAt", "expiresInSeconds"),
    }
    assert len(reply.json["salt"]) == 32
    assert len(reply.json["hash"]) == 64
    assert abs(reply.json["expiresAt"] / 1000 - time.time() - 300) < 10
    assert reply.headers["Cache-Control"] == "no-store"


def test_the_right_number_serves_one_request(strict_at_codes: Stack) -> None:
    captcha = solve(strict_at_codes.get(WORK).json)
    assert send(strict_at_codes, "alice", captcha).status == 200
    assert_refused(send(strict_at_codes, "bob", captcha), 422, "invalid_captcha", field="captchaAnswer")


def test_another_number_ends_the_challenge(strict_at_codes: Stack) -> None:
    captcha = solve(strict_at_codes.get(WORK).json)
    wrong = captcha | {"captchaAnswer": str(int(captcha["captchaAnswer"]) ^ 1)}
    assert_refused(send(strict_at_codes, "carol", wrong), 422, "invalid_captcha", field="captchaAnswer")
    assert_refused(send(strict_at_codes, "carol", captcha), 422, "invalid_captcha", field="captchaAnswer")


def test_a_number_answers_its_own_challenge_only(strict_at_codes: Stack) -> None:
    one, other = (solve(strict_at_codes.get(WORK).json) for _challenge in range(2))
    mixed = one | {"captchaAnswer": other["captchaAnswer"]}
    assert_refused(send(strict_at_codes, "dave", mixed), 422, "invalid_captcha", field="captchaAnswer")


def test_each_client_gets_so_many_and_is_left_the_pictures(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"work_per_client": ["2 per minute"]}})

    def ask(client: str, path: str = WORK) -> Reply:
        return stack.get(path, headers={"X-Forwarded-For": client})

    assert [ask("192.0.2.1").status for _challenge in range(2)] == [200, 200]
    assert_refused(ask("192.0.2.1"), 429, "rate_limited")
    assert ask("192.0.2.1", "/api/captcha/generate").status == 200
    assert ask("192.0.2.2").status == 200


def test_a_host_can_leave_it_out(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"without_picture": False}})
    assert_refused(stack.get(WORK), 409, "not_enabled")
    assert stack.get("/api/captcha/generate").status == 200
    assert stack.get("/api/config").json["config"]["captcha"]["withoutPicture"] is False
    for page in ("/register", "/account", "/admin"):
        reply = stack.get(page)
        assert "data-captcha-worker" not in reply.body.decode()
        assert "worker-src 'none'" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize(("legacy", "kind"), [(False, "work"), (True, "math")])
def test_front_ends_that_know_pictures_still_get_them(make_stack: MakeStack, legacy: bool, kind: str) -> None:
    stack = make_stack(config={"captcha": {"type": "work"}, "http": {"legacy_status": legacy}})
    assert stack.get("/api/config").json["config"]["captcha"]["type"] == kind
    for path in ("/api/captcha", "/api/captcha/generate"):
        assert stack.get(path).json["image"].startswith("data:image/png;base64,")


# Right answers to captchas, over HTTP and beside each kind of database.
# The process is this one, because only here the answer can be looked up; everything in it is real.


PLENTY = ["100000 per minute"]


class Booth:
    """Services and API of a host that requires captchas everywhere."""

    def __init__(self, services: ServiceHarness, api: LiveApi) -> None:
        self.services = services
        self._api = api

    def post(self, path: str, **body: object) -> LiveReply:
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

    def register(self, name: str, code: str, captcha: dict[str, str]) -> LiveReply:
        email = f"{name}@example.org"
        return self.post("/api/register", username=name, email=email, code=code, password=PASSWORD, **captcha)

    def log_in(self, name: str, captcha: dict[str, str], password: str = PASSWORD) -> LiveReply:
        return self.post("/api/login", username=name, password=password, **captcha)

    def send(self, name: str, captcha: dict[str, str]) -> LiveReply:
        return self.post("/api/verify/send", email=f"{name}@example.org", **captcha)

    def forget(self, name: str, captcha: dict[str, str]) -> LiveReply:
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


def outcome(reply: LiveReply) -> tuple[int, object]:
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
