"""A daemon whose state directory is on its own file system: a small one, or a read-only one."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.quick_start import REPOSITORY


def serve_with_state_on(state_dir: Path, options: str) -> list[str]:
    """Return a `Daemon(command=…)` that mounts a tmpfs with these options at `state_dir`, for its process alone.

    Skips the test if this machine allows no mounts.
    """
    return _serve_after(f"mount -t tmpfs -o mode=700,{options} tmpfs {shlex.quote(str(state_dir))}", state_dir)


def serve_with_state_read_only(state_dir: Path) -> list[str]:
    """Return a `Daemon(command=…)` whose state directory, with all that is in it, is mounted read-only."""
    directory = shlex.quote(str(state_dir))
    return _serve_after(f"mount --bind {directory} {directory}; mount -o remount,bind,ro {directory}", state_dir)


def run_beside(process_id: int, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command with the mounts of this process."""
    own_user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    entered = ["nsenter", "--target", str(process_id), "--mount", *own_user, *command]
    return subprocess.run(entered, capture_output=True, text=True, check=False)


def _serve_after(mount: str, state_dir: Path) -> list[str]:
    serve = shlex.join([sys.executable, str(REPOSITORY / "companion.py"), "serve", "--config"])
    script = f'mkdir -p {shlex.quote(str(state_dir))}; {mount}; exec {serve} "$0"'
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "--propagation", "private"]
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"NO MOUNTS OF ITS OWN FOR A PROCESS HERE: {tried.stderr.strip()}")
    return [*unshare, "/bin/sh", "-euc", script]


def seen_by(process_id: int, path: Path) -> Path:
    """Return the path of a file as seen by a process with its own mounts."""
    return Path(f"/proc/{process_id}/root{path}")
