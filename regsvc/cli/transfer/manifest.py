"""Manifest of a backup: row counts and checksums, against which it is verified."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from regsvc.cli.state_owner import user_name
from regsvc.cli.transfer.tables import TableChecksum, TransferProblem

MANIFEST: Final = "manifest.json"
FORMAT: Final = "companion-backup"
OUR_FILE: Final = "companion.db"
AUTHME_FILE: Final = "authme.db"
TABLES: Final = "tables"


@dataclass(frozen=True)
class Manifest:
    """Contents of manifest.json. The field names are part of the format.

    `tables`: rows and digest of each; `next_numbers`: next auto-increment id by table; `files`: SHA-256 by file name.
    """

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
    def checksums(self) -> dict[str, TableChecksum]:
        return {
            name: TableChecksum(int(entry["rows"]), int(entry["digest"], 16)) for name, entry in self.tables.items()
        }

    @property
    def rows(self) -> int:
        return sum(int(entry["rows"]) for entry in self.tables.values())

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def to_manifest_tables(checksums: Mapping[str, TableChecksum]) -> dict[str, dict[str, Any]]:
    """Convert checksums to the form of `Manifest.tables`."""
    return {name: {"rows": checksum.rows, "digest": checksum.digest} for name, checksum in checksums.items()}


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest. Raises `TransferProblem` if the folder is not a backup made by `companion backup`."""
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_text("utf-8"))
        if data.get("format") != FORMAT or data.get("version") != 1:
            raise ValueError("unknown format")
        return Manifest(**data)
    except (FileNotFoundError, NotADirectoryError):
        raise TransferProblem(f"{folder} is not a backup: it has no {MANIFEST}.") from None
    except PermissionError:
        raise TransferProblem(
            f"{path} cannot be read by {user_name(os.geteuid())}: give the backup to this user (chown -R)."
        ) from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TransferProblem(f"{path} is not a usable backup manifest ({error}).") from error


def file_checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file on disk except the manifest, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raise `TransferProblem` for a file that is missing or has changed since the backup was made."""
    found = file_checksums(folder)
    for name, digest in manifest.files.items():
        if found.get(name) != digest:
            raise TransferProblem(f"{folder / name} is {'damaged or was changed' if name in found else 'missing'}.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
