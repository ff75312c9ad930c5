"""Comparing version numbers of plugins and the companion ("5.6.0-beta2", "5.7.0-SNAPSHOT", "v1.2"), and what AuthMe's
versions have.
"""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

_LONGEST: Final = 64
_WRITTEN: Final = re.compile(
    r"v?(?P<numbers>\d{1,9}(?:\.\d{1,9}){0,5})(?:[-_.]?(?P<word>[a-z]+)[-_.]?(?P<build>\d{1,9})?)?(?:[-+_ ][ -~]*)?",
    re.IGNORECASE | re.ASCII,
)
# Pre-release stages in Maven's order; AuthMe and most plugins are built with Maven. "b", Maven's short form of beta, is
# none: AuthMe writes the number of a build with it, as in "5.6.0-b2453".
_STAGES: Final = {
    **dict.fromkeys(("alpha", "a"), -5),
    **dict.fromkeys(("beta",), -4),
    **dict.fromkeys(("milestone", "m"), -3),
    **dict.fromkeys(("rc", "cr", "pre"), -2),
    **dict.fromkeys(("snapshot", "dev"), -1),
}
_RELEASE: Final = 0


@total_ordering
@dataclass(frozen=True)
class Version:
    """A version that can be compared. "1.2" and "v1.2.0" are equal.

    A suffix that names no pre-release stage, such as a fork's name, is ignored: it does not say whether the version
    is newer than the release.
    """

    numbers: tuple[int, ...]
    stage: int
    build: int

    def __lt__(self, other: "Version") -> bool:
        return (self.numbers, self.stage, self.build) < (other.numbers, other.stage, other.build)


def find_version(written: str) -> Version | None:
    """Parse a version; None if the text is not one."""
    match = _WRITTEN.fullmatch(written.strip()) if len(written) <= _LONGEST else None
    if match is None:
        return None
    numbers = [int(number) for number in match["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    stage = _STAGES.get((match["word"] or "").lower(), _RELEASE)
    build = int(match["build"] or 0) if stage != _RELEASE else 0
    return Version(tuple(numbers), stage, build)


def is_newer(latest: str | None, current: str | None) -> bool:
    """Return whether `latest` is newer than `current`; False if either is unknown or not a version."""
    newer, older = find_version(latest or ""), find_version(current or "")
    return newer is not None and older is not None and newer > older


# Algorithms and backends that not every AuthMe has: those newer than the first version and older than the second, and
# versions 5 of the fork AuthMeReReloaded. "" is no limit.
_VERSIONS_WITH = {
    "XAUTH": ("", "5.7.0", True),
    "WHIRLPOOL": ("", "5.7.0", True),
    "PBKDF2BASE64": ("5.7.0", "", False),
    "SALTEDSHA256": ("5.7.0", "", False),
    "DOUBLE_SHA512": ("5.7.0", "", False),
    "MARIADB": ("5.6.0-beta2", "", True),
}
REMOVED_ALGORITHMS = frozenset(name for name, (_after, before, _in_fork) in _VERSIONS_WITH.items() if before)
"""Algorithms of AuthMe 5.6 and AuthMeReReloaded that a newer AuthMe silently replaces."""


def is_known_to_authme(name: str, version: str | None) -> bool | None:
    """Return whether AuthMe of this version has an algorithm or a backend; None if that cannot be told."""
    if name not in _VERSIONS_WITH:
        return True
    after, before, is_in_fork = _VERSIONS_WITH[name]
    if version is None or find_version(version) is None:
        return None
    if "FORK" in version.upper():
        return is_in_fork if is_newer("6", version) else None
    return (not after or is_newer(version, after)) and (not before or is_newer(before, version))
