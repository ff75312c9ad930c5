"""Runs a program as `companion.service` would: its user, files, rights, filters and limits, without systemd.

Everything is taken from the unit file and done with kernel features, in its own mount namespace that leaves no trace
on the machine: an overlay of the root directory with the folders of a real host. It needs root. Not applied: CPUWeight,
IOWeight, TasksMax, and the filters on clone, personality and setuid bits.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.unit_file import UnitFile
from tests.support.watching import ask_until

REPOSITORY = Path(__file__).resolve().parents[2]
UNIT = REPOSITORY / "systemd" / "companion.service"
CONFINE = Path(__file__).with_name("confine.py")
PRIVATE_USERS = Path(__file__).with_name("private_users.py")

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CREDENTIALS = "/run/credentials/companion.service"
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")

# A user id that does not exist; in the sandbox it belongs to the user that the unit names.
USER_ID = 61234
DEVICES = ("null", "zero", "full", "random", "urandom")


@dataclass(frozen=True)
class Host:
    """Folders of the test, which the program sees at the unit's paths. The unit's user becomes their owner."""

    game: Path  # → the folder above plugins/AuthMe in ReadWritePaths=
    config: Path  # → the folder of the file after --config
    state: Path  # → the folder of StateDirectory= in /var/lib
    secrets: Path  # → the folder of LoadCredential=, copied as systemd does
    scratch: Path  # empty; holds the overlay while it runs
    notify_address: str = ""  # NOTIFY_SOCKET; an abstract one, since the file system is another


def missing_requirement() -> str | None:
    """Return why no sandbox can be created here, or None."""
    if os.geteuid() != 0:
        return "root is needed"
    for tool in ("unshare", "setpriv", "choom", "prlimit", "chroot", "systemd-analyze"):
        if shutil.which(tool, path=SEARCH_PATH) is None:
            return f"{tool} is missing"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def require_sandbox(what: str) -> None:
    """Skip the test, as one of `what`, where no sandbox can be created."""
    if (reason := missing_requirement()) is not None:
        pytest.skip(f"NO {what} HERE: {reason}")


def sandbox_command(unit: UnitFile, host: Host, program: Sequence[str] | None = None) -> list[str]:
    """Return the command that runs `program` (absolute; None: the unit's own ExecStart from this checkout).

    It ignores one argument, the config file that `Daemon` appends, because ExecStart already names it.
    """
    for folder in (host.game, host.config, host.state, host.secrets, host.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    _change_owner(host)
    allowed = host.scratch.with_name("syscalls")
    allowed.write_text("\n".join(sorted(allowed_syscalls(unit))), encoding="utf-8")
    script = "\n".join([*_build_root(unit, host, allowed), *_close_root(unit, host), _become(unit, host, program)])
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", script]


def start_command(unit: UnitFile) -> list[str]:
    """Return ExecStart, run from this checkout instead of the installation."""
    return [sys.executable, str(REPOSITORY / "companion.py"), *unit.words("ExecStart")[1:]]


def game_directory(unit: UnitFile) -> str:
    """Return the game server's folder that the unit opens."""
    return str(Path(unit.words("ReadWritePaths")[0].lstrip("-")).parents[1])


def state_directory(unit: UnitFile) -> str:
    """Return the folder that systemd would create for StateDirectory=."""
    return f"/var/lib/{unit.value('StateDirectory')}"


def program_folders() -> list[Path]:
    """Return the folders of the interpreter and of what it runs; none is inside another."""
    folders = (REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))
    return [
        folder for folder in folders if not any(folder != other and folder.is_relative_to(other) for other in folders)
    ]


def allowed_syscalls(unit: UnitFile) -> set[str]:
    """Return the calls that SystemCallFilter= allows, expanded with systemd's own groups."""
    listing = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True)
    groups: dict[str, list[str]] = {}
    for line in listing.stdout.splitlines():
        if line.startswith("@"):
            groups[line] = members = []
        elif line.strip() and not line.strip().startswith("#"):
            members.append(line.strip())

    def expand(name: str) -> set[str]:
        return {name} if name not in groups else set().union(*(expand(member) for member in groups[name]))

    allowed: set[str] = set()
    for word in unit.words("SystemCallFilter"):
        allowed = allowed - expand(word[1:]) if word.startswith("~") else allowed | expand(word)
    return allowed


@contextmanager
def memory_group(unit: UnitFile, pid: int) -> Iterator[bool]:
    """Put a running process, which must end before the block does, under MemoryMax=.

    Yields False where we cannot create such a group. Memory used so far is not counted, so call it early.
    """
    group = MEMORY_GROUPS / f"companion-test-{pid}"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    (group / "memory.limit_in_bytes").write_text(str(unit.size("MemoryMax")))
    (group / "cgroup.procs").write_text(str(pid))
    try:
        yield True
    finally:
        for survivor in (group / "cgroup.procs").read_text().split():
            (MEMORY_GROUPS / "cgroup.procs").write_text(survivor)
        ask_until(lambda: _is_removed(group), bool)


def _is_removed(group: Path) -> bool:
    """Remove the group; the kernel keeps it for a moment after the last process in it has ended."""
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _change_owner(host: Host) -> None:
    """Make the unit's user the owner of the game's folder and our state, as on a real host."""
    for folder in (host.game, host.state):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER_ID, USER_ID)
    host.state.chmod(0o700)


