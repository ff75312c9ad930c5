"""This machine's file system as another host: commands there may install packages, and leave nothing behind.

It is an overlay of the root directory in a mount namespace of its own, held by a process that only waits.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ScratchRoot:
    """The other host's root directory, as the process with the id `holder` sees it."""

    def __init__(self, holder: int, place: Path) -> None:
        self._holder = holder
        self._place = place

    def command(self, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs these arguments there."""
        variables = [f"{name}={value}" for name, value in {"PATH": SEARCH_PATH, **(environment or {})}.items()]
        enter = ["nsenter", "--mount", "--target", str(self._holder), "chroot", str(self._place)]
        return [*enter, "env", "-i", "-C", "/", *variables, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)

    def output(self, *arguments: str) -> str:
        """Run a command there that must succeed, and return what it prints, errors included."""
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return (done.stdout + done.stderr).strip()


@contextmanager
def scratch_root(folder: Path) -> Iterator[ScratchRoot]:
    """Mount such a root below `folder`, which it sees as /srv/test; needs root rights."""
    place = folder / "root"
    script = "\n".join([*_mount(folder, place), "echo mounted", "exec cat"])
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "mounted\n"
        yield ScratchRoot(holder.pid, place)
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()


def _mount(folder: Path, place: Path) -> Iterator[str]:
    base, root = shlex.quote(str(folder)), shlex.quote(str(place))
    yield f"mkdir -p {base}/layers {base}/files {root}"
    yield f"mount -t tmpfs tmpfs {base}/layers"
    yield f"mkdir {base}/layers/upper {base}/layers/work"
    yield f"mount -t overlay -o lowerdir=/,upperdir={base}/layers/upper,workdir={base}/layers/work overlay {root}"
    yield from (f"mount -t tmpfs -o mode={mode} tmpfs {root}/{name}" for name, mode in (("tmp", 1777), ("run", 755)))
    yield from (f"mount --rbind /{name} {root}/{name}" for name in ("dev", "proc"))
    yield f"mkdir -p {root}/srv/test"
    yield f"mount --bind {base}/files {root}/srv/test"
    if not Path(sys.base_prefix).is_relative_to("/usr"):
        prefix = shlex.quote(sys.base_prefix)
        yield f"mkdir -p {root}{prefix}; mount --bind {prefix} {root}{prefix}; mount -o remount,bind,ro {root}{prefix}"
        # a developer's interpreter may be in a folder that others cannot enter
        yield from (
            f"chmod a+rx {root}{shlex.quote(str(parent))}" for parent in list(Path(sys.base_prefix).parents)[:-1]
        )


def base_interpreter() -> str:
    """Return the interpreter that this environment was made with."""
    return os.path.realpath(sys.executable)
