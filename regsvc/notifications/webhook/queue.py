"""Tells another service what becomes of users: promised in the transaction of the cause, posted after it."""

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
    """There is one. It has a name, because its address is a secret: whoever knows it may write there."""

    display: str = "webhook"
    key: str = "webhook"


_TARGET: Final = _Target()


class WebhookQueue:
    """Puts events into the outbox. It is told of silent decisions as well: it tells the host, not the user."""

    def __init__(self, outbox: Outbox, language: str, now: Clock) -> None:
        self._outbox = outbox
        self._language = language
        self._now = now

    def batched(self) -> AbstractContextManager[None]:
        """What is told of many users is promised together, when this ends."""
        return self._outbox.batched()

    def enqueue(
        self, event: Event, username: str, status: str, reason: str | None = None, expires_at: datetime | None = None
    ) -> None:
        """Inside the transaction of what it tells. No address, no password, nobody's e-mail is in it."""
        told: dict[str, Any] = {
            "event": event,
            "delivery": str(uuid.uuid4()),
            "username": username,
            "status": status,
            "at": epoch_ms(self._now()),
        }
        if reason is not None:
            told["reason"] = reason
        if expires_at is not None:
            told["expiresAt"] = epoch_ms(expires_at)
        self._outbox.put(event, _TARGET, self._language, payload=json.dumps(told, ensure_ascii=False))


class NoWebhookQueue(WebhookQueue):
    """Where none is set up, nothing is written."""

    def __init__(self) -> None:
        """It needs nothing."""

    def batched(self) -> AbstractContextManager[None]:
        """Nothing is."""
        return nullcontext()

    def enqueue(
        self, event: Event, username: str, status: str, reason: str | None = None, expires_at: datetime | None = None
    ) -> None:
        """Nobody wants to know."""
