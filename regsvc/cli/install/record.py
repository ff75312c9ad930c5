"""Record of what `companion install` wrote, so that it can be told from what a host has edited since."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from regsvc.cli.install.settings import InstallProblem
from regsvc.config.places import SystemPlaces

_NAME: Final = "installed.json"


@dataclass
class InstallRecord:
    """The user of an installation, and SHA-256 digests of the files that were written, by path ("" for a secret)."""

    user: str
    files: dict[str, str] = field(default_factory=dict)

    def is_ours(self, path: Path, content: str) -> bool:
        """Return whether the file still holds what was written."""
        return self.files.get(str(path)) == digest_of(content)


def digest_of(content: str) -> str:
    """Return the SHA-256 digest of a file's text."""
    return hashlib.sha256(content.encode()).hexdigest()


def record_file(places: SystemPlaces) -> Path:
    """Return the path of the record, beside the config."""
    return places.config_file.with_name(_NAME)


def read_record(file: Path) -> InstallRecord | None:
    """Return the record, or None if nothing was installed. Raises OSError, and `InstallProblem` if it is broken."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=InstallRecord)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise InstallProblem(
            f"{file} is broken ({error}): remove it, and every file that exists counts as edited by you"
        ) from None


def record_text(record: InstallRecord) -> str:
    """Return the text of the record's file."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"
