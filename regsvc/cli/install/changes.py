"""Compare files and folders with what they should be, show what differs, write it, and keep a record of that.

By the record, what was written can be told from what a host has edited since.
"""

import difflib
import grp
import hashlib
import os
import pwd
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from regsvc.cli.install.settings import InstallProblem, Target
from regsvc.config.places import LOCATION_FILE
from regsvc.core.safe_paths import located, open_file, open_folder, replace_file

NEW: Final = "new"
CHANGED: Final = "changed"
RIGHTS: Final = "owner or mode changed"
EDITED: Final = "edited, left as it is"
ADAPTED: Final = "edited, changed in these lines alone"
SAME: Final = "as it should be"


@dataclass
class InstallRecord:
    """The user of an installation, and SHA-256 digests of the files that were written, by path ("" for a secret).

    `installation` is the id in its state directory, None before one was seen there. `unfinished` are the digests of
    what a run is writing that has not started everything yet; None once one has, which is written last.
    `has_backups`: whether nightly backups were chosen, None if that is not known.
    """

    user: str
    files: dict[str, str] = field(default_factory=dict)
    installation: str | None = None
    unfinished: dict[str, str] | None = None
    has_backups: bool | None = None

    def is_ours(self, path: Path, content: str) -> bool:
        """Return whether the file still holds what was written, or what a run that did not finish has written."""
        written = (self.files.get(str(path)), (self.unfinished or {}).get(str(path)))
        return digest_of(content) in written


def digest_of(content: str) -> str:
    """Return the SHA-256 digest of a file's text."""
    return hashlib.sha256(content.encode()).hexdigest()


def read_record(file: Path) -> InstallRecord | None:
    """Return the record, or None if nothing was installed. Raises OSError, and `InstallProblem` if it is broken."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=InstallRecord)
    except FileNotFoundError:
        return None
    except ValueError as error:
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
        return self.kind in (NEW, CHANGED, ADAPTED, RIGHTS)


@dataclass(frozen=True)
class Tree:
    """The file system of the installed system: `root` is / or the folder that stands for it.

    What is read and written here is reached by descriptors, past no link that another user could have planted.
    """

    root: Path

    def inside(self, path: Path) -> Path:
        """Return where a path of the installed system is now."""
        return self.root / path.relative_to("/")

    @contextmanager
    def opened(self, path: Path) -> Iterator[int | None]:
        """Yield a descriptor of a folder, None if there is none."""
        try:
            opened = open_folder(path, self.root)
        except FileNotFoundError:
            yield None
            return
        try:
            yield opened
        finally:
            os.close(opened)

    def read(self, path: Path) -> str | None:
        """Return the text of a file, None if there is none."""
        try:
            with open(open_file(path, self.root), encoding="utf-8", errors="replace", newline="") as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def compare(self, target: Target, record: InstallRecord | None) -> Change:
        """Return what is to be done. A file that differs from its record, or has none, was edited and is kept."""
        try:
            with located(target.path, self.root) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return Change(target, NEW)
        present = None
        if target.content is not None:
            present = self.read(target.path) or ""
            if target.is_adapted and present != target.content:
                return Change(target, ADAPTED, present)
            if present != target.content:
                is_ours = target.is_secret or (record is not None and record.is_ours(target.path, present))
                return Change(target, CHANGED if is_ours or is_blank(target.path, present) else EDITED, present)
        has_rights = (found.st_uid, found.st_gid) == _ids(target) and stat.S_IMODE(found.st_mode) == target.mode
        return Change(target, SAME if has_rights else RIGHTS, present)

    def write(self, target: Target, check: Callable[[int], object] = lambda opened: None) -> list[str]:
        """Create or replace a file in one step; create a folder. Owner and mode are set before it can be seen.

        `check` gets the descriptor of a folder before its owner is changed. Return what was not given away in it.
        """
        if target.content is None:
            opened = open_folder(target.path, self.root, mode=0o700)
            try:
                check(opened)
                return _give(opened, target)
            finally:
                os.close(opened)
        folder = open_folder(target.path.parent, self.root, mode=0o755)
        try:
            replace_file(folder, target.path.name, target.content, mode=target.mode, owner=_ids(target))
        finally:
            os.close(folder)
        return []

    def remove(self, path: Path) -> None:
        """Remove a file, and its folder if that is empty then."""
        with located(path.parent, self.root) as (outer, name):
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
            try:
                os.unlink(path.name, dir_fd=folder)
            finally:
                os.close(folder)
            with suppress(OSError):  # other files are in it
                os.rmdir(name, dir_fd=outer)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder with everything in it; not a link, nor where it leads to. Raises OSError."""
        outer = open_folder(path.parent, self.root)
        try:
            shutil.rmtree(path.name, dir_fd=outer)
        finally:
            os.close(outer)


