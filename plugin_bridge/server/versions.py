"""Comparing version numbers of plugins and the companion ("5.6.0-beta2", "5.7.0-SNAPSHOT", "v1.2"), and what AuthMe's
versions have: algorithms, backends, public holes.
"""

import logging
import re
import zipfile
import zlib
from dataclasses import dataclass
from datetime import date
from enum import Enum, auto
from functools import total_ordering
from pathlib import Path
from typing import Final

import yaml

from plugin_bridge.server.files import require_regular_file

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


def is_fork(version: str) -> bool:
    """Return whether this is a version of the fork AuthMeReReloaded, such as "5.7.0-FORK-b53"."""
    return "FORK" in version.upper()


def is_known_to_authme(name: str, version: str | None) -> bool | None:
    """Return whether AuthMe of this version has an algorithm or a backend; None if that cannot be told."""
    if name not in _VERSIONS_WITH:
        return True
    after, before, is_in_fork = _VERSIONS_WITH[name]
    if version is None or find_version(version) is None:
        return None
    if is_fork(version):
        return is_in_fork if is_newer("6", version) else None
    return (not after or is_newer(version, after)) and (not before or is_newer(before, version))


@dataclass(frozen=True, slots=True)
class PublicHole:
    """Way to play as another player without their password that is described in public.

    `first`: the oldest version that AuthMe's authors name as affected; older ones were only reported to be. `mended`:
    the first release without it.
    """

    id: str
    disclosed: date
    first: str
    mended: str


PUBLIC_HOLES: Final = (
    # Several clients of one name share the state of the login before the join: who is let in is the last to come, and
    # not who typed the password. Known from: AuthMe/AuthMeReloaded issues 3131, 3132 and 3136 and pull request 3133
    # (2026-09-03 and 04), and the notes of release 6.0.1 (2026-09-03), which name the builds of version 6 for Paper and
    # Folia with the dialog before the join. That all versions have it, without the dialog too, is said by the author of
    # issue 3132; that the fork AuthMeReReloaded has it, in issue 3136 and in its own issue 297. No release of the fork
    # is known to mend it (looked for on 2026-11-28), so all of its versions are reported to have it.
    PublicHole("shared-login", date(2026, 9, 3), first="6.0.0-alpha", mended="6.0.1"),
)
"""Public holes of AuthMe, with how each is known. SECURITY.md says how the table is kept."""


class Affected(Enum):
    """Certainty that a version has a hole."""

    SURELY = auto()
    """AuthMe's authors say so."""
    REPORTED = auto()
    """Others say so: of versions older than those that AuthMe's authors name, and of the fork."""
    PERHAPS = auto()
    """The version was built between the last one with the hole and the release that mends it."""


def find_public_holes(version: str | None) -> list[tuple[PublicHole, Affected]] | None:
    """Return the public holes that AuthMe of this version has or may have; None if the version cannot be told."""
    if version is None or find_version(version) is None:
        return None
    found = ((hole, _is_affected(hole, version)) for hole in PUBLIC_HOLES)
    return [(hole, affected) for hole, affected in found if affected is not None]


def _is_affected(hole: PublicHole, version: str) -> Affected | None:
    """Return how sure it is that this version has the hole; None: it does not."""
    if is_fork(version):
        return Affected.REPORTED
    if not is_newer(hole.mended, version):
        return None
    if is_newer(hole.first, version):
        return Affected.REPORTED
    known, mended = find_version(version), find_version(hole.mended)
    is_in_between = known is not None and mended is not None and known.numbers == mended.numbers
    return Affected.PERHAPS if is_in_between else Affected.SURELY


class ProxyLogins(Enum):
    """Treatment of a proxy's request to log a player in, where `Hooks.proxySharedSecret` is not set."""

    TAKES_ANY = auto()
    """AuthMe 5 and the fork know no secret: they believe every client that sends the message."""
    TAKES_EMPTY_KEY = auto()
    """AuthMe 6.0.0 has the requests signed, with the empty text as the key, which everybody knows."""
    REFUSES = auto()


