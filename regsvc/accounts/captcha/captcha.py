"""Captchas: a picture of a small question, whose right answer lets one request pass.

A challenge is in memory alone, and a restart forgets it: the front end asks for another picture.
"""

import secrets
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Final, Literal

from regsvc.accounts.captcha.pictures import Puzzle
from regsvc.accounts.captcha.store import Challenge, ChallengeStore
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core import errors
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import Refusal
from regsvc.core.units import RateLimit

Use = Literal["register", "verify_send", "login"]
"""What a captcha may be asked for."""

MAX_USES: Final = 5
"""Requests that one right answer serves: four that are refused, and one more."""

_TOKEN_BYTES = 18
_MAX_ANSWER = 64


@dataclass(frozen=True, slots=True)
class CaptchaChallenge:
    """A question for somebody: `picture` is a PNG, `token` names the challenge when it is answered."""

    token: str = field(repr=False)
    picture: bytes = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CaptchaProof:
    """What a request brings: the token of a challenge and the answer, as they came. None: it did not come."""

    token: str | None = field(default=None, repr=False)
    answer: str | None = field(default=None, repr=False)


NO_PROOF: Final = CaptchaProof()


@dataclass(frozen=True)
class CaptchaPolicy:
    """What the host wants: for what a captcha is asked, how long it lives, how often one client may ask and answer."""

    required_for: Collection[Use]
    valid: timedelta
    picture_limits: tuple[RateLimit, ...]
    answer_limits: tuple[RateLimit, ...]


class Captchas:
    """Makes challenges and checks answers. For the event loop alone; pictures are drawn on `pool`."""

    def __init__(
        self,
        *,
        policy: CaptchaPolicy,
        make_puzzle: Callable[[], Puzzle],
        render: Callable[[str], bytes],
        pool: BoundedPool,
        challenges: ChallengeStore,
        limits: MemoryLimits,
        now: Clock,
    ) -> None:
        self._policy = policy
        self._make_puzzle = make_puzzle
        self._render = render
        self._pool = pool
        self._challenges = challenges
        self._limits = limits
        self._now = now

    async def generate(self, caller: Caller) -> CaptchaChallenge:
        """A new challenge. Raises `RateLimited`, and `Overloaded` when too many wait for their picture."""
        with self._pool.reserve():
            self._limits.hit("captcha.picture", caller.limit_key, self._policy.picture_limits)
            puzzle = self._make_puzzle()
            picture = await self._pool.run_reserved(self._render, puzzle.text)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        expires_at = self._now() + self._policy.valid
        self._challenges.put(token, Challenge(_normalize(puzzle.answer), caller.limit_key, expires_at))
        return CaptchaChallenge(token, picture, expires_at)

    @contextmanager
    def guard(self, use: Use, proof: CaptchaProof, caller: Caller) -> Iterator[None]:
        """Around what a captcha is asked for; where none is, it does nothing.

        Raises `CaptchaRequired`, `InvalidCaptcha` and `RateLimited`. Nobody else can use the challenge meanwhile. It is
        spent at the end, except that a refused registration leaves it for another try, `MAX_USES` in all.
        """
        if use not in self._policy.required_for:
            yield
            return
        token, challenge = self._verify(proof, caller)
        try:
            yield
        except Refusal:  # after anything else nobody knows what was done: it is spent
            if use == "register" and challenge.uses < MAX_USES:
                self._challenges.put(token, challenge)
            raise

    def _verify(self, proof: CaptchaProof, caller: Caller) -> tuple[str, Challenge]:
        """The challenge whose right answer this is, used once more; a wrong one ends it."""
        if not proof.token:
            raise errors.CaptchaRequired(field="captchaToken")
        if proof.answer is None or not proof.answer.strip():
            raise errors.CaptchaRequired
        challenge = self._challenges.find(proof.token)
        if challenge is None:
            raise errors.InvalidCaptcha
        self._limits.hit("captcha.answer", caller.limit_key, self._policy.answer_limits)
        self._challenges.remove(proof.token)
        if not compare_digest(_normalize(proof.answer), challenge.answer):
            raise errors.InvalidCaptcha
        challenge.uses += 1
        return proof.token, challenge


def _normalize(answer: str) -> bytes:
    """Trimmed and in one case; the wide digits and letters of a Chinese keyboard are as good as others."""
    return unicodedata.normalize("NFKC", answer.strip()[:_MAX_ANSWER]).casefold().encode(errors="surrogatepass")
