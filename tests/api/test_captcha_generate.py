"""GET /api/captcha/generate, and the refusals of routes that require a captcha."""

import base64
import io
import time
from typing import Any

import pytest
from PIL import Image

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Stack

PATH = "/api/captcha/generate"
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
    reply = stack.get(PATH)
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
    reply = strict.get(PATH)
    with picture_in(reply) as picture:
        picture.load()
        assert not picture.info.keys() - {"transparency"}
    assert not [line for line in strict.daemon.log if reply.json["token"] in line]


def test_the_text_kind_is_as_long_as_the_host_says(make_stack: MakeStack) -> None:
    stack = make_stack(config={"captcha": {"type": "text", "length": 8}})
    with picture_in(stack.get(PATH)) as long:
        assert long.width > 300
    assert stack.get("/api/config").json["config"]["captcha"]["type"] == "text"


@pytest.mark.parametrize("path", BODIES)
def test_who_has_no_captcha_is_asked_for_one(strict: Stack, path: str) -> None:
    body = BODIES[path]
    assert_refused(strict.post(path, body), 422, "captcha_required", field="captchaToken")
    token = strict.get(PATH).json["token"]
    assert_refused(strict.post(path, body | {"captchaToken": token}), 422, "captcha_required", field="captchaAnswer")
    chinese = strict.post(path, body | {"captchaToken": None, "captchaAnswer": "29", "language": "zh"})
    assert_refused(chinese, 422, "captcha_required", field="captchaToken", language="zh")


def test_the_config_tells_where_it_is_asked_for(strict: Stack) -> None:
    payload = strict.get("/api/config").json["config"]
    assert payload["authMethods"] == ["email", "captcha"]
    assert payload["captcha"]["requiredFor"] == ["register", "verify_send", "login"]
