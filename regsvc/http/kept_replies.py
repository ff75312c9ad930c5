"""Replies that are kept for a while, so that a request whose reply was lost can be sent again and is carried out once.

The client names each attempt with an `Idempotency-Key` of its own and sends the same key until it has an answer. They
are kept in memory: after a restart of this process a repeated request is a new one.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from regsvc.core.errors import MalformedRequest

KEY_HEADER: Final = "Idempotency-Key"
ONLY_REPLAY_HEADER: Final = "X-Replay-Only"

LIFETIME: Final = 3600
"""Seconds, as long as a registration can be repeated."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of all replies together; the oldest ones go first."""
LARGEST_REPLY: Final = 64 * 1024

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
_OVERHEAD: Final = 1024
"""Bytes that an attempt takes beside its reply."""
_RENEWED: Final = frozenset({"captchaToken", "captchaAnswer", "totp", "language"})
"""Fields that differ when the same thing is asked again: answers that can be given once, and how to reply."""

Sent = tuple[int, bytes]
"""The status and the body of a reply."""


@dataclass
class Attempt:
    """One attempt: what was asked, and the reply once there is one."""

    asked: bytes
    began_at: float
    reply: asyncio.Future[Sent | None]
    size: int = _OVERHEAD

    def keep(self, status: int, body: bytes) -> None:
        """Note the reply."""
        self.reply.set_result((status, body))


@dataclass
class KeptReplies:
    """The successful replies to requests with a key, of this process. For the event loop's thread."""

    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _attempts: OrderedDict[bytes, Attempt] = field(default_factory=OrderedDict)
    _size: int = 0

    def name_of(self, key: str, path: str, credentials: Iterable[str]) -> bytes:
        """Return the name of an attempt: nobody else's key or credentials lead to it. Raises MalformedRequest."""
        if not _KEY.fullmatch(key):
            raise MalformedRequest
        return self._digest([key, path, *credentials])

    def asked_by(self, fields: Mapping[str, object]) -> bytes:
        """Return what a body asks for, without the fields that a repetition renews. Passwords cannot be read off it."""
        return self._digest(sorted((name, value) for name, value in fields.items() if name not in _RENEWED))

    async def find(self, name: bytes, asked: bytes | None) -> Sent | None:
        """Return the reply to an attempt, once it has come; None: nothing was carried out. `asked` None: whatever."""
        while (attempt := self._attempts.get(name)) is not None:
            if asked not in (None, attempt.asked) or attempt.began_at < time.monotonic() - LIFETIME:
                return None
            sent = await asyncio.shield(attempt.reply)
            if sent is not None:
                return sent
        return None

    @contextmanager
    def record(self, name: bytes, asked: bytes) -> Iterator[Attempt]:
        """Carry an attempt out within this block, which may `keep` a reply; without one it can be made again."""
        self._forget(name)
        attempt = Attempt(asked, time.monotonic(), asyncio.get_running_loop().create_future())
        self._attempts[name] = attempt
        self._size += attempt.size
        try:
            yield attempt
        finally:
            if not attempt.reply.done():
                attempt.reply.set_result(None)
            sent = attempt.reply.result()
            if self._attempts.get(name) is attempt:
                if sent is None or len(sent[1]) > LARGEST_REPLY:
                    self._forget(name)
                else:
                    attempt.size += len(sent[1])
                    self._size += len(sent[1])
            self._purge()

    def _purge(self) -> None:
        """Forget the oldest attempts that have ended too long ago, or for which there is no room."""
        for name, attempt in list(self._attempts.items()):
            if self._size <= MOST_BYTES and attempt.began_at > time.monotonic() - LIFETIME:
                return
            if attempt.reply.done():
                self._forget(name)

    def _forget(self, name: bytes) -> None:
        attempt = self._attempts.pop(name, None)
        if attempt is not None:
            self._size -= attempt.size

    def _digest(self, value: object) -> bytes:
        return hmac.digest(self._secret, msgspec.json.encode(value), "sha256")
