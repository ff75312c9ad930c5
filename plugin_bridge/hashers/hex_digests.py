"""Digests of texts as lower-case hex, and their comparison.

Texts are encoded as UTF-8, as AuthMe's Java does on every system since version 18.
"""

import hashlib
import hmac


def md5(text: str) -> str:
    """Return the MD5 of a text, 32 hex digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """Return the SHA-1 of a text, 40 hex digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha512(text: str) -> str:
    """Return the SHA-512 of a text, 128 hex digits."""
    return hashlib.sha512(text.encode()).hexdigest()


def is_same(computed: str, stored: str) -> bool:
    """Compare two texts exactly, in a time that does not reveal where they differ."""
    return hmac.compare_digest(computed.encode(), stored.encode())