def _build_root(unit: UnitFile, host: Host, allowed: Path) -> list[str]:
    """Return shell lines that build the host's root under `$root`; nothing is protected yet."""
    lines = [
        *overlay_root(host.scratch),
        *add_user(unit.value("User")),
        f"cp {shlex.quote(str(allowed))} $root/run/syscalls",
        *show_program(host.scratch),
    ]
    for source, target in _folders(unit, host):
        lines += [f"mkdir -p $root{target}", f"mount --bind {shlex.quote(str(source))} $root{target}"]
    lines += [f"mkdir -p -m 755 $root{CREDENTIALS}"]
    for name, source in _credentials(unit, host):
        lines.append(f"install -m 400 -o {USER_ID} {shlex.quote(str(source))} $root{CREDENTIALS}/{name}")
    return lines


def overlay_root(scratch: Path) -> list[str]:
    """Return shell lines that mount an overlay of the root directory as `$root`; `scratch` is an empty folder."""
    place = shlex.quote(str(scratch))
    return [
        f"root={place}/root",
        f"PATH={SEARCH_PATH}",
        f"mount -t tmpfs tmpfs {place}",
        f"mkdir {place}/root {place}/upper {place}/work",
        f"mount -t overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work overlay $root",
        *(f"mount -t tmpfs -o mode={mode} tmpfs $root/{name}" for name, mode in (("tmp", 1777), ("run", 755))),
    ]


def add_user(name: str) -> list[str]:
    """Return shell lines that give `USER_ID` this name under `$root`."""
    return [
        f"echo {name}:x:{USER_ID}:{USER_ID}::/nonexistent:/usr/sbin/nologin >> $root/etc/passwd",
        f"echo {name}:x:{USER_ID}: >> $root/etc/group",
    ]


def show_program(scratch: Path) -> Iterator[str]:
    """Return shell lines that show the program under `$root`: as overlays, so that changes affect the sandbox alone."""
    for number, folder in enumerate(program_folders()):
        place = shlex.quote(str(folder))
        upper, work = (shlex.quote(f"{scratch}/{kind}{number}") for kind in ("upper", "work"))
        yield f"mkdir -p $root{place} {upper} {work}"
        yield f"mount -t overlay -o lowerdir={place},upperdir={upper},workdir={work} overlay $root{place}"
        # A developer's checkout may be in a folder that others cannot enter; an installation is not.
        for entered in (folder, *list(folder.parents)[:-1]):
            yield f"chmod a+rx $root{shlex.quote(str(entered))}"


def _close_root(unit: UnitFile, host: Host) -> Iterator[str]:
    """Return shell lines that make everything read-only except what the unit opens, and remove the devices."""
    for path in unit.words("ReadWritePaths"):
        target = path.lstrip("-")
        yield f"if [ -e $root{target} ]; then mount --bind $root{target} $root{target}; fi"
    closed = [target for source, target in _folders(unit, host) if target != state_directory(unit)]
    for target in (*closed, *(str(folder) for folder in program_folders()), "/run", ""):
        yield f"mount -o remount,bind,ro $root{shlex.quote(target)}"
    yield "mount -t proc -o ro,hidepid=invisible,subset=pid proc $root/proc"
    yield "mount -t tmpfs -o mode=755 tmpfs $root/dev"
    for device in DEVICES:
        yield f"touch $root/dev/{device}; mount --bind /dev/{device} $root/dev/{device}"


def _become(unit: UnitFile, host: Host, program: Sequence[str] | None) -> str:
    """Return the last shell line: one process throughout, so that the id of the started process stays valid."""
    environment = {
        "PATH": SEARCH_PATH,
        "LANG": "C.UTF-8",
        "USER": unit.value("User"),
        "STATE_DIRECTORY": state_directory(unit),
        "CREDENTIALS_DIRECTORY": CREDENTIALS,
        "WATCHDOG_USEC": str(unit.seconds("WatchdogSec") * 1_000_000),
        "NOTIFY_SOCKET": host.notify_address,
    }
    families = ",".join(str(int(getattr(socket, name))) for name in unit.words("RestrictAddressFamilies"))
    own_users = [sys.executable, str(PRIVATE_USERS), str(USER_ID)] if unit.value("PrivateUsers") == "yes" else []
    command = [
        *("choom", "-n", unit.value("OOMScoreAdjust"), "--"),
        *("nice", "-n", unit.value("Nice")),
        *("prlimit", f"--nofile={unit.value('LimitNOFILE')}"),
        *own_users,
        *("chroot", f"{host.scratch}/root"),
        *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"),
        *("env", "-i", *(f"{name}={value}" for name, value in environment.items() if value)),
        *(sys.executable, str(CONFINE), "/run/syscalls", families),
        *(program or start_command(unit)),
    ]
    return f"umask {unit.value('UMask')}; exec {shlex.join(command)}"


def _folders(unit: UnitFile, host: Host) -> list[tuple[Path, str]]:
    arguments = unit.words("ExecStart")
    config_file = arguments[arguments.index("--config") + 1]
    return [
        (host.game, game_directory(unit)),
        (host.config, str(Path(config_file).parent)),
        (host.state, state_directory(unit)),
    ]


def _credentials(unit: UnitFile, host: Host) -> Iterator[tuple[str, Path]]:
    """Yield names and files: a folder in LoadCredential= provides each of its files, as `<id>_<file>`."""
    for word in unit.words("LoadCredential"):
        identifier = word.split(":", 1)[0]
        yield from ((f"{identifier}_{file.name}", file) for file in sorted(host.secrets.iterdir()))
