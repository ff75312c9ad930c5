"""Version of a plugin that the game server has, as its jar's `plugin.yml` states it."""

import logging
import zipfile
import zlib
from pathlib import Path

import yaml

from plugin_bridge.regular_files import require_regular_file

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
    except yaml.YAMLError as problem:
        raise ValueError(f"plugin.yml is not YAML: {problem}") from problem
