"""Secrets that are mailed but never stored: each is derived from the installation key and its row.

A row holds a nonce; the code or token exists only in the mail and in the request that presents it. Daemons that share a
database share the key, so each can verify what another one mailed.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from regsvc.core.clock import epoch_ms
from regsvc.database.models import User

_NONCE_BYTES: Final = 16
_TOTP_BYTES: Final = 20
_MAX_ROW_ID_DIGITS: Final = 19  # of a BIGINT


def new_nonce() -> str:
    """Return 32 hexadecimal digits from the system's random source."""
    return secrets.token_hex(_NONCE_BYTES)


class DerivedSecrets:
    """Derivation of codes, link tokens and secrets of second factors. `installation_key`: at least 32 random bytes."""

    def __init__(self, installation_key: bytes) -> None:
        self._code_key = _derive_key(installation_key, "verification code")
        self._link_key = _derive_key(installation_key, "mailed link")
        self._digest_key = _derive_key(installation_key, "digest of a secret")
        self._verifier_key = _derive_key(installation_key, "PKCE verifier")
        self._totp_key = _derive_key(installation_key, "TOTP secret")

    def code(self, purpose: str, row_id: int, nonce: str, email_key: str, digits: int) -> str:
        """Return the decimal digits of one verification code; leading zeros are kept.

        256 bits are reduced to at most a dozen digits, so the codes are uniform for all practical purposes.
        """
        number = int.from_bytes(_mac(self._code_key, purpose, row_id, nonce, email_key), "big")
        return f"{number % 10**digits:0{digits}}"

    def link_token(self, row_id: int, nonce: str, purpose: str) -> str:
        """Return `<row id>.<43 characters of base64url>`, the fragment (after `#`) of a mailed link."""
        mac = base64.urlsafe_b64encode(_mac(self._link_key, purpose, row_id, nonce)).rstrip(b"=")
        return f"{row_id}.{mac.decode('ascii')}"

    def totp_secret(self, user_id: int, nonce: str) -> str:
        """Return 160 bits in Base32: 32 characters, as many as AuthMe's column takes."""
        return base64.b32encode(_mac(self._totp_key, user_id, nonce)[:_TOTP_BYTES]).decode("ascii")

    def digest(self, purpose: str, secret: str) -> str:
        """Return 64 hexadecimal digits that identify a random secret; safe to store in its place."""
        return _mac(self._digest_key, purpose, secret).hex()

    def pkce_verifier(self, state: str) -> str:
        """Return 43 characters of base64url that cannot be derived from the state without our key (RFC 7636)."""
        return base64.urlsafe_b64encode(_mac(self._verifier_key, state)).rstrip(b"=").decode("ascii")

    def is_link_token(self, token: str, row_id: int, nonce: str, purpose: str) -> bool:
        """Return whether this is the row's token, in constant time."""
        return is_same_secret(token, self.link_token(row_id, nonce, purpose))


def parse_row_id(link_token: str) -> int | None:
    """Return the row id in a link token, or None for anything malformed. Proves nothing yet."""
    digits, dot, mac = link_token.partition(".")
    if not (dot and mac and digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_ROW_ID_DIGITS):
        return None
    row_id = int(digits)
    return row_id if row_id < 2**63 else None


def is_same_secret(shown: str, expected: str) -> bool:
    """Compare in constant time; text that is not valid Unicode is simply different."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), expected.encode("utf-8"))


def _derive_key(installation_key: bytes, purpose: str) -> bytes:
    """Return 32 bytes: HKDF-SHA256 (RFC 5869) without a salt, which for one block is HMAC twice."""
    extracted = hmac.digest(bytes(32), installation_key, "sha256")
    return hmac.digest(extracted, f"companion {purpose}\x01".encode(), "sha256")


def _mac(key: bytes, *parts: str | int) -> bytes:
    # JSON, so that no two lists of parts yield the same text
    return hmac.new(key, json.dumps(parts).encode("utf-8"), hashlib.sha256).digest()


APPLICATION_PATH: Final = "/application"
ApplicationToken = Annotated[
    str,
    Meta(
        description="Opens the application, as the link in the receipt does; keep it secret.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8"],
    ),
]


@dataclass(frozen=True)
class ApplicationTokens:
    """Derivation and verification of tokens; `find_users` runs on a worker thread."""

    secrets: DerivedSecrets

    def token_of(self, user: User) -> str:
        """Return the token of the user's application, derived anew each time."""
        return self.secrets.link_token(int(user.id), *_describe(user))

    def find_users(self, tokens: Collection[str]) -> dict[str, User]:
        """Return the users of the valid ones of these tokens, with one statement."""
        ids = {token: row_id for token in tokens if (row_id := parse_row_id(token)) is not None}
        if not ids:
            return {}
        users = {user.id: user for user in User.select().where(User.id.in_(sorted(set(ids.values()))))}
        found = ((token, users.get(row_id)) for token, row_id in ids.items())
        return {token: user for token, user in found if user is not None and self.is_token_of(user, token)}

    def is_token_of(self, user: User, token: str) -> bool:
        """Return whether this is the token of the user's application, in constant time."""
        return self.secrets.is_link_token(token, int(user.id), *_describe(user))


def _describe(user: User) -> tuple[str, str]:
    """Return the nonce and the purpose of the user's token. An address that nothing proves has no key."""
    return str(epoch_ms(user.created_at)), f"application of {user.email_key or user.email or ''}"
