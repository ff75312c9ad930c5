"""What lies in a backup: a list with counts and checksums, by which it is known again."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from regsvc.cli.transfer.tables import Tally, TransferProblem

MANIFEST: Final = "manifest.json"
FORMAT: Final = "companion-backup"
OUR_FILE: Final = "companion.db"
AUTHMES_FILE: Final = "authme.db"
TABLES: Final = "tables"


@dataclass(frozen=True)
class Manifest:
    """`tables`: rows and digest of each; `next_numbers`: of the counted ones; `files`: SHA-256 by name."""

    companion: str
    made_at: str
    schema: int
    installation_id: str
    key_fingerprint: str
    home: str
    tables: Mapping[str, Mapping[str, Any]]
    next_numbers: Mapping[str, int]
    files: Mapping[str, str]
    format: str = FORMAT
    version: int = 1

    @property
    def tallies(self) -> dict[str, Tally]:
        return {name: Tally(int(told["rows"]), int(told["digest"], 16)) for name, told in self.tables.items()}

    @property
    def rows(self) -> int:
        return sum(int(told["rows"]) for told in self.tables.values())

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def tell(tallies: Mapping[str, Tally]) -> dict[str, dict[str, Any]]:
    """For `Manifest.tables`."""
    return {name: {"rows": tally.rows, "digest": tally.digest} for name, tally in tallies.items()}


def read_manifest(folder: Path) -> Manifest:
    """Raises `TransferProblem` where there is no backup, or none of ours."""
    path = folder / MANIFEST
    try:
        told = json.loads(path.read_text("utf-8"))
        if told.get("format") != FORMAT or told.get("version") != 1:
            raise ValueError("another format")
        return Manifest(**told)
    except (FileNotFoundError, NotADirectoryError):
        raise TransferProblem(f"{folder} is no backup: there is no {MANIFEST} in it.") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TransferProblem(f"{path} cannot be read as the list of a backup ({error}).") from error


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file but the list itself, as they are on the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def require_whole(folder: Path, manifest: Manifest) -> None:
    """Raise `TransferProblem` for a file that is missing or not as it was written."""
    there = checksums(folder)
    for name, digest in manifest.files.items():
        if there.get(name) != digest:
            raise TransferProblem(f"{folder / name} is {'not as it was written' if name in there else 'missing'}.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
