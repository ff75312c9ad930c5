"""Fake plugin jars with the files that are read."""

import os
import zipfile
from pathlib import Path

AUTHME = "name: AuthMe\nmain: fr.xephi.authme.AuthMe\nversion: 5.6.0-beta2\n"


def write_jar(folder: Path, name: str, description: str | bytes | None = AUTHME) -> Path:
    """Write a jar with this `plugin.yml`; None: without one."""
    folder.mkdir(parents=True, exist_ok=True)
    jar = folder / name
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fr/xephi/authme/AuthMe.class", b"\xca\xfe\xba\xbe")
        if description is not None:
            archive.writestr("plugin.yml", description)
    return jar


def age(jar: Path, seconds: int) -> None:
    """Set its modification time this much earlier."""
    status = jar.stat()
    os.utime(jar, ns=(status.st_atime_ns, status.st_mtime_ns - seconds * 10**9))
