"""Compare files and folders with what they should be, show what differs, write it, and keep a record of that.

By the record, what was written can be told from what a host has edited since.
"""

import difflib
import grp
import hashlib
import os
import pwd
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from regsvc.cli.install.settings import InstallProblem
from regsvc.cli.install.targets import Target
from regsvc.config.places import SystemPlaces

_NAME: Final = "installed.json"
NEW: Final = "new"
CHANGED: Final = "changed"
RIGHTS: Final = "owner or mode changed"
EDITED: Final = "edited, left as it is"
SAME: Final = "as it should be"


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


@dataclass(frozen=True)
class Change:
    """A target, what is to be done about it, and the text that is there now (None: no file)."""

    target: Target
    kind: str
    present: str | None = None

    @property
    def is_needed(self) -> bool:
        return self.kind in (NEW, CHANGED, RIGHTS)


class Tree:
    """The file system of the installed system: `root` is / or the folder that stands for it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def inside(self, path: Path) -> Path:
        """Return where a path of the installed system is now."""
        return self.root / path.relative_to("/")

    def compare(self, target: Target, record: InstallRecord | None) -> Change:
        """Return what is to be done. A file that differs from its record, or has none, was edited and is kept."""
        path = self.inside(target.path)
        if not path.exists():
            return Change(target, NEW)
        present = None
        if target.content is not None:
            present = path.read_text(encoding="utf-8", errors="replace")
            if present != target.content:
                is_ours = target.is_secret or (record is not None and record.is_ours(target.path, present))
                return Change(target, CHANGED if is_ours or _is_blank(target.path, present) else EDITED, present)
        return Change(target, SAME if _has_rights(path, target) else RIGHTS, present)

    def write(self, target: Target) -> None:
        """Create or replace a file in one step; create a folder. Owner and mode are set before it can be seen."""
        path = self.inside(target.path)
        if not path.parent.exists():
            path.parent.mkdir(mode=0o755, parents=True)
        if target.content is None:
            if not path.exists():
                path.mkdir(mode=0o700)
            _give(path, target)
            return
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        with new.open("w", encoding="utf-8") as file:
            os.fchown(file.fileno(), *_ids(target))
            os.fchmod(file.fileno(), target.mode)
            file.write(target.content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def describe(change: Change) -> Iterator[str]:
    """Yield lines: what happens to the target, its mode and owner, and its contents or what differs."""
    target = change.target
    kind = f"{change.kind} folder" if target.content is None and change.kind == NEW else change.kind
    yield f"{target.path}: {kind}, {target.mode:04o} {target.owner}:{target.group}"
    if target.content is None or change.kind not in (NEW, CHANGED):
        return
    if target.is_secret:
        yield "    (not shown)"
        return
    before, hidden = change.present, ["---", "+++", "@@"]
    if before is None or _is_blank(target.path, before):  # what is added to the sample says enough
        before = target.sample or ""
        hidden.append("-")
    if target.content == target.sample:
        yield "    (as shipped)"
        return
    old, new = _readable_lines(target.path, before), _readable_lines(target.path, target.content)
    differing = difflib.unified_diff(old, new, lineterm="", n=0)
    yield from (f"    {line}" for line in differing if not line.startswith(tuple(hidden)))


def _readable_lines(path: Path, text: str) -> list[str]:
    """Return the lines of a file, those of a config with their section: `server.port = 8080`."""
    section = ""
    lines = []
    for line in text.splitlines():
        if path.suffix == ".toml" and (header := re.fullmatch(r"\[(\w+)\]", line)):
            section = f"{header[1]}."
        lines.append(re.sub(r"^(#?)(\w+ = )", rf"\1{section}\2", line))
    return lines


def _is_blank(path: Path, text: str) -> bool:
    """Return whether this is a config without any key, as a package or a copied sample leaves it."""
    lines = (line.strip() for line in text.splitlines())
    return path.suffix == ".toml" and all(not line or line.startswith(("#", "[")) for line in lines)


def _has_rights(path: Path, target: Target) -> bool:
    found = path.stat()
    return (found.st_uid, found.st_gid) == _ids(target) and stat.S_IMODE(found.st_mode) == target.mode


def _ids(target: Target) -> tuple[int, int]:
    return pwd.getpwnam(target.owner).pw_uid, grp.getgrnam(target.group).gr_gid


def _give(folder: Path, target: Target) -> None:
    """Change owner and mode; of the state, if it had another owner, also that of everything in it, as systemd does.

    By descriptors: a former owner might put a link to something else in the place of what is about to be changed.
    """
    uid, gid = _ids(target)
    is_ours_to_replace = folder.parent.stat().st_uid == 0
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if is_ours_to_replace else os.O_NOFOLLOW))
    try:
        if uid != 0 and os.fstat(opened).st_uid != uid:
            for _path, folders, files, inside in os.fwalk(".", dir_fd=opened):
                for name in (*folders, *files):
                    os.chown(name, uid, gid, dir_fd=inside, follow_symlinks=False)
        os.fchown(opened, uid, gid)
        os.fchmod(opened, target.mode)
    finally:
        os.close(opened)
