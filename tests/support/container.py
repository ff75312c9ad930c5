"""The image of packaging/container/Containerfile, without a container tool: its environment, user and folders.

The daemon runs in a mount namespace of its own, on an overlay of this machine's root, as sandbox.py does it for the
unit. It needs root.
"""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.quick_start import PROGRAM, REPOSITORY
from tests.support.sandbox import SEARCH_PATH, USER_ID, overlay_root, program_folders, show_program

CONTAINERFILE = REPOSITORY / "packaging" / "container" / "Containerfile"
VENV = "/opt/companion/bin"


@dataclass(frozen=True)
class Image:
    """What an image made with a Containerfile says about the containers that are started from it."""

    environment: dict[str, str]
    command: list[str]
    health_check: list[str]
    volumes: list[str]
    stop_signal: str

    @classmethod
    def read(cls, file: Path = CONTAINERFILE) -> "Image":
        """Read the last stage of a Containerfile; raises KeyError if one of these instructions is missing."""
        text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE))
        instructions: dict[str, str] = {}
        for line in text.split("\nFROM ")[-1].splitlines()[1:]:
            name, _space, value = line.partition(" ")
            instructions[name] = value
        environment = dict(pair.split("=", 1) for pair in shlex.split(instructions["ENV"]))
        return cls(
            environment | {"PATH": environment["PATH"].replace("$PATH", SEARCH_PATH)},
            json.loads(instructions["ENTRYPOINT"]) + json.loads(instructions["CMD"]),
            json.loads(instructions["HEALTHCHECK"].partition(" CMD ")[2]),
            instructions["VOLUME"].split(),
            instructions["STOPSIGNAL"],
        )


def container_command(image: Image, scratch: Path, volumes: Mapping[str, Path], **environment: str) -> list[str]:
    """Return a `Daemon(command=…)` that runs the image's command as `USER_ID`; its last argument is ignored.

    `volumes` are folders by their path in the container, read-only if the path ends in `:ro`; `environment` is added to
    the image's own, and there is no other.
    """
    scratch.mkdir()
    lines = [
        *overlay_root(scratch),
        *show_program(scratch),
        f"mkdir -p $root{VENV} $root/game $root/state",
        f"printf '%s\\n' '#!/bin/sh' 'exec {sys.executable} {PROGRAM} \"$@\"' > $root{VENV}/companion",
        f"chmod +x $root{VENV}/companion",
    ]
    for target, source in volumes.items():
        place, _colon, mode = target.partition(":")
        lines.append(f"mount --bind {shlex.quote(str(source))} $root{place}")
        if mode == "ro":
            lines.append(f"mount -o remount,bind,ro $root{place}")
    closed = ("", *(shlex.quote(str(folder)) for folder in program_folders()))
    lines += [f"mount -o remount,bind,ro $root{folder}" for folder in closed]
    lines += ["mount -t proc proc $root/proc", "mount --rbind /dev $root/dev"]
    variables = (f"{name}={value}" for name, value in {**image.environment, **environment}.items())
    command = [
        *("chroot", f"{scratch}/root"),
        *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--bounding-set=-all"),
        *("env", "-i", "-C", image.volumes[0], *variables),
        *image.command,
    ]
    script = "\n".join([*lines, f"exec {shlex.join(command)}"])
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", script]
