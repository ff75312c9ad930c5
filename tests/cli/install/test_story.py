"""A host installs the companion on a machine, uses it, and removes it, through the real commands as root."""

import re
import shlex
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regsvc.core.exceptions import EX_CONFIG
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table, find_player
from tests.support.authme.game_server import GameServer
from tests.support.authme.row_audit import is_locked as is_locked_row
from tests.support.certificate import Certificate
from tests.support.daemon import READY
from tests.support.machine import GAME, PROGRAM, Machine, open_machine
from tests.support.other_user import USER_ID
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port
from tests.support.terminal import Terminal
from tests.support.unit_file import UnitFile

pytestmark = pytest.mark.long

UNITS = "/etc/systemd/system"
ACCOUNT = "noreply@example.net"
PASSWORD = "mails-secret"
TRUSTED = "/etc/ssl/trusted.pem"
ASKED = "/var/lib/asked"


@pytest.fixture
def table(game_server: GameServer) -> AuthMeTable:
    """AuthMe's table on SQLite, with Bob in it."""
    game_server.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(game_server.authme_directory / "authme.db"))
    create_table(table)
    game_server.install_authme(table)
    AuthMeLike(table).register("Bob", "s3cret")
    return table


@pytest.fixture
def smtp(certificate: Certificate) -> Iterator[MailServer]:
    """A mail server that asks for a password, and whose certificate the machine trusts."""
    server = MailServer(tls=certificate.server_context(), account=(ACCOUNT, PASSWORD))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def machine(tmp_path: Path, game_server: GameServer, table: AuthMeTable, certificate: Certificate) -> Iterator[Machine]:
    """The machine, with a stand-in for systemctl that notes what it is asked."""
    scratch = tmp_path / "machine"
    scratch.mkdir()
    with open_machine(scratch, game_server.directory) as machine:
        machine.place(TRUSTED).write_bytes(certificate.certificate_file.read_bytes())
        machine.variables["SSL_CERT_FILE"] = TRUSTED
        machine.place("/run/systemd/system").mkdir(parents=True)
        stand_in = machine.place("/usr/local/bin/systemctl")
        stand_in.write_text(f"#!/bin/sh\necho $* >> {ASKED}\n")
        stand_in.chmod(0o755)
        yield machine


@contextmanager
def served(machine: Machine) -> Iterator[Callable[[], int]]:
    """Run the unit's ExecStart by hand: as its user, with the environment and the credential of systemd.

    Yield what does the same with its ExecReload, and returns the exit status.
    """
    unit = UnitFile.read(
        machine.place(f"{UNITS}/companion.service"), machine.place(f"{UNITS}/companion.service.d/install.conf")
    )
    assert unit.value("User") == "mc"
    credentials = "/run/credentials/companion.service"
    copy = f"mkdir -p {credentials}; cp /etc/companion/secrets/mail_password {credentials}/secrets_mail_password"
    prepared = machine.run("sh", "-c", f"{copy}; chown {USER_ID} {credentials}/*; chmod 400 {credentials}/*")
    assert prepared.returncode == 0, prepared
    daemon = subprocess.Popen(
        machine.command(*unit.words("ExecStart"), user="mc"),
        env=machine.environment({"STATE_DIRECTORY": f"/var/lib/{unit.value('StateDirectory')}"}),
        stdout=subprocess.PIPE,
        text=True,
    )

    def reload() -> int:
        for line in unit.keys["ExecReload"]:
            command = shlex.split(line.removeprefix("+").replace("$$", "$"))
            enter = machine.command(*command, user="root" if line.startswith("+") else "mc")
            status = subprocess.call(enter, env=machine.environment({"MAINPID": str(daemon.pid)}))
            if status != 0:
                return status
        return 0

    with daemon:
        try:
            assert daemon.stdout is not None
            assert READY in daemon.stdout.readline()
            yield reload
        finally:
            daemon.terminate()
            assert daemon.wait(30) == 0


def rights(machine: Machine, path: str) -> tuple[str, int, int]:
    found = machine.place(path).stat()
    return oct(stat.S_IMODE(found.st_mode)), found.st_uid, found.st_gid


def is_locked(table: AuthMeTable, name: str) -> bool:
    row = find_player(table, name)
    assert row
    return is_locked_row(row)


