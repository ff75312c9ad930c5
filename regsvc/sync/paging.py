"""Pages of names and rows: the sync never loads a whole table, and a statement never names too many rows."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from peewee import Field

PAGE: Final = 500
"""Names loaded and reconciled together. Reading as many rows locks AuthMe's SQLite file for a few milliseconds."""

T = TypeVar("T")


def pages_of(values: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Yield the values in pages of at most `size`, none of them empty."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def rows_in_order(query: Any, *order: Field, size: int = PAGE) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query, by pages, in the order of the fields that it selects first; together they are unique.

    Each page is a statement of its own that begins after the last row of the page before.
    """
    rest = query
    while True:
        rows = list(rest.order_by(*order).limit(size).tuples())
        if rows:
            yield rows
        if len(rows) < size:
            return
        rest = query.where(_is_after(order, rows[-1]))


def _is_after(order: Sequence[Field], row: Sequence[Any]) -> Any:
    first: Any = order[0]
    if len(order) == 1:
        return first > row[0]
    return (first > row[0]) | ((first == row[0]) & _is_after(order[1:], row[1:]))
