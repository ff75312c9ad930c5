"""Body of a webhook call: a message that Discord and similar services display, and the event for programs."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from regsvc.core.i18n.translations import Translations
from regsvc.core.text import shorten, strip_invisible
from regsvc.notifications.outbox import OutboxMessage

# Discord takes 2000 characters of content and 4096 of an embed's description; escaping may double a text.
_MAX_NAME: Final = 100
_MAX_REASON: Final = 1000
_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")  # ASCII punctuation, all of which a backslash escapes


@dataclass(frozen=True)
class RenderedWebhook:
    """A webhook call ready to be sent. `delivery` is the same at every attempt, so receivers can detect duplicates."""

    delivery: str
    event: str
    body: bytes


class WebhookRenderer:
    """Renderer of webhook calls from outbox messages, in the host's language."""

    def __init__(self, translations: Translations, server_name: str) -> None:
        self._translations = translations
        self._server_name = server_name

    def render(self, message: OutboxMessage) -> RenderedWebhook:
        """Return the whole call. No name in it can mention a user, apply formatting or become a link."""
        payload = json.loads(message.payload or "{}")
        name = escape_markdown(shorten(payload["username"], _MAX_NAME))
        payload |= self._words(payload.get("reason"), message.language)
        body: dict[str, Any] = {
            "content": self._translations.text(f"webhook.{payload['event']}", message.language, username=name),
            "embeds": _embeds(payload.get("reason")),
            "allowed_mentions": {"parse": []},
            "companion": {"server": self._server_name, **payload},
        }
        encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        return RenderedWebhook(payload["delivery"], payload["event"], encoded)

    def _words(self, stored: str | None, language: str) -> dict[str, str]:
        """Return the fields for a reason that is a code; none for an operator's own words, which stay as they are."""
        words = self._translations.reason(stored, language)
        return {} if words is None or stored is None or words == stored else {"reason": words, "reasonCode": stored}


def escape_markdown(text: str) -> str:
    """Return the text on one line, escaped so that it is displayed as typed."""
    return _MARKDOWN.sub(r"\\\1", " ".join(strip_invisible(text).split()))


def _embeds(reason: str | None) -> list[dict[str, str]]:
    return [{"description": escape_markdown(shorten(reason, _MAX_REASON))}] if reason else []