def install_by_answers(machine: Machine, smtp: MailServer, port: int) -> str:
    """Answer all questions; return what the terminal showed."""
    with Terminal(machine.command(PROGRAM, "install"), machine.environment()) as terminal:
        terminal.answer("Folder of the game server [/srv/minecraft]: ", "/srv/nowhere")
        terminal.answer("Folder of the game server [/srv/minecraft]: ", "/etc")
        terminal.answer("no game server's folder: it has neither server.properties nor plugins/AuthMe", "")
        terminal.answer("Folder of the game server [/srv/minecraft]: ", f"{GAME}/plugins/AuthMe")
        terminal.answer("[mc]: ", "")
        terminal.answer("https://play.example.org: ", "my server")
        terminal.answer("https://play.example.org: ", "back")
        terminal.answer("Folder of the game server [/srv/minecraft]: ", "")
        terminal.answer("[mc]: ", "")
        terminal.answer("https://play.example.org: ", "play.example.net")
        terminal.answer("Port to listen on", str(smtp.port))
        terminal.answer(f"Something listens on port {smtp.port} already. Use it anyway? [y/N]: ", "")
        terminal.answer("Port to listen on", str(port))
        terminal.answer("Mail server [later]: ", "127.0.0.1")
        terminal.answer("  Port [587]: ", str(smtp.port))
        terminal.answer("  Encryption", "")
        terminal.answer("  Account", ACCOUNT)
        terminal.answer("  Password (not shown): ", "mistyped")
        terminal.answer(f"  Sender of all mails [{ACCOUNT}]: ", "")
        terminal.answer("  Send a test mail to", "host@example.net")
        terminal.answer("  Enter the mail server again? [Y/n]: ", "")
        terminal.answer("Mail server", "")
        terminal.answer("  Port", "")
        terminal.answer("  Encryption", "")
        terminal.answer("  Account", "")
        terminal.answer("  Password", PASSWORD)
        terminal.answer("  Sender", "")
        terminal.answer("  Send a test mail to", "host@example.net")
        terminal.answer("register in the first hour? [50]: ", "many")
        terminal.answer("register in the first hour? [50]: ", "300")
        terminal.answer("Make a backup every night, in /var/backups/companion? [Y/n]: ", "")
        terminal.answer("Write this? [Y/n]: ", "")
        assert terminal.wait() == 0, terminal.shown
        return terminal.shown


@pytest.fixture
def installed(machine: Machine, smtp: MailServer) -> Machine:
    """The machine after a host has answered all questions."""
    port = free_port()
    shown = install_by_answers(machine, smtp, port)
    told = ("there is no folder /srv/nowhere", "this must be a web address", "sent to host@example.net")
    for text in (*told, f"game server's folder, which is taken: {GAME}", "taken as https://play.example.net"):
        assert text in shown
    assert f'    +game.directory = "{GAME}"' in shown
    assert PASSWORD not in shown
    *_, last = shown.replace("\r", "").partition("Left for you:\n")
    assert [line.split(": ")[0].strip() for line in last.splitlines()] == [
        *("DNS", "web server", f"{GAME}/plugins/AuthMe/config.yml", f"{GAME}/server.properties")
    ]
    assert '    +registration.limits_total = ["600 per hour", "3000 per day"]' in shown
    backups = "enable --now companion-backup.timer"
    started = ["daemon-reload", "enable companion.service", "restart companion.service", backups]
    assert machine.place(ASKED).read_text().splitlines() == started
    assert len(smtp.letters_to("host@example.net")) == 1
    return machine


def test_killed_while_it_starts_the_next_run_starts_everything(machine: Machine) -> None:
    """The stand-in for systemctl kills the command that calls it; as it enables nothing, that is told, too."""
    wanted = ["daemon-reload", "enable companion.service", "restart companion.service"]
    wanted.append("enable --now companion-backup.timer")
    given = ["--game-dir", str(GAME), "--base-url", "https://play.example.net", "--mail-host", "localhost"]
    options = [*given, "--mail-sender", ACCOUNT]
    for killed_at in (1, 4):
        machine.place(ASKED).write_text("")
        machine.place("/usr/local/bin/systemctl").write_text(
            f"#!/bin/sh\necho $* >> {ASKED}\n[ $(wc -l < {ASKED}) -ne {killed_at} ] || kill -9 $PPID\n"
        )
        killed = machine.run_quickly("install", "--yes", *options)
        assert killed.status == -9, killed
        assert machine.place(ASKED).read_text().splitlines() == wanted[:killed_at]
        options = []
    machine.place(ASKED).write_text("\n" * 9)
    done = machine.run_quickly("install", "--yes")
    assert machine.place(ASKED).read_text().split("\n")[9:-1] == wanted, done
    assert "backups every night: companion-backup.timer" in done.output
    again = machine.run_quickly("install", "--yes")
    assert "no nightly backups: companion-backup.timer is disabled" in again.output, again
    assert machine.place(ASKED).read_text().endswith("enable companion.service\nstart companion.service\n")
    declined = machine.run_quickly("install", "--yes", "--no-backup")
    assert machine.place(ASKED).read_text().endswith("disable --now companion-backup.timer\n"), declined
    assert "no nightly" not in machine.run_quickly("install", "--yes").output


