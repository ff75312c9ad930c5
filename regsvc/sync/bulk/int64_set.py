"""Set of 64-bit integers at twenty bytes each instead of a hundred: a plan may hold a million of them."""

from array import array
from typing import Final

_BUCKETS: Final = 1 << 16
_MASK: Final = (1 << 64) - 1


class Int64Set:
    """Set of 64-bit integers, signed or not, for numbers whose low bits are evenly distributed."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, number: int) -> None:
        """Add the number, if it is not in the set yet."""
        number &= _MASK
        bucket = self._buckets.get(number % _BUCKETS)
        if bucket is None:
            self._buckets[number % _BUCKETS] = array("Q", (number,))
        elif number not in bucket:
            bucket.append(number)

    def __contains__(self, number: int) -> bool:
        number &= _MASK
        return number in self._buckets.get(number % _BUCKETS, ())
