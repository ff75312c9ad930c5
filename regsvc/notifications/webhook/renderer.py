"""What is posted: a message that Discord and its like show as it is, and beside it the same for programs."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from regsvc.core.i18n import Translations
from regsvc.core.text import clean, shorten
from regsvc.notifications.outbox import OutboxMessage

# Discord takes 2000 characters of content and 4096 of an embed's description; escaping may double a text.
_MAX_NAME: Final = 100
_MAX_REASON: Final = 1000
_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")  # ASCII punctuation, each of which a backslash disarms


@dataclass(frozen=True)
class RenderedWebhook:
    """`delivery` is the same at every attempt: whoever gets it twice can tell."""

    delivery: str
    event: str
    body: bytes


class WebhookRenderer:
    """Makes messages of messages, in the host's language."""

    def __init__(self, translations: Translations, server_name: str) -> None:
        self._translations = translations
        self._server_name = server_name

    def render(self, message: OutboxMessage) -> RenderedWebhook:
        """The whole message. No name in it can ping anybody, format anything or become a link."""
        told = json.loads(message.payload or "{}")
        name = escape_markdown(shorten(told["username"], _MAX_NAME))
        body: dict[str, Any] = {
            "content": self._translations.text(f"webhook.{told['event']}", message.language, username=name),
            "embeds": _embeds(told.get("reason")),
            "allowed_mentions": {"parse": []},
            "companion": {"server": self._server_name, **told},
        }
        encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        return RenderedWebhook(told["delivery"], told["event"], encoded)


def escape_markdown(text: str) -> str:
    """On one line, and shown as it was typed."""
    return _MARKDOWN.sub(r"\\\1", " ".join(clean(text).split()))


def _embeds(reason: str | None) -> list[dict[str, str]]:
    return [{"description": escape_markdown(shorten(reason, _MAX_REASON))}] if reason else []
