"""Operators at this moment: the one place that answers who is one, by ops.json and AuthMe's notes of its prompt.

The game owns that fact, and AuthMe borrows it: while a player stands at its prompt under an operator's name, who may
be anybody, the name is not in ops.json (`LimboNotes`, below). Such an operator is one all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.java_formats import parse_json
from plugin_bridge.server.files import HIGHEST_LEVEL, ListedOperator, OpsFile, find_stamp, read_bounded
from plugin_bridge.server.player_uuids import offline_uuid

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
_LOOK_EVERY: Final = 1.0
"""Seconds between two looks for notes about operators who are in ops.json."""
_UNSEEN_RETURNS: Final = 30
"""Changes of ops.json behind each of which a name may have come back and left again, between two looks."""
_WAITS: Final = 30
_WAIT: Final = 0.01
"""Looks, and seconds between them, for the note of an operator who has just left ops.json."""


class Standing(StrEnum):
    """Relation of an operator to ops.json at this moment."""

    LISTED = "listed"
    HELD = "held"
    """Not in it, and AuthMe's note says that it gives op back."""
    AWAY = "away"
    """Not in it, and no note is to be seen yet: AuthMe may hold the op, or it was taken away."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator. `uuid` as in ops.json, None: it had none; `note`: the mark of a note that holds nothing."""

    name: str
    level: int
    uuid: str | None
    standing: Standing = Standing.LISTED
    note: str | None = None

    @property
    def player_uuid(self) -> str:
        """The UUID by which AuthMe knows the player; without one in ops.json, that of offline mode."""
        return self.uuid or offline_uuid(self.name)