def read_home(state: int) -> dict[str, str] | None:
    """Return what a state directory, given its descriptor, says of the installation that has started there.

    None if none has; {} if it cannot be read. (`read_recorded_location` follows links.)
    """
    try:
        opened = os.open(LOCATION_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=state)
        with open(opened, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}


def describe(change: Change) -> Iterator[str]:
    """Yield lines: what happens to the target, its mode and owner, and its contents or what differs."""
    target = change.target
    kind = f"{change.kind} folder" if target.content is None and change.kind == NEW else change.kind
    yield f"{target.path}: {kind}, {target.mode:04o} {target.owner}:{target.group}"
    if target.content is None or change.kind not in (NEW, CHANGED, ADAPTED):
        return
    if target.is_secret:
        yield "    (not shown)"
        return
    before, hidden = change.present, ["---", "+++", "@@"]
    if before is None or is_blank(target.path, before):  # what is added to the sample says enough
        before = target.sample or ""
        hidden += ["-", "+["]
    if target.content == target.sample:
        yield "    (as shipped)"
        return
    old, new = _readable_lines(target.path, before), _readable_lines(target.path, target.content)
    differing = difflib.unified_diff(old, new, lineterm="", n=0)
    yield from (f"    {line}" for line in differing if not line.startswith(tuple(hidden)) and line != "+")


def _readable_lines(path: Path, text: str) -> list[str]:
    """Return the lines of a file, those of a config with their section: `server.port = 8080`."""
    section = ""
    lines = []
    for line in text.splitlines():
        if path.suffix == ".toml" and (header := re.fullmatch(r"\[(\w+)\]", line)):
            section = f"{header[1]}."
        lines.append(re.sub(r"^(#?)(\w+ = )", rf"\1{section}\2", line))
    return lines


def is_blank(path: Path, text: str) -> bool:
    """Return whether this is a config without any key, as a package or a copied sample leaves it."""
    lines = (line.strip() for line in text.splitlines())
    return path.suffix == ".toml" and all(not line or line.startswith(("#", "[")) for line in lines)


def _ids(target: Target) -> tuple[int, int]:
    return pwd.getpwnam(target.owner).pw_uid, grp.getgrnam(target.group).gr_gid


def _give(opened: int, target: Target) -> list[str]:
    """Change owner and mode of a folder; of the state, if it had another owner, also of everything in it.

    Return what in it was left as it is.
    """
    uid, gid = _ids(target)
    left = []
    if uid != 0 and os.fstat(opened).st_uid != uid:
        left = [str(target.path / path) for path in _give_contents(opened, uid, gid)]
    os.fchown(opened, uid, gid)
    os.fchmod(opened, target.mode)
    return left


def _give_contents(opened: int, uid: int, gid: int) -> Iterator[str]:
    """Change the owner of everything in a folder that is its owner's. Yield the paths of what is left as it is.

    A former owner could plant a link there, or move or link another's file into it, even meanwhile: each thing is
    opened before its owner is looked at, and no other mount is entered.
    """
    former, mount = os.fstat(opened), _mount_of(opened)
    for path, folders, files, inside in os.fwalk(".", dir_fd=opened):
        for name in [*folders, *files]:
            try:
                entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
            except FileNotFoundError:  # removed meanwhile
                continue
            try:
                found, is_here = os.fstat(entry), _mount_of(entry) == mount
                if is_here and _may_give(found, former):
                    os.chown(f"/proc/self/fd/{entry}", uid, gid)
                elif found.st_uid != uid:  # of an earlier attempt
                    yield os.path.normpath(f"{path}/{name}")
                if not is_here and name in folders:
                    folders.remove(name)
            finally:
                os.close(entry)


def _may_give(found: os.stat_result, former: os.stat_result) -> bool:
    """Return whether a thing in a folder is its former owner's to give; root's files with a second name are not.

    That other name may be anywhere, such as in /etc: a user who owned the folder earlier may have made this one.
    """
    has_names_elsewhere = found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)
    return found.st_uid == former.st_uid and not (has_names_elsewhere and former.st_uid == 0)


def _mount_of(opened: int) -> str:
    """Return the id of a descriptor's mount. (Device numbers do not tell: on an overlay they may differ.)"""
    lines = Path(f"/proc/self/fdinfo/{opened}").read_text().splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))
