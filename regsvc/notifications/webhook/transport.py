"""Rendering and delivery of webhook calls. The URL is a secret: no log line and no error contains it."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final, NoReturn

from regsvc.core.clock import Clock
from regsvc.core.http_client import HttpClient, NoResponse, PrivateAddress, Response
from regsvc.core.i18n.translations import Translations
from regsvc.core.text import shorten, strip_invisible
from regsvc.core.webhook_signature import signed_headers
from regsvc.notifications.outbox import OutboxMessage, RetryPolicy
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable

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


WEBHOOK_RETRY_POLICY: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),  # the wait chat services ask for when they rate-limit a burst
    longest_retry=timedelta(minutes=5),
    max_age=timedelta(days=1),
    claim=timedelta(seconds=30),
)
"""After a day of retries the event is no longer of interest."""

_TIMEOUT: Final = timedelta(seconds=10)  # of a whole call; half of it for connecting
_MAX_REJECTIONS: Final = 3  # a receiver that is being set up may reply 404 for a while


class WebhookTransport(Transport):
    """Transport that posts each event. Redirects are not followed, and only the head of the response is read.

    A receiver that accepts an event and then sends megabytes, or disconnects, has accepted it.
    """

    noun: ClassVar[str] = "webhook call"

    def __init__(self, url: str, secret: str, renderer: WebhookRenderer, now: Clock, *, allows_private: bool) -> None:
        """`allows_private`: the URL may point into a private network or to this machine."""
        self._url = url
        self._secret = secret
        self._renderer = renderer
        self._now = now
        self._allows_private = allows_private

    async def send(self, message: OutboxMessage) -> None:
        rendered = self._renderer.render(message)
        signature = signed_headers(rendered.delivery, rendered.body, self._secret, self._now())
        headers = {"Content-Type": "application/json", **signature}
        with HttpClient(_TIMEOUT, public_only=not self._allows_private) as client:
            try:
                response = await client.post_for_head(self._url, headers, rendered.body)
            except PrivateAddress as error:
                self._fail(message, f"{error}; see webhook.allow_private")
            except NoResponse as error:
                raise TransportUnavailable(str(error)) from None
        self._check(message, response)

    def _check(self, message: OutboxMessage, response: Response) -> None:
        if response.is_success:
            return
        if response.is_temporary:
            raise TemporaryFailure(response.describe(), response.retry_after(self._now()))
        self._fail(message, response.describe())

    def _fail(self, message: OutboxMessage, reason: str) -> NoReturn:
        if message.attempts >= _MAX_REJECTIONS:
            raise PermanentFailure(reason)
        raise TemporaryFailure(reason)


class NoWebhookTransport(Transport):
    """Transport that drops events enqueued before the webhook was removed from the config."""

    noun: ClassVar[str] = "webhook call"

    async def send(self, message: OutboxMessage) -> None:
        raise Drop("no webhook is configured any more")
