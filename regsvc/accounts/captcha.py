"""Captchas: a picture of a small puzzle, or work for the client's computer; the right answer lets one request pass.

Challenges are kept in memory only. After a restart the front end asks for another picture. Work is for people who
cannot see a picture (WCAG 1.1.1), and stops programs less. There is no sound: programs understand spoken digits better
than people do in noise.
"""

from __future__ import annotations

import secrets
import unicodedata
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from regsvc.auth.rate_limits import MemoryLimits, hash_key
from regsvc.config.sections import CaptchaSection, CaptchaUse, Config
from regsvc.core import errors
from regsvc.core.addresses import Caller
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.clock import Clock
from regsvc.core.errors import Refusal
from regsvc.core.shapes import Moment
from regsvc.http.messages import Reply, Request
from regsvc.http.route import PUBLIC, Routes

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

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


MAX_NUMBER: Final = 250_000
"""Most numbers to try: a tenth of a second on a desktop computer, two on a phone of a tenth of its speed."""

_SALT_BYTES: Final = 16
_NUMBER_BYTES: Final = 4


def hash_work(salt: bytes, number: int) -> str:
    """Return the SHA-256 of both, in hexadecimal digits: the client looks for the number, up to `MAX_NUMBER`."""
    return sha256(salt + number.to_bytes(_NUMBER_BYTES, "big")).hexdigest()


SUM_DIGITS: Final = "23459"
"""Without 7, which looks like a 1 when rotated, and 0, 6 and 8, which a curve makes indistinguishable."""

_CHARACTERS: Final = "AEHKNPXY23"
"""Characters that stay distinct when a curve crosses them; no J, M or W, whose strokes merge with neighbours."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A puzzle: `text` is rendered, `answer` is expected. Neither appears in the repr."""

    text: str = field(repr=False)
    answer: str = field(repr=False)


def puzzle_maker(config: CaptchaSection) -> Callable[[], Puzzle]:
    """Return a function that makes random puzzles of the configured type."""
    return partial(make_text, config.length) if config.type == "text" else make_sum


def make_sum() -> Puzzle:
    """Return a sum of a two-digit and a one-digit number; a guess is right at most one time in thirty."""
    tens, ones, other = (secrets.choice(SUM_DIGITS) for _digit in range(3))
    return Puzzle(f"{tens}{ones}+{other}=?", str(int(tens + ones) + int(other)))


def make_text(length: int) -> Puzzle:
    """Return capital letters and digits to copy."""
    text = "".join(secrets.choice(_CHARACTERS) for _character in range(length))
    return Puzzle(text, text)


Use = Literal["register"] | CaptchaUse
"""An action that may require a captcha."""

MAX_USES: Final = 5
"""Requests that one right answer serves: four refused ones, and one more."""

MAX_WAITING_PICTURES: Final = 50
"""Pictures that may wait for the thread; the last of them is drawn after about a tenth of a second."""

_TOKEN_BYTES = 18
_MAX_ANSWER = 64


class CaptchaWorkReply(Reply, frozen=True, kw_only=True):
    """A challenge without a picture: a number that a client finds by trying.

    It is the one from 0 to `maxNumber` for which SHA-256 of the 16 bytes of `salt` and the number, as 4 bytes with the
    highest first, is `hash`. Its decimal digits are the `captchaAnswer`.
    """

    token: CaptchaToken
    salt: Annotated[str, Meta(description="Hexadecimal digits.", examples=["00112233445566778899aabbccddeeff"])]
    hash: Annotated[
        str,
        Meta(
            description="Hexadecimal digits.",
            examples=["245519264e3aaa1c55ee5d5a13a4692ce59d00ef0ba975eb244d7e5f11558161"],
        ),
    ]
    max_number: Annotated[int, Meta(examples=[250_000])]
    expires_at: Moment
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


@dataclass(frozen=True, slots=True)
class CaptchaProof:
    """Token and answer of a challenge, as received with a request. None: not given."""

    token: str | None = field(default=None, repr=False)
    answer: str | None = field(default=None, repr=False)


NO_PROOF: Final = CaptchaProof()


def _render(text: str) -> bytes:
    from regsvc.accounts.captcha_pictures import render

    return render(text)


def uses_with_captcha(config: Config) -> frozenset[Use]:
    """Return the actions that require a captcha."""
    at_registration: tuple[Use, ...] = ("register",) if "captcha" in config.registration.methods else ()
    return frozenset({*at_registration, *config.captcha.also_for})


