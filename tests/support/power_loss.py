"""A power failure, as one process would find it: what it wrote and did not flush is not there any more.

`strace` passes on what the process does to the files below a folder. From that and from a copy of the folder made
before the start, `restore` writes the folder anew: each file as of its last fsync or fdatasync, names as of the last of
any file (a journaling file system commits them in order). So nothing is there that was not flushed. What this cannot
show: a disk that keeps some of the unflushed writes, or parts of one, and one that says it has flushed and has not.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.programs import find_program

_CALLS: Final = (
    "openat,open,creat,write,pwrite64,fsync,fdatasync,ftruncate,fallocate,unlink,unlinkat,rename,renameat,renameat2,"
    "writev,pwritev,pwritev2,io_submit,io_uring_enter,copy_file_range,sendfile,lseek"
)
_CALL: Final = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)(.*)", re.DOTALL)
_RESUMED: Final = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_UNFINISHED: Final = " <unfinished ...>"
_TEXT: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FILE: Final = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2})*)>")
_LONGEST: Final = 1 << 21  # bytes of one write


def _decode(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _path(escaped: str) -> Path:
    return Path(os.fsdecode(_decode(escaped)))


@dataclass
class _File:
    """The content on the disk, and the changes to it that were not flushed."""

    flushed: bytearray | None
    waiting: list[Callable[[bytearray], None]] = field(default_factory=list)

    def flush(self) -> None:
        self.flushed = bytearray() if self.flushed is None else self.flushed
        for change in self.waiting:
            change(self.flushed)
        self.waiting.clear()


class Disk:
    """The files below a folder, as they are on the disk. Create it with `record`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flushed = {file: _File(bytearray(file.read_bytes())) for file in folder.rglob("*") if file.is_file()}
        self._named = dict(self._flushed)  # as the process sees it
        self._folders = [each for each in folder.rglob("*") if each.is_dir()]
        self._positions: dict[int, int | None] = {}  # by descriptor; None: always at the end

    def apply(self, line: str) -> None:
        """Take in a line of strace's. AssertionError where it is one that this cannot follow."""
        found = _CALL.match(line)
        if found is None or found[4].startswith("-"):
            return
        _process, call, arguments, result, _rest = found.groups()
        handle = getattr(self, f"_do_{call}", None)
        places = [_path(arguments_file[2])] if (arguments_file := _FILE.match(arguments)) else self._paths(arguments)
        if any(self._folder in (place, *place.parents) for place in places):
            assert handle is not None, f"{call} is not followed: {line[:200]}"
            handle(arguments, int(result), found[5])

    def restore(self) -> None:
        """Write the folder as the disk has it. The process has ended."""
        shutil.rmtree(self._folder)
        for each in (self._folder, *self._folders):
            each.mkdir(parents=True, exist_ok=True)
        for path, file in self._flushed.items():
            if file.flushed is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.flushed)
                path.chmod(0o600)

    def _do_openat(self, arguments: str, result: int, rest: str) -> None:
        opened = re.match(r"<((?:\\x[0-9a-f]{2})*)>", rest)
        assert opened is not None, rest
        path = _path(opened[1])
        assert "SYNC" not in arguments, f"flushed without a call: {arguments}"
        is_new = "O_CREAT" in arguments and path not in self._named
        if is_new:
            self._named[path] = _File(None)
        if "O_TRUNC" in arguments:
            self._change(path, lambda content: content.clear())
        self._positions.pop(result, None)
        if "O_APPEND" in arguments:
            self._positions[result] = None
        elif is_new or "O_TRUNC" in arguments:
            self._positions[result] = 0

    _do_open = _do_creat = _do_openat

    def _do_pwrite64(self, arguments: str, result: int, _rest: str) -> None:
        path, text = self._path_of(arguments), _TEXT.search(arguments)
        assert text is not None, arguments[:200]
        data, offset = _decode(text[1])[:result], int(arguments.rpartition(", ")[2])
        assert len(data) == result, "a write is longer than what strace shows"
        self._put(path, offset, data)

    def _do_write(self, arguments: str, result: int, _rest: str) -> None:
        path, text, descriptor = self._path_of(arguments), _TEXT.search(arguments), int(arguments.split("<", 1)[0])
        assert text is not None, arguments[:200]
        data = _decode(text[1])[:result]
        assert len(data) == result, "a write is longer than what strace shows"
        assert descriptor in self._positions, f"nobody knows where this is written: {path}"
        position = self._positions[descriptor]
        if position is None:
            self._change(path, lambda content: content.extend(data))
            return
        self._put(path, position, data)
        self._positions[descriptor] = position + result

    def _do_lseek(self, arguments: str, result: int, _rest: str) -> None:
        descriptor = int(arguments.split("<", 1)[0])
        if self._positions.get(descriptor, 0) is not None:
            self._positions[descriptor] = result

    def _do_ftruncate(self, arguments: str, _result: int, _rest: str) -> None:
        size = int(arguments.rpartition(", ")[2])

        def resize(content: bytearray) -> None:
            content[size:] = bytes(max(0, size - len(content)))

        self._change(self._path_of(arguments), resize)

    def _do_fallocate(self, arguments: str, _result: int, _rest: str) -> None:
        mode, offset, length = arguments.split(", ")[-3:]
        assert mode == "0", f"a mode that is not followed: {arguments[-60:]}"
        end = int(offset) + int(length)
        self._change(self._path_of(arguments), lambda content: content.extend(bytes(max(0, end - len(content)))))

    def _do_fsync(self, arguments: str, _result: int, _rest: str) -> None:
        file = self._named.get(self._path_of(arguments))
        if file is not None:  # else a folder
            file.flush()
        self._flushed = dict(self._named)

    _do_fdatasync = _do_fsync

    def _do_unlink(self, arguments: str, _result: int, _rest: str) -> None:
        path = self._paths(arguments)[-1]
        self._named.pop(path, None)

    _do_unlinkat = _do_unlink

    def _do_rename(self, arguments: str, _result: int, _rest: str) -> None:
        old, new = self._paths(arguments)[-2:]
        self._named[new] = self._named.pop(old)

    _do_renameat = _do_renameat2 = _do_rename

    def _put(self, path: Path, offset: int, data: bytes) -> None:
        def put(content: bytearray) -> None:
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data

        self._change(path, put)

    def _change(self, path: Path, change: Callable[[bytearray], None]) -> None:
        file = self._named.get(path)
        if file is not None:  # else it was removed, and is still open
            file.waiting.append(change)

    @staticmethod
    def _path_of(arguments: str) -> Path:
        found = _FILE.match(arguments)
        assert found is not None, arguments[:200]
        return _path(found[2])

    def _paths(self, arguments: str) -> list[Path]:
        """Return the names given to a call, whole."""
        folder = re.match(r"AT_FDCWD<((?:\\x[0-9a-f]{2})*)>", arguments)
        start = self._folder if folder is None else _path(folder[1])
        return [start / _path(text) for text in _TEXT.findall(arguments)]


