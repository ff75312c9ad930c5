"""Assertions for refusals, which look the same on all routes."""

from typing import Any

from regsvc.core.i18n import load_translations
from tests.support.daemon import Reply

TRANSLATIONS = load_translations()


def assert_refused(
    reply: Reply, status: int, code: str, *, field: str | None = None, language: str = "en"
) -> dict[str, Any]:
    """Check status, code, field, the message in this language and the headers; return the body."""
    body: dict[str, Any] = reply.json
    assert (reply.status, body.get("code"), body.get("field")) == (status, code, field), reply.text
    assert body["success"] is False
    assert body["message"] == refusal_words(body, language)
    if status in (429, 503):
        assert int(reply.headers["Retry-After"]) >= 1
    if status == 429:
        assert body["remainingSeconds"] == int(reply.headers["Retry-After"])
    if status == 401:
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    return body


def assert_refused_as_200(reply: Reply, code: str, language: str = "en") -> dict[str, Any]:
    """Check a refusal of a business rule under `http.legacy_status`; return the body."""
    body: dict[str, Any] = reply.json
    assert (reply.status, body.get("success"), body.get("code")) == (200, False, code), reply.text
    assert body["msg"] == body["message"] == refusal_words(body, language)
    return body


def refusal_words(body: dict[str, Any], language: str) -> str:
    """Return the message that this refusal must have in this language: that of its exact fault if there is one."""
    key = f"fault.{body['code']}.{body.get('fault')}"
    if key not in TRANSLATIONS.keys("en"):
        key = f"refusal.{body['code']}"
    if "status" in body:
        body = body | {"status": TRANSLATIONS.text(f"status.{body['status']}", language)}
    return TRANSLATIONS.text(key, language, **body)
