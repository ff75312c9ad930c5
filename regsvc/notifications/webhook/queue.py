"""Webhook events about users: enqueued in the transaction of their cause, posted after it."""

import json
import uuid
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from regsvc.core.clock import Clock, epoch_ms
from regsvc.notifications.outbox import Outbox

Event = Literal["registered", "approved", "rejected", "banned", "unbanned", "deleted"]


@dataclass(frozen=True)
class _Target:
    """The only recipient. It has a name because its URL is a secret: anyone who knows it can post there."""

    display: str = "webhook"
    key: str = "webhook"


_TARGET: Final = _Target()


class WebhookQueue:
    """Queue that puts events into the outbox, including silent decisions.

    The webhook informs the host, not the user.
    """

    def __init__(self, outbox: Outbox, language: str, now: Clock) -> None:
        self._outbox = outbox
        self._language = language
        self._now = now

    def batched(self) -> AbstractContextManager[None]:
        """Return a context manager that inserts all events enqueued within it at its end."""
        return self._outbox.batched()

    def enqueue(
        self, event: Event, username: str, status: str, reason: str | None = None, expires_at: datetime | None = None
    ) -> None:
        """Enqueue an event in the transaction of its cause. It contains no IP address, no password and no e-mail."""
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
        self._outbox.put(event, _TARGET, self._language, payload=json.dumps(payload, ensure_ascii=False))


class NoWebhookQueue(WebhookQueue):
    """Null object: no webhook is configured."""

    def __init__(self) -> None:
        """Needs no dependencies."""

    def batched(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def enqueue(
        self, event: Event, username: str, status: str, reason: str | None = None, expires_at: datetime | None = None
    ) -> None:
        """Do nothing."""
