"""Secrets that are mailed but stored nowhere: each is derived from the installation's key and its row.

A row holds a nonce; the code or token appears only in the mail and in the request that shows it. Daemons that
share a database share the key, so each of them can check what another one mailed.
"""

import base64
import hashlib
import hmac
import json
import secrets
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_KEY_LENGTH: Final = 32
_NONCE_BYTES: Final = 16
_MAX_ROW_ID_DIGITS: Final = 19  # of a BIGINT


def new_nonce() -> str:
    """32 hexadecimal digits from the system's random source."""
    return secrets.token_hex(_NONCE_BYTES)


class DerivedSecrets:
    """Derives verification codes and link tokens. `installation_key`: at least 32 random bytes."""

    def __init__(self, installation_key: bytes) -> None:
        self._code_key = _derive_key(installation_key, "verification code")
        self._link_key = _derive_key(installation_key, "mailed link")
        self._digest_key = _derive_key(installation_key, "digest of a secret")
        self._verifier_key = _derive_key(installation_key, "PKCE verifier")

    def code(self, purpose: str, row_id: int, nonce: str, email_key: str, digits: int) -> str:
        """The decimal digits of one verification code; leading zeros are kept.

        256 bits are reduced to at most a dozen digits, so every code is equally likely for all that counts.
        """
        number = int.from_bytes(_mac(self._code_key, purpose, row_id, nonce, email_key), "big")
        return f"{number % 10**digits:0{digits}}"

    def link_token(self, row_id: int, nonce: str, purpose: str) -> str:
        """`<row id>.<43 characters of base64url>`: what stands behind the `#` of a mailed link."""
        mac = base64.urlsafe_b64encode(_mac(self._link_key, purpose, row_id, nonce)).rstrip(b"=")
        return f"{row_id}.{mac.decode('ascii')}"

    def digest(self, purpose: str, secret: str) -> str:
        """64 hexadecimal digits by which a random secret is known again: what may be stored of it."""
        return _mac(self._digest_key, purpose, secret).hex()

    def pkce_verifier(self, state: str) -> str:
        """43 characters of base64url that nobody can tell from the state of an authorization request (RFC 7636)."""
        return base64.urlsafe_b64encode(_mac(self._verifier_key, state)).rstrip(b"=").decode("ascii")

    def is_link_token(self, token: str, row_id: int, nonce: str, purpose: str) -> bool:
        """Whether the token is the one of this row; in the same time whichever character differs."""
        return is_same_secret(token, self.link_token(row_id, nonce, purpose))


def parse_row_id(link_token: str) -> int | None:
    """The row a link token names, or None for anything that is no such token. Proves nothing yet."""
    digits, dot, mac = link_token.partition(".")
    if not (dot and mac and digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_ROW_ID_DIGITS):
        return None
    row_id = int(digits)
    return row_id if row_id < 2**63 else None


def is_same_secret(shown: str, expected: str) -> bool:
    """Compares in constant time; a text that is not even Unicode is simply another one."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), expected.encode("utf-8"))


def _derive_key(installation_key: bytes, purpose: str) -> bytes:
    derivation = HKDF(SHA256(), _KEY_LENGTH, salt=None, info=f"companion {purpose}".encode())
    return derivation.derive(installation_key)


def _mac(key: bytes, *parts: str | int) -> bytes:
    # JSON, so that no two lists of parts run together into the same text
    return hmac.new(key, json.dumps(parts).encode("utf-8"), hashlib.sha256).digest()
