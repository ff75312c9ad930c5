"""Machines to install on: each has a root directory of its own, an overlay of ours, which leaves no trace.

They need root.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.command_line import Finished, finish
from tests.support.daemon import clean_environment
from tests.support.other_user import USER_ID
from tests.support.quick_start import QuickProcess, Streams, quick_start
from tests.support.sandbox import REPOSITORY, SEARCH_PATH, add_user, overlay_root, require_sandbox, show_program

GAME = Path("/srv/minecraft")
PROGRAM = "/opt/companion/bin/companion"
USER = "mc"
FILES = Path("/srv/test")
TIMEOUT = 60.0  # seconds

_SCRIPT = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from companion import main
sys.exit(main())
"""


class Machine:
    """The machine, as long as `holder` runs, the process that keeps its mounts.

    `variables` are in the environment of every program there.
    """

    def __init__(self, holder: "subprocess.Popen[str]") -> None:
        self._holder = holder
        self.variables: dict[str, str] = {}

    def place(self, path: str) -> Path:
        """Return where we see a path of the machine."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def command(self, *arguments: str, user: str = "root") -> list[str]:
        """Return the command that runs a program there, to be started with `environment`."""
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        enter = ["nsenter", "--target", str(self._holder.pid), "--mount", "--root", "env", "-C", "/"]
        return [*enter, *become, *arguments]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a shell there."""
        return {**clean_environment(), "PATH": SEARCH_PATH, **self.variables, **(extra or {})}

    def run(self, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a program there to its end, as root."""
        return subprocess.run(
            self.command(*arguments),
            input=typed,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    def output(self, *arguments: str) -> str:
        """Run a program there that must succeed, and return what it prints, errors included."""
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return (done.stdout + done.stderr).strip()

    def run_quickly(self, *arguments: str, user: int | None = None, folder: str = "/", typed: str = "") -> Finished:
        """Run a command of this checkout there, forked from a process that has read the program (`quick_start`).

        Whatever it creates may have any mode. `user` is an id, and root without it.
        """

        def start(streams: Streams) -> QuickProcess:
            place, holder = Path(folder), self._holder.pid
            return quick_start().start(
                arguments, self.environment(), place, streams, user=user, umask=0, machine=holder
            )

        return finish(start, typed)


@contextmanager
def open_machine(scratch: Path, game: Path) -> Iterator[Machine]:
    """Set up a machine with a user `mc`, who owns the game server in `game`, and with this checkout as the companion.

    `scratch` is an empty folder. Skips the test if this machine cannot.
    """
    require_sandbox("MACHINE")
    for path in (game, *game.rglob("*")):
        os.chown(path, USER_ID, USER_ID)
    game.chmod(0o755)
    lines = [
        *add_user(USER),
        *show_program(scratch),
        "mount -t proc proc $root/proc",
        f"mkdir -p $root{GAME} $root{Path(PROGRAM).parent}",
        f"mount --bind {shlex.quote(str(game))} $root{GAME}",
        f"printf %s {shlex.quote(_SCRIPT)} > $root{PROGRAM}",
        f"chmod 755 $root{PROGRAM}",
    ]
    with _open(scratch, lines) as machine:
        yield machine


@contextmanager
def open_bare_machine(scratch: Path, files: Path) -> Iterator[Machine]:
    """Set up a machine that has nothing of this checkout; it sees `files` in `FILES`. `scratch` is an empty folder.

    Skips the test if this machine cannot.
    """
    require_sandbox("MACHINE")
    lines = [
        "mount --rbind /proc $root/proc",
        # else each step of dpkg reads all manual pages of the machine, for four seconds
        "rm -f $root/var/lib/man-db/auto-update",
        f"mkdir -p $root{FILES}",
        f"mount --bind {shlex.quote(str(files))} $root{FILES}",
    ]
    base = Path(sys.base_prefix)
    if not base.is_relative_to("/usr"):
        place = shlex.quote(str(base))
        lines.append(f"mkdir -p $root{place}; mount --bind {place} $root{place}; mount -o remount,bind,ro $root{place}")
        # a developer's interpreter may be in a folder that others cannot enter
        lines += [f"chmod a+rx $root{shlex.quote(str(parent))}" for parent in list(base.parents)[:-1]]
    with _open(scratch, lines) as machine:
        yield machine


@contextmanager
def _open(scratch: Path, lines: Sequence[str]) -> Iterator[Machine]:
    """Set up a machine by these shell lines, which find its root in `$root`."""
    wait = "exec chroot $root /bin/sh -c 'echo ready; exec cat'"
    script = "\n".join([*overlay_root(scratch), *lines, "mount --rbind /dev $root/dev", wait])
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    machine = Machine(holder)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        assert not machine.place("/").samefile("/"), "what a test writes there would be written here"
        yield machine
    finally:
        holder.communicate()
