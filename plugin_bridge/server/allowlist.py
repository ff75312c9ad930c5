"""The game server's allowlist, `whitelist.json`: read, and changed without losing what the server writes meanwhile.

Where its folder is elsewhere, the console alone changes the list, and tells the names on it.

The running server keeps the list in memory. It writes the whole file in place at each `/whitelist add` and `remove`,
and reads it at its start and on `/whitelist reload`, which empties the list first: a broken file lets nobody in. So
the file is replaced by a rename, and a reader must expect to see half of it. The key of an entry is its UUID.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

from plugin_bridge.server.files import ServerFileError, find_stamp, find_uuid, parse_list, read_bounded
from plugin_bridge.server.rcon import (
    LIST_ALLOWED,
    RconAddress,
    RconError,
    change_allowed,
    find_allowed,
    open_rcon,
)

MAX_BYTES: Final = 16 * 1024 * 1024
"""About 160,000 entries."""
_TRIES: Final = 4
_PAUSE: Final = 0.1  # seconds: the server writes the file within a few milliseconds
_ASK_SECONDS: Final = 5.0  # and a second for each command, since the server asks Mojang for names
_USUAL: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UUID as the game writes it, and as we do."""
_TEMPORARY: Final = ".{}.companion"


class Entry(NamedTuple):
    """An entry of the list. `uuid` in small letters with dashes; the server shows `name`, but does not compare it.

    The console does not tell UUIDs: "".
    """

    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of the list at one moment. `stamp` None: there is no file, or the console named nobody."""

    entries: tuple[Entry, ...]
    stamp: object


class AllowlistFile:
    """The allowlist of one game server. Blocking; for one thread at a time."""

    is_file: ClassVar[bool] = True
    """Whether the running server has to be told to read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._replaced: list[tuple[BinaryIO, bytes]] = []  # files before our last changes, and what they held

    def find_stamp(self) -> object:
        """Return what changes with the file, None if it does not exist. Raises `ServerFileError`."""
        try:
            return find_stamp(self.path)
        except OSError as problem:
            raise _error(self.path, problem) from problem

    def read(self) -> Listing:
        """Return the entries; what the game ignores is left out. Raises `ServerFileError`, also for a broken file."""
        _content, items, stamp = self._read()
        return Listing(tuple(_entries_of(items)), stamp)

    def change(self, add: Iterable[Entry], remove: Iterable[Entry]) -> None:
        """Add entries, and take those with the UUIDs of others off; the rest stays as it is, unknown fields included.

        An added entry replaces the one of its UUID. Raises `ServerFileError`; then nothing was changed.
        """
        self._change(list(add), frozenset(entry.uuid for entry in remove))

    def _change(self, add: list[Entry], remove: frozenset[str]) -> None:
        try:
            for _attempt in range(_TRIES):
                if self._replace(add, remove):
                    return
        except OSError as problem:
            raise _error(self.path, problem) from problem
        raise ServerFileError(f"{self.path} cannot be changed: the game server writes it all the time")

    def settle(self) -> bool:
        """Take over what the server wrote to files that `change` replaced, in the moment before they were replaced.

        Called once the server has answered a reload, since it writes and reloads on one thread. Returns whether the
        file was changed, which the server has to reload again. Raises `ServerFileError`.
        """
        is_changed = False
        for file, before in self._replaced.copy():  # what is replaced now is for the next call
            try:
                after = _read_whole(file, before)
            except OSError as problem:
                raise _error(self.path, problem) from problem
            if after != before:
                old, new = ({entry.uuid: entry for entry in _entries_of(_parse(text))} for text in (before, after))
                self._change([new[key] for key in new.keys() - old.keys()], frozenset(old.keys() - new.keys()))
                is_changed = True
            self._replaced.remove((file, before))
            file.close()
        return is_changed

    def close(self) -> None:
        """Let go of the files that were replaced."""
        for file, _before in self._replaced:
            file.close()
        self._replaced.clear()

    def _replace(self, add: Iterable[Entry], remove: frozenset[str]) -> bool:
        """Return False if the server changed the file meanwhile, which must not be lost."""
        content, items, stamp = self._read()
        added = {entry.uuid: entry for entry in add}
        taken = remove | added.keys()
        kept = [found for found in items if _uuid_of(found) not in taken]
        ours = [{"uuid": entry.uuid, "name": entry.name} for entry in added.values()]
        document = sorted([*kept, *ours], key=_stops_the_game)
        path = self.path.resolve()  # of a link, the file that it names is replaced
        temporary = path.with_name(_TEMPORARY.format(path.name))
        replaced = path.open("rb") if stamp is not None else None
        try:
            text = json.dumps(document, indent=2, ensure_ascii=False)
            _write(temporary, text.encode(errors="backslashreplace"), path)  # a lone surrogate, as JSON escapes it
            if find_stamp(path) != stamp:
                return False
            temporary.replace(path)
            if replaced is not None:
                self._replaced.append((replaced, content))
            replaced = None
        finally:
            if replaced is not None:
                replaced.close()
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return True

    def _read(self) -> tuple[bytes, list[Any], object]:
        """Return a whole content, its items and its stamp; those of an empty list, and None, if there is no file."""
        for attempt in range(1, _TRIES + 1):
            try:
                stamp = find_stamp(self.path)
                content = b"[]" if stamp is None else read_bounded(self.path, MAX_BYTES)
                items = _parse(content)
                if find_stamp(self.path) == stamp:
                    return content, items, stamp
            except (OSError, ValueError) as problem:
                if attempt == _TRIES:
                    raise _error(self.path, problem) from problem
            time.sleep(_PAUSE)
        raise ServerFileError(f"{self.path} cannot be read: the game server writes it all the time")


