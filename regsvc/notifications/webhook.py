"""Webhook events about users: enqueued in the transaction of their cause, posted after it.

The URL is a secret: no log line and no error contains it.
"""

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Literal, NoReturn
from urllib.parse import quote

from regsvc.config.host_sections import WebhookEvent, WebhookSection
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.http_response import NoResponse, PrivateAddress, Response
from regsvc.core.i18n import Translations
from regsvc.core.text import name_key, shorten, strip_invisible
from regsvc.core.webhook_signature import signed_headers
from regsvc.database.models import ChatLink, OutboxEntry, User
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable
from regsvc.notifications.outbox import Outbox, Recipient, RetryPolicy

# Discord takes 2000 characters of content and 4096 of an embed's description; escaping may double a text.
_MAX_NAME: Final = 100
_MAX_REASON: Final = 1000
_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")  # ASCII punctuation, all of which a backslash escapes


class WebhookQueue:
    """Queue that puts events into the outbox, including silent decisions.

    Webhooks inform the host, not the user. Nothing is enqueued where none is configured.
    """

    def __init__(
        self,
        outbox: Outbox,
        language: str,
        now: Clock,
        *,
        hooks: Sequence[WebhookSection],
        also_tell: Callable[[WebhookEvent | Literal["stay_decided"], str], None] = lambda event, username: None,
    ) -> None:
        """`also_tell` is called for every event, also where no webhook is configured, with the user's name."""
        self._hooks = hooks
        self.is_on = any(hook.url for hook in hooks)
        self.also_tell = also_tell
        self.outbox = outbox
        self._language = language
        self._now = now

    def find_chat(self, username: str) -> dict[str, str] | None:
        """Return the user's chat account as events tell it; None: there is none, or no event is sent."""
        return _find_chat(username) if self.is_on else None

    def enqueue(
        self,
        event: WebhookEvent,
        username: str,
        status: str,
        reason: str | None = None,
        expires_at: datetime | None = None,
        chat: Mapping[str, str] | None = None,
    ) -> None:
        """Enqueue an event in the transaction of its cause. It contains no IP address, no password and no e-mail.

        `chat`: the account that `find_chat` returned, where it is not to be looked up as the event is sent.
        """
        self.also_tell(event, username)
        if not self.is_on:
            return
        payload: dict[str, Any] = {
            "event": event,
            "delivery": str(uuid.uuid4()),
            "username": username,
            "status": status,
            "at": epoch_ms(self._now()),
        }
        if reason is not None:
            payload["reason"] = reason
        if expires_at is not None:
            payload["expiresAt"] = epoch_ms(expires_at)
        if chat is not None:
            payload["chatAccount"] = chat
        written = json.dumps(payload, ensure_ascii=False)
        for number, hook in enumerate(self._hooks, 1):
            if hook.wants(event):
                self.outbox.put(event, _receiver(number), self._language, payload=written)


def _receiver(number: int) -> Recipient:
    """Return the recipient that stands for a webhook, since its URL is a secret: anyone who knows it can post there."""
    name = "webhook" if number == 1 else f"webhook {number}"
    return Recipient(name, name)


def describe_chat(platform: str, account_id: str, username: str) -> dict[str, str]:
    """Return a chat account as events tell it."""
    return {"platform": platform, "id": account_id, "username": username}


def _find_chat(username: str) -> dict[str, str] | None:
    link = ChatLink.select().join(User).where(User.username_key == name_key(username)).first()
    return None if link is None else describe_chat(link.platform, link.account_id, link.username)


def render_webhook(
    message: OutboxEntry,
    translations: Translations,
    server_name: str,
    base_url: str,
    chat: Mapping[str, str] | None = None,
) -> tuple[str, bytes]:
    """Return the id and the body of the call, in the host's language.

    `base_url`: where players reach us; empty: not known. `chat`: the user's chat account.

    The id is the same at every attempt, so receivers can detect duplicates. No name in the body can mention a user,
    apply formatting or become a link.
    """
    payload = json.loads(message.payload or "{}")
    reason = payload.get("reason")
    if chat is not None:
        payload.setdefault("chatAccount", chat)
    if base_url and payload["event"] != "deleted":
        payload["adminUrl"] = f"{base_url}/admin#user?name={quote(payload['username'], safe='')}"
    name = escape_markdown(shorten(payload["username"], _MAX_NAME))
    words = translations.reason(reason, message.language)
    if words != reason:  # it is a code; an operator's own words stay as they are
        payload |= {"reason": words, "reasonCode": reason}
    body: dict[str, Any] = {
        "content": translations.text(f"webhook.{payload['event']}", message.language, username=name),
        "embeds": [{"description": escape_markdown(shorten(words, _MAX_REASON))}] if words else [],
        "allowed_mentions": {"parse": []},
        "companion": {"server": server_name, **payload},
    }
    return payload["delivery"], json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def escape_markdown(text: str) -> str:
    """Return the text on one line, escaped so that it is displayed as typed."""
    return _MARKDOWN.sub(r"\\\1", " ".join(strip_invisible(text).split()))


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

    def __init__(
        self,
        hooks: Sequence[WebhookSection],
        translations: Translations,
        server_name: str,
        base_url: str,
        now: Clock,
    ) -> None:
        """`hooks` in the order of the config, by which messages find theirs; those without a URL are not configured."""
        self._base_url = base_url
        self._hooks = {_receiver(number).key: hook for number, hook in enumerate(hooks, 1) if hook.url}
        self._translations = translations
        self._server_name = server_name
        self._now = now

    def prepare(self, message: OutboxEntry) -> Any:
        """Return the chat account of the user whom the event is about, or None. Blocking: for a worker thread."""
        return _find_chat(json.loads(message.payload or "{}")["username"])

    async def send(self, message: OutboxEntry, prepared: Any) -> None:
        from regsvc.core.http_client import HttpClient

        hook = self._hooks.get(str(message.recipient_key))
        if hook is None or not hook.wants(message.template):
            raise Drop("no webhook is configured for it any more")
        delivery, body = render_webhook(message, self._translations, self._server_name, self._base_url, prepared)
        signature = signed_headers(delivery, body, hook.secret, self._now())
        headers = {"Content-Type": "application/json", **signature}
        with HttpClient(_TIMEOUT, public_only=not hook.allow_private) as client:
            try:
                response = await client.post_for_head(hook.url, headers, body)
            except PrivateAddress as error:
                self._fail(message, f"{error}; see webhook.allow_private")
            except NoResponse as error:
                if len(self._hooks) > 1:  # an outage of one receiver holds up no other
                    raise TemporaryFailure(str(error)) from None
                raise TransportUnavailable(str(error)) from None
        self._check(message, response)

    def _check(self, message: OutboxEntry, response: Response) -> None:
        if response.is_success:
            return
        if response.is_temporary:
            raise TemporaryFailure(response.describe(), response.retry_after(self._now()))
        self._fail(message, response.describe())

    def _fail(self, message: OutboxEntry, reason: str) -> NoReturn:
        if message.attempts >= _MAX_REJECTIONS:
            raise PermanentFailure(reason)
        raise TemporaryFailure(reason)
