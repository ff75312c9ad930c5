"""Read-only access to the game server's own files: `ops.json`, `server.properties`, and when players were saved.

Only regular files are read: a host may name a pipe, which would be waited for without end.
"""

from __future__ import annotations

import errno
import logging
import math
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from typing import Any

from plugin_bridge.hosts import plain_host
from plugin_bridge.java_formats import Oddity, int_value, parse_json, parse_properties


def require_regular_file(file: Traversable) -> None:
    """Raise OSError if the file is missing or has no content of its own. A folder's error comes when it is opened."""
    if isinstance(file, Path):  # else it is in an archive
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))


log = logging.getLogger(__name__)

HIGHEST_LEVEL = 4
LOWEST_LEVEL = 1
MAX_FILE_BYTES = 1024 * 1024
_LONGEST_NAME = 255
"""Characters of a name that AuthMe's table has room for."""

# Changes with the file: inode, size, modification time, change time. None: the file does not exist.
_Stamp = tuple[int, int, int, int] | None
_UUID = re.compile("[0-9a-fA-F]{1,15}(?:-[0-9a-fA-F]{1,15}){4}")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,10}")  # as `Integer.parseInt` takes it
_UUID_LENGTH = 36
_UUID_PARTS = (8, 4, 4, 4, 12)
_UNKNOWN = "unknown"  # in place of a stamp: before the first look, or when `stat` fails
_NO_FILE = "no file"


class ServerFileError(Exception):
    """A file of the game server cannot be read. The message names the file."""


@dataclass(frozen=True, slots=True)
class ListedOperator:
    """An entry of ops.json. `uuid` None: it has none that can be used."""

    name: str
    level: int
    uuid: str | None = None


class OpsFile:
    """The list of operators as the game server wrote it last. May be shared by threads.

    One `stat` per call while nothing changes. Without the file (or a path) there are no operators but `extra_names`,
    who have level 4. While the file is half-written or unreadable the last good list stays in force; one that stays
    so until the next look is warned of once. Whose op AuthMe holds for the moment is not in it: see `Operators`.
    """

    def __init__(self, path: Path | None, extra_names: Iterable[str] = ()) -> None:
        self.path = path
        self._extra = {name.lower(): ListedOperator(name, HIGHEST_LEVEL) for name in extra_names}
        self._lock = threading.Lock()
        self._loaded: object = _UNKNOWN  # the stamp of the list in force
        self._bad: object = None  # the stamp of the file as it was bad at the last look
        self._told: object = None  # the stamp of the last warning, if the file is bad now
        self._listed: Mapping[str, ListedOperator] = self._extra

    def read(self) -> tuple[Mapping[str, ListedOperator], object]:
        """Return the entries with a level by lower-case name, and what changes whenever the file is written.

        The second is None as long as the file was never read.
        """
        if self.path is None:
            return self._listed, _NO_FILE
        with self._lock:
            self._refresh(self.path)
            return self._listed, None if self._loaded is _UNKNOWN else (self._loaded,)

    def level_of(self, name: str) -> int:
        """Return the level of a name in the list, 1 to 4, or 0. The case of the name does not matter."""
        listed = self.read()[0].get(name.lower())
        return listed.level if listed is not None else 0

    def names(self) -> frozenset[str]:
        """Return all names in the file and the extra ones, in lower case."""
        return frozenset(self.read()[0])

    @property
    def extra_names(self) -> Set[str]:
        """The names that are operators whatever the file says, in lower case."""
        return self._extra.keys()

    def _refresh(self, path: Path) -> None:
        stamp: object = _UNKNOWN
        try:
            stamp = find_stamp(path)
            if stamp == self._loaded:
                return
            listed = {} if stamp is None else _list_operators(_read_ops(path))
        except (OSError, ValueError, RecursionError) as problem:
            # The next call tries again. The game writes the file in place: one that is half-written for a moment, and
            # whole at the next look, is no reason to warn.
            is_certain, self._bad = stamp == self._bad or isinstance(problem, OSError), stamp
            if is_certain and stamp != self._told:
                log.warning(self._describe_fallback(), path, _reason_of(problem))
                self._told = stamp
            return
        self._loaded, self._bad, self._told = stamp, None, None
        self._listed = listed | self._extra

    def _describe_fallback(self) -> str:
        if self._loaded is not _UNKNOWN:
            return "%s cannot be read (%s): the last good list of operators stays in force"
        fallback = "only those named in the config" if self._extra else "none, and no admin can log in"
        return f"%s cannot be read (%s): there is no list of operators yet, so there are {fallback}; fix the file"


def read_operators(path: Path) -> Mapping[str, ListedOperator]:
    """Return the operators by lower-case name; empty where there is no file. Raises `ServerFileError`."""
    try:
        return {} if find_stamp(path) is None else _list_operators(_read_ops(path))
    except (OSError, ValueError, RecursionError) as problem:
        raise ServerFileError(f"{path} cannot be read: {_reason_of(problem)}") from problem


def _flag(text: str, default: bool) -> bool:
    return text.strip().lower() == "true"


def _whole_number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"[ \t\f]*[+-]?[0-9]{1,9}[ \t\f]*", text) else default


def _port(text: str, default: int) -> int:
    port = _whole_number(text, default)
    return port if 0 < port <= 65535 else default


def _operator_level(text: str, default: int) -> int:
    return _bounded(_whole_number(text, default))


def _text(text: str, default: str) -> str:
    return text


def _address(text: str, default: str) -> str:
    return plain_host(text.strip())


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
    level_name: str = _key("level-name", "world", _text)  # the folder of the world
    motd: str = _key("motd", "A Minecraft Server", _text)
    max_players: int = _key("max-players", 20, _whole_number)
    op_permission_level: int = _key("op-permission-level", HIGHEST_LEVEL, _operator_level)
    """The level that `/op` gives, and AuthMe, when it gives op back."""


