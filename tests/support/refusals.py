"""What a refusal has to look like, whichever route it comes from."""

from typing import Any

from regsvc.core.i18n import load_translations
from tests.support.daemon import Reply

TRANSLATIONS = load_translations()


def assert_refused(
    reply: Reply, status: int, code: str, *, field: str | None = None, language: str = "en"
) -> dict[str, Any]:
    """Checks status, code, field, the words in this language and the headers; comes back with the whole body."""
    told: dict[str, Any] = reply.json
    assert (reply.status, told["code"], told.get("field")) == (status, code, field), reply.text
    assert told["success"] is False
    assert told["message"] == refusal_words(told, language)
    if status in (429, 503):
        assert int(reply.headers["Retry-After"]) >= 1
    if status == 429:
        assert told["remainingSeconds"] == int(reply.headers["Retry-After"])
    if status == 401:
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    return told


def assert_refused_as_200(reply: Reply, code: str, language: str = "en") -> dict[str, Any]:
    """The same refusal under `http.legacy_status`."""
    told: dict[str, Any] = reply.json
    assert (reply.status, told["success"], told["code"]) == (200, False, code), reply.text
    assert told["msg"] == told["message"] == refusal_words(told, language)
    return told


def refusal_words(told: dict[str, Any], language: str) -> str:
    """What this refusal says in this language, in the words of its exact fault where it has one."""
    key = f"fault.{told['code']}.{told.get('fault')}"
    if key not in TRANSLATIONS.keys("en"):
        key = f"refusal.{told['code']}"
    if "status" in told:
        told = told | {"status": TRANSLATIONS.text(f"status.{told['status']}", language)}
    return TRANSLATIONS.text(key, language, **told)