@dataclass(frozen=True)
class AllowlistConsole:
    """The allowlist of a game server in online mode whose folder is elsewhere: its console finds the UUIDs.

    As `AllowlistFile`, but nothing has to be reloaded, and each look at it is a command.
    """

    is_file: ClassVar[bool] = False

    find_console: Callable[[], RconAddress | None]

    def find_stamp(self) -> object:
        """Return None: what changes with the list is not known without asking for all of it."""
        return None

    def read(self) -> Listing:
        """Return the entries. Raises `ServerFileError`, also if the reply is cut, or is none that the game gives."""
        names = find_allowed(self._ask([LIST_ALLOWED])[0])
        if names is None:
            raise ServerFileError("the console's answer to whitelist list is no list of players, or not a whole one")
        return Listing(tuple(Entry("", name) for name in names), len(names) or None)

    def change(self, add: Iterable[Entry], remove: Iterable[Entry]) -> None:
        """Add and remove names. Raises `ServerFileError`; then some may have been changed."""
        commands = [change_allowed("remove", entry.name) for entry in remove]
        self._ask(commands + [change_allowed("add", entry.name) for entry in add])

    def settle(self) -> bool:
        """Return False: the server changes its own list."""
        return False

    def close(self) -> None:
        """Do nothing: each connection ends with its commands."""

    def _ask(self, commands: list[str]) -> list[str]:
        async def talk(address: RconAddress) -> list[str]:
            async with open_rcon(address, _ASK_SECONDS + len(commands)) as console:
                return [await console.execute(command) for command in commands]

        address = self.find_console()
        if address is None:
            raise ServerFileError("the game server's remote console is off: set game.rcon_host and game.rcon_password")
        try:
            return asyncio.run(talk(address))
        except RconError as problem:
            raise ServerFileError(f"the game server's remote console cannot be used: {problem}") from problem


Allowlist = AllowlistFile | AllowlistConsole
"""The list of one game server, whatever carries the changes."""


def _read_whole(file: BinaryIO, before: bytes) -> bytes:
    """Return the content of a file that the server may be writing; `before` if it died while it did. Raises OSError."""
    for _attempt in range(_TRIES):
        file.seek(0)
        content = file.read(MAX_BYTES)
        with suppress(ValueError):
            _parse(content)
            return content
        time.sleep(_PAUSE)
    return before


def _parse(content: bytes) -> list[Any]:
    """Return the items of the list, whatever they are. Raises ValueError."""
    return parse_list(content)[0]


def _stops_the_game(item: Any) -> bool:
    """Return whether the game reads neither this item nor any behind it."""
    return not isinstance(item, dict) or any(
        key in item and not isinstance(item[key], str | int | float) for key in ("uuid", "name")
    )


def _uuid_of(item: Any) -> str | None:
    """Return the UUID of an item of the list; None: it has none that the game accepts, and the game ignores it."""
    written = item.get("uuid") if isinstance(item, dict) else None
    return written if isinstance(written, str) and _USUAL.fullmatch(written) else find_uuid(written)


def _entries_of(items: Iterable[Any]) -> Iterable[Entry]:
    for item in items:
        key = _uuid_of(item)
        if key is not None:
            name = item.get("name")
            yield Entry(key, name if isinstance(name, str) else "")


def _write(temporary: Path, content: bytes, original: Path) -> None:
    """Write a whole file with owner and mode of the original, of its folder if there is none. Raises OSError."""
    temporary.unlink(missing_ok=True)
    try:
        like = original.stat()
        mode = like.st_mode & 0o777
    except FileNotFoundError:
        like, mode = original.parent.stat(), 0o644
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        own = os.fstat(file.fileno())
        if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
            os.fchown(file.fileno(), like.st_uid, like.st_gid)  # else the server could not write its own list
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _error(path: Path, problem: Exception) -> ServerFileError:
    if isinstance(problem, ServerFileError):
        return problem
    if isinstance(problem, PermissionError):
        return ServerFileError(f"{path} cannot be changed: run the companion as the game server's user")
    if isinstance(problem, OSError) and problem.errno == errno.EROFS:  # so is everything that the unit does not name
        return ServerFileError(
            f"{path} cannot be changed: its folder is read-only for us (ReadWritePaths= of the unit, which companion "
            "install writes)"
        )
    reason = problem.strerror if isinstance(problem, OSError) else problem
    return ServerFileError(f"{path} cannot be read or written: {reason}")
