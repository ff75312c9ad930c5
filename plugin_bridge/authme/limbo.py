"""AuthMe's notes of players at its login prompt, as far as they say whose op AuthMe holds.

Read in AuthMe 5.6 and 6.0.1-SNAPSHOT (`LimboService`, `LimboServiceHelper`, `limbo.persistence`), and seen in a real
server. A player who joins without a resumed session loses op, upon which the server rewrites ops.json; some
milliseconds later AuthMe saves a note. After `/login`, and when the player leaves, op is given back, and then the note
removed. A note that says `operator` also gives op back later, as after a crash of the server. AuthMe 6 leaves such a
note behind for an operator who quits in a vehicle, or while an ender pearl flies, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from plugin_bridge.java_formats import parse_json
from plugin_bridge.server.files import find_stamp, read_bounded

T = TypeVar("T")

_FOLDER: Final = "playerdata"
_NOTE: Final = "data.json"
_SEGMENTS: Final = "seg*-limbo.json"
SETTLES_AFTER: Final = 3.0
"""Seconds from the loss of op in ops.json to AuthMe's note of it, if the server's thread is slow in between.

Both are written by one function, one after the other; all but a few milliseconds are margin.
"""
_ENDLESS_PROMPT: Final = 3600.0
"""Seconds in place of a timeout that the host switched off: who stands there so long without leaving is no player."""
_SLOW: Final = 2
"""AuthMe counts its timeout in ticks, of which a busy server makes half as many."""
_LEAVING: Final = 5.0
"""Seconds within which a kicked player has left, and ops.json is written."""


class LimboSettings(Protocol):
    """The values of AuthMe's config that decide about notes."""

    @property
    def writes_notes(self) -> bool: ...
    @property
    def prompt_seconds(self) -> int: ...


@dataclass(frozen=True, slots=True)
class OpNote:
    """A note about one player."""

    place: Path
    """The folder to delete, or the file that has it among others'."""
    mark: str
    """Changes whenever AuthMe writes the note."""
    holds_op: bool | None
    """Whether AuthMe gives op back; None: the note cannot be read now, since it is being written, or broken."""
    written_at: float = 0
    """When it was, in seconds since 1970."""


class LimboNotes:
    """The notes of one server's AuthMe. Blocking.

    Those of every `limbo.persistence.type` are looked for: what config.yml says is in force only from a reload on.
    """

    def __init__(self, folder: Path | None, settings: LimboSettings) -> None:
        """`folder` is the plugin's; None: it is not accessible."""
        self._folder = folder / _FOLDER if folder is not None else None
        self.settings = settings
        self._listed: object = None  # the stamp of the folder when its segments were listed
        self._segments: dict[Path, tuple[object, Mapping[str, bool]] | None] = {}  # with the stamp; None: not read yet

    @property
    def has_prompt(self) -> bool:
        """Whether AuthMe may hold anybody's op: it makes the folder when it starts, unless it writes no notes."""
        if self._folder is None or not self.settings.writes_notes:
            return True
        try:
            return find_stamp(self._folder) is not None
        except OSError:
            return True

    @property
    def are_readable(self) -> bool:
        """Whether a note would be found: AuthMe writes them, and we may look into their folder."""
        if self._folder is None or not self.settings.writes_notes:
            return False
        try:
            next(self._folder.iterdir(), None)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    @property
    def longest_prompt(self) -> float:
        """Seconds after which a player who stands at the prompt was kicked, and has their op back."""
        seconds = self.settings.prompt_seconds
        return _SLOW * seconds + _LEAVING if seconds > 0 else _ENDLESS_PROMPT

    def find(self, uuid: str) -> OpNote | None:
        """Return the newest note about the player with this UUID (with dashes); None: there is none.

        An older one of another `limbo.persistence.type` may be there, which AuthMe does not convert.
        """
        if self._folder is None:
            return None
        own = self._folder / uuid / _NOTE
        try:
            stamp = find_stamp(own)
            notes = [self._find_in_segments(uuid)]
            if stamp is not None:
                notes.append(OpNote(own.parent, str(stamp), _read(own, _holds_op), stamp[2] / 1e9))
            return max(filter(None, notes), key=lambda note: note.written_at, default=None)
        except OSError as problem:
            return OpNote(own.parent, str(problem.errno), None)

    def held_among(self, uuids: Mapping[str, str]) -> dict[str, str]:
        """Return those of these UUIDs, by name, whose op AuthMe holds while they may stand at the prompt.

        For up to a thousand of them.
        """
        notes = {name: self.find(uuid) for name, uuid in uuids.items()}
        return {
            name: uuids[name]
            for name, note in notes.items()
            if note is not None and note.holds_op and not self.is_left_behind(note)
        }

    def is_left_behind(self, note: OpNote) -> bool:
        """Return whether the note is older than anybody's stay at the prompt, as after a crash of the server."""
        return time.time() - note.written_at > self.longest_prompt

    def _find_in_segments(self, uuid: str) -> OpNote | None:
        """Return the note from a file of many players' notes by UUID. Raises OSError."""
        assert self._folder is not None
        if (stamp := find_stamp(self._folder)) != self._listed:
            self._segments, self._listed = dict.fromkeys(self._folder.glob(_SEGMENTS)), stamp
        notes = []
        for path, known in self._segments.items():
            stamp = find_stamp(path)
            if known is None or known[0] != stamp:
                read = {} if stamp is None else _read(path, lambda note: {it: _holds_op(note[it]) for it in note})
                known = self._segments[path] = None if read is None else (stamp, read)
            written_at = stamp[2] / 1e9 if stamp is not None else 0
            if known is None or uuid in known[1]:
                notes.append(OpNote(path, f"{path.name} {stamp}", known and known[1][uuid], written_at))
        return max(notes, key=lambda note: note.written_at, default=None)


def _read(path: Path, parse: Callable[[Any], T]) -> T | None:
    """Return what the file says; None while it is half-written or cannot be read."""
    try:
        return parse(parse_json(read_bounded(path))[0])
    except (OSError, ValueError, TypeError):
        return None


def _holds_op(note: Any) -> bool:
    """Return whether AuthMe gives op back by this note, with `true` as its parser takes it. Raises TypeError."""
    if note is None:
        return False  # AuthMe takes it for no note
    if not isinstance(note, dict):
        raise TypeError(note)
    return str(note.get("operator")).lower() == "true"
