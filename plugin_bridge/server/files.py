"""Read-only access to the game server's own files, `ops.json` and `server.properties`."""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from plugin_bridge.regular_files import require_regular_file

log = logging.getLogger(__name__)

HIGHEST_LEVEL = 4
MAX_FILE_BYTES = 1024 * 1024

# Changes with the file: inode, size, modification time, change time. None: the file does not exist.
_Stamp = tuple[int, int, int, int] | None
_UNKNOWN = "unknown"  # in place of a stamp: before the first look, or when `stat` fails


class ServerFileError(Exception):
    """A file of the game server cannot be read. The message names the file."""


class OpsFile:
    """Current operators of the game server. May be shared by threads; one `stat` per call while nothing changes.

    Without the file (or a path) there are no operators but `extra_names`, who have level 4. While the file is
    half-written or unreadable the last good list stays in force, with one warning per state of the file.
    """

    def __init__(self, path: Path | None, extra_names: Iterable[str] = ()) -> None:
        self._path = path
        self._extra = {name.lower(): HIGHEST_LEVEL for name in extra_names}
        self._lock = threading.Lock()
        self._loaded: object = _UNKNOWN  # the stamp of the list in force
        self._warned: object = None  # the stamp of the last warning, if the file is bad now
        self._levels: Mapping[str, int] = self._extra
        self._names = frozenset(self._extra)
        self._uuids: Mapping[str, tuple[str, str]] = {}
        self._dismissed: frozenset[str] = frozenset()

    def level_of(self, name: str) -> int:
        """Return the operator level, 1 to 4, or 0 for other players. The case of the name does not matter."""
        self._refresh()
        return self._levels.get(name.lower(), 0)

    def names(self) -> frozenset[str]:
        """Return all names in the file and the extra ones, in lower case."""
        self._refresh()
        return self._names

    def uuids(self) -> Mapping[str, tuple[str, str]]:
        """Return name and UUID of each operator in the file who has one there, by lower-case name."""
        self._refresh()
        return self._uuids

    def find_dismissed(self) -> frozenset[str] | None:
        """Return who has left the list since `forget_dismissed`, even if they are back; None: it was never read."""
        self._refresh()
        return None if self._path is not None and self._loaded is _UNKNOWN else self._dismissed

    def forget_dismissed(self, names: frozenset[str]) -> None:
        """Take these names off what `find_dismissed` returns."""
        with self._lock:
            self._dismissed -= names

    def _refresh(self) -> None:
        if self._path is None:
            return
        with self._lock:
            stamp: object = _UNKNOWN
            try:
                stamp = find_stamp(self._path)
                if stamp == self._loaded:
                    return
                entries = [] if stamp is None else _read_ops(self._path)
                levels = _levels_of(entries)
            except (OSError, ValueError, RecursionError) as problem:
                # The next call tries again; only the warning is not repeated.
                if stamp != self._warned:
                    log.warning(self._describe_fallback(), self._path, _reason_of(problem))
                self._warned = stamp
                return
            self._loaded, self._warned = stamp, None
            self._levels, self._uuids = levels | self._extra, _uuids_of(entries)
            self._dismissed |= self._names - self._levels.keys()
            self._names = frozenset(self._levels)

    def _describe_fallback(self) -> str:
        if self._loaded is not _UNKNOWN:
            return "%s cannot be read (%s): the last good list of operators stays in force"
        fallback = "only those named in the config" if self._extra else "none, and no admin can log in"
        return f"%s cannot be read (%s): there is no list of operators yet, so there are {fallback}; fix the file"


def read_operators(path: Path) -> dict[str, int]:
    """Return the operator levels by lower-case name; empty where there is no file. Raises `ServerFileError`."""
    try:
        return {} if find_stamp(path) is None else _levels_of(_read_ops(path))
    except (OSError, ValueError, RecursionError) as problem:
        raise ServerFileError(f"{path} cannot be read: {_reason_of(problem)}") from problem


def _flag(text: str, default: bool) -> bool:
    return text.strip().lower() == "true"


def _whole_number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", text) else default


def _port(text: str, default: int) -> int:
    port = _whole_number(text, default)
    return port if 0 < port <= 65535 else default


def _text(text: str, default: str) -> str:
    return text


def _address(text: str, default: str) -> str:
    return text.strip()


