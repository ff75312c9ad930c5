"""`companion install` and `uninstall` as root, where the game's user plants links in the way.

The user `games` owns /home/games, and the host has chosen a state directory below it.
"""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam

import pytest

from regsvc.cli.given_config import require_roots_alone
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import read_users
from regsvc.cli.transfer.verifymc import VerifyMCSettings, read_verifymc
from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from regsvc.core.safe_paths import (
    PlantedLink,
    find_foreign_folder,
    located,
    open_file,
    open_folder,
    open_regular_file,
    status_of,
)
from tests.cli.install.test_prepared_root import CONFIG, choose_state, companion, install
from tests.support.machine import PROGRAM, open_machine
from tests.support.other_user import USER_ID
from tests.support.programs import needs_root

pytestmark = needs_root

GAMES = getpwnam("games").pw_uid
DAEMON = getpwnam("daemon").pw_uid
HOME = "home/games"
CHOSEN = f"/{HOME}/servers/var/companion"
BELOW_HOME = ("servers", "servers/var", "servers/var/companion")
CHOSEN_ON_MACHINE = """
[server]
state_dir = "/home/mc/var/state"
base_url = "https://play.example.net"
[game]
directory = "/srv/minecraft"
"""
ACCESS_LIST = struct.pack("<I" + "HHi" * 5, 2, *(1, 7, -1), *(2, 7, GAMES), *(4, 5, -1), *(0x10, 7, -1), *(0x20, 5, -1))
"""user::rwx, user:games:rwx, group::r-x, mask::rwx, other::r-x, as the kernel takes it."""
ROUNDS = 25
_EXCHANGE = """
import ctypes, os, select, sys
folder, link = (os.fsencode(path) for path in sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
done = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    if libc.renameat2(-100, folder, -100, link, 2) != 0:  # 2: RENAME_EXCHANGE
        raise OSError(ctypes.get_errno(), "renameat2")
    done += 1
print(done)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Another system's root, with an installation whose config names the chosen state directory."""
    folder = tmp_path / "tree"
    folder.mkdir()
    install(folder)
    choose_state(folder, CHOSEN)
    return folder


def own(path: Path, user: int = GAMES) -> Path:
    """Create a folder, and those above it, for a user; return it."""
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, user, user)
    return path


def started(state: Path, installation: str = "ours") -> None:
    """Leave in a state directory what the first start leaves."""
    for name, text in (("home.json", json.dumps({"installation_id": installation, "home": "sqlite:x"})), ("key", "k")):
        (state / name).write_text(text)
        os.chown(state / name, state.stat().st_uid, -1)


