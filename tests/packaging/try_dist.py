"""Trial of what `make dist` has built, in a fresh Debian with a real systemd, as root and with the network.

`python -m tests.packaging.try_dist DIST FOLDER [STORY ...]` is the long form of test_distributions.py. It needs
debootstrap, and takes systemd-nspawn from Debian's package where it is not installed. What the kernel does not allow is
told as NOT TRIED. The exit status is 1 if something fails, or nothing could be tried.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.docs.commands import (
    BY_HAND,
    DROP_IN,
    MACHINE_DIED,
    WITH_NOTHING,
    WITH_PACKAGE,
    WITH_WHEEL,
    Step,
    block_of,
    lines_of,
    replaced,
)
from tests.packaging.fresh_system import ENVIRONMENT, make_system
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table, find_player
from tests.support.authme.game_server import GameServer
from tests.support.authme.row_audit import is_locked
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port

GAME = "/srv/minecraft"
CONFIG = "/etc/companion/companion.toml"
SERVERS = [f"s{number}" for number in range(1, 7)]
BROKEN_SERVER = "s3"
AT_ONCE = 4  # postinst restarts as many
ACCEPTED = (0, 3)  # exit statuses of `companion install`; 3: the doctor complains, here of the mail server
WORK = "/srv/work"  # where the commands of the pages are typed


class NotTried(Exception):
    """What the kernel does not allow; the rest of a story is tried."""


class Debian:
    """The machine, entered by the namespaces of one of its processes. `root` is where we see its files."""

    def __init__(self, root: Path, dist: Path) -> None:
        self.root, self.dist = root, dist
        self.process = 0
        self.ports: dict[str, int] = {}

    def run(self, script: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run shell lines to their end; both streams are in `stdout`."""
        return subprocess.run(
            ["nsenter", "--target", str(self.process), "--all", "sh", "-euc", script],
            input=typed,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def output(self, script: str, typed: str = "", accepted: tuple[int, ...] = (0,)) -> str:
        """Run shell lines that must succeed; return what they print."""
        done = self.run(script, typed)
        assert done.returncode in accepted, f"{script}: exit status {done.returncode}\n{done.stdout}"
        return done.stdout.strip()

    def show(self, unit: str, key: str) -> str:
        return self.output(f"systemctl show --value -p {key} {unit}")

    def is_ready(self, name: str = "") -> bool:
        """Return whether a server answers that it is ready."""
        question = f"urllib.request.urlopen('http://127.0.0.1:{self.ports[name]}/health/ready', timeout=10)"
        return self.run(f'python3 -c "import urllib.request; {question}"').returncode == 0

    def install_server(self, name: str = "", options: str = "") -> str:
        """Run `companion install` for the only server, or for one of many, of its own game folder."""
        self.ports[name] = free_port()
        who = f"--instance {name} --user games-owner --game-dir /srv/{name}" if name else f"--game-dir {GAME}"
        url = f"--base-url https://play.example.org --port {self.ports[name]}"
        mail = "--mail-host 127.0.0.1 --mail-port 1 --mail-username u@example.org --mail-sender u@example.org"
        command = f"mkdir -p /srv/{name}; companion install {who} {url} {mail} --mail-password-file - --yes {options}"
        return self.output(command, typed="secret\n", accepted=ACCEPTED)


def until(condition: Callable[[], bool], seconds: int, what: str) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s: not {what}"
        time.sleep(0.2)


def the_deb_is_installed_and_runs(debian: Debian) -> None:
    said = debian.output("apt-get update -qq; apt-get install -y -qq --no-install-recommends /dist/companion_*.deb")
    assert "Next: companion install" in said, said
    debian.install_server()
    assert debian.show("companion", "ActiveState") == "active"
    assert debian.is_ready()
    assert "Bob" in debian.output("companion users list")
    debian.output("systemctl start companion-backup.service; ls -d /var/backups/companion/companion-*")


def a_reload_with_a_broken_config_fails(debian: Debian) -> None:
    process = debian.show("companion", "MainPID")
    debian.output("systemctl reload companion")
    logged = "journalctl -u companion -o cat"
    until(lambda: "the config was reloaded" in debian.output(logged), 10, "reloaded")
    debian.output(f"cp -p {CONFIG} /root/good.toml; echo 'foo = 1' >> {CONFIG}")
    done = debian.run("systemctl reload companion")
    assert done.returncode != 0, done.stdout
    assert 'has no key "foo"' in debian.output(logged)
    assert debian.is_ready()
    debian.output(f"cp -p /root/good.toml {CONFIG}; systemctl reload companion")
    assert debian.show("companion", "MainPID") == process


def the_watchdog_restarts_it(debian: Debian) -> None:
    process = debian.show("companion", "MainPID")
    debian.output(f"kill -STOP {process}")
    until(lambda: debian.show("companion", "MainPID") not in (process, "0"), 90, "started again")
    until(debian.is_ready, 30, "ready")
    assert "Watchdog timeout" in debian.output("journalctl -u companion -o cat")


def the_limits_of_the_unit_hold(debian: Debian) -> None:
    given = debian.output("cat /sys/fs/cgroup/cgroup.controllers").split()
    group = debian.show("companion", "ControlGroup")
    wanted = {"memory.max": str(256 * 2**20), "cpu.weight": "20", "io.weight": "default 20", "pids.max": "128"}
    for file, value in wanted.items():
        if file.partition(".")[0] in given:
            assert debian.output(f"cat /sys/fs/cgroup{group}/{file}") == value
    without = [file for file in wanted if file.partition(".")[0] not in given]
    if without:
        raise NotTried(f"{', '.join(without)}: the kernel offers no controllers for them here")


def it_waits_for_the_disk_of_the_game(debian: Debian) -> None:
    mount = "[Mount]\nWhat=tmpfs\nWhere=/srv/late\nType=tmpfs\n"
    (debian.root / "etc/systemd/system/srv-late.mount").write_text(mount)
    debian.install_server("late", "--no-start")
    assert debian.run("systemctl is-active srv-late.mount").returncode != 0
    debian.output("systemctl start companion@late")
    assert debian.output("systemctl is-active srv-late.mount") == "active"


def an_update_restarts_a_few_at_a_time(debian: Debian) -> None:
    for name in SERVERS:
        debian.install_server(name)
    units = {name: f"companion@{name}.service" for name in SERVERS}
    before = {name: debian.show(unit, "InvocationID") for name, unit in units.items()}
    broken = f"/etc/companion@{BROKEN_SERVER}/companion.toml"
    debian.output(f"cp -p {broken} /root/good.toml; echo 'foo = 1' >> {broken}")
    said = debian.output(
        "cd /root; dpkg-deb -R /dist/companion_*.deb next; sed -i 's/^Version: .*/Version: 99/' next/DEBIAN/control;"
        "dpkg-deb -b -Znone next next.deb; dpkg -i next.deb; rm -r next next.deb"
    )
    assert f"{units[BROKEN_SERVER]} did not start again" in said, said
    starts = []
    for name in set(SERVERS) - {BROKEN_SERVER}:
        assert debian.show(units[name], "InvocationID") != before[name], said
        assert debian.is_ready(name), said
        keys = ("InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
        starts.append([int(debian.show(units[name], key)) for key in keys])
    most = max(sum(begin <= moment < end for begin, end in starts) for moment, _ in starts)
    assert most <= AT_ONCE, starts
    debian.output(f"cp -p /root/good.toml {broken}; systemctl start {units[BROKEN_SERVER]}")


def a_purge_keeps_what_unlocks_players(debian: Debian) -> None:
    bob = table_of(debian)
    debian.output("companion users ban Bob")
    assert is_locked(find_player(bob, "bob") or {})
    said = debian.output("apt-get purge -y -qq companion")
    assert debian.run("ls -d /etc/companion* /var/lib/companion* /opt/companion").stdout.count("No such file") == 3
    assert debian.output("stat -c '%a %U' /var/backups/companion-purged-*") == "700 root"
    assert not debian.output("systemctl list-units --plain --no-legend 'companion*'")
    debian.output("apt-get install -y -qq --no-install-recommends /dist/companion_*.deb")
    commands = [line.split("   ")[1] for line in said.splitlines() if line.startswith("companion:   ")]
    debian.output("\n".join(commands).replace("     (", " # "))
    assert not is_locked(find_player(bob, "bob") or {})
    debian.output("apt-get purge -y -qq companion; rm -r /var/backups/companion*")


def what_differs(debian: Debian) -> dict[str, str]:
    """What the pages write for names that differ from host to host, as patterns, and what it is here."""
    (wheel,) = debian.dist.glob("*.whl")
    return {
        "VERSION": wheel.name.split("-")[1],
        r"apt install": "apt-get install -y -qq --no-install-recommends",
        "/home/mc/server": GAME,
        r"\bmc\b": "games-owner",
        r"(/var/backups/companion\S*)/companion-20310504-120000": r"$(ls -d \1/companion-* | tail -n 1)",
        "127.0.0.1:8080": f"127.0.0.1:{debian.ports.get('')}",
    }


def type_lines(debian: Debian, *steps: Step) -> None:
    """Type the lines of blocks of the pages, one block after the other."""
    for step in steps:
        said = debian.run(f"cd {WORK}; {lines_of(step, what_differs(debian))}")
        assert said.returncode == 0, f"{block_of(step).place}: exit status {said.returncode}\n{said.stdout}"


def the_commands_of_the_pages_work(debian: Debian) -> None:
    type_lines(debian, *WITH_NOTHING)
    debian.output("apt-get install -y -qq --no-install-recommends curl")
    debian.install_server()
    type_lines(debian, *WITH_PACKAGE)
    until(debian.is_ready, 30, "ready")


def a_service_made_by_hand_runs(debian: Debian) -> None:
    first, last = BY_HAND
    type_lines(debian, first)
    drop_in = debian.root / "etc/systemd/system/companion.service.d/override.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(replaced(block_of(DROP_IN).text, what_differs(debian)))
    keys = {"game.directory": GAME, "server.base_url": "https://play.example.org", "mail.backend": "log"}
    keys["server.port"] = str(debian.ports[""])
    debian.output("\n".join(f"companion config set {key} {value}" for key, value in keys.items()))
    type_lines(debian, last)
    until(debian.is_ready, 30, "ready")
    until(lambda: "Bob" in debian.output("companion users list"), 30, "Bob adopted")
    debian.output("systemctl disable --now companion; rm -r /etc/systemd/system/companion.service*")
    debian.output("apt-get purge -y -qq companion; rm -r /var/backups/companion*; systemctl daemon-reload")


def the_wheel_is_installed_runs_and_goes(debian: Debian) -> None:
    debian.output("apt-get install -y -qq --no-install-recommends python3-venv")
    install, upgrade = WITH_WHEEL
    type_lines(debian, install)
    debian.output("test -f /usr/local/share/man/man1/companion.1; companion docs install > /dev/null")
    debian.install_server()
    type_lines(debian, upgrade)
    until(debian.is_ready, 30, "ready")
    debian.output("systemctl reload companion; companion uninstall --purge --yes")
    left = debian.run("ls -d /etc/companion /var/lib/companion /etc/systemd/system/companion*").stdout
    assert left.count("No such file") == 3, left


def a_new_machine_takes_over(debian: Debian) -> None:
    """Gwen is approved, and her mail waits, when the machine dies with AuthMe's file and all but a backup and /etc."""
    debian.output("apt-get install -y -qq --no-install-recommends /dist/companion_*.deb")
    debian.install_server()
    until(debian.is_ready, 30, "ready")
    made = "companion users create Gwen --email gwen@example.org --password-stdin"
    debian.output(made, typed="gwens-secret\n")
    debian.output("systemctl start companion-backup; systemctl stop companion")
    new = Debian(debian.root.with_name("second"), debian.dist)
    new.ports = debian.ports
    backup = sorted((debian.root / "var/backups/companion").glob("companion-*"))[-1]
    shutil.copytree(backup, new.root / "root/BACKUP")  # as root's, in a folder that nobody else may enter
    shutil.copytree(debian.root / "etc/companion/secrets", new.root / "etc/companion/secrets")
    (new.root / "root").chmod(0o700)
    smtp = MailServer()
    smtp.start()
    try:
        with booted(new, find_nspawn(debian.root.parent), new.root.with_name("second-boot")):
            assert new.process, "the new machine does not boot"
            take_over(new, smtp)
    finally:
        smtp.stop()
    debian.output("companion uninstall --purge --yes; apt-get purge -y -qq companion; rm -r /var/backups/companion*")


def take_over(new: Debian, smtp: MailServer) -> None:
    type_lines(new, MACHINE_DIED)
    told = new.output("companion restore --replace /root/BACKUP || true", accepted=(0, 1))
    assert "stop it first" in told, told
    until(new.is_ready, 30, "ready")
    assert new.output("systemctl is-enabled companion companion-backup.timer").split() == ["enabled"] * 2
    new.output(f"install -m 600 -o games-owner /root/BACKUP/authme.db {GAME}/plugins/AuthMe/authme.db")
    given = {"mail.port": smtp.port, "mail.security": "none", "mail.username": ""}
    new.output("\n".join(f"companion config set {key} '{value}'" for key, value in given.items()))
    new.output("systemctl restart companion")
    until(new.is_ready, 30, "ready")
    asked = "urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {'Content-Type': 'application/json'})"
    script = f"import sys, urllib.request; print(urllib.request.urlopen({asked}, timeout=20).status)"
    login = '{"username": "Gwen", "password": "gwens-secret"}'
    url = f"http://127.0.0.1:{new.ports['']}/api/login"
    assert new.output(f"python3 -c \"{script}\" {url} '{login}'") == "200"
    until(lambda: bool(smtp.letters_to("gwen@example.org")), 120, "the mail that waited")
    assert not is_locked(find_player(table_of(new), "gwen") or {"password": "!locked!"})
    assert new.run("ls -A /var/lib/companion").stdout.count(".backup-of-root") == 0


def table_of(debian: Debian) -> AuthMeTable:
    return AuthMeTable(SqliteFile(debian.root / GAME[1:] / "plugins/AuthMe/authme.db"))


STORIES = (
    the_deb_is_installed_and_runs,
    a_reload_with_a_broken_config_fails,
    the_watchdog_restarts_it,
    the_limits_of_the_unit_hold,
    it_waits_for_the_disk_of_the_game,
    an_update_restarts_a_few_at_a_time,
    a_purge_keeps_what_unlocks_players,
    the_commands_of_the_pages_work,
    a_service_made_by_hand_runs,
    the_wheel_is_installed_runs_and_goes,
    a_new_machine_takes_over,
)


def main() -> int:
    """Run the stories; return the exit status."""
    dist, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    chosen = [story for story in STORIES if not sys.argv[3:] or story.__name__ in sys.argv[3:]]
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=dist, check=True)
    debian = Debian(folder / "root", dist)
    make_root(debian, folder)
    return tell(debian, folder, {story.__name__.replace("_", " "): story for story in chosen})


def tell(debian: Debian, folder: Path, stories: Mapping[str, Callable[[Debian], None]]) -> int:
    """Run stories in the machine, and tell of each; return the exit status."""
    failed = []
    with booted(debian, find_nspawn(folder), folder):
        for name, story in stories.items() if debian.process else ():
            began = time.monotonic()
            try:
                story(debian)
            except NotTried as what:
                print(f"NOT TRIED  {name}: {what}", flush=True)
            except (AssertionError, OSError) as error:
                failed.append(name)
                print(f"FAILED     {name}\n{error}", flush=True)
            else:
                print(f"ok         {name} ({time.monotonic() - began:.0f} s)", flush=True)
    if debian.process:
        print(f"{len(failed)} of {len(stories)} failed" if failed else "everything that was tried works")
    if failed or not debian.process:
        return 1
    shutil.rmtree(debian.root)
    shutil.rmtree(debian.root.with_name("second"))
    return 0


def make_root(debian: Debian, folder: Path) -> None:
    """Make the Debian, with this machine's way to the network, and the folder of a game that Bob plays."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release is not None, "this is no Debian"
    root = debian.root
    make_system(release[1], root, "--include=systemd-sysv")
    shutil.copytree(debian.dist, root / "dist")
    server = GameServer(root / GAME[1:])
    server.authme_directory.mkdir(parents=True)
    table = table_of(debian)
    create_table(table)
    server.install_authme(table)
    AuthMeLike(table).register("Bob", "bobs-secret")
    made = f"useradd --system games-owner && chown -R games-owner: {GAME} && install -d -o games-owner {WORK}"
    subprocess.run(["chroot", root, "sh", "-c", made], env=ENVIRONMENT, check=True)
    subprocess.run(["cp", "--archive", root, root.with_name("second")], check=True)  # another machine, as new


def find_nspawn(folder: Path) -> str:
    """Return the path of systemd-nspawn, which is unpacked there if it is not installed."""
    installed = shutil.which("systemd-nspawn")
    if installed is not None:
        return installed
    subprocess.run(["apt-get", "download", "-qq", "systemd-container"], cwd=folder, check=True, stderr=subprocess.PIPE)
    (package,) = folder.glob("systemd-container_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, folder / "nspawn"], check=True)
    return str(folder / "nspawn/usr/bin/systemd-nspawn")


@contextmanager
def booted(debian: Debian, nspawn: str, folder: Path) -> Iterator[None]:
    """Boot the machine; `process` stays 0 if systemd does not come up. It is off afterwards."""
    command = [nspawn, "-bD", str(debian.root), "--register=no", "--keep-unit", "--console=pipe"]
    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    folder.mkdir(exist_ok=True)
    with (folder / "boot.log").open("wb") as log:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 60
        while running.poll() is None and time.monotonic() < deadline:
            debian.process = int((children.read_text().split() or ["0"])[0])
            state = debian.run("systemctl is-system-running --wait").stdout if debian.process else ""
            if state.strip() in ("running", "degraded"):
                break
            time.sleep(0.2)
        else:
            debian.process = 0
            print(f"NOT TRIED  anything: systemd does not come up here; see {folder}/boot.log")
        yield
    finally:
        running.send_signal(signal.SIGTERM)  # it has the machine shut down
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


if __name__ == "__main__":
    sys.exit(main())
