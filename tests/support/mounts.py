"""A daemon whose state directory is a disk of its own: a small one, or one that cannot be written."""

import os
import shlex
import sys
from pathlib import Path

from tests.support.quick_start import REPOSITORY


def serve_with_state_on(state_dir: Path, options: str) -> list[str]:
    """For `Daemon(command=…)`: a tmpfs with these mount options stands at `state_dir`, for this process alone."""
    directory = shlex.quote(str(state_dir))
    serve = shlex.join([sys.executable, str(REPOSITORY / "companion.py"), "serve", "--config"])
    script = f'mkdir -p {directory}; mount -t tmpfs -o mode=700,{options} tmpfs {directory}; exec {serve} "$0"'
    own_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *own_user, "--mount", "--propagation", "private", "/bin/sh", "-euc", script]


def seen_by(process_id: int, path: Path) -> Path:
    """A path as a process sees it that has mounts of its own."""
    return Path(f"/proc/{process_id}/root{path}")