def find_proxy_logins(version: str | None, *, has_key: bool) -> tuple[ProxyLogins, bool]:
    """Return what this AuthMe does with unsigned requests of a proxy, and whether that is sure.

    `has_key`: whether its config.yml has `Hooks.proxySharedSecret`, which counts where the version is unknown: AuthMe
    writes the keys that it knows when it starts. From `BungeeReceiver` and `HooksSettings` in the sources of 5.6.0,
    5.7.0 and 6.0.0 (6.0.0-R1 brought the key); of 6.0.1 from what was published about it, not from its source.
    """
    if version is None or find_version(version) is None:
        return (ProxyLogins.TAKES_EMPTY_KEY, False) if has_key else (ProxyLogins.TAKES_ANY, False)
    if is_fork(version) or is_newer("6.0.0-alpha", version):
        return ProxyLogins.TAKES_ANY, True
    if is_newer("6.0.1-alpha", version):
        return ProxyLogins.TAKES_EMPTY_KEY, True
    return (ProxyLogins.TAKES_EMPTY_KEY, False) if is_newer("6.0.1", version) else (ProxyLogins.REFUSES, True)


# --- Version of a plugin that the game server has, as its jar's `plugin.yml` states it ---


log = logging.getLogger(__name__)

MAX_DESCRIPTION_BYTES = 64 * 1024

_MAX_JARS = 20

_PLUGIN = "AuthMe"

_MAX_VERSION_LENGTH = 100

_Stamp = tuple[str, int, int]  # name, time of the content, size


class PluginJar:
    """Finder of AuthMe in the server's `plugins` folder. May be shared by threads."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` None: the config does not say where the game server is."""
        self._folder = folder
        self._known: tuple[tuple[_Stamp, ...], str | None] = ((), None)

    def find_version(self) -> str | None:
        """Return the version as the author wrote it, or None without a readable jar of this plugin.

        Jars are opened again only when one of them changed. Of several jars the newest counts: the others were left
        behind by updates.
        """
        jars = self._list_jars()
        stamps = tuple(stamp for stamp, _path in jars)
        if stamps != self._known[0]:
            versions = (_read_version(path) for _stamp, path in jars)
            self._known = stamps, next((version for version in versions if version is not None), None)
        return self._known[1]

    def _list_jars(self) -> list[tuple[_Stamp, Path]]:
        """Return the jars, newest first."""
        if self._folder is None:
            return []
        jars = []
        try:
            for path in self._folder.glob(f"{_PLUGIN}*.jar"):
                status = path.stat()
                jars.append(((path.name, status.st_mtime_ns, status.st_size), path))
        except OSError as problem:
            log.debug("cannot list %s: %s", self._folder, problem)
            return []
        return sorted(jars, key=lambda jar: jar[0][1], reverse=True)[:_MAX_JARS]


def _read_version(jar: Path) -> str | None:
    """Return the version, or None for another plugin's jar and for one that is broken or still being copied."""
    try:
        require_regular_file(jar)
        with zipfile.ZipFile(jar) as archive, archive.open("plugin.yml") as file:
            written = file.read(MAX_DESCRIPTION_BYTES + 1)
        described = _parse(written)
    except (OSError, KeyError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        log.debug("%s states no version: %s", jar, problem)
        return None
    if not isinstance(described, dict) or described.get("name") != _PLUGIN:
        return None
    version = described.get("version")
    return version.strip()[:_MAX_VERSION_LENGTH] or None if isinstance(version, str) else None


def _parse(written: bytes) -> object:
    """Parse into texts, lists and tables only, so that the version 5.10 stays a text. Raises ValueError."""
    if len(written) > MAX_DESCRIPTION_BYTES:
        raise ValueError("plugin.yml is too large")
    try:
        return yaml.load(written.decode("utf-8-sig"), yaml.BaseLoader)  # noqa: S506 - it creates only texts
    except (yaml.YAMLError, RecursionError) as problem:
        raise ValueError(f"plugin.yml is not YAML: {problem}") from problem