def _key(name: str, default: Any, parse: Callable[[str, Any], object], *, is_secret: bool = False) -> Any:
    """Return a dataclass field that is read from a key of server.properties."""
    return field(default=default, repr=not is_secret, metadata={"key": name, "parse": parse})


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """The values that the daemon needs of `server.properties`. The defaults are the game server's own."""

    server_ip: str = _key("server-ip", "", _address)  # empty: all addresses
    server_port: int = _key("server-port", 25565, _port)
    enable_status: bool = _key("enable-status", True, _flag)  # whether the server answers status pings
    online_mode: bool = _key("online-mode", True, _flag)
    white_list: bool = _key("white-list", False, _flag)  # whether only those on the allowlist get in
    enforce_whitelist: bool = _key("enforce-whitelist", False, _flag)  # and whether others are kicked
    rcon_enabled: bool = _key("enable-rcon", False, _flag)  # the server opens RCON only if a password is set too
    rcon_ip: str = _key("rcon.ip", "", _address)  # Paper's own key; empty: as `server_ip`
    rcon_port: int = _key("rcon.port", 25575, _port)
    rcon_password: str = _key("rcon.password", "", _text, is_secret=True)
    # the management protocol: switched on, it keeps the server from starting unless the others fit
    has_management: bool = _key("management-server-enabled", False, _flag)
    management_tls: bool = _key("management-server-tls-enabled", True, _flag)
    management_keystore: str = _key("management-server-tls-keystore", "", _text)
    management_secret: str | None = _key("management-server-secret", None, _text, is_secret=True)
    motd: str = _key("motd", "A Minecraft Server", _text)
    max_players: int = _key("max-players", 20, _whole_number)


def read_server_properties(path: Path) -> ServerProperties:
    """Read the file, with the server's default for each missing or unusable value. Raises `ServerFileError`."""
    try:
        found = _parse_properties(_decode(read_bounded(path)))
    except (OSError, ValueError) as problem:
        raise ServerFileError(f"{path} cannot be read: {_reason_of(problem)}") from problem
    keys = {part.metadata["key"]: part for part in fields(ServerProperties)}
    values = {keys[key].name: keys[key].metadata["parse"](found[key], keys[key].default) for key in found.keys() & keys}
    values["rcon_enabled"] = bool(values.get("rcon_enabled") and values.get("rcon_password"))
    return ServerProperties(**values)


class PropertiesFile:
    """A server's `server.properties`, cached. May be shared by threads.

    Only `refresh` touches the file, so that `current` may be asked inside a transaction.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._loaded: object = _UNKNOWN  # the stamp of `current`
        self.current: ServerProperties | None = None
        """The values found by the last `refresh`; None: there is no path, or the file is missing or unreadable."""
        self.refresh()

    def refresh(self) -> ServerProperties | None:
        """Read the file again if it has changed, and return its values as `current` does. Blocking."""
        if self._path is None:
            return None
        with self._lock:
            try:
                stamp = find_stamp(self._path)
                if stamp != self._loaded:
                    self.current = None if stamp is None else read_server_properties(self._path)
                    self._loaded = stamp
            except (OSError, ServerFileError) as problem:
                log.debug("server.properties counts as missing: %s", problem)
                self.current, self._loaded = None, _UNKNOWN  # the next refresh tries again
            return self.current


def _reason_of(problem: Exception) -> str:
    """Return the reason without the path, which the caller names."""
    return str(problem.strerror) if isinstance(problem, OSError) else str(problem)


def find_stamp(path: Path) -> _Stamp:
    """Return what changes with the file, or None if there is none. Raises OSError."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamp_of(path: Path | None) -> object:
    """Return the file's stamp as `find_stamp` does, and what is wrong where it cannot be looked at."""
    try:
        return None if path is None else find_stamp(path)
    except OSError as problem:
        return problem.errno


def read_bounded(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content. Raises OSError, and ValueError if it is larger than `limit` bytes."""
    require_regular_file(path)
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it is larger than {limit} bytes")
    return content


def _read_ops(path: Path) -> list[Any]:
    """Return the entries. Raises OSError, and ValueError if it is not a list."""
    entries = json.loads(read_bounded(path).decode("utf-8-sig"))
    if not isinstance(entries, list):
        raise ValueError("it is not a list")
    return entries


def _uuids_of(entries: Iterable[Any]) -> dict[str, tuple[str, str]]:
    uuids = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "uuid": str(written)}:
                with suppress(ValueError):
                    uuids[name.strip().lower()] = name.strip(), str(uuid.UUID(written))
    return uuids


def _levels_of(entries: Iterable[Any]) -> dict[str, int]:
    """Return level by lower-case name, skipping entries that lack either."""
    levels: dict[str, int] = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "level": int(level)} if not isinstance(level, bool):
                key, level = name.strip().lower(), max(0, min(level, HIGHEST_LEVEL))
                levels[key] = max(level, levels.get(key, 0))
    return levels


def _decode(content: bytes) -> str:
    """Decode UTF-8, which newer servers write, or else Latin-1; the game tries them in this order too."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


# Java's format: `key=value`, `key: value` or `key value`; a backslash escapes, or joins lines at the end of one.
_PAIR = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _parse_properties(text: str) -> dict[str, str]:
    found = {}
    for line in _logical_lines(text):
        pair = _PAIR.match(line)
        if pair is not None:
            found[_unescape(pair[1])] = _unescape(pair[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments and indentation, continued ones joined."""
    logical, is_continued = "", False
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if not is_continued and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        logical += stripped[:-1] if is_continued else stripped
        if not is_continued:
            yield logical
            logical = ""
    if logical:
        yield logical


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_unescape_one, text)
    # Java writes a character outside the basic plane as two escapes, one for each surrogate.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape_one(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return _CONTROL.get(escape[2], escape[2])
