"""Model of a game server with AuthMe in it: what they do to the folder and to AuthMe's table around a join.

A rule says how it is known. Seen: AuthMe 5.6.0 and 6.0.1-SNAPSHOT ran in Glowstone 2021.8 (Minecraft 1.12.2). Read: in
that class of AuthMe, in 5.6.0 and 6.0.1-SNAPSHOT where no version is named. Else believed. docs/assumptions.md sums up.
The allowlist is that of `AllowlistServer`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from tests.support.authme.authme_like import HOME_IP, AuthMeLike, offline_uuid, system_now
from tests.support.authme.game_server import GameServer
from tests.support.authme.limbo_notes import LimboNotes, Note, merge
from tests.support.quick_yaml import parse_yaml_quickly

# "writing" comes twice: while the file is empty, and while it has half of the text
Step = Literal["writing ops.json", "op taken", "writing the note", "note saved", "op given", "note removed"]
Outcome = Literal["refused", "at the prompt", "in the game"]

FOR_CARS = (5, 7)  # read in `PlayerListener.saveStateBeforeQuit`; it is not in 5.6.0


class Killed(Exception):
    """The process of the game server was killed."""


@dataclass
class _AtThePrompt:
    note: Note
    deadline: datetime | None  # None: no time-out


class BukkitServer:
    """One server of a network: its folder, its memory, and AuthMe's part of the table, which servers share.

    `on_step` is called between the single steps, on the server's thread: the time stands still meanwhile. `uuids` has
    the UUIDs by name where they are not those of offline mode. `version`: AuthMe's, from (5, 6).
    """

    def __init__(
        self,
        game: GameServer,
        authme: AuthMeLike,
        now: Callable[[], datetime] = system_now,
        version: tuple[int, int] = (5, 6),
    ) -> None:
        self.game = game
        self.authme = authme
        self.version = version
        self.on_step: Callable[[Step], None] = lambda step: None
        self.uuids: dict[str, str] = {}
        self.online: dict[str, str] = {}  # lower-case name → name
        self.prompts: Counter[str] = Counter()  # by lower-case name, since the model was made
        self.saved_notes: Counter[str] = Counter()
        self.is_running = False
        self._now = now
        self._operators: list[dict[str, Any]] = []
        self._at_prompt: dict[str, _AtThePrompt] = {}
        self._settings: dict[str, Any] = {}
        self._notes = self._open_notes()

    # --- the process ---

    def start(self) -> None:
        """Read ops.json, and write it again without what does not parse (read in vanilla's source)."""
        assert not self.is_running
        found = [entry for entry in _read_list(self.game.ops_file) if "uuid" in entry and "name" in entry]
        self._operators = [{"level": 0, "bypassesPlayerLimit": False, **entry} for entry in found]
        self.is_running = True
        self._write_operators()
        self.reload_authme()
        if self.has_authme:
            self.authme.start_server()

    def stop(self) -> None:
        """`/stop`: AuthMe gives op back, and the table learns of no quit (read in `OnShutdownPlayerSaver`)."""
        for key in list(self._at_prompt):
            self._restore(self.online[key])
        self._forget()

    def kill(self) -> None:
        """End like kill -9. Seen: the operator at the prompt stays off ops.json until the next `/login`."""
        self._forget()

    def kill_at(self, step: Step, act: Callable[[], object], number: int = 1) -> bool:
        """Run `act`, and kill the process at this step, the `number`th time; return whether it came."""
        with self._watched_for(step, number):
            try:
                act()
            except Killed:
                self.kill()
                return True
        return False

    def reload_authme(self) -> None:
        """Reload as `/authme reload`: another limbo type or size counts, no type is converted (`LimboPersistence`)."""
        if self.has_authme:
            self._settings = parse_yaml_quickly(self.game.authme_config.read_text(encoding="utf-8"))
            self._notes = self._open_notes()
            self._notes.open()

    @property
    def has_authme(self) -> bool:
        return self.game.authme_config.exists()

    # --- operators ---

    def is_operator(self, name: str) -> bool:
        return any(entry["uuid"] == self.uuid_of(name) for entry in self._operators)

    def op(self, name: str) -> None:
        """`/op`. Believed: the level is `op-permission-level`, 4 by default, for `setOp(true)` as well."""
        if not self.is_operator(name):
            entry = {"uuid": self.uuid_of(name), "name": name, "level": self.game.operator_level()}
            self._operators.append({**entry, "bypassesPlayerLimit": False})
            self._write_operators()

    def find_note(self, name: str) -> Note | None:
        """Return the note that AuthMe would read now, or None."""
        return self._notes.find(self.uuid_of(name))

    def holds_op(self, name: str) -> bool:
        """Whether the player is at the prompt, and AuthMe will give op back."""
        waiting = self._at_prompt.get(name.lower())
        return waiting is not None and bool(waiting.note["operator"])

    def deop(self, name: str) -> None:
        """`/deop`; of a player whose op AuthMe holds it changes nothing, and `/login` brings op back."""
        if self.is_operator(name):
            self._operators = [entry for entry in self._operators if entry["uuid"] != self.uuid_of(name)]
            self._write_operators()

    def uuid_of(self, name: str) -> str:
        return self.uuids.get(name) or offline_uuid(name)

    # --- players ---

    def join(
        self, name: str, ip: str = HOME_IP, *, premium_uuid: str | None = None, is_in_network: bool = False
    ) -> Outcome:
        """Join with the exact name. `is_in_network`: the proxy says that the player has logged in on another server.

        Seen: who is in the game already keeps the name (`ForceSingleSession`), and another case of it is refused. Read
        in `AsynchronousJoin`: premium, proxy and session pass the prompt by; seen for a session: ops.json is as before.
        """
        assert self.is_running, "start it first"
        row = self.authme.find(name) if self.has_authme else None
        if name.lower() in self.online or (row is not None and row["realname"] not in ("", "Player", name)):
            return "refused"
        if self.has_authme and row is None and self._setting("restrictions.kickNonRegistered", False):
            return "refused"
        self._remember_profile(name)
        self.online[name.lower()] = name
        if not self.has_authme or (row is None and not self._setting("registration.force", True)):
            return "in the game"
        self.authme.join(name)
        if (
            (premium_uuid is not None and self.authme.join_as_premium(name, premium_uuid))
            or (is_in_network and self.authme.join_through_proxy(name))
            or self.authme.resume_session(name, ip)
        ):
            self._finish_login(name)
            return "in the game"
        self._hold(name, is_registered=row is not None)
        return "at the prompt"

    def login(self, name: str, password: str, ip: str = HOME_IP) -> bool:
        """`/login`."""
        return self._is_here(name) and self.authme.login(name, password, ip) and self._finish_login(name)

    def force_login(self, name: str) -> bool:
        """`authme forcelogin NAME`, and the late word of a proxy (`BungeeReceiver`)."""
        return self._is_here(name) and self.authme.join_through_proxy(name) and self._finish_login(name)

    def register(self, name: str, password: str, ip: str = HOME_IP) -> bool:
        """`/register`, which logs in unless `forceLoginAfterRegister` is set. Seen: op is not given back."""
        if not self._is_here(name) or not self.authme.register(name, password, ip=ip):
            return False
        if self._setting("registration.forceLoginAfterRegister", False):
            self._at_prompt[name.lower()].deadline = self._deadline("loginTimeout")
            return True
        return self.login(name, password, ip)

    def logout(self, name: str) -> None:
        """`/logout`: the prompt again (`ProcessSyncPlayerLogout`)."""
        self.authme.logout(name)
        self._hold(name, is_registered=True)

    def unregister(self, name: str, password: str | None = None) -> bool:
        """`/unregister`, and from the console without a password; an operator in the game loses op for good."""
        unregister = self.authme.unregister_from_console
        if not (unregister(name) if password is None else self.authme.unregister(name, password)):
            return False
        if name.lower() in self.online and self._setting("registration.force", True):
            self._hold(name, is_registered=False)  # read in `AsynchronousUnregister.performPostUnregisterActions`
        return True

    def quit(self, name: str, ip: str = HOME_IP, *, in_vehicle: bool = False) -> None:
        """Leave, or be kicked. From 5.7.0 on, who left in a vehicle or with pearls in flight has a note while away."""
        has_played = self.authme.is_online(name)
        if in_vehicle and has_played and self.version >= FOR_CARS:
            note = self.find_note(name) or self._note(self.is_operator(name))
            vehicle = {"vehicle-uuid": offline_uuid("a boat"), "vehicle-type": "BOAT"}
            self._save_note(name, {**note, **vehicle})
        self.authme.quit(name, ip)
        if not has_played:
            self._restore(name)
        self.online.pop(name.lower(), None)

    def kick_late(self) -> None:
        """Kick whose time at the prompt is over (`TimeoutTask`)."""
        for key, waiting in list(self._at_prompt.items()):
            if waiting.deadline is not None and waiting.deadline <= self._now():
                self.quit(self.online[key])

    # --- AuthMe's limbo: `LimboService` ---

    def _hold(self, name: str, *, is_registered: bool) -> None:
        """Begin a prompt (`createLimboPlayer`). Seen: ops.json is written before the note is."""
        old = self._at_prompt.pop(name.lower(), None)
        new = self._note(is_registered and self.is_operator(name))
        note = merge(new, self.find_note(name), old.note if old else None)
        deadline = self._deadline("loginTimeout" if is_registered else "registerTimeout")
        self._at_prompt[name.lower()] = _AtThePrompt(note, deadline)
        self.prompts[name.lower()] += 1
        self.deop(name)
        self.on_step("op taken")
        self._save_note(name, note)

    def _restore(self, name: str) -> None:
        """End a prompt (`restoreData`). Seen: op is given back before the note is removed."""
        waited = self._at_prompt.pop(name.lower(), None)
        if waited is not None:
            (self.op if waited.note["operator"] else self.deop)(name)
            self.on_step("op given")
        if waited is not None or self.version >= (5, 7):
            self._remove_note(name)

    def _finish_login(self, name: str) -> bool:
        """End the prompt (`ProcessSyncPlayerLogin`). From 6.0.0 on a note without a prompt goes, op stays off."""
        if name.lower() in self._at_prompt:
            self._restore(name)
        elif self.version >= (6, 0):
            self._remove_note(name)
        return True

    def _save_note(self, name: str, note: Note) -> None:
        self._notes.save(self.uuid_of(name), note)
        self.saved_notes[name.lower()] += self._notes.kind != "DISABLED"
        self.on_step("note saved")

    def _remove_note(self, name: str) -> None:
        self._notes.remove(self.uuid_of(name))
        self.on_step("note removed")

    def _note(self, is_operator: bool) -> Note:
        speed = {"walk-speed": 0.2, "fly-speed": 0.1}
        place = {"world": "world", "x": 0.5, "y": 64.0, "z": 0.5, "yaw": 0.0, "pitch": 0.0}
        return {"location": place, "groups": [], "operator": is_operator, "can-fly": False, **speed}

    def _deadline(self, key: str) -> datetime | None:
        """Read in `LimboPlayerTaskManager.registerTimeoutTask`: two keys from 6.0.0 on, which take over the old one."""
        seconds = self._setting("restrictions.timeout", 30)
        if self.version >= (6, 0):
            seconds = self._setting(f"restrictions.{key}", seconds)
        return self._now() + timedelta(seconds=seconds) if seconds > 0 else None

    def _setting(self, path: str, default: Any, section: str = "settings") -> Any:
        value: Any = self._settings.get(section, {})
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    def _open_notes(self) -> LimboNotes:
        kind = self._setting("persistence.type", "INDIVIDUAL_FILES", "limbo")
        size = self._setting("persistence.distributionSize", "SIXTEEN", "limbo")
        return LimboNotes(self.game.authme_directory / "playerdata", kind, size, self._write_note)

    # --- files and memory ---

    def _is_here(self, name: str) -> bool:
        return name.lower() in self.online

    def _forget(self) -> None:
        self._operators, self.online, self._at_prompt, self.is_running = [], {}, {}, False

    def _write_operators(self) -> None:
        assert self.is_running, "start it first"
        written = json.dumps(self._operators, indent=2)
        write_in_place(self.game.ops_file, written, lambda: self.on_step("writing ops.json"))

    def _write_note(self, file: Path, text: str) -> None:
        write_in_place(file, text, lambda: self.on_step("writing the note"))

    def _remember_profile(self, name: str) -> None:
        """Put the profile first in usercache.json (read in vanilla's source; a broken file counts as empty)."""
        others = [entry for entry in _read_list(self.game.usercache_file) if entry.get("name") != name]
        expires = (self._now() + timedelta(days=30)).strftime("%Y-%m-%d %H:%M:%S +0000")
        entry = {"name": name, "uuid": self.uuid_of(name), "expiresOn": expires}
        write_in_place(self.game.usercache_file, json.dumps([entry, *others]))

    @contextmanager
    def _watched_for(self, step: Step, number: int) -> Iterator[None]:
        before, left = self.on_step, number

        def watch(reached: Step) -> None:
            nonlocal left
            before(reached)
            left -= reached == step
            if left == 0:
                raise Killed

        self.on_step = watch
        try:
            yield
        finally:
            self.on_step = before


def write_in_place(file: Path, text: str, pause: Callable[[], None] = lambda: None) -> None:
    """Replace the content as the game does: a reader may see an empty file, and half of the text."""
    with file.open("w", encoding="utf-8") as opened:
        pause()
        opened.write(text[: len(text) // 2])
        opened.flush()
        pause()
        opened.write(text[len(text) // 2 :])


def _read_list(file: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
