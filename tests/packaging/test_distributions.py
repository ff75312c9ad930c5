"""What `make dist` builds: the sdist, the wheel and the package for Debian, each tried as a host would."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from regsvc import __version__
from regsvc.cli.command_line import COMMANDS
from regsvc.cli.data import MIGRATES
from regsvc.cli.shipped_files import REPOSITORY, list_shipped
from regsvc.database.migrations import MIGRATIONS
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table, find_player
from tests.support.authme.game_server import GameServer
from tests.support.authme.row_audit import is_locked as is_locked_row
from tests.support.daemon import READY
from tests.support.machine import FILES, Machine, open_bare_machine
from tests.support.ports import free_port

pytestmark = pytest.mark.long

SITE_PACKAGES = sysconfig.get_path("purelib")
NEXT_VERSION = "99.0.0"
NEXT_MIGRATION = 'TABLES = "CREATE TABLE regsvc_next (id {id});"\n'
CONFIG = "/etc/companion/companion.toml"
STATE = "/var/lib/companion"
BACKUPS = "/var/backups/companion"
UNITS = "/etc/systemd/system"
GAME = f"{FILES}/game"
USER = "games-owner"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> /var/lib/asked
case "$*" in
    list-units*) printf 'companion@s%s.service loaded active running\\n' 1 2 3 4 5 6 ;;
    try-restart*s3.service* | is-active*s3.service) exit 1 ;;
esac
"""
BUILD_WHEEL = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` writes, with the dependencies of this environment in the package for Debian."""
    output = tmp_path_factory.mktemp("made") / "dist"
    deb = ("--", "--uncompressed", "--packages-of", SITE_PACKAGES, "--python", os.path.realpath(sys.executable))
    command = [sys.executable, "packaging/dist.py", "--work-tree", "--output", str(output), *deb]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def the_file(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_has_the_program_and_everything_that_is_shipped(dist: Path) -> None:
    with zipfile.ZipFile(the_file(dist, f"companion-{__version__}-py3-none-any.whl")) as wheel:
        names = {*wheel.namelist()}
    shipped = {name.removeprefix("regsvc/shipped/") for name in names if name.startswith("regsvc/shipped/")}
    assert sorted(shipped) == list_shipped()
    modules = {file.relative_to(REPOSITORY).as_posix() for file in (REPOSITORY / "regsvc").rglob("*.py")}
    assert modules <= names
    assert not [name for name in names if name.startswith(("tests/", "build/"))]
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=dist, check=True)


def test_the_bill_of_materials_lists_what_is_locked(dist: Path) -> None:
    bill = json.loads(the_file(dist, f"companion-{__version__}.cdx.json").read_text(encoding="utf-8"))
    lock = the_file(dist, "*-requirements.txt").read_text(encoding="utf-8")
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert sorted(parts) == sorted(re.findall(r"^[\w.-]+==[^\s;]+", lock, re.MULTILINE))
    assert all(part["hashes"] and part["licenses"] and part["purl"] for part in parts.values())
    needed = {other for part in bill["dependencies"] for other in part.get("dependsOn", [])}
    assert needed == set(parts), "each is there because something needs it"
    assert bill["metadata"]["component"]["version"] == __version__


def test_a_wheel_holds_nothing_of_the_version_built_before_it(dist: Path, tmp_path: Path) -> None:
    """Bob builds from a clone, then from an older commit in the same clone: the wheel is the one of the release."""
    shutil.unpack_archive(the_file(dist, "*.tar.gz"), tmp_path, filter="data")
    clone = the_file(tmp_path, "companion-*")
    newer = clone / "regsvc/database/migrations/m9999_next.py"

    newer.write_text(NEXT_MIGRATION)
    assert newer.relative_to(clone).as_posix() in zipfile.ZipFile(wheel_made_in(clone)).namelist()
    newer.unlink()

    released = the_file(dist, "*.whl")
    moment = max(member.date_time for member in zipfile.ZipFile(released).infolist())
    epoch = int(datetime(*moment, tzinfo=UTC).timestamp())
    assert wheel_made_in(clone, SOURCE_DATE_EPOCH=str(epoch)).read_bytes() == released.read_bytes()
    assert not (clone / "build").exists()

    (clone / "conf/companion.toml").write_text('[mail]\npassword = "bobs-secret"\n')
    refused = build_wheel(clone)
    assert (refused.returncode, "conf/companion.toml sets keys" in refused.stderr) == (1, True), refused


def wheel_made_in(clone: Path, **environment: str) -> Path:
    done = build_wheel(clone, **environment)
    assert done.returncode == 0, done
    return clone.parent / done.stdout.splitlines()[-1]


def build_wheel(clone: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", BUILD_WHEEL, str(clone.parent)],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_manual_page_and_completion_know_every_command(dist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(the_file(dist, "*.whl"), tmp_path, "zip")
    share = the_file(tmp_path, "*.data/data/share")
    page = share / "man/man1/companion.1"
    text = page.read_text()
    assert not [name for name in COMMANDS if f'\n.SS "{name}'.replace("-", r"\-") not in text]
    if groff := shutil.which("groff"):
        check = [groff, "-man", "-ww", "-z", "-Tutf8", str(page)]
        assert subprocess.check_output(check, stderr=subprocess.STDOUT, text=True) == ""

    def offered(*words: str) -> str:
        typed = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
        script = f'source "$0"; {typed}; _companion || :; echo "${{COMPREPLY[@]}}"'
        completion = str(share / "bash-completion/completions/companion")
        return subprocess.check_output(["bash", "--norc", "-euc", script, completion], text=True).strip()

    assert offered("companion", "us") == "users"
    assert offered("companion", "-i", "survival", "users", "b") == "ban"
    assert offered("companion", "users", "list", "--status", "p") == "pending"
    assert offered("companion", "uninstall", "--pu") == "--purge"
    assert offered("companion", "--config", "") == ""  # bash then offers files


@contextmanager
def daemon(host: Machine) -> Iterator[str]:
    """Run the installed companion as the game's user and yield its address; it must stop cleanly."""
    serve = host.command("companion", "serve", user=USER)
    with subprocess.Popen(serve, env=host.environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith(READY)), "")
        assert line, process.wait()
        yield line.rpartition("//")[2].strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def is_ready(address: str) -> bool:
    with closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200


@pytest.fixture
def debs(dist: Path, tmp_path: Path) -> tuple[str, str]:
    """The package and the one of the next version, which has a migration more, as the scratch root sees them."""
    files = tmp_path / "files"
    files.mkdir()
    this = Path(shutil.copy(the_file(dist, "*.deb"), files / "this.deb"))
    unpacked = tmp_path / "unpacked"
    subprocess.run(["dpkg-deb", "--raw-extract", this, unpacked], check=True)
    package = the_file(unpacked, "opt/companion/.venv/lib/*/site-packages/regsvc")
    for file in (package / "__init__.py", unpacked / "DEBIAN/control"):
        file.write_text(file.read_text().replace(__version__, NEXT_VERSION))
        Path(cache_from_source(file)).unlink(missing_ok=True)
    migrations = package / "database/migrations"
    (migrations / "m9999_next.py").write_text(NEXT_MIGRATION)
    listed = migrations / "__init__.py"
    listed.write_text(listed.read_text().replace(f'"{MIGRATIONS[-1]}"', f'"{MIGRATIONS[-1]}", "m9999_next"'))
    Path(cache_from_source(listed)).unlink()
    # as earlier packages had the config; dpkg deletes such a file itself on purge, also when the package has it no more
    (unpacked / "etc/companion").mkdir(parents=True)
    (unpacked / CONFIG[1:]).write_text("")
    (unpacked / "DEBIAN/conffiles").write_text(f"{CONFIG}\n")
    subprocess.run(["dpkg-deb", "--build", "-Znone", unpacked, files / "next.deb"], check=True, capture_output=True)
    shutil.rmtree(unpacked)
    return f"{FILES}/this.deb", f"{FILES}/next.deb"


def install_package(host: Machine, package: str) -> str:
    return host.output("dpkg", "--force-unsafe-io", "--force-confold", "--install", package)


def test_the_debian_package_is_installed_upgraded_taken_back_removed_and_purged(
    debs: tuple[str, str], tmp_path: Path
) -> None:
    this, following = debs
    scratch = tmp_path / "machine"
    scratch.mkdir()
    with open_bare_machine(scratch, tmp_path / "files") as host:
        assert "Next: companion install" in install_package(host, this)
        assert host.output("companion", "--version") == f"companion {__version__}"
        assert rights(host, CONFIG, STATE, "/etc/companion/secrets") == [
            "640 root companion",
            "700 companion companion",
            "700 root root",
        ]
        assert host.output("ls", STATE) == ""  # nothing was started

        table = table_of(host, tmp_path / "files/game")
        url = ("--base-url", "https://play.example.org", "--port", str(free_port()))
        done = host.run("companion", "install", "--game-dir", GAME, *url, "--no-start")
        assert "not started" in done.stdout, done
        assert rights(host, CONFIG, STATE) == [f"640 root {USER}", f"700 {USER} {USER}"]
        with daemon(host) as address:
            assert is_ready(address)
            host.output("companion", "backup", BACKUPS)
            host.output("companion", "users", "ban", "Bob")
        assert is_locked(table)

        an_update_restarts_four_at_a_time(host, following)
        assert host.output("companion", "--version") == f"companion {NEXT_VERSION}"
        assert host.run("companion", "upgrade-check").returncode == MIGRATES
        assert rights(host, CONFIG, STATE) == [f"640 root {USER}", f"700 {USER} {USER}"]
        with daemon(host) as address:
            assert is_ready(address)

        install_package(host, this)
        refused = host.run("companion", "serve")
        assert refused.returncode == 78
        assert "migration 9999" in refused.stderr
        # as docs/upgrade.md says
        host.output("sh", "-c", f"cd {STATE} && mkdir newer && mv companion.db* newer/")
        host.output("sh", "-c", f"cd {STATE} && cp --preserve newer/companion.db.before-9999 companion.db")
        with daemon(host) as address:
            assert is_ready(address)

        assert "players that it locked stay locked" in host.output("dpkg", "--remove", "companion")
        assert host.run("companion", "version").returncode == 127
        assert "companion.db" in host.output("ls", STATE)
        host.output("test", "-f", CONFIG)

        a_purge_keeps_what_unlocks_players(host, this, table)


def an_update_restarts_four_at_a_time(host: Machine, package: str) -> None:
    """Six servers run, by the word of a stand-in for systemctl; the third does not start again."""
    units = [f"companion@s{number}.service" for number in range(1, 7)]
    asked, stand_in = host.place("/var/lib/asked"), host.place("/usr/local/bin/systemctl")
    host.place("/run/systemd/system").mkdir(parents=True)
    stand_in.write_text(SYSTEMCTL)
    stand_in.chmod(0o755)
    told = [line for line in install_package(host, package).splitlines() if "did not start again" in line]
    assert told == [f"companion: {units[2]} did not start again; see: systemctl status {units[2]}"]
    restarts = [line for line in asked.read_text().splitlines() if line.startswith("try-restart")]
    assert restarts == [f"try-restart {' '.join(units[:4])}", f"try-restart {' '.join(units[4:])}"]


def a_purge_keeps_what_unlocks_players(host: Machine, this: str, table: AuthMeTable) -> None:
    said = host.output("dpkg", "--purge", "companion")
    for gone in ("/etc/companion", STATE, "/opt/companion", "/usr/share/doc/companion"):
        assert host.run("test", "-e", gone).returncode == 1, gone
    assert not [*host.place(UNITS).glob("companion*")]
    assert host.output("ls", BACKUPS).startswith("companion-")
    (kept,) = host.place("/var/backups").glob("companion-purged-*")
    assert rights(host, f"/var/backups/{kept.name}") == ["700 root root"]

    # Olivia comes back as the purge has said, and Bob gets his password back.
    install_package(host, this)
    commands = [line.split("   ")[1] for line in said.splitlines() if line.startswith("companion:   ")]
    host.output("sh", "-euc", "\n".join(commands).replace("     (", " # "))
    assert not is_locked(table)

    # Without anything of hers a purge leaves nothing.
    host.output("sh", "-c", f"rm -r {STATE} /etc/companion /var/backups/companion-purged-*")
    host.output("dpkg", "--purge", "companion")
    assert not [*host.place("/var/backups").glob("companion-purged-*")]
    assert host.run("getent", "passwd", "companion").returncode == 2


def table_of(host: Machine, game: Path) -> AuthMeTable:
    """Set up the game server's folder, with Bob among its players; return AuthMe's table."""
    server = GameServer(game)
    server.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(server.authme_directory / "authme.db"))
    create_table(table)
    server.install_authme(table)
    AuthMeLike(table).register("Bob", "bobs-secret")
    host.output("sh", "-c", f"useradd --system {USER} && chown -R {USER}: {GAME}")
    return table


def is_locked(table: AuthMeTable) -> bool:
    row = find_player(table, "bob")
    assert row is not None
    return is_locked_row(row)


def rights(host: Machine, *paths: str) -> list[str]:
    return host.output("stat", "-c", "%a %U %G", *paths).splitlines()
