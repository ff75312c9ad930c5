"""Proof of work: a search that keeps a computer busy for a moment, for people who cannot see a picture.

The number is found by trying all of them, in whatever order, so the search ends; one for leading zeros would take one
visitor in fifty four times as long as most. A program finds it in hundredths of a second: what holds programs back is
`captcha.work_per_client`.
"""

import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

MAX_NUMBER: Final = 250_000
"""Most numbers to try: a tenth of a second on a desktop computer, two on a phone of a tenth of its speed."""

_SALT_BYTES: Final = 16
_NUMBER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Work:
    """A random salt and a random number up to `MAX_NUMBER`, which is the answer and appears in no repr."""

    salt: bytes
    number: int = field(repr=False)

    @property
    def hash(self) -> str:
        """The SHA-256 of both, in hexadecimal digits."""
        return sha256(self.salt + self.number.to_bytes(_NUMBER_BYTES, "big")).hexdigest()


def make_work() -> Work:
    return Work(secrets.token_bytes(_SALT_BYTES), secrets.randbelow(MAX_NUMBER + 1))
