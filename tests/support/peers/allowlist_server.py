"""Stand-in for a game server with its allowlist: the file, the list in memory, and the commands over RCON.

It does what the game was read to do: the list is loaded at the start and by `whitelist reload`, which empties it first
and stays empty if the file is broken; `add` and `remove` write all of it to the file, in place; with
`enforce-whitelist`, who is not on it is kicked by `remove` and `reload`; `add` takes the UUID that the server would
look up, and in offline mode that of the name in small letters, as vanilla does. A plugin may object to names.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugin_bridge.server.player_uuids import offline_uuid
from tests.support.peers.rcon_server import RconServer


class AllowlistServer(RconServer):
    """`profiles`: what Mojang answers, by lower-case name; `is_online`: nobody else has a UUID.

    `is_strict`: enforce-whitelist. `vetoed`: lower-case names that a plugin keeps off the list, which
    it writes again without them.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.file = folder / "whitelist.json"
        self.listed: dict[str, str] = {}
        self.profiles: dict[str, tuple[str, str]] = {}
        self.is_online = False
        self.is_strict = False
        self.vetoed: set[str] = set()
        self._main_thread = threading.RLock()  # all commands run on the game's one thread

    def start(self) -> None:
        if not self.file.exists():
            self.file.write_text("[]")
        self._load()
        super().start()

    def may_join(self, name: str, uuid: str | None = None) -> bool:
        """Whether a client with this exact name, or with this UUID in online mode, gets in."""
        return (uuid or offline_uuid(name)) in self.listed

    def answer(self, command: str) -> str:
        verb, _space, rest = command.partition(" ")
        if verb != "whitelist" or verb in self.answers:
            return super().answer(command)
        action, _space, name = rest.partition(" ")
        with self._main_thread:
            if action == "reload":
                self._load()
                self._object()
                self._kick_unlisted()
                return "Reloaded the whitelist"
            if action == "list" and not self.listed:
                return "There are no whitelisted players"
            if action == "list":
                return f"There are {len(self.listed)} whitelisted player(s): {', '.join(self.listed.values())}"
            if action == "add":
                return self.type_add(name)
            return self.type_remove(name)

    def type_add(self, name: str) -> str:
        """`/whitelist add`, also from inside the game."""
        with self._main_thread:
            if self.is_online and name.lower() not in self.profiles:
                return "That player does not exist"
            uuid, right = self.profiles.get(name.lower(), (offline_uuid(name.lower()), name.lower()))
            if uuid in self.listed:
                return "Player is already whitelisted"
            self.listed[uuid] = right
            self._object()
            self._save()
            return f"Added {right} to the whitelist"

    def type_remove(self, name: str) -> str:
        """`/whitelist remove` of a name as it is listed."""
        with self._main_thread:
            uuid = next((key for key, listed in self.listed.items() if listed == name), None)
            if uuid is None:
                return "Player is not whitelisted"
            del self.listed[uuid]
            self._save()
            self._kick_unlisted()
            return f"Removed {name} from the whitelist"

    def _load(self) -> None:
        self.listed = {}
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # it logs a warning
            document = json.loads(self.file.read_text())
            self.listed = {entry["uuid"]: entry["name"] for entry in document if entry.get("uuid")}

    def _object(self) -> None:
        if unwanted := {uuid for uuid, name in self.listed.items() if name.lower() in self.vetoed}:
            self.listed = {uuid: name for uuid, name in self.listed.items() if uuid not in unwanted}
            self._save()

    def _save(self) -> None:
        with self.file.open("w") as file:  # in place: a reader may see half of it
            file.write("[\n")
            file.flush()
            file.write(",\n".join(json.dumps({"uuid": uuid, "name": name}) for uuid, name in self.listed.items()))
            file.write("\n]")

    def _kick_unlisted(self) -> None:
        if self.is_strict:
            self.online &= set(self.listed.values())


@contextmanager
def allowlist_server(folder: Path) -> Iterator[AllowlistServer]:
    """One that runs while the block does."""
    server = AllowlistServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
