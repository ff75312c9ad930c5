"""AuthMe's notes of the players at its login prompt, on disk: `limbo.persistence` of its config.yml.

Read in AuthMe 5.6.0 and 6.0.1-SNAPSHOT, where these are equal: `IndividualFilesPersistenceHandler`,
`DistributedFilesPersistenceHandler`, `SegmentNameBuilder` and `SegmentSize`. Seen: INDIVIDUAL_FILES.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Note = dict[str, Any]
Write = Callable[[Path, str], None]

# `distributionSize` → into how many values a digit of the UUID is divided, and how many digits count
SEGMENTS = {
    "ONE": (1, 1),
    "FOUR": (4, 1),
    "EIGHT": (8, 1),
    "SIXTEEN": (16, 1),
    "THIRTY_TWO": (2, 5),
    "SIXTY_FOUR": (4, 3),
    "ONE_TWENTY": (2, 7),
    "TWO_FIFTY": (16, 2),
}


def segment_name(size: str, uuid: str) -> str:
    """Return the segment of this UUID: `seg16-f`, `seg4-3`, `seg64-203`. The digit is the number of its share."""
    shares, length = SEGMENTS[size]
    digits = "".join(f"{int(digit, 16) * shares // 16:x}" for digit in uuid[:length])
    return f"seg{shares**length}-{digits}"


@dataclass(frozen=True)
class LimboNotes:
    """The handler of one `limbo.persistence.type`. `write` replaces a file as AuthMe does: in place."""

    folder: Path
    kind: str
    size: str
    write: Write

    def open(self) -> None:
        """Make the folder, and bring notes of another `distributionSize` into files of this one."""
        if self.kind == "DISABLED":
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "DISTRIBUTED_FILES":
            self._convert()

    def find(self, uuid: str) -> Note | None:
        """Return the note, or None where there is none or it cannot be read."""
        if self.kind == "DISABLED":
            return None
        document = _read(self._file_of(uuid))
        return document if self.kind == "INDIVIDUAL_FILES" else (document or {}).get(uuid)

    def save(self, uuid: str, note: Note) -> None:
        """Write the note; in a segment that cannot be read, all others are lost."""
        if self.kind == "DISABLED":
            return
        file = self._file_of(uuid)
        file.parent.mkdir(exist_ok=True)
        document = note if self.kind == "INDIVIDUAL_FILES" else {**(_read(file) or {}), uuid: note}
        self.write(file, json.dumps(document, indent=2))

    def remove(self, uuid: str) -> None:
        """Remove the note, with its folder; from a segment only the entry."""
        if self.kind == "INDIVIDUAL_FILES":
            shutil.rmtree(self.folder / uuid, ignore_errors=True)
        elif self.kind == "DISTRIBUTED_FILES":
            entries = _read(self._file_of(uuid)) or {}
            if entries.pop(uuid, None) is not None:
                self.write(self._file_of(uuid), json.dumps(entries, indent=2))

    def _file_of(self, uuid: str) -> Path:
        if self.kind == "INDIVIDUAL_FILES":
            return self.folder / uuid / "data.json"
        return self.folder / f"{segment_name(self.size, uuid)}-limbo.json"

    def _convert(self) -> None:
        prefix = segment_name(self.size, "0" * 8).partition("-")[0] + "-"
        for file in sorted(self.folder.glob("seg*-limbo.json")):
            entries = _read(file)
            if entries and not file.name.startswith(prefix):
                for uuid, note in entries.items():
                    self.save(uuid, note)
                file.unlink()
            elif file.stat().st_size < 3:
                file.unlink()


def merge(new: Note, *older: Note | None) -> Note:
    """Return the note of a new prompt: op if any says so, and what the older ones remember of a vehicle.

    Read in `LimboServiceHelper.merge`.
    """
    known = [note for note in older if note is not None]
    kept: Note = {key: note[key] for note in known for key in ("vehicle-uuid", "vehicle-type") if key in note}
    return {**new, **kept, "operator": any(note.get("operator") is True for note in [new, *known])}


def find_left_notes(folder: Path, uuid: str) -> list[Note]:
    """Return the notes of this player that any `limbo.persistence.type` has left."""
    own = [_read(folder / uuid / "data.json")]
    own += [(_read(file) or {}).get(uuid) for file in folder.glob("seg*-limbo.json")]
    return [note for note in own if note is not None]


def _read(file: Path) -> Note | None:
    try:
        document: Mapping[str, Any] | None = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return dict(document) if document is not None else None
