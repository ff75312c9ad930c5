"""What a refusal is: a "no" that the caller is told about. The refusals themselves stand in `regsvc.core.errors`."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar


class Category(IntEnum):
    """What kind of "no" it is; the number is the HTTP status."""

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
    INTERNAL = 500
    AWAY = 503


BUSINESS_CATEGORIES = frozenset({Category.CONFLICT, Category.INVALID, Category.LIMITED})

REFUSALS: dict[str, type[Refusal]] = {}
"""Every refusal by its code."""


class Refusal(Exception):
    """A "no" that the caller is told about, in words of his language.

    `code` is stable and machine-readable, `field` names the part of the request it is about (None: no
    single one) and `facts` hold what a client may need. Facts are given in snake case and kept under their
    names in JSON: `Refusal(remaining_seconds=5).facts == {"remainingSeconds": 5}`. They are public: never a
    secret.
    """

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    field: str | None = None

    is_business: ClassVar[bool] = False
    """True for an answer of the service itself, sent with status 200 under `http.legacy_status`. Requests
    that are broken, lack the right, or meet something that is away keep their status."""

    retry_after: int | None = None
    """Seconds after which asking again makes sense; None: unknown or pointless."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "is_business" not in cls.__dict__:
            cls.is_business = cls.category in BUSINESS_CATEGORIES
        if REFUSALS.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"two refusals with the code {cls.code!r}")

    def __init__(self, *, field: str | None = None, retry_after: int | None = None, **facts: object) -> None:
        super().__init__(self.code)
        if field is not None:
            self.field = field
        if retry_after is not None:
            self.retry_after = retry_after
        self.facts = {_camel(name): value for name, value in facts.items() if value is not None}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)
