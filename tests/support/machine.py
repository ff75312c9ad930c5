"""A machine to install on: its own root directory, an overlay of ours in a mount namespace, which leaves no trace.

It has a user `mc`, who owns a game server in /srv/minecraft, and the companion in /opt/companion. It needs root.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemon import clean_environment
from tests.support.other_user import USER_ID
from tests.support.sandbox import REPOSITORY, SEARCH_PATH, show_program

GAME = Path("/srv/minecraft")
PROGRAM = "/opt/companion/bin/companion"
USER = "mc"
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
        """Return the command that runs a program there."""
        enter = ["nsenter", "--target", str(self._holder.pid), "--mount", "--root", "env", "-C", "/"]
        become = [] if user == "root" else ["setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"]
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

    def companion(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the installed companion there, as root."""
        return self.run(PROGRAM, *arguments)


@contextmanager
def open_machine(scratch: Path, game: Path) -> Iterator[Machine]:
    """Set up the machine, with the game server in `game`, whose owner changes; `scratch` is an empty folder."""
    for path in (game, *game.rglob("*")):
        os.chown(path, USER_ID, USER_ID)
    game.chmod(0o755)
    script = "\n".join([*_build(scratch, game), "exec chroot $root /bin/sh -c 'echo ready; exec cat'"])
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        machine = Machine(holder)
        assert not machine.place("/").samefile("/"), "what a test writes there would be written here"
        yield machine
    finally:
        holder.communicate()


def _build(scratch: Path, game: Path) -> Sequence[str]:
    place = shlex.quote(str(scratch))
    return [
        f"root={place}/root",
        f"PATH={SEARCH_PATH}",
        f"mount -t tmpfs tmpfs {place}",
        f"mkdir {place}/root {place}/upper {place}/work",
        f"mount -t overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work overlay $root",
        f"echo {USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/sh >> $root/etc/passwd",
        f"echo {USER}:x:{USER_ID}: >> $root/etc/group",
        *(f"mount -t tmpfs -o mode={mode} tmpfs $root/{name}" for name, mode in (("tmp", 1777), ("run", 755))),
        *show_program(str(scratch)),
        "mount -t proc proc $root/proc",
        "mount --rbind /dev $root/dev",
        f"mkdir -p $root{GAME} $root{Path(PROGRAM).parent}",
        f"mount --bind {shlex.quote(str(game))} $root{GAME}",
        f"printf %s {shlex.quote(_SCRIPT)} > $root{PROGRAM}",
        f"chmod 755 $root{PROGRAM}",
    ]
