"""Paths as root walks them: from the root down, by descriptors, past no link that another user could have planted.

A link is followed only where nobody but root can put one: in a folder that root alone may write, such as / with
`/lib -> usr/lib`, or a link of root's in a sticky folder of root's. (The kernel's `protected_symlinks` is about sticky
folders alone.) Other users' folders are entered, but links in them lead nowhere.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Final

_TOP: Final = Path("/")
_WALKED: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LINKS: Final = 40
_ACCESS_LIST: Final = "system.posix_acl_access"


class PlantedLink(OSError):
    """The path leads through a link that another user could have planted. `planter` is the link's status."""

    def __init__(self, link: str, planter: os.stat_result) -> None:
        sentence = "this link is in a folder that others than root may change: name the folder that it leads to"
        super().__init__(errno.ELOOP, sentence, link)
        self.planter = planter


@contextmanager
def located(
    path: Path, root: Path = _TOP, *, makes: bool = False, visit: Callable[[int, str], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that a path leads to, and the name in it, which was no link to be followed.

    Nothing needs to have this name. `root` stands for /, also for absolute links. With `makes` missing folders on the
    way are created. `visit` is called with each folder and the name looked for in it. Raises `PlantedLink`, OSError.
    """
    opened = [os.open(_TOP, _WALKED) if root == _TOP else open_folder(root, flags=_WALKED)]
    pending, links, name = [*reversed(path.absolute().parts[1:])], 0, "."
    try:
        while pending:
            name = pending.pop()
            if name == "..":
                name = "."
                if len(opened) > 1:
                    os.close(opened.pop())
                continue
            if visit is not None:
                visit(opened[-1], name)
            target = _read_link(opened[-1], name)
            if target is None:
                if not pending:
                    break
                opened.append(_open(opened[-1], name, _WALKED, 0o755 if makes else None))
                continue
            if not is_roots_alone(opened[-1], name):
                raise PlantedLink(_shown(opened[-1], name), os.stat(name, dir_fd=opened[-1], follow_symlinks=False))
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if target.startswith("/"):
                while len(opened) > 1:
                    os.close(opened.pop())
            pending += [part for part in reversed(PurePosixPath(target).parts) if part.strip("/")]
            name = "."
        yield opened[-1], name
    finally:
        for descriptor in opened:
            os.close(descriptor)


def open_folder(
    path: Path, root: Path = _TOP, *, mode: int | None = None, flags: int = _OPENED | os.O_DIRECTORY
) -> int:
    """Return a descriptor of a folder, `located` so; with a `mode` it is created if it is missing."""
    with located(path, root, makes=mode is not None) as (folder, name):
        return _open(folder, name, flags, mode)


def open_file(path: Path, root: Path = _TOP) -> int:
    """Return a descriptor to read a file, `located` so.

    Every link is followed for other users than root, and where all are root's: /dev/fd/3 leads to what has no name.
    """
    if root == _TOP and (os.geteuid() != 0 or find_foreign_folder(path) is None):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with located(path, root) as (folder, name):
        return os.open(name, _OPENED, dir_fd=folder)


def open_regular_file(path: Path, root: Path = _TOP) -> int:
    """Return a descriptor to read a file that has content of its own, `located` so for root; no pipe is waited for.

    Raises `PlantedLink`, and OSError for anything else, such as a folder.
    """
    if root == _TOP and os.geteuid() != 0:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    else:
        with located(path, root) as (folder, name):
            opened = os.open(name, _OPENED, dir_fd=folder)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_text_file(file: Traversable, encoding: str = "utf-8") -> str:
    """Return the text of a file, opened as by `open_regular_file` where it is one of the file system.

    Raises OSError and UnicodeDecodeError.
    """
    if not isinstance(file, Path):  # in an archive
        return file.read_text(encoding)
    with open(open_regular_file(file), encoding=encoding) as opened:
        return opened.read()


def replace_file(folder: int, name: str, text: str, *, mode: int, owner: tuple[int, int]) -> None:
    """Create or replace a file in a folder, given its descriptor, in one step.

    Mode and owner (the ids of user and group) are set before it can be seen. Raises OSError.
    """
    new = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with open(opened, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor, not a path
            os.fchown(opened, *owner)
            os.fchmod(opened, mode)
            file.write(text)
            file.flush()
            os.fsync(opened)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # as on a full disk
        os.unlink(new, dir_fd=folder)
        raise


def status_of(path: Path) -> os.stat_result:
    """Return the status of what a path leads to; of the first link on the way that others could have planted."""
    try:
        with located(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except PlantedLink as link:
        return link.planter


def find_foreign_folder(path: Path, root: Path = _TOP) -> Path | None:
    """Return the first folder on the way in which others than root could exchange the next one; None if there is none.

    None says that nobody but root can change where the path leads, now or later.
    """
    found: list[str] = []

    def visit(folder: int, name: str) -> None:
        if not found and not is_roots_alone(folder, name):
            found.append(_shown(folder, ""))

    try:
        with located(path, root, visit=visit):
            pass
    except OSError:  # each folder is looked at before it is entered
        pass
    return Path(found[0]) if found else None


def find_closed_folder(path: Path) -> Path | None:
    """Return the first folder on the way to a path that our user may not enter; None: there is none that we know of."""
    for folder in reversed(Path(os.path.realpath(path)).parents):
        if not os.access(folder, os.X_OK):
            return folder if os.access(folder, os.F_OK) else None
    return None


def is_roots_alone(folder: int, name: str) -> bool:
    """Return whether nobody but root can put something in the place of this name in a folder, given its descriptor.

    The owner of / counts as root: in a user namespace all users but one's own are the same. So does root's group: what
    root unpacks from an archive may often be written by it.
    """
    top, holder = _TOP.stat(), os.fstat(folder)
    roots = {0, top.st_uid}
    if holder.st_uid not in roots:
        return False
    is_open = bool(holder.st_mode & stat.S_IWOTH)
    if holder.st_mode & stat.S_IWGRP:
        is_open = is_open or holder.st_gid not in {0, top.st_gid} or _has_access_list(folder)
    if not is_open:
        return True
    try:
        entry = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return bool(holder.st_mode & stat.S_ISVTX) and entry.st_uid in roots


def _has_access_list(folder: int) -> bool:
    """Return whether a folder has an access list: the rights of the group are then the most that any user there has."""
    try:
        return bool(os.getxattr(f"/proc/self/fd/{folder}", _ACCESS_LIST))
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


def _read_link(folder: int, name: str) -> str | None:
    """Return where a link leads; None for anything else, and if nothing has the name."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _open(folder: int, name: str, flags: int, mode: int | None) -> int:
    """Open a folder; with a `mode` it is created if it is missing."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if mode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), _shown(folder, name)) from None
    os.mkdir(name, mode, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def _shown(folder: int, name: str) -> str:
    return str(Path(f"/proc/self/fd/{folder}").readlink() / name)