class Captchas:
    """Captcha challenges and the check of answers. For the event loop only; pictures are rendered on `pool`.

    That is a thread of their own: in the pool for hashes, a burst of logins would be a captcha outage. Right answers
    count towards `answers_per_client`, too: one sum in thirty can be guessed, and an attacker needs one hit.
    """

    def __init__(
        self,
        *,
        config: CaptchaSection,
        required_for: Collection[Use],
        pool: BoundedPool,
        challenges: ChallengeStore,
        limits: MemoryLimits,
        now: Clock,
        make_puzzle: Callable[[], Puzzle] | None = None,
        render: Callable[[str], bytes] = _render,
    ) -> None:
        """`make_puzzle`: instead of those of the configured type."""
        self._config = config
        self._required_for = required_for
        self._make_puzzle = make_puzzle or puzzle_maker(config)
        self._render = render
        self._pool = pool
        self._challenges = challenges
        self._limits = limits
        self._now = now

    async def generate(self, caller: Caller) -> CaptchaReply:
        """Return a new challenge. Raises `RateLimited`, and `Overloaded` when too many wait for a picture."""
        with self._pool.reserve():
            self._limits.hit("captcha.picture", caller.network_key, self._config.pictures_per_client)
            puzzle = self._make_puzzle()
            picture = await self._pool.run_reserved(self._render, puzzle.text)
        token, expires_at = self._issue(puzzle.answer, caller)
        return CaptchaReply(
            token=token,
            image=f"data:image/png;base64,{b64encode(picture).decode('ascii')}",
            expires_at=expires_at,
            expires_in_seconds=self._valid_seconds,
        )

    def generate_work(self, caller: Caller) -> CaptchaWorkReply:
        """Return a new challenge without a picture. Raises `NotEnabled` if the host offers none, and `RateLimited`."""
        if not self._config.without_picture:
            raise errors.NotEnabled
        self._limits.hit("captcha.work", caller.network_key, self._config.work_per_client)
        salt, number = secrets.token_bytes(_SALT_BYTES), secrets.randbelow(MAX_NUMBER + 1)
        token, expires_at = self._issue(str(number), caller)
        hash_ = hash_work(salt, number)
        return CaptchaWorkReply(
            token=token,
            salt=salt.hex(),
            hash=hash_,
            max_number=MAX_NUMBER,
            expires_at=expires_at,
            expires_in_seconds=self._valid_seconds,
        )

    def _issue(self, answer: str, caller: Caller) -> tuple[str, datetime]:
        """Store a challenge with this answer; return its token and when it expires."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        expires_at = self._now() + self._config.valid
        self._challenges.put(token, Challenge(_normalize(answer), caller.network_key, expires_at))
        return token, expires_at

    @property
    def _valid_seconds(self) -> int:
        return round(self._config.valid.total_seconds())

    @contextmanager
    def guard(self, use: Use, proof: CaptchaProof, caller: Caller) -> Iterator[bool]:
        """Return a context manager around an action that may require a captcha; its value is whether one was solved.

        A no-op where none is required, except that a login with a solved captcha need not wait as long as one without.
        Entering raises `CaptchaRequired`, `InvalidCaptcha` and `RateLimited`. No other request can use the challenge
        meanwhile. It is spent at the end, except that a refused registration may try again, `MAX_USES` times in all.
        """
        is_required = use in self._required_for
        if not is_required and (use != "login" or not proof.token or not proof.answer):
            yield False
            return
        refused: Refusal | None = None
        try:
            token, challenge = self._verify(proof, caller)
        except Refusal as refusal:
            if is_required:
                raise
            refused = refusal
        try:
            yield refused is None
        except Refusal as refusal:  # after any other exception it is unknown what was done: the challenge is spent
            if use == "register" and challenge.uses < MAX_USES:
                self._challenges.put(token, challenge)
            if refused is not None and isinstance(refusal, errors.RateLimited) and "captchaHelps" in refusal.facts:
                raise refused from None
            raise

    def _verify(self, proof: CaptchaProof, caller: Caller) -> tuple[str, Challenge]:
        """Return the challenge and count its use; a wrong answer ends it."""
        if not proof.token:
            raise errors.CaptchaRequired(field="captchaToken")
        if proof.answer is None or not proof.answer.strip():
            raise errors.CaptchaRequired
        challenge = self._challenges.find(proof.token)
        if challenge is None:
            raise errors.InvalidCaptcha
        self._limits.hit("captcha.answer", caller.network_key, self._config.answers_per_client)
        self._challenges.remove(proof.token)
        if not compare_digest(_normalize(proof.answer), challenge.answer):
            raise errors.InvalidCaptcha
        challenge.uses += 1
        return proof.token, challenge


def _normalize(answer: str) -> bytes:
    """Return the answer for comparison: trimmed, case-folded, with full-width characters as their ASCII equivalents."""
    return unicodedata.normalize("NFKC", answer.strip()[:_MAX_ANSWER]).casefold().encode(errors="surrogatepass")


CaptchaToken = Annotated[str, Meta(description="The id of a captcha challenge.", examples=["8bKJ4kX6nq3dGkT0m5mZpQ2s"])]


class CaptchaProtectedRequest(Request, frozen=True, kw_only=True):
    """A request that has to answer a captcha if the config requires one (`captcha.requiredFor`)."""

    captcha_token: CaptchaToken | None = None
    captcha_answer: (
        Annotated[str, Meta(description="The answer to the image's question, or the number.", examples=["29"])] | None
    ) = None

    @property
    def captcha(self) -> CaptchaProof:
        return CaptchaProof(self.captcha_token, self.captcha_answer)


class CaptchaReply(Reply, frozen=True, kw_only=True):
    """A challenge as an image. It is used up by a wrong answer, and by the one request that a right answer allows."""

    token: CaptchaToken
    image: Annotated[
        str,
        Meta(
            description="A PNG as a data URL, for the `src` of an image.",
            examples=["data:image/png;base64,iVBORw0KGgo="],
        ),
    ]
    expires_at: Moment
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


CAPTCHA_REFUSALS: Final = (errors.CaptchaRequired, errors.InvalidCaptcha, errors.RateLimited)
"""Additional refusals of routes that may require a captcha."""


@ROUTES.add("GET", "/api/captcha/generate", PUBLIC, errors.RateLimited)
async def make_captcha(call: Call, captchas: Captchas) -> CaptchaReply:
    """Create a captcha challenge. This works even if the config requires no captchas."""
    return await captchas.generate(call.caller)


@ROUTES.add("GET", "/api/captcha/work", PUBLIC, errors.RateLimited, errors.NotEnabled)
async def make_captcha_work(call: Call, captchas: Captchas) -> CaptchaWorkReply:
    """Create a captcha challenge without a picture, which a program of the client solves.

    It is answered like a picture's. This works even if the config requires no captchas.
    """
    return captchas.generate_work(call.caller)