class Operators:
    """The operators of the game server, from one look to the next. Blocking; may be shared by threads.

    A name that leaves ops.json stays an operator's while AuthMe holds their op. Where no note says so, what is used by
    the name is refused at once, but nothing ends until it is certain: after `SETTLES_AFTER` where notes can be read,
    else after the longest stay at AuthMe's prompt. A note that was there before the name left, and has not been written
    since, holds nothing: op was taken away, though AuthMe will give it back (the doctor names that).

    Levels: AuthMe gives `op-permission-level` back, whatever the level was. Beside AuthMe a level is therefore the
    lowest since the name became an operator's.
    """

    def __init__(
        self,
        ops: OpsFile,
        notes: LimboNotes | None = None,
        *,
        given_level: Callable[[], int] = lambda: HIGHEST_LEVEL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`notes` None: the server has no AuthMe. `given_level` returns `op-permission-level` of server.properties."""
        self.notes = notes
        self.given_level = given_level
        self._ops = ops
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._written: object = None  # what changes with ops.json, at the last look
        self._looked_at: float | None = None  # for notes about those in ops.json
        self._has_prompt = notes is not None
        self._known: dict[str, Operator] = {}
        # those who are away: since when they are missing from ops.json, and how often it has changed meanwhile
        self._left: dict[str, tuple[float, int, float]] = {}
        self._dismissed: frozenset[str] = frozenset()

    # --- the questions ---

    def level_of(self, name: str) -> int:
        """Return the level, 1 to 4, by which an operator may act now, or 0. The case of the name does not matter.

        Waits up to 0.3 s for AuthMe's note where the name has just left ops.json: both are written one after the other.
        """
        operator = self.find(name)
        for _look in range(_WAITS):
            if operator is None or operator.standing is not Standing.AWAY or not self._is_note_awaited(name):
                break
            threading.Event().wait(_WAIT)
            operator = self.find(name)
        return 0 if operator is None or operator.standing is Standing.AWAY else operator.level

    def protected_level_of(self, name: str) -> int:
        """Return the level, 1 to 4, or 0 only where it is certain that AuthMe does not hold the op of this name."""
        operator = self.find(name)
        return operator.level if operator is not None else 0

    def find(self, name: str) -> Operator | None:
        """Return the operator of this name in any case, listed, held or away; None: they are none, for certain."""
        with self._lock:
            self._refresh()
            return self._known.get(name.lower())

    def names(self) -> frozenset[str]:
        """Return the lower-case names of all operators, those who are held or away among them."""
        return frozenset(self.all())

    def all(self) -> Mapping[str, Operator]:
        """Return all operators by lower-case name, as `find` does."""
        with self._lock:
            self._refresh()
            return dict(self._known)

    def uuids(self) -> Mapping[str, tuple[str, str]]:
        """Return name and UUID of each operator who has one in ops.json, by lower-case name."""
        return {key: (it.name, it.uuid) for key, it in self.all().items() if it.uuid is not None}

    @property
    def has_list(self) -> bool:
        """Whether there is an ops.json to read: a process without one knows nothing of other processes' operators."""
        return self._ops.path is not None

    # --- what ended ---

    def find_dismissed(self) -> frozenset[str] | None:
        """Return whose op was taken away since `forget_dismissed`, even if they have it again; None: not known yet."""
        with self._lock:
            self._refresh()
            return None if self._written is None else self._dismissed

    def forget_dismissed(self, names: Iterable[str]) -> None:
        """Take these names off what `find_dismissed` returns."""
        with self._lock:
            self._dismissed -= frozenset(names)

    def follow(self, settings: AuthMeConfig) -> None:
        """Take the values of AuthMe's config after a change."""
        if self.notes is not None:
            self.notes.settings = settings

    # --- across restarts ---

    def remember(self, operators: Iterable[Operator]) -> None:
        """Take the operators that an earlier process knew."""
        with self._lock:
            for operator in operators:
                known = self._known.get(operator.name.lower())
                if known is None:
                    known = replace(operator, standing=Standing.AWAY)
                elif self._has_prompt and operator.name.lower() not in self._ops.extra_names:
                    known = replace(known, level=min(known.level, operator.level))
                self._known[operator.name.lower()] = known

    # --- one look ---

    def _refresh(self) -> None:
        listed, written = self._ops.read()
        if written is None:
            return
        moment, missing = self._monotonic(), self._known.keys() - listed.keys()
        has_changed = written != self._written
        is_due = self._looked_at is None or moment - self._looked_at >= _LOOK_EVERY
        if not (has_changed or is_due or missing):
            return
        if self.notes is not None and (has_changed or is_due):
            self._has_prompt = self.notes.has_prompt
        if has_changed or is_due:
            taken = {key: self._take_listed(key, entry) for key, entry in listed.items()}
            if self._ops.read()[1] != written:  # meanwhile: a note may be of a join after that, and hold op
                self._refresh()
                return
            self._written, self._looked_at = written, moment
            self._known |= taken
            for key in taken:
                self._left.pop(key, None)
        for key in missing:
            self._take_missing(key, moment, has_changed=has_changed)

    def _take_listed(self, key: str, entry: ListedOperator) -> Operator:
        known = self._known.get(key)
        level = min(entry.level, known.level) if known is not None and self._has_prompt else entry.level
        if key in self._ops.extra_names:
            level = HIGHEST_LEVEL
        operator = Operator(entry.name, level, entry.uuid)
        note = self.notes.find(operator.player_uuid) if self.notes is not None else None
        return operator if note is None else replace(operator, note=note.mark)

    def _take_missing(self, key: str, moment: float, *, has_changed: bool) -> None:
        operator = self._known[key]
        note = self.notes.find(operator.player_uuid) if self.notes is not None else None
        if note is not None and note.holds_op and note.mark != operator.note:
            self._left.pop(key, None)
            self._known[key] = replace(operator, standing=Standing.HELD)
            return
        since, changes, longest = self._left.get(key, (moment, 0, 0.0))
        if has_changed and (changes < _UNSEEN_RETURNS or not self._is_certain(note)):
            since, changes = moment, changes + 1
        # the longest that held since: a host may change what AuthMe writes while a player stands at the prompt
        longest = max(longest, self._find_patience(note))
        self._left[key] = since, changes, longest
        if moment - since < longest:
            self._known[key] = replace(operator, standing=Standing.AWAY)
        else:
            del self._known[key], self._left[key]
            self._dismissed |= {key}

    def _find_patience(self, note: OpNote | None) -> float:
        """Return for how many seconds a name may be missing from ops.json without a note that says why."""
        if self.notes is None or not self._has_prompt:
            return 0
        return SETTLES_AFTER if self._is_certain(note) else self.notes.longest_prompt

    def _is_certain(self, note: OpNote | None) -> bool:
        """Return whether a note that holds op would be seen."""
        is_readable = self.notes is None or self.notes.are_readable
        return is_readable and (note is None or note.holds_op is not None)

    def _is_note_awaited(self, name: str) -> bool:
        """Return whether the name left ops.json so lately that AuthMe may not have written its note yet."""
        with self._lock:
            left = self._left.get(name.lower())
            is_readable = self.notes is not None and self.notes.are_readable
            return left is not None and is_readable and self._monotonic() - left[0] < _WAITS * _WAIT


# --- AuthMe's notes of players at its login prompt ---
# Read in AuthMe 5.6 and 6.0.1-SNAPSHOT (`LimboService`, `LimboServiceHelper`, `limbo.persistence`), and seen in a
# real server. A player who joins without a resumed session loses op, upon which the server rewrites ops.json; some
# milliseconds later AuthMe saves a note. After `/login`, and when the player leaves, op is given back, and then the
# note removed. A note that says `operator` also gives op back later, as after a crash of the server. AuthMe 6 leaves
# such a note behind for an operator who quits in a vehicle, or while an ender pearl flies, too.


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

    def __init__(self, folder: Path | None, settings: AuthMeConfig) -> None:
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
