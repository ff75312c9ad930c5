"""Digests of texts as lower-case hex, and how such texts are compared.

Texts are hashed as UTF-8, which is what AuthMe's Java has used for them since version 18, on every system.
"""

import hashlib
import hmac


def md5(text: str) -> str:
    """MD5 of a text, 32 hex digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """SHA-1 of a text, 40 hex digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    """SHA-256 of a text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha512(text: str) -> str:
    """SHA-512 of a text, 128 hex digits."""
    return hashlib.sha512(text.encode()).hexdigest()


def is_same(computed: str, stored: str) -> bool:
    """Whether two texts are the same to the letter; the time it takes does not tell where they differ."""
    return hmac.compare_digest(computed.encode(), stored.encode())