def read_server_properties(path: Path) -> ServerProperties:
    """Read the file, with the server's default for each missing or unusable value. Raises `ServerFileError`."""
    try:
        found = parse_properties(read_bounded(path))
    except (OSError, ValueError) as problem:
        raise ServerFileError(f"{path} cannot be read: {_reason_of(problem)}") from problem
    keys = {part.metadata["key"]: part for part in fields(ServerProperties)}
    values = {keys[key].name: keys[key].metadata["parse"](found[key], keys[key].default) for key in found.keys() & keys}
    values["rcon_enabled"] = bool(values.get("rcon_enabled") and values.get("rcon_password"))
    return ServerProperties(**values)


def find_last_saves(world: Path, uuids: Iterable[str]) -> dict[str, datetime] | None:
    """Return when these players' data was last saved, by UUID; without those whom the world does not know.

    The game saves it as a player leaves, and of all who are online every few minutes: `playerdata/<uuid>.dat` of the
    world's folder (read in the game's source, `PlayerDataStorage`). None where there is no such folder, or it cannot be
    read: nothing is known then, not that nobody plays. Blocking.
    """
    folder, found = world / "playerdata", dict[str, datetime]()
    try:
        (folder / "..").stat()  # as to find a file in it, this needs the right to look into the folder
        for uuid in uuids:
            with suppress(FileNotFoundError):
                found[uuid] = datetime.fromtimestamp((folder / f"{uuid}.dat").stat().st_mtime, UTC)
    except OSError:
        return None
    return found


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


def parse_list(content: bytes) -> tuple[list[Any], tuple[Oddity, ...]]:
    """Return the items of one of the game's lists, whatever they are, and what is odd. Raises ValueError."""
    items, oddities = parse_json(content)
    if not isinstance(items, list):
        raise ValueError("it is not a list")
    return items, oddities


@dataclass(frozen=True, slots=True)
class ListState:
    """State of one of the game's lists that can be read. `ignored` names the entries that the game leaves out."""

    oddities: tuple[Oddity, ...]
    ignored: tuple[str, ...]


def examine_list(path: Path) -> ListState:
    """Return what is odd about ops.json or whitelist.json. Raises OSError and ValueError."""
    items, oddities = parse_list(read_bounded(path))
    taken = list(takewhile(lambda item: _find_level(item) is not None, items))
    ignored = [
        _name_entry(number, item)
        for number, item in enumerate(items, 1)
        if number > len(taken) or find_uuid(item.get("uuid")) is None or not _is_name(item.get("name"))
    ]
    return ListState(oddities, tuple(ignored))


def _find_level(item: Any) -> int | None:
    """Return the level of an entry, 0 to 4, the lowest if it has none; None where the game stops reading the list."""
    return _level_of(item.get("level", LOWEST_LEVEL)) if isinstance(item, dict) else None


def _is_name(written: Any) -> bool:
    """Return whether this may be a player's name; no database would take a lone surrogate."""
    return isinstance(written, str) and len(written.strip()) <= _LONGEST_NAME and written.strip().isprintable()


def _name_entry(number: int, item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return f"{number} ({name})" if isinstance(name, str) and _is_name(name) else str(number)


def _read_ops(path: Path) -> list[Any]:
    """Return the entries. Raises OSError, and ValueError if it is not a list."""
    return parse_list(read_bounded(path))[0]


def _list_operators(entries: Iterable[Any]) -> dict[str, ListedOperator]:
    """Return the entries by lower-case name, the one with the lowest level of several players who have it.

    As the game reads them (`ServerOpListEntry`): a number may be text, of several entries with a UUID the last one
    counts, and an entry without a level has level 0, whom Bukkit takes for an operator; servers that know no levels
    write it so. It has the least rights here. The game skips entries without a UUID: of these, that hosts typed, only
    such with a level count. Where it stops reading, at what is no entry or has no number, the rest does not count.
    """
    players: dict[str, ListedOperator] = {}
    for number, entry in enumerate(entries):
        if (level := _find_level(entry)) is None:
            break
        if "uuid" in entry or type(entry.get("level")) is int:
            uuid_ = find_uuid(entry.get("uuid"))
            players[uuid_ or str(number)] = ListedOperator(entry.get("name"), level, uuid_)
    listed: dict[str, ListedOperator] = {}
    for player in players.values():
        if _is_name(player.name):
            operator = replace(player, name=player.name.strip())
            other = listed.setdefault(operator.name.lower(), operator)
            if operator.level < other.level:
                listed[operator.name.lower()] = operator
    return listed


def find_uuid(written: object) -> str | None:
    """Return a UUID in small letters with dashes, as Java reads it; None: it is none, as without dashes."""
    if not isinstance(written, str) or len(written) > _UUID_LENGTH or not _UUID.fullmatch(written):
        return None
    parts = [int(part, 16) for part in written.split("-")]
    return "-".join(f"{part % 16**size:0{size}x}" for part, size in zip(parts, _UUID_PARTS, strict=True))


def _level_of(written: object) -> int | None:
    """Return the level, 0 to 4, or None where the game finds no number."""
    match written:
        case bool():
            return None
        case int():
            return _bounded(int_value(written))
        case float():  # of which the game takes the last 32 bits, too
            return _bounded(int_value(int(written))) if math.isfinite(written) else None
        case str() if _WHOLE_NUMBER.fullmatch(written):
            number = int(written)
            return _bounded(number) if int_value(number) == number else None
        case _:
            return None


def _bounded(level: int) -> int:
    return max(0, min(level, HIGHEST_LEVEL))
