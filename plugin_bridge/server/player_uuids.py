"""UUIDs of players, as far as the game server's files tell them."""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from plugin_bridge.java_formats import parse_yaml
from plugin_bridge.server.files import PropertiesFile, parse_list, read_bounded, stamp_of

log = logging.getLogger(__name__)

Forwarding = Literal["none", "offline", "mojang"]
"""Kind of UUIDs that a proxy in front of the server forwards; "none": the server derives them from the names itself."""

UuidFamily = Literal["offline", "online"]
"""Derived from the name, or Mojang's."""

# Paper's own config, that of Paper up to 1.18, and Spigot's
_PROXY_FILES = ("config/paper-global.yml", "paper.yml", "spigot.yml")


class PlayerUuids:
    """UUIDs that a game server gives players. May be shared by threads.

    Only `refresh` touches the files, so that `find` may be called inside a transaction.
    """

    def __init__(self, directory: Path | None, properties: PropertiesFile) -> None:
        """`directory` is the server's folder, whose server.properties `properties` follows; None: it is unknown."""
        self._directory = directory
        self._properties = properties
        self._lock = threading.Lock()
        self._stamps: list[object] = []
        self._forwarding: Forwarding = "none"
        self._joined: Mapping[str, str] = {}
        self._joined_by_key: Mapping[str, list[tuple[str, str]]] = {}
        self.refresh()

    def find(self, name: str) -> str | None:
        """Return the UUID that the player of this exact name has in the game; None if the files do not tell it.

        A server in offline mode derives it from the name. Behind a proxy that forwards UUIDs, those of players who
        joined before are known; another player's is Mojang's unless the proxy is in offline mode, too.
        """
        properties = self._properties.current
        if properties is None or properties.online_mode:
            return None
        if self._forwarding == "none":
            return offline_uuid(name)
        return self._joined.get(name) or (offline_uuid(name) if self._forwarding == "offline" else None)

    @property
    def family(self) -> UuidFamily | None:
        """Kind of UUIDs that players have, as the server's config implies; None: no server.properties was read."""
        properties = self._properties.current
        if properties is None:
            return None
        is_offline = not properties.online_mode and self._forwarding in ("none", "offline")
        return "offline" if is_offline else "online"

    @property
    def joined(self) -> Mapping[str, str]:
        """UUIDs of players who were in the game lately, by exact name."""
        return self._joined

    def find_joined(
        self, name: str, family: UuidFamily | None, *, is_on_bedrock: bool = False
    ) -> tuple[str, str] | None:
        """Return name and UUID with which this player was in the game lately, or None.

        A UUID of the other family than `family` proves nothing. Where UUIDs follow from names, each spelling of a name
        is another player; otherwise, and on Bedrock, it is the same one. Floodgate's UUIDs are Bedrock players' alone;
        a Bedrock player who is linked with a Java account joins with name and UUID of that account.
        """
        for joined, written in self._joined_by_key.get(name.lower(), ()):
            is_same = joined == name or is_on_bedrock or family != "offline"
            agrees = family is None or family_of(written) in (None, family)
            if is_same and agrees and is_bedrock(written) == is_on_bedrock:
                return joined, written
        return None

    def find_doubt(self, keys: Set[str], family: UuidFamily | None) -> str | None:
        """Return the first of these players, by lower-case name, who last joined with a UUID of the other family."""
        for key in sorted(keys & self._joined_by_key.keys()) if family is not None else ():
            name, written = self._joined_by_key[key][0]
            if family_of(written) not in (None, family):
                return name
        return None

    def find_others(self, uuids: Mapping[str, str]) -> set[str]:
        """Return those of these players, UUIDs by lower-case name, who joined lately with another UUID."""
        by_key = self._joined_by_key
        return {key for key in uuids.keys() & by_key.keys() if any(uuids[key] != other for _name, other in by_key[key])}

    def refresh(self) -> None:
        """Read the files that have changed. Blocking; a file that cannot be used tells nothing."""
        if self._directory is None:
            return
        proxy, joined = [self._directory / name for name in _PROXY_FILES], self._directory / "usercache.json"
        with self._lock:
            before, self._stamps = self._stamps, [stamp_of(file) for file in (joined, *proxy)]
            if before[1:] != self._stamps[1:] or not before:
                self._forwarding = _read_forwarding(*map(_read_yaml, proxy))
            if before[:1] != self._stamps[:1]:
                entries = _read_joined(joined)
                by_key: dict[str, list[tuple[str, str]]] = {}
                for entry in entries:
                    by_key.setdefault(entry[0].lower(), []).append(entry)
                self._joined_by_key, self._joined = by_key, dict(reversed(entries))


def offline_uuid(name: str) -> str:
    """Return the UUID that the game derives from a name in offline mode."""
    digest = hashlib.md5(f"OfflinePlayer:{name}".encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def is_bedrock(written: str) -> bool:
    """Return whether the UUID is one that Floodgate gives players of the Bedrock edition."""
    return written.startswith("00000000-0000-0000-")


def family_of(written: str) -> UuidFamily | None:
    """Return whose UUID this is; None for those of other programs, which prove nothing."""
    return {3: "offline", 4: "online"}.get(uuid.UUID(written).version or 0)  # type: ignore[return-value]


def _read_forwarding(paper: Any, old_paper: Any, spigot: Any) -> Forwarding:
    """Return what the three configs say; "mojang", which derives nothing, if one of them is unreadable (None)."""
    if paper is None or old_paper is None or spigot is None:
        return "mojang"
    velocity = _find(paper, "proxies", "velocity") or _find(old_paper, "settings", "velocity-support")
    if _find(velocity, "enabled") is True:
        return "offline" if _find(velocity, "online-mode") is False else "mojang"
    if _find(spigot, "settings", "bungeecord") is True:
        is_online = _find(paper, "proxies", "bungee-cord", "online-mode")
        if is_online is None:
            is_online = _find(old_paper, "settings", "bungee-online-mode")
        return "offline" if is_online is False else "mojang"
    return "none"


def _find(document: Any, *path: str) -> Any:
    """Return the value at a path of nested tables, or None."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _read_yaml(file: Path) -> Any:
    """Return the document, {} if there is no file, or None if it cannot be read."""
    try:
        return parse_yaml(read_bounded(file))[0] or {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as problem:
        log.debug("%s cannot be read: %s", file, problem)
        return None


def _read_joined(file: Path) -> list[tuple[str, str]]:
    """Return names and UUIDs of the players who joined, the last one first."""
    joined: list[tuple[str, str]] = []
    try:
        entries = parse_list(read_bounded(file))[0]
    except FileNotFoundError:
        return joined
    except (OSError, ValueError) as problem:
        log.debug("%s cannot be read: %s", file, problem)
        return joined
    for entry in entries:
        match entry:
            case {"name": str(name), "uuid": str(written)}:
                with suppress(ValueError):  # as in the replies of Mojang, which have no dashes
                    joined.append((name, str(uuid.UUID(written))))
    return joined
