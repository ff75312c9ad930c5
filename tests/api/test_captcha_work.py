"""GET /api/captcha/work: captchas without a picture, which a program of the client solves."""

import time

import pytest

from tests.support.daemon import Reply
from tests.support.puzzles import solve
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

PATH = "/api/captcha/work"
STRICT = {"registration": {"methods": ["email", "captcha"]}, "captcha": {"also_for": ["verify_send"]}}


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    """Asks for a captcha before it mails a code."""
    return make_stack(config=STRICT)


def send(stack: Stack, name: str, captcha: dict[str, str]) -> Reply:
    return stack.post("/api/verify/send", {"email": f"{name}@example.org", **captcha})


def test_a_puzzle_a_token_and_an_end(stack: Stack) -> None:
    """Also where nothing asks for captchas."""
    reply = stack.get(PATH)
    assert reply.status == 200
    assert reply.json.keys() == {
        *("success", "token", "salt", "hash", "maxNumber", "expiresAt", "expiresInSeconds"),
    }
    assert len(reply.json["salt"]) == 32
    assert len(reply.json["hash"]) == 64
    assert abs(reply.json["expiresAt"] / 1000 - time.time() - 300) < 10
    assert reply.headers["Cache-Control"] == "no-store"


def test_the_right_number_serves_one_request(strict: Stack) -> None:
    captcha = solve(strict.get(PATH).json)
    assert send(strict, "alice", captcha).status == 200
    assert_refused(send(strict, "bob", captcha), 422, "invalid_captcha", field="captchaAnswer")


def test_another_number_ends_the_challenge(strict: Stack) -> None:
    captcha = solve(strict.get(PATH).json)
    wrong = captcha | {"captchaAnswer": str(int(captcha["captchaAnswer"]) ^ 1)}
    assert_refused(send(strict, "carol", wrong), 422, "invalid_captcha", field="captchaAnswer")
    assert_refused(send(strict, "carol", captcha), 422, "invalid_captcha", field="captchaAnswer")


def test_a_number_answers_its_own_challenge_only(strict: Stack) -> None:
    one, other = (solve(strict.get(PATH).json) for _challenge in range(2))
    mixed = one | {"captchaAnswer": other["captchaAnswer"]}
    assert_refused(send(strict, "dave", mixed), 422, "invalid_captcha", field="captchaAnswer")


def test_each_client_gets_so_many_and_is_left_the_pictures(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"work_per_client": ["2 per minute"]}})

    def ask(client: str, path: str = PATH) -> Reply:
        return stack.get(path, headers={"X-Forwarded-For": client})

    assert [ask("192.0.2.1").status for _challenge in range(2)] == [200, 200]
    assert_refused(ask("192.0.2.1"), 429, "rate_limited")
    assert ask("192.0.2.1", "/api/captcha/generate").status == 200
    assert ask("192.0.2.2").status == 200


def test_a_host_can_leave_it_out(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"without_picture": False}})
    assert_refused(stack.get(PATH), 409, "not_enabled")
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
