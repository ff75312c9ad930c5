"""An authenticator app: RFC 6238 with its defaults, implemented independently of the library under test."""

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from datetime import UTC, datetime

PERIOD = 30  # seconds


def new_secret(characters: int = 32) -> str:
    """A secret as AuthMe stores it in its `totp` column: Base32, 32 characters now and 16 in older versions."""
    return base64.b32encode(secrets.token_bytes(20)).decode()[:characters]


def code_at(secret: str, step: int) -> str:
    """The six digits of one time step since 1970."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", step), hashlib.sha1).digest()
    offset = digest[-1] & 0x0F
    (number,) = struct.unpack(">I", digest[offset : offset + 4])
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"


def system_now() -> datetime:
    return datetime.now(UTC)


class Authenticator:
    """One entry in the app."""

    def __init__(self, secret: str | None = None, now: Callable[[], datetime] = system_now) -> None:
        self.secret = secret or new_secret()
        self._now = now

    def code(self, later: int = 0) -> str:
        """The code shown now, or the one so many time steps later."""
        return code_at(self.secret, int(self._now().timestamp()) // PERIOD + later)

    def wrong_code(self) -> str:
        """Six digits that are not a valid code around now."""
        near = {self.code(later) for later in range(-3, 4)}
        return next(code for code in ("000000", *(f"{number:06}" for number in range(1, 9))) if code not in near)
