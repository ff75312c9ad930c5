"""Trial of README's two commands on fresh systems: `make fresh-test`, as root and with the network (needs debootstrap).

`python -m tests.packaging.try_fresh FOLDER SYSTEMS WAYS PYTEST_ARGS` makes each system once, with what README says has
to be there, and keeps it in FOLDER; each way (root; sudo: with passwordless sudo; neither) gets a copy, a clone of the
last commit, and types `make run` until it answers, then `make test`. What `make run` says is missing is typed by root,
as it is printed, before `make run` is typed again. The exit status is 1 if something fails.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.packaging.fresh_system import ENVIRONMENT, make_system
from tests.support.ports import free_port

REPOSITORY = Path(__file__).parents[2]
HAS_TO_BE_THERE = "make git python3"
USER = "alice"
WAYS = ("root", "sudo", "neither")
ANSWERS_WITHIN = 900.0  # seconds, with the set-up
PASSES_WITHIN = 7200.0  # seconds
TO_TYPE = re.compile(r"^## Type, as root: (.*)$", re.MULTILINE)
SUMMARY = re.compile(r"^=* ?(\d+ (?:passed|failed|skipped|error).*?) in [\d.:() s]*=*$", re.MULTILINE)
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+: (.*)$", re.MULTILINE)

# Everything that is mounted, and all processes, are gone when the first one ends.
ENTER = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-euc")
MOUNT = """\
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount --rbind /sys sys
pivot_root . .
umount -l .
exec chroot . "$@"
"""


class Failed(Exception):
    """Why a command of README did not do what it says."""


@dataclass
class Machine:
    """A system, and the way in which its user may install packages."""

    root: Path
    way: str
    log: Path
    typed: list[str] = field(default_factory=list)
    """Lines that root had to type."""

    def prepare(self, tarball: Path) -> None:
        """Unpack the system, with a clone of the last commit in the user's home."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        subprocess.run(["tar", "-xpf", tarball, "-C", self.root], check=True)
        if self.way == "sudo":
            (self.root / "etc/sudoers.d/alice").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
        clone = self.root / self.home[1:] / "companion"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, clone], check=True)
        if self.way != "root":
            subprocess.run(["chroot", self.root, "chown", "-R", f"{USER}:", f"{self.home}/companion"], check=True)

    @property
    def home(self) -> str:
        return "/root" if self.way == "root" else f"/home/{USER}"

    def start(self, command: str, *, as_root: bool = False) -> "subprocess.Popen[bytes]":
        """Type a command in the clone; what it prints goes to the log."""
        script = f"cd {self.home}/companion && {command}"
        user = [] if as_root or self.way == "root" else ["runuser", "-u", USER, "--"]
        environment = ENVIRONMENT | {"HOME": "/root" if as_root else self.home}
        with self.log.open("ab") as log:
            log.write(f"\n$ {command}\n".encode())
            log.flush()
            return subprocess.Popen(
                [*ENTER, MOUNT, str(self.root), *user, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def make_run(self) -> None:
        """Type `make run`, as often as it says what root has to type before, until it answers. Raises Failed."""
        while True:
            began = self.log.stat().st_size
            port = free_port()
            running = self.start(f"COMPANION_SERVER_PORT={port} make run")
            try:
                if self._answers(running, port):
                    return
            finally:
                end(running)
            missing = TO_TYPE.search(self.log.read_bytes()[began:].decode(errors="replace"))
            if missing is None or missing[1] in self.typed or self.way != "neither":
                raise Failed("make run ended")
            self.typed.append(missing[1])
            if self.start(missing[1], as_root=True).wait() != 0:
                raise Failed(f"{missing[1]!r} failed")

    def _answers(self, running: "subprocess.Popen[bytes]", port: int) -> bool:
        """Wait until the demo answers; return False if it ends before. Raises Failed."""
        deadline = time.monotonic() + ANSWERS_WITHIN
        while time.monotonic() < deadline:
            try:
                running.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
            else:
                return False
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5):
                    return True
            except OSError:
                continue
        raise Failed(f"make run did not answer within {ANSWERS_WITHIN:.0f} s")

    def make_test(self, arguments: str) -> str:
        """Type `make test`; return how many tests passed, and why others were skipped. Raises Failed."""
        began = self.log.stat().st_size
        running = self.start(f"make test PYTEST_ARGS='{arguments} -rs'")
        try:
            status = running.wait(PASSES_WITHIN)
        except subprocess.TimeoutExpired:
            raise Failed(f"make test did not end within {PASSES_WITHIN:.0f} s") from None
        finally:
            end(running)
        said = self.log.read_bytes()[began:].decode(errors="replace")
        summary = SUMMARY.search(said)
        reasons: Counter[str] = Counter()
        for number, reason in SKIPPED.findall(said):
            reasons[reason] += int(number)
        result = "; ".join([summary[1] if summary else "no test ran", *(f"{n} × {why}" for why, n in reasons.items())])
        if status != 0 or summary is None:
            raise Failed(f"make test: {result}")
        return result


def end(running: "subprocess.Popen[bytes]") -> None:
    """End a command with all that it started, as Ctrl-C does."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGINT)
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()  # `unshare`, whose child goes with it, and with that one all others inside
    running.wait()


def make_tarball(system: str, folder: Path) -> Path:
    """Return the system as a file, which is made unless it is there."""
    tarball = folder / f"{system}.tar"
    if tarball.exists():
        return tarball
    root = folder / f"{system}-new"
    shutil.rmtree(root, ignore_errors=True)
    make_system(system, root)
    (root / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')  # what they answer who type
    script = f"""
        apt-get update -qq
        apt-get install -qq --no-install-recommends {HAS_TO_BE_THERE} sudo
        apt-get clean
        useradd --create-home --shell /bin/sh {USER}
    """
    with root.with_suffix(".debootstrap.log").open("ab") as log:
        command = [*ENTER, MOUNT, str(root), "sh", "-euc", script]
        subprocess.run(command, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    unfinished = tarball.with_suffix(".unfinished")
    subprocess.run(["tar", "-cpf", unfinished, "-C", root, "."], check=True)
    unfinished.rename(tarball)
    shutil.rmtree(root)
    return tarball


def try_way(system: str, way: str, tarball: Path, arguments: str) -> Sequence[str]:
    """Type both commands; return the row of the table, whose last cell is what happened."""
    folder = tarball.parent
    machine = Machine(folder / f"{system}-{way}", way, folder / f"{system}-{way}.log")
    machine.log.write_bytes(b"")
    seconds = ["-", "-"]
    try:
        machine.prepare(tarball)
        began = time.monotonic()
        machine.make_run()
        seconds[0] = f"{time.monotonic() - began:.0f} s"
        began = time.monotonic()
        result = f"ok: {machine.make_test(arguments)}"
        seconds[1] = f"{time.monotonic() - began:.0f} s"
        if machine.typed:
            result += f"; typed by root: {'; '.join(machine.typed)}"
    except Failed as failure:
        result = f"FAILED: {failure}; see {machine.log}"
    shutil.rmtree(machine.root)
    return (system, way, *seconds, result)


def main() -> int:
    """Try all ways on all systems; print the table and return the exit status."""
    folder = Path(sys.argv[1]).resolve()
    systems, ways, arguments = sys.argv[2].split(), sys.argv[3].split(), sys.argv[4]
    if unknown := set(ways) - set(WAYS):
        sys.exit(f"WAYS={' '.join(unknown)}: there are {', '.join(WAYS)}")
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Sequence[str]] = [("system", "way", "make run", "make test", "result")]
    print("\t".join(rows[0]), flush=True)
    for system in systems:
        try:
            tarball = make_tarball(system, folder)
        except (subprocess.CalledProcessError, OSError) as error:
            rows.append((system, "-", "-", "-", f"FAILED: {error}; see {folder / f'{system}-new'}.debootstrap.log"))
            print("\t".join(rows[-1]), flush=True)
            continue
        for way in ways:
            rows.append(try_way(system, way, tarball, arguments))
            print("\t".join(rows[-1]), flush=True)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))
    return int(any("FAILED" in row[4] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
