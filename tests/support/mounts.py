"""A daemon whose state directory is on its own file system: a small one, or a read-only one."""

import os
import shlex
import sys
from pathlib import Path

from tests.support.quick_start import REPOSITORY


def serve_with_state_on(state_dir: Path, options: str) -> list[str]:
    """Return a `Daemon(command=…)` that mounts a tmpfs with these options at `state_dir`, for its process alone."""
    directory = shlex.quote(str(state_dir))
    serve = shlex.join([sys.executable, str(REPOSITORY / "companion.py"), "serve", "--config"])
    script = f'mkdir -p {directory}; mount -t tmpfs -o mode=700,{options} tmpfs {directory}; exec {serve} "$0"'
    own_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *own_user, "--mount", "--propagation", "private", "/bin/sh", "-euc", script]


def seen_by(process_id: int, path: Path) -> Path:
    """Return the path of a file as seen by a process with its own mounts."""
    return Path(f"/proc/{process_id}/root{path}")
