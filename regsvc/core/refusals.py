"""Refusals: answers with a code that clients can act on. Every one of them is in `regsvc.core.errors`."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar


class Category(IntEnum):
    """The kind of refusal; the number is the HTTP status."""

    MALFORMED = 400
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    METHOD = 405
    CONFLICT = 409
    TOO_LARGE = 413
    UNSUPPORTED = 415
    INVALID = 422
    LIMITED = 429
    HEADERS = 431
    INTERNAL = 500
    UNAVAILABLE = 503


_BUSINESS_CATEGORIES = frozenset({Category.CONFLICT, Category.INVALID, Category.LIMITED})

REFUSALS: dict[str, type[Refusal]] = {}
"""Every refusal by its code."""


class Refusal(Exception):
    """A negative answer for the client, in the client's language.

    `code` is stable and machine-readable, `field` names the field of the request that it is about (None: no
    single one) and `facts` hold what a client may need. Facts are passed in snake case and kept under their
    names in JSON: `Refusal(remaining_seconds=5).facts == {"remainingSeconds": 5}`. They are public: never put
    a secret there.
    """

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    field: str | None = None

    is_business: ClassVar[bool] = False
    """True for an answer of the service itself, sent with status 200 under `http.legacy_status`. Requests that
    are malformed, lack the permission, or meet something unavailable keep their status."""

    retry_after: int | None = None
    """Seconds after which a retry makes sense; None: unknown or pointless."""

    def __init_subclass__(
        cls,
        code: str,
        category: Category,
        *,
        field: str | None = None,
        is_business: bool | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`is_business` None: as the category says."""
        super().__init_subclass__()
        cls.code = code
        cls.category = category
        cls.field = field
        cls.is_business = category in _BUSINESS_CATEGORIES if is_business is None else is_business
        cls.retry_after = retry_after
        if REFUSALS.setdefault(code, cls) is not cls:
            raise TypeError(f"two refusals with the code {code!r}")

    def __init__(self, *, field: str | None = None, retry_after: int | None = None, **facts: object) -> None:
        super().__init__(self.code)
        if field is not None:
            self.field = field
        if retry_after is not None:
            self.retry_after = retry_after
        self.facts = {_camel(name): value for name, value in facts.items() if value is not None}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)
