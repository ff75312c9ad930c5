"""Pagination of append-only tables, newest rows first, in a time that does not grow with the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from peewee import fn

MAX_COUNT: Final = 100_000
"""Counting stops here: readers of so long a table want its newest page, not the exact total."""

_MAX_OFFSET: Final = 2**53


@dataclass(frozen=True)
class IdPage:
    """Ids of one page, newest first. `total` is None where more than `MAX_COUNT` rows match."""

    ids: tuple[int, ...]
    total: int | None
    has_next: bool


def find_page(model: Any, conditions: Sequence[Any], page: int, size: int) -> IdPage:
    """Return the ids of one page (the first is 1) of the rows that meet all conditions; no ids past the end."""
    offset = (page - 1) * size
    found = _ids(model, conditions, offset, size + 1) if offset <= _MAX_OFFSET else []
    return IdPage(tuple(found[:size]), _count(model, conditions), has_next=len(found) > size)


def _ids(model: Any, conditions: Sequence[Any], offset: int, size: int) -> list[int]:
    """Select only ids: skipping rows is cheap in an index and expensive in the table."""
    query = model.select(model.id).order_by(model.id.desc()).limit(size).offset(offset)
    return [row.id for row in (query.where(*conditions) if conditions else query)]


def _count(model: Any, conditions: Sequence[Any]) -> int | None:
    matching = model.select(model.id).limit(MAX_COUNT + 1)
    if conditions:
        matching = matching.where(*conditions)
    total: int = model.select(fn.COUNT(1)).from_(matching.alias("matching")).scalar()
    return total if total <= MAX_COUNT else None