@dataclass(frozen=True)
class Recording:
    """Puts what a process does to its files on a disk. `wrapper` precedes the command that starts the process."""

    wrapper: tuple[str, ...]
    lines: list[str]
    reader: threading.Thread
    disk: Disk

    def fail_power(self) -> None:
        """Leave the folder as the disk has it, once the process was killed."""
        self.reader.join(60)
        assert not self.reader.is_alive(), "the process has not ended"
        for line in _whole_calls(self.lines):
            self.disk.apply(line)
        self.disk.restore()


def _whole_calls(lines: list[str]) -> Iterator[str]:
    """Yield one line for each call, when it was over: strace cuts those during which another thread was seen."""
    begun: dict[str, str] = {}
    for line in lines:
        if line.endswith(_UNFINISHED):
            begun[line.split(" ", 1)[0]] = line.removesuffix(_UNFINISHED)
        elif resumed := _RESUMED.match(line):
            yield begun.pop(resumed[1]) + resumed[3]
        else:
            yield line


def record(folder: Path, place: Path) -> Recording:
    """Record one process, from its start until it is killed, and its files in `folder`; `place` is for ours."""
    strace = find_program("strace")
    pipe = place / "calls"
    os.mkfifo(pipe)
    lines: list[str] = []

    def read() -> None:
        with pipe.open(encoding="ascii", errors="replace") as calls:
            lines.extend(line.removesuffix("\n") for line in calls)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    # -D: the process is our child, as without; -y: names of files; -xx, -s: whole and in hexadecimal digits
    what = ("-e", "signal=none", "-e", f"trace={_CALLS}")
    wrapper = (strace, "-D", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(_LONGEST), *what)
    return Recording((*wrapper, "-o", str(pipe)), lines, reader, Disk(folder))
