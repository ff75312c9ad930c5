"""Jars of plugins, as far as anybody reads them."""

import os
import zipfile
from pathlib import Path

AUTHME = "name: AuthMe\nmain: fr.xephi.authme.AuthMe\nversion: 5.6.0-beta2\n"


def write_jar(folder: Path, name: str, description: str | bytes | None = AUTHME) -> Path:
    """A jar whose `plugin.yml` says this; None: it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    jar = folder / name
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fr/xephi/authme/AuthMe.class", b"\xca\xfe\xba\xbe")
        if description is not None:
            archive.writestr("plugin.yml", description)
    return jar


def age(jar: Path, seconds: int) -> None:
    """As if it had been copied there earlier."""
    status = jar.stat()
    os.utime(jar, ns=(status.st_atime_ns, status.st_mtime_ns - seconds * 10**9))