def owners(folder: Path) -> dict[str, int]:
    """Return the owner of everything in a folder."""
    return {str(path.relative_to(folder)): path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


# --- links ---


@pytest.mark.parametrize("planted", BELOW_HOME)
@pytest.mark.parametrize("led_to", ["an installation", "a program", "an empty folder"])
def test_a_planted_link_gives_nothing_away(tree: Path, planted: str, led_to: str) -> None:
    home = own(tree / HOME)
    target = tree / "opt"
    led = target / CHOSEN.removeprefix(f"/{HOME}/{planted}").lstrip("/")
    led.mkdir(parents=True)
    if led_to == "an installation":
        started(led, "another")
    elif led_to == "a program":
        (led / "companion").write_text("#!/bin/sh\n")
    own((home / planted).parent)
    (home / planted).symlink_to(target)
    os.chown(home / planted, GAMES, GAMES, follow_symlinks=False)
    before = owners(target)
    done = companion(tree, "install")
    assert (done.status, f"{planted}: this link is in a folder that others than root may change" in done.errors) == (
        1,
        True,
    ), done
    assert owners(target) == before
    assert companion(tree, "uninstall", "--purge", "--yes").status == 1
    assert owners(target) == before


def test_links_of_roots_lead_where_they_should(tree: Path) -> None:
    """As where a distribution moved folders: /home is on another disk, and /lib is in /usr."""
    (tree / "data/homes").mkdir(parents=True)
    (tree / "home").symlink_to("/data/homes")
    (tree / "usr/lib/systemd/system").mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    own(tree / "data/homes/games")
    assert companion(tree, "install").status == 0
    state = tree / "data/homes/games/servers/var/companion"
    assert (state.stat().st_uid, oct(state.stat().st_mode & 0o777)) == (GAMES, "0o700")
    assert not Path("/data/homes").exists()


def test_which_folders_are_roots_alone(tmp_path: Path) -> None:
    """A sticky folder keeps what is root's; links of others in it are not followed, nor out of a tree."""
    sticky = tmp_path / "tmp"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for name, owner in (("roots", 0), ("theirs", GAMES)):
        (sticky / name).symlink_to("/etc")
        os.chown(sticky / name, owner, owner, follow_symlinks=False)
    with located(sticky / "roots/passwd") as (folder, name):
        assert (os.stat(name, dir_fd=folder).st_ino, name) == (Path("/etc/passwd").stat().st_ino, "passwd")
    with pytest.raises(PlantedLink):
        open_folder(sticky / "theirs")
    assert status_of(sticky / "theirs").st_uid == GAMES
    assert [find_foreign_folder(sticky / name) for name in ("roots/x", "theirs/x", "none/x")] == [None, sticky, sticky]
    (tmp_path / "up").symlink_to("../" * 40 + "etc")
    with pytest.raises(FileNotFoundError):
        open_folder(Path("/up"), tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    for mode, group, foreign in ((0o755, GAMES, None), (0o775, 0, None), (0o775, GAMES, shared), (0o757, 0, shared)):
        shared.chmod(mode)
        os.chown(shared, 0, group)
        assert find_foreign_folder(shared / "x") == foreign
    shared.chmod(0o755)
    os.setxattr(shared, "system.posix_acl_access", ACCESS_LIST)
    assert find_foreign_folder(shared / "x") == shared
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        open_folder(tmp_path / "loop")


def test_what_root_reads_and_writes_is_no_link_of_others_either(tmp_path: Path) -> None:
    """Files that a config of root's names, and what is given to a command."""
    home, shadow = own(tmp_path / HOME), tmp_path / "shadow"
    shadow.write_text("root's own")
    shadow.chmod(0o600)
    for name in ("password", "style.css"):
        (home / name).symlink_to(shadow)
    overrides = {"mail.password_file": str(home / "password"), "server.custom_css": str(home / "style.css")}
    with pytest.raises(ConfigError, match=r"style\.css cannot be read \(this link is in a folder") as refused:
        load_config(None, {}, overrides)
    assert "root's own" not in str(refused.value)
    config = load_config(None, {}, {"mail.password_file": str(home / "password")})
    assert "this link is in a folder" in config.missing_secrets["mail.password"]
    for read in (open_regular_file, lambda file: list(read_users(file, "csv"))):
        with pytest.raises((PlantedLink, TransferProblem), match="this link is in a folder"):
            read(home / "password")
    with pytest.raises(TransferProblem, match="this link is in a folder"):
        read_verifymc(str(home / "password"), VerifyMCSettings())
    (tmp_path / "tree").mkdir()
    done = companion(tmp_path / "tree", "install", "--mail-password-file", str(home / "password"))
    assert (done.status, "this link is in a folder" in done.errors) == (2, True), done
    reader, writer = os.pipe()
    os.write(writer, b"a pipe's")
    os.close(writer)
    opened = open_file(Path(f"/dev/fd/{reader}"))
    assert os.read(opened, 99) == b"a pipe's"
    for descriptor in (opened, reader):
        os.close(descriptor)
    require_roots_alone(tmp_path / "backups/new")
    for path in (home / "backups", home / "broken/../..", home / "password/below"):
        with pytest.raises(ConfigError, match=f"because others may write {home}"):
            require_roots_alone(path)


# --- races ---


@contextmanager
def exchanging(folder: Path, link: Path) -> Iterator[None]:
    """Meanwhile a process exchanges a folder and a link, as often as it can."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _EXCHANGE, folder, link], stdin=pipe, stdout=pipe, text=True) as loop:
        try:
            yield
        finally:
            done, _errors = loop.communicate()
            assert loop.returncode == 0
            assert int(done) > ROUNDS


@pytest.mark.parametrize("planted", BELOW_HOME)
def test_who_exchanges_link_and_folder_in_time_gets_nothing(tree: Path, planted: str) -> None:
    home = own(tree / HOME)
    state = own(home / CHOSEN.removeprefix(f"/{HOME}/"), 0)
    for above in BELOW_HOME[:-1]:
        own(home / above)
    target = tree / "opt"
    program = target / CHOSEN.removeprefix(f"/{HOME}/{planted}").lstrip("/") / "companion"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    link = home / "planted"
    link.symlink_to(target)
    before = owners(target)
    held = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    statuses = []
    try:
        with exchanging(home / planted, link):
            for _round in range(ROUNDS):
                os.fchown(held, 0, 0)
                statuses.append(companion(tree, "install").status)
                assert owners(target) == before
    finally:
        os.close(held)
    assert set(statuses) <= {0, 1}


# --- what is in the state directory ---


def test_only_the_recorded_installation_gets_another_owner(tree: Path) -> None:
    state = own(tree / CHOSEN.lstrip("/"))
    own(tree / HOME)
    started(state)
    assert companion(tree, "install").status == 0
    started(own(tree / "srv/other", DAEMON), "another")
    choose_state(tree, CHOSEN)
    config = tree / CONFIG
    config.write_text(config.read_text().replace(CHOSEN, "/srv/other"))
    done = companion(tree, "install")
    assert (done.status, "is of another installation than the one of /etc/companion/companion.toml" in done.errors) == (
        1,
        True,
    ), done
    assert set(owners(tree / "srv/other").values()) <= {0, DAEMON}
    config.write_text(config.read_text().replace("/srv/other", CHOSEN))
    assert companion(tree, "install", "--user", "daemon").status == 0
    assert set(owners(state).values()) == {DAEMON}


def test_what_is_not_the_former_owners_stays_as_it_is(tree: Path) -> None:
    """They had linked and moved root's files into the state directory before another user gets it."""
    state = own(tree / CHOSEN.lstrip("/"))
    own(tree / HOME)
    started(state)
    shadow = tree / "etc/shadow"
    shadow.write_text("root's")
    os.link(shadow, state / "linked")
    own(state / "roots", 0)
    (state / "roots/inside").write_text("root's")
    os.link(state / "key", tree / "second name")
    done = companion(tree, "install", "--user", "daemon")
    assert done.status == 0, done
    assert owners(state) == {
        ".": DAEMON,
        "home.json": DAEMON,
        "key": DAEMON,
        "linked": 0,
        "roots": 0,
        "roots/inside": 0,
    }
    assert f"{CHOSEN}/linked: left as it is" in done.output


def test_roots_files_with_a_second_name_stay_roots(tree: Path) -> None:
    """Root has copied the state; a user who owned it had linked a file of root's before."""
    state = own(tree / CHOSEN.lstrip("/"), 0)
    started(state)
    shadow = tree / "etc/shadow"
    shadow.write_text("root's")
    os.link(shadow, state / "linked")
    companion(tree, "install")
    config = tree / "etc/companion/installed.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"installation": "ours"}))
    assert companion(tree, "install").status == 0
    assert owners(state) == {".": GAMES, "home.json": GAMES, "key": GAMES, "linked": 0}


# --- on a machine ---


def test_the_installed_program_follows_none_either(tmp_path: Path) -> None:
    """Root's own /: an install and the commands after it, with what the game's user has planted."""
    scratch, game = tmp_path / "machine", tmp_path / "game"
    scratch.mkdir()
    (game / "plugins/AuthMe").mkdir(parents=True)
    with open_machine(scratch, game) as machine:
        machine.output("mkdir", "-p", "/home/mc", "/opt/other/state")
        machine.output("sh", "-c", "echo root > /opt/other/state/file; chown -R mc:mc /home/mc")
        config = machine.place("/etc/companion/companion.toml")
        config.parent.mkdir()
        config.write_text(CHOSEN_ON_MACHINE)
        arguments = ("install", "--user", "mc", "--no-start", "--yes")
        before_first_start = machine.run_quickly("check-config")
        assert (before_first_start.status, "working as mc" in before_first_start.errors) == (0, True), (
            before_first_start
        )
        machine.output("sh", "-c", "ln -s /opt/other /home/mc/var; chown -h mc:mc /home/mc/var")

        refused = machine.run_quickly(*arguments)
        assert (refused.status, "/home/mc/var: this link is in a folder" in refused.errors) == (1, True), refused
        listed = machine.run_quickly("migrate")
        assert "working as mc, who owns /home/mc/var/state" in listed.errors, listed
        assert owners(machine.place("/opt/other")) == {".": 0, "state": 0, "state/file": 0}

        machine.output("sh", "-c", "rm /home/mc/var; mkdir -p /home/mc/var/state; chown mc:mc /home/mc/var")
        told = machine.run_quickly("migrate")
        assert (told.status, "root does not use /home/mc/var/state" in told.errors) == (78, True), told
        machine.output("mount", "-t", "tmpfs", "-o", "uid=mc,gid=mc", "disk", "/home/mc/var/state")
        machine.output("chown", "-R", "root", "/home/mc/var/state")
        assert machine.run(PROGRAM, *arguments).returncode in (0, 3)
        assert machine.output("stat", "-c", "%U", "/home/mc/var/state") == "mc"
        assert machine.run_quickly("migrate").status == 0
        assert (machine.place("/home/mc/var/state/home.json")).exists()


def test_what_changes_hands_on_a_machine_is_all_of_it_and_no_mount(tmp_path: Path) -> None:
    """The root directory is an overlay of two file systems, whose files have other devices than their folders."""
    scratch, game = tmp_path / "machine", tmp_path / "game"
    scratch.mkdir()
    (game / "plugins/AuthMe").mkdir(parents=True)
    with open_machine(scratch, game) as machine:
        machine.output("mkdir", "-p", "/var/lib/companion/own", "/var/lib/companion/mounted", "/var/lib/other")
        machine.output(
            "sh",
            "-c",
            "touch /var/lib/companion/own/key /var/lib/other/key; chown -R mc:mc /var/lib/companion /var/lib/other",
        )
        machine.output("mount", "--bind", "/var/lib/other", "/var/lib/companion/mounted")
        arguments = ("--game-dir", "/srv/minecraft", "--base-url", "https://play.example.net", "--no-start", "--yes")
        done = machine.run(PROGRAM, "install", "--user", "games", *arguments)
        assert done.returncode in (0, 3), done
        given = {".": GAMES, "own": GAMES, "own/key": GAMES}
        kept = dict.fromkeys(("mounted", "mounted/key"), USER_ID)
        assert owners(machine.place("/var/lib/companion")) == given | kept
