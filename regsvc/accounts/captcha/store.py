"""Store of outstanding captcha challenges, bounded in total and per client."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from regsvc.auth.rate_limits import hash_key
from regsvc.core.clock import Clock

_SHARE: Final = 100
_LEAST: Final = 10


@dataclass(slots=True)
class Challenge:
    """An outstanding challenge. `client` is the network of its client, `uses` the number of requests it served."""

    answer: bytes = field(repr=False)
    client: str
    expires_at: datetime
    uses: int = 0


class ChallengeStore:
    """Challenges by their tokens. For the event loop only: not thread-safe.

    A client has at most `max_per_client`, a hundredth of `max_total` and ten in any case if it is not given, beyond
    which its oldest is evicted. At `max_total` the oldest of the client
    with the most is evicted, so that a client with one never loses it to a client with many. About 1 KB each.
    """

    def __init__(self, now: Clock, max_total: int, max_per_client: int | None = None) -> None:
        self._now = now
        self._max_total = max_total
        self._max_per_client = max_per_client or max(_LEAST, max_total // _SHARE)
        self._challenges: OrderedDict[bytes, Challenge] = OrderedDict()
        self._keys_of: dict[str, OrderedDict[bytes, None]] = {}
        self._clients_with: dict[int, OrderedDict[str, None]] = {}
        """Clients by number of challenges; each client is under one number, and no number is empty."""

    def __len__(self) -> int:
        return len(self._challenges)

    def put(self, token: str, challenge: Challenge) -> None:
        """Store a challenge, new or removed before; may evict another."""
        self._evict_expired()
        key, client = hash_key(token), challenge.client
        if len(self._keys_of.get(client, ())) >= self._max_per_client:
            self._remove_oldest_of(client)
        elif len(self._challenges) >= self._max_total:
            self._remove_oldest_of(next(iter(self._clients_with[max(self._clients_with)])))
        self._challenges[key] = challenge
        keys = self._keys_of.setdefault(client, OrderedDict())
        keys[key] = None
        self._move(client, len(keys) - 1, len(keys))

    def find(self, token: str) -> Challenge | None:
        """Return the challenge, or None if it is missing or expired."""
        challenge = self._challenges.get(hash_key(token))
        return challenge if challenge is not None and self._now() < challenge.expires_at else None

    def remove(self, token: str) -> None:
        """Remove the challenge. Raises KeyError if it is missing."""
        self._remove(hash_key(token))

    def _remove(self, key: bytes) -> None:
        client = self._challenges.pop(key).client
        keys = self._keys_of[client]
        del keys[key]
        self._move(client, len(keys) + 1, len(keys))
        if not keys:
            del self._keys_of[client]

    def _remove_oldest_of(self, client: str) -> None:
        self._remove(next(iter(self._keys_of[client])))

    def _move(self, client: str, before: int, after: int) -> None:
        """Move the client from one number of challenges to another."""
        if before:
            group = self._clients_with[before]
            del group[client]
            if not group:
                del self._clients_with[before]
        if after:
            self._clients_with.setdefault(after, OrderedDict())[client] = None

    def _evict_expired(self) -> None:
        now = self._now()
        while self._challenges:
            key, challenge = next(iter(self._challenges.items()))
            if now < challenge.expires_at:
                return
            self._remove(key)
