"""Check of files before they are read: a host may name a pipe, which would be waited for without end."""

import errno
import stat
from importlib.resources.abc import Traversable
from pathlib import Path


def require_regular_file(file: Traversable) -> None:
    """Raise OSError if the file is missing or has no content of its own. A folder's error comes when it is opened."""
    if isinstance(file, Path):  # else it is in an archive
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
