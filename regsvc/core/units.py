"""Amounts as people write them: durations, sizes, rate limits, the limit of changes per sync run.

Every parser takes text and raises ValueError with a sentence that shows a valid example. The sentence never
repeats the text: the caller has it, and it may be a secret on the wrong line.
"""

import math
import re
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Self

# Length in milliseconds and the names of the unit; the first two are singular and plural.
_SPELLINGS = {
    1: ("millisecond", "milliseconds", "ms"),
    1000: ("second", "seconds", "sec", "secs", "s"),
    60_000: ("minute", "minutes", "min", "mins", "m"),
    3_600_000: ("hour", "hours", "h"),
    86_400_000: ("day", "days", "d"),
    604_800_000: ("week", "weeks", "w"),
    # 365 days: leap days do not matter to a retention of "2 years".
    31_536_000_000: ("year", "years", "y"),
}
_MILLISECONDS = {spelling: length for length, spellings in _SPELLINGS.items() for spelling in spellings}

_BYTES = {"b": 1, "byte": 1, "bytes": 1, "kb": 1000, "kib": 1024, "mb": 1000**2, "mib": 1024**2}
_BYTES |= {"gb": 1000**3, "gib": 1024**3}

_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([a-z]+)")
_RATE = re.compile(r"([0-9]{1,9}) ?(?:per |/ ?)(.+)")
_CHANGES = re.compile(r"([0-9]{1,9})(?: (?:row|player)s?)? and ([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")

MAX_DURATION = timedelta(days=365_000)
MAX_SIZE = 1024**4

_DURATION_HINT = 'write a duration such as "30 seconds", "5 minutes" or "2 years"'
_SIZE_HINT = 'write a size such as "64 KiB", "1 MB" or "512 bytes"'
_RATE_HINT = 'write a limit such as "10 per day", "1 per minute" or "10 per 5 minutes"'
_CHANGES_HINT = 'write a number of rows and a percentage, such as "20 and 5%"'


def parse_duration(text: str) -> timedelta:
    """Parse "5 minutes", "30s" or "1.5 hours" into a timedelta of at most 1000 years; zero is allowed."""
    match = _AMOUNT.fullmatch(_normalize(text))
    if match is None or match[2] not in _MILLISECONDS:
        raise ValueError(_DURATION_HINT)
    milliseconds = Decimal(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds > MAX_DURATION // timedelta(milliseconds=1):
        raise ValueError(f"this is more than 1000 years; {_DURATION_HINT}")
    return timedelta(microseconds=int(milliseconds * 1000))


def format_duration(duration: timedelta) -> str:
    """Format a duration in the largest unit that divides it: "5 minutes", "1 day", "250 milliseconds"."""
    milliseconds = duration // timedelta(milliseconds=1)
    if milliseconds == 0:
        return "0 seconds"
    length = max(length for length in _SPELLINGS if milliseconds % length == 0)
    count = milliseconds // length
    return f"{count} {_SPELLINGS[length][0 if count == 1 else 1]}"


def format_roughly(duration: timedelta) -> str:
    """Format a duration, rounded, in days, hours or minutes: "about 2 hours"."""
    unit = (
        next((unit for unit in (timedelta(days=2), timedelta(hours=2)) if duration >= unit), timedelta(minutes=2)) / 2
    )
    return f"about {format_duration(round(duration / unit) * unit)}"


def parse_size(text: str) -> int:
    """Parse "64 KiB" into 65536 bytes; KB, MB and GB are powers of 1000. At least one byte, at most 1024 GiB."""
    match = _AMOUNT.fullmatch(_normalize(text))
    if match is None or match[2] not in _BYTES:
        raise ValueError(_SIZE_HINT)
    size = int(float(match[1]) * _BYTES[match[2]])
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"a size lies between 1 byte and 1024 GiB; {_SIZE_HINT}")
    return size


@dataclass(frozen=True)
class RateLimit:
    """At most `hits` in any `period`; two limits are equal when they allow the same."""

    hits: int
    period: timedelta
    text: str = field(default="", compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "10 per day", "1 per minute", "10 per 5 minutes" or "400/day"; neither part may be zero."""
        match = _RATE.fullmatch(_normalize(text))
        if match is None:
            raise ValueError(_RATE_HINT)
        try:
            period = _parse_period(match[2])
        except ValueError as error:
            raise ValueError(_RATE_HINT) from error
        hits = int(match[1])
        if hits == 0 or not period:
            raise ValueError(f"neither part of a limit may be zero; {_RATE_HINT}")
        return cls(hits, period, text.strip())

    def __str__(self) -> str:
        """Return the limit as written in the config, or formatted if it was created in code."""
        return self.text or f"{self.hits} per {format_duration(self.period).removeprefix('1 ')}"


@dataclass(frozen=True)
class ChangeLimit:
    """Limit of changes per run; exceeded by more than `rows` rows *and* more than `percent` of all rows."""

    rows: int
    percent: float
    text: str = field(default="", compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "20 and 5%"; with 100% the limit is never exceeded."""
        match = _CHANGES.fullmatch(_normalize(text))
        if match is None:
            raise ValueError(_CHANGES_HINT)
        percent = float(match[2])
        if percent > 100:
            raise ValueError(f"the percentage must not be above 100%; {_CHANGES_HINT}")
        return cls(int(match[1]), percent, text.strip())

    def is_exceeded_by(self, changes: int, total: int) -> bool:
        """Return whether `changes` rows out of `total` are too many; in an empty table every share is too large."""
        return changes > self.rows and changes * 100 > self.percent * total

    def min_rows_for(self, changes: int) -> int:
        """Return the smallest table, in rows, in which so many changes are allowed; at least 1."""
        if changes <= self.rows:
            return 1
        return math.ceil(changes * 100 / self.percent) + 1 if self.percent else sys.maxsize

    def __str__(self) -> str:
        """Return the limit as written in the config, or formatted if it was created in code."""
        return self.text or f"{self.rows} and {self.percent:g}%"


def _normalize(text: str) -> str:
    """Normalise case and spaces, in which people's spelling differs."""
    return " ".join(text.lower().split())


def _parse_period(text: str) -> timedelta:
    """Parse the part after "per", where "minute" alone means one."""
    return parse_duration(text if text[0].isdigit() else f"1 {text}")
