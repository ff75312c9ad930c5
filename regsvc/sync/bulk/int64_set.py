"""A set of numbers that takes twenty bytes for each instead of a hundred: a plan may remember a million of them."""

from array import array
from typing import Final

_BUCKETS: Final = 1 << 16
_MASK: Final = (1 << 64) - 1


class Int64Set:
    """Whole numbers of 64 bits, signed or not. Meant for numbers whose low bits are as good as random."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, number: int) -> None:
        """Once is enough."""
        number &= _MASK
        bucket = self._buckets.get(number % _BUCKETS)
        if bucket is None:
            self._buckets[number % _BUCKETS] = array("Q", (number,))
        elif number not in bucket:
            bucket.append(number)

    def __contains__(self, number: int) -> bool:
        number &= _MASK
        return number in self._buckets.get(number % _BUCKETS, ())