def test_a_host_installs_uses_and_removes_it(installed: Machine, table: AuthMeTable) -> None:
    assert rights(installed, "/etc/companion/companion.toml") == ("0o640", 0, USER_ID)
    assert rights(installed, "/etc/companion/secrets") == ("0o700", 0, 0)
    assert rights(installed, "/var/lib/companion") == ("0o700", USER_ID, USER_ID)
    an_edited_config_is_changed_where_it_was_asked_for(installed)
    other_users_see_what_root_would_write(installed)
    the_commands_see_what_is_served(installed, table)
    a_backup_of_roots_takes_the_place_of_what_is_there(installed)
    it_leaves_no_trace_but_a_backup(installed, table)


def an_edited_config_is_changed_where_it_was_asked_for(machine: Machine) -> None:
    named = machine.run_quickly("config", "set", "server.name", "Alice & Bob")
    assert "it takes effect with: systemctl restart companion" in named.output, named
    moved = ("--game-dir", f"{GAME}/plugins")
    done = machine.run_quickly("install", "--yes", "--base-url", "other.example.net", "--no-start", *moved)
    assert (done.status, f"which is taken: {GAME}\n" in done.output) == (0, True), done
    config = machine.place("/etc/companion/companion.toml").read_text().splitlines()
    assert {'name = "Alice & Bob"', 'base_url = "https://other.example.net"', f'sender = "{ACCOUNT}"'} <= {*config}
    assert rights(machine, "/etc/companion/companion.toml") == ("0o640", 0, USER_ID)


def other_users_see_what_root_would_write(machine: Machine) -> None:
    lobby = ("--game-dir", "/srv", "--base-url", "lobby.example.net", "--user", "mc")
    done = machine.run_quickly("-i", "lobby", "install", "--dry-run", "--yes", *lobby, user=USER_ID)
    assert (done.status, "nothing was written (--dry-run)" in done.output) == (0, True), done


def the_commands_see_what_is_served(machine: Machine, table: AuthMeTable) -> None:
    with served(machine) as reload:
        config = machine.place("/etc/companion/companion.toml")
        text = config.read_text()
        config.write_text(f"{text}foo = 1\n")
        assert reload() == EX_CONFIG
        config.write_text(text)
        assert reload() == 0
        listed = machine.run_quickly("users", "list")
        assert "Bob" in listed.output, listed
        banned = machine.run_quickly("users", "ban", "Bob")
        assert banned.status == 0, banned
        assert is_locked(table, "bob")
        refused = machine.run_quickly("uninstall", "--yes")
        assert refused.status == 1
        assert "A daemon is running" in refused.errors, refused
    assert machine.place("/etc/companion/proxy/nginx.conf").exists()


def a_backup_of_roots_takes_the_place_of_what_is_there(machine: Machine) -> None:
    """It lies where only root may enter, as after a copy from another machine; another user's folder is named."""
    assert machine.run_quickly("backup", "/var/backups/companion").status == 0
    machine.output("sh", "-c", "install -d -m 700 /srv/roots; cp -r /var/backups/companion/companion-* /srv/roots/kept")
    machine.output("sh", "-c", "install -d -m 700 -o daemon /home/daemon; cp -r /srv/roots/kept /home/daemon/")
    blocked = machine.run_quickly("restore", "--replace", "/home/daemon/kept")
    assert (blocked.status, "mc, who may not enter /home/daemon: copy" in blocked.errors) == (1, True), blocked
    done = machine.run_quickly("restore", "--replace", "/srv/roots/kept")
    assert (done.status, "AuthMe's table is in /srv/roots/kept/authme.db" in done.output) == (0, True), done
    assert "Bob" in machine.run_quickly("users", "list").output
    state = machine.place("/var/lib/companion")
    assert {path.stat().st_uid for path in (state, *state.iterdir())} == {USER_ID}
    assert not [*state.glob(".backup*")]
    assert len([*state.glob("replaced-*/companion.db")]) == 1


def it_leaves_no_trace_but_a_backup(machine: Machine, table: AuthMeTable) -> None:
    removed = machine.run_quickly("uninstall", "--purge", "--yes")
    assert removed.status == 0, removed
    assert not is_locked(table, "bob")
    backup = re.search(r"backed up \d+ rows into (/var/backups/companion/\S+)", removed.output)
    assert backup, removed
    assert rights(machine, backup[1]) == ("0o700", USER_ID, USER_ID)
    assert machine.place(f"{backup[1]}/manifest.json").exists()
    assert not machine.place("/etc/companion").exists()
    assert not machine.place("/var/lib/companion").exists()
    assert not [*machine.place(UNITS).glob("companion*")]
    asked = machine.place(ASKED).read_text().splitlines()
    assert asked[-2:] == ["disable --now companion.service companion-backup.timer", "daemon-reload"]
