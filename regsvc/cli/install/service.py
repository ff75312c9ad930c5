"""The program that is installed, and systemd, which runs it."""

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from regsvc.cli.install.settings import InstallProblem

_SYSTEMD_RUNS: Final = Path("/run/systemd/system")


def program_command() -> list[str]:
    """Return the command that started this process, without its arguments: absolute, for a unit."""
    program = Path(sys.argv[0]).absolute()
    is_command = program.suffix != ".py" and os.access(program, os.X_OK)
    return [str(program)] if is_command else [sys.executable, str(program)]


def require_program_for(user: str, program: Sequence[str]) -> None:
    """Raise `InstallProblem` if this user cannot run the program."""
    entry = pwd.getpwnam(user)
    reason = "it ends at once"
    try:
        done = subprocess.run(  # noqa: S603 - the command that runs us
            [*program, "--version"],
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=os.getgrouplist(user, entry.pw_gid),
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        reason = (done.stderr.strip().splitlines() or [reason])[-1]
    except OSError as error:
        reason = error.strerror or reason
    raise InstallProblem(
        f"{user} cannot run {' '.join(program)} ({reason}). Install the program in a folder that every user may enter, "
        "such as /opt/companion, and run `companion install` from there."
    )


def run_companion(program: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run another command of the companion; its standard output is also printed."""
    done = subprocess.run([*program, *arguments], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    print(done.stdout, end="", flush=True)
    return done


class Systemd:
    """systemd's manager, where it runs."""

    @property
    def is_running(self) -> bool:
        return _SYSTEMD_RUNS.is_dir()

    def call(self, *arguments: str) -> bool:
        """Run systemctl with these arguments; return whether it succeeded."""
        return subprocess.run(["systemctl", *arguments], check=False).returncode == 0  # noqa: S603, S607
