"""The command line and the daemon work on one installation, or the command refuses; root is not in the way."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import write_game_server
from tests.support.command_line import Finished, companion
from tests.support.daemon import READY
from tests.support.machine import PROGRAM, Machine, open_machine
from tests.support.other_user import USER_ID
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port
from tests.support.sandbox import CREDENTIALS, require_sandbox

EX_CONFIG = 78
STATE = "/var/lib/companion"
ROOT = 0
AS_OWNER = "companion: working as mc, who owns /var/lib/companion\n"
PASSWORD = ("--password-stdin",)
CONFIG = f"""
[game]
directory = "/srv/minecraft"
[server]
port = {{port}}
[updates]
enabled = false
[mail]
backend = "smtp"
host = "{{mail.host}}"
port = {{mail.port}}
security = "none"
sender = "companion@example.org"
[metrics]
token_file = "{CREDENTIALS}/secrets_metrics_token"
"""


# --- nothing is made on the fly ---


@pytest.mark.parametrize(
    "command",
    [
        ("users", "list"),
        ("users", "ban", "Alice"),
        ("sync", "--plan"),
        ("sync",),
        ("backup", "backup"),
        ("unlock-all",),
        ("release",),
        ("export",),
        ("purge",),
        ("digest",),
        ("upgrade-check",),
        ("import", "users.csv", "--dry-run"),
    ],
    ids=" ".join,
)
def test_without_an_installation_a_command_refuses(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The config is found as a host would leave it: below the current folder."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "companion.toml").write_text('[server]\nname = "Test"\nstate_dir = "../var"\n')
    (tmp_path / "users.csv").write_text("username\nAlice\n")
    told = companion(*command, directory=tmp_path)
    assert (told.status, told.output) == (EX_CONFIG, "")
    assert f"there is no installation in {tmp_path}/conf/../var; server.state_dir says where" in told.errors
    assert {path.name for path in tmp_path.iterdir()} == {"conf", "users.csv"}


def test_what_needs_no_installation_makes_none(daemon: MakeDaemon, smtp: MailServer) -> None:
    place = daemon({"server": {"port": free_port()}})
    told = companion("check-config", config=place.config_file)
    assert told.status == 0
    assert f"state directory: {place.state_dir} (no installation has started there)\n" in told.output
    assert f"database: sqlite:{place.state_dir}/companion.db\n" in told.output
    told = companion("doctor", config=place.config_file)
    assert f"state directory: {place.state_dir}\ndatabase: sqlite:{place.state_dir}/companion.db\n" in told.output
    assert companion("mail-test", "alice@example.org", config=place.config_file).status == 0
    assert companion("game-status", config=place.config_file).status == 1
    assert companion("updates", config=place.config_file).status == 0
    assert companion("version", config=place.config_file) == companion("--version")
    assert not place.state_dir.exists()


def test_commands_work_while_every_file_of_a_secret_is_missing(daemon: MakeDaemon) -> None:
    """What only the daemon sends is queued as usual."""
    missing = "/run/credentials/companion.service/missing"
    place = daemon(
        {
            "server": {"tls_cert_file": missing, "tls_key_file": missing},
            "authme": {"enabled": False},
            "auth": {"previous_keys_file": missing},
            "game": {"rcon": True, "rcon_password_file": missing},
            "questionnaire": {"scorer_url": "https://scorer.example.org", "scorer_key_file": missing},
            "chat": {"platform": "discord", "client_id": "1234", "client_secret_file": missing},
            "mail": {"username": "noreply", "password_file": missing},
            "webhook": {"url_file": missing, "secret_file": missing},
            "metrics": {"token_file": missing},
        }
    )
    assert companion("migrate", config=place.config_file).status == 0
    created = companion("users", "create", "Alice", *PASSWORD, config=place.config_file, typed="a-s3cret-password\n")
    assert created == Finished(0, "Alice: approved\n", "")
    assert companion("users", "ban", "Alice", config=place.config_file).status == 0
    queued = SqliteFile(place.state_dir / "companion.db").query("SELECT * FROM regsvc_outbox WHERE kind = 'webhook'")
    assert queued
    for command in (("mail-test", "alice@example.org"), ("check-config",), ("serve",)):
        told = companion(*command, config=place.config_file)
        assert (told.status, f'password_file = "{missing}": there is no file' in told.errors) == (EX_CONFIG, True)
        assert "invalid" not in told.errors
    told = companion("doctor", "--json", config=place.config_file)
    assert told.output.count('"secrets.missing"') == 10
    assert "mail.unusable" not in told.output


# --- as documented, with a unit, as root and as others ---


@dataclass(frozen=True)
class Shells:
    """Shells on the machine; whatever they create may have any mode."""

    machine: Machine

    def run(self, *arguments: str, user: str = "root", folder: str = "/") -> Finished:
        """Run a command of the companion to its end."""
        user_id = None if user == "root" else USER_ID
        return self.machine.run_quickly(*arguments, user=user_id, folder=folder, typed="a-s3cret-password\n")

    def make_folder(self, path: str, owner: int, mode: int = 0o700) -> Path:
        """Return an empty folder."""
        folder = self.machine.place(path)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        folder.chmod(mode)
        os.chown(folder, owner, owner)
        return folder

    def write(self, path: str, text: str, owner: int, mode: int) -> None:
        file = self.machine.place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        os.chown(file, ROOT, owner)

    def give(self, path: str, owner: int) -> None:
        folder = self.machine.place(path)
        for given in (folder, *folder.rglob("*")):
            os.chown(given, owner, owner)

    def owners(self, path: str) -> dict[str, tuple[int, str]]:
        """Return owner and mode of everything in a folder."""
        folder = self.machine.place(path)
        return {
            file.relative_to(folder).as_posix(): (file.lstat().st_uid, oct(file.lstat().st_mode & 0o777))
            for file in folder.rglob("*")
        }


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> AuthMeTable:
    game = write_game_server(tmp_path_factory.mktemp("host") / "game")
    game.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(game.authme_directory / "authme.db"))
    create_table(table)
    game.install_authme(table)
    return table


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, table: AuthMeTable, port: int, mail_server: MailServer
) -> Iterator[Shells]:
    """A machine where everything is prepared for a first start, on SQLite; the unit is stopped."""
    require_sandbox("MACHINE")
    assert isinstance(table.database, SqliteFile)
    with open_machine(tmp_path_factory.mktemp("machine"), table.database.path.parents[2]) as machine:
        shells = Shells(machine)
        shells.make_folder("/etc/companion/secrets", ROOT)
        shells.write("/etc/companion/secrets/metrics_token", "a token of the metrics\n", ROOT, 0o600)
        shells.write("/etc/companion/companion.toml", CONFIG.format(port=port, mail=mail_server), USER_ID, 0o640)
        shells.make_folder("/var/backups", ROOT, 0o755)
        yield shells


def test_root_works_as_the_owner_of_the_state_directory(host: Shells) -> None:
    """From its own home directory, without a word about the config; a restore into an emptied directory, too."""
    host.make_folder(STATE, USER_ID)
    first = host.run("migrate", folder="/root")
    assert (first.status, first.errors.startswith(AS_OWNER)) == (0, True), first
    assert host.run("users", "create", "Alice", *PASSWORD) == Finished(0, "Alice: approved\n", AS_OWNER)
    closed = host.run("backup", "/var/backups")
    assert (closed.status, "install -d -m 700 -o mc /var/backups/companion &&" in closed.errors) == (1, True), closed
    host.make_folder("/srv/roots", ROOT)
    for folder in ("/srv/roots", "/srv/roots/monday", "/srv/roots/of/monday"):  # whose owner mc must not become
        closed = host.run("backup", folder)
        assert (closed.status, "-o mc /var/backups/companion &&" in closed.errors) == (1, True), closed
        nothing = host.run("restore", folder)
        assert (nothing.status, "chown" in nothing.errors) == (1, False), nothing
        assert "is not a backup: " in nothing.errors
    exported = host.run("export", "--output", "/srv/roots/users.csv")
    assert (exported.status, "add > /srv/roots/users.csv" in exported.errors) == (1, True), exported
    host.make_folder("/var/backups/open", USER_ID)
    assert host.run("backup", "/var/backups/open/monday").status == 0
    kept = host.owners(STATE)
    assert {"companion.db", "home.json", "installation.key", "signing.key"} <= set(kept)
    assert set(kept.values()) == set(host.owners("/var/backups/open/monday").values()) == {(USER_ID, "0o600")}

    host.make_folder(STATE, USER_ID)
    above = host.run("restore", "/var/backups/open")
    assert (above.status, "The newest backup" in above.errors) == (1, False), above
    host.machine.place("/var/backups/open/monday").rename(host.machine.place("/var/backups/open/companion-2"))
    host.give("/var/backups/open/companion-2", ROOT)
    above = host.run("restore", "/var/backups/open")
    assert (above.status, "in it is /var/backups/open/companion-2\n" in above.errors) == (1, True), above
    unreadable = host.run("restore", "/var/backups/open/companion-2")
    assert (unreadable.status, "cannot be read by mc" in unreadable.errors) == (1, True), unreadable
    host.give("/var/backups/open/companion-2", USER_ID)
    assert host.run("restore", "/var/backups/open/companion-2").status == 0
    assert set(host.owners(STATE).values()) == {(USER_ID, "0o600")}
    listed = host.run("users", "list", user="mc")
    assert (listed.status, listed.output.split()[:2]) == (0, ["Alice", "approved"]), listed
    assert f"installation: {STATE} (sqlite:{STATE}/companion.db)" in listed.errors


def test_a_state_directory_that_root_creates_is_that_of_authmes_owner(host: Shells) -> None:
    shutil.rmtree(host.machine.place(STATE), ignore_errors=True)
    assert host.run("migrate").status == 0
    assert set(host.owners(STATE).values()) == {(USER_ID, "0o600")}
    folder = host.machine.place(STATE).stat()
    assert (folder.st_uid, oct(folder.st_mode & 0o777)) == (USER_ID, "0o700")


def test_root_reads_the_config_of_another_user_as_that_user(host: Shells) -> None:
    """It may lie in wait where root happens to be; a secret that only root may read is not read for it."""
    config = host.make_folder("/srv/theirs/conf", USER_ID).joinpath("companion.toml")
    config.write_text('[server]\nstate_dir = "../var"\n[authme]\nenabled = false\n')
    host.give("/srv/theirs", USER_ID)
    done = host.run("migrate", folder="/srv/theirs")
    as_mc = "companion: working as mc, who owns /srv/theirs/conf/companion.toml\n"
    assert (done.status, done.errors.startswith(as_mc)) == (0, True), done
    assert set(host.owners("/srv/theirs/var").values()) == {(USER_ID, "0o600")}

    config.write_text(config.read_text() + '[metrics]\ntoken_file = "/etc/companion/secrets/metrics_token"\n')
    told = host.run("check-config", folder="/srv/theirs")
    assert (told.status, "metrics_token cannot be read" in told.errors) == (EX_CONFIG, True), told


def test_folders_above_a_state_directory_that_root_creates_can_be_entered(host: Shells) -> None:
    """In a folder of the game's user, it is that user who creates it."""
    for number, place in enumerate(("/srv/new/state", "/srv/minecraft/state")):
        config = f'[server]\nstate_dir = "{place}"\n[game]\ndirectory = "/srv/minecraft"\n'
        host.write(f"/srv/root{number}.toml", config, ROOT, 0o600)
        done = host.run("migrate", "--config", f"/srv/root{number}.toml")
        assert done.status == 0, done
        assert set(host.owners(place).values()) == {(USER_ID, "0o600")}
    assert host.owners("/srv/new")["state"] == host.owners("/srv/minecraft")["state"] == (USER_ID, "0o700")


def test_keys_that_root_left_behind_are_told_with_the_remedy(host: Shells) -> None:
    """As root's commands of older versions did."""
    host.make_folder(STATE, USER_ID)
    host.write(f"{STATE}/home.json", "{}", USER_ID, 0o640)
    host.write(f"{STATE}/installation.key", "a key that root created, which is long enough\n", ROOT, 0o600)
    told = host.run("users", "list", user="mc")
    assert (told.status, f"Run: chown -R --reference={STATE} {STATE}" in told.errors) == (EX_CONFIG, True), told


def test_the_daemon_keeps_what_a_shell_decided(host: Shells, table: AuthMeTable, port: int) -> None:
    """The unit's daemon and root's shell agree on the installation; credentials are there while the unit runs."""
    host.make_folder(STATE, USER_ID)
    host.write(f"{CREDENTIALS}/secrets_metrics_token", "a token of the metrics\n", USER_ID, 0o600)
    host.give(CREDENTIALS, USER_ID)
    unit = host.machine.command(PROGRAM, "serve", user="mc")
    environment = host.machine.environment({"STATE_DIRECTORY": STATE})
    with subprocess.Popen(
        unit, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as served:
        assert served.stdout is not None
        try:
            assert served.stdout.readline() == f"{READY}http://127.0.0.1:{port}\n"
            assert host.run("users", "create", "Bob", *PASSWORD).status == 0
            banned = host.run("users", "ban", "Bob")
            assert (banned.status, banned.output) == (0, "Bob: banned\n"), banned
            report = json.loads(host.run("sync", user="mc").output)
            assert (report["restored"], report["locked"]) == (0, 0)
        finally:
            served.terminate()
    assert served.returncode == 0
    shutil.rmtree(host.machine.place(CREDENTIALS))
    table.database.execute(f"DELETE FROM {table.name}")


def test_commands_that_need_no_secret_work_without_it(host: Shells) -> None:
    """The unit is stopped, so that there are no credentials; only root can read what they are made from."""
    host.make_folder(STATE, USER_ID)
    for command in (("migrate",), ("unlock-all",), ("mail-test", "alice@example.org")):
        assert host.run(*command, user="mc").status == 0
    told = host.run("serve", user="mc")
    assert (told.status, "systemd makes it from /etc/companion/secrets/metrics_token" in told.errors) == (78, True)
    assert host.run("check-config").status == 0  # as root


def test_a_user_who_may_not_read_the_state_is_told_who_may(host: Shells) -> None:
    host.make_folder(STATE, USER_ID)
    host.write("/srv/readable.toml", f"[server]\nport = {free_port()}\n", ROOT, 0o644)
    readable = ("--config", "/srv/readable.toml")
    told = host.machine.run_quickly("users", "list", *readable, user=61235)
    assert told.status == EX_CONFIG
    assert f"{STATE} cannot be read by 61235: run this command as mc, who owns it, or as root" in told.errors
    told = host.machine.run_quickly("status", *readable, user=61235)
    assert (told.status, "unknown:   the state directory: we may not read it\n" in told.output) == (3, True), told
    told = host.machine.run_quickly("users", "list", user=61235)
    assert (told.status, "companion.toml: it cannot be read" in told.errors) == (EX_CONFIG, True)


FOR_OWNERS = ["users list", "doctor", "status", "check-config", "config get server.port", "sync --plan", "game-status"]
FOR_OWNERS += ["mail-test alice@example.org", "upgrade-check", "migrate", "config set server.name Test", "doctor --all"]


@pytest.mark.parametrize("readable", ["nothing", "the config"])
def test_a_stranger_is_told_to_use_sudo_and_nothing_that_may_be_false(host: Shells, readable: str) -> None:
    """No advice that opens files to everyone, and no report about what cannot be seen."""
    host.make_folder(STATE, USER_ID)
    assert host.run("migrate").status == 0
    config = host.machine.place("/etc/companion/companion.toml")
    config.chmod(0o640 if readable == "nothing" else 0o644)
    try:
        for command in FOR_OWNERS:
            told = host.machine.run_quickly(*command.split(), user=61235)
            if readable == "the config" and command in ("status", "config get server.port"):
                assert told.status in (0, 3), told
                assert command != "status" or "(run this command with sudo)" in told.output, told
                continue
            assert (told.status, "sudo" in told.errors) == (EX_CONFIG, True), (command, told)
            for wrong in ("permissions", "chmod", "does not start", "read access", "BROKEN"):
                assert wrong not in told.output + told.errors, (command, told)
        refused = host.machine.run_quickly("serve", user=61235)
        assert refused.errors.endswith("cannot be read by 61235: run this command as mc, who owns it\n"), refused
        dry = host.machine.run_quickly("install", user=61235)
        assert "run it with sudo" in dry.errors
    finally:
        config.chmod(0o640)


def test_the_owner_reads_what_is_wrong_with_a_file_of_theirs(host: Shells) -> None:
    """As in the journal of a unit whose config became root's alone."""
    host.make_folder(STATE, USER_ID)
    config = host.machine.place("/etc/companion/companion.toml")
    config.chmod(0o600)
    try:
        for command in ("serve", "doctor"):
            told = host.run(command, user="mc")
            assert "sudo" not in told.errors + told.output
            assert "check its name and permissions" in " ".join((told.errors + told.output).split()), told
    finally:
        config.chmod(0o640)


def test_a_secret_of_the_unit_is_set_where_systemd_reads_it(host: Shells) -> None:
    host.make_folder(STATE, USER_ID)
    before = host.machine.place("/etc/companion/companion.toml").read_text()
    secret = host.machine.place("/etc/companion/secrets/metrics_token")
    done = host.machine.run_quickly("config", "set", "metrics.token", "-", typed="another token\r\n")
    place = "/etc/companion/secrets/metrics_token: metrics.token = …\n"
    assert done == Finished(0, f"{place}it takes effect with: systemctl restart companion\n", "")
    assert secret.read_text() == "another token\n"
    assert (secret.stat().st_uid, oct(secret.stat().st_mode & 0o777)) == (ROOT, "0o600")
    assert host.machine.place("/etc/companion/companion.toml").read_text() == before
    secret.unlink()
    assert host.machine.run_quickly("config", "set", "metrics.token", "-", typed="a token of the metrics").status == 0
    assert (secret.stat().st_uid, oct(secret.stat().st_mode & 0o777)) == (ROOT, "0o600")
    refused = host.machine.run_quickly("config", "set", "metrics.token", "-", typed="a third token", user=USER_ID)
    assert (refused.status, "cannot be written" in refused.errors, "sudo" in refused.errors) == (78, True, True), (
        refused
    )


def test_root_restores_what_root_alone_may_read(host: Shells) -> None:
    """The owner gets a copy; a restore that is copying at the same time keeps its own."""
    state = host.make_folder(STATE, USER_ID)
    assert host.run("migrate").status == 0
    host.make_folder("/var/backups/open", USER_ID)
    closed, monday = host.make_folder("/var/backups/closed", USER_ID), "/var/backups/closed/monday"
    assert host.run("backup", monday).status == 0
    host.give("/var/backups/closed", ROOT)
    for name in ("of-another", "of-a-killed-one"):
        host.make_folder(f"{STATE}/.backup-of-root-{name}", ROOT)
    in_use = os.open(state / ".backup-of-root-of-another", os.O_RDONLY)
    try:
        fcntl.flock(in_use, fcntl.LOCK_EX)
        done = host.run("restore", "--replace", monday)
    finally:
        os.close(in_use)
    assert done.status == 0, done
    assert [path.name for path in state.glob(".backup-of-root*")] == [".backup-of-root-of-another"]
    (state / ".backup-of-root-of-another").rmdir()
    assert {owner for owner, _mode in host.owners(STATE).values()} == {USER_ID}

    config = host.machine.place("/etc/companion/companion.toml")
    config.chmod(0o600)
    try:
        told = host.run("backup", "/var/backups/open")
    finally:
        config.chmod(0o640)
    assert "since mc may not read it: copy /etc/companion/companion.toml besides\n" in told.errors, told

    secret = closed / "secret"
    (closed / "monday/signing.key").rename(secret)
    (closed / "monday/signing.key").symlink_to("../secret")  # from another user's folder, by cp -a
    refused = host.run("restore", "--replace", monday)
    assert (refused.status, f"{monday}/signing.key is missing" in refused.errors) == (1, True), refused


def test_the_folder_of_a_shell_that_its_user_may_not_enter_hides_no_config(host: Shells) -> None:
    """As for `sudo -u mc companion users list`, which root types in its home directory."""
    host.make_folder(STATE, USER_ID)
    host.make_folder("/srv/closed", ROOT)
    assert host.run("migrate").status == 0
    become = f"setpriv --reuid={USER_ID} --regid={USER_ID} --clear-groups"
    told = host.machine.run("sh", "-c", f"cd /srv/closed; exec {become} {PROGRAM} users list")
    assert (told.returncode, "0 users, page 1 of 1" in told.stderr) == (0, True), told


def test_a_command_for_every_server_of_the_machine(host: Shells) -> None:
    """Each is looked at as its owner: one has stopped, one has a broken config, a package has just unpacked another."""
    host.make_folder(STATE, USER_ID)
    assert host.run("migrate").status == 0
    host.make_folder("/var/backups/companion/companion-20200504-120000", USER_ID)
    host.give("/var/backups/companion", USER_ID)
    configs = {"companion@broken": "[server\n", "companion@new": "# nothing is set\n", "companion-notes": "x = 1\n"}
    for name, text in configs.items():
        host.write(f"/etc/{name}/companion.toml", text, ROOT, 0o644)
    try:
        told = host.run("status", "--all")
        assert told.status == EX_CONFIG
        assert re.findall("^--- (.+) ---$", told.output, re.MULTILINE) == ["companion", "companion@broken"]
        assert "companion: stopped, companion.service\n" in told.output
        assert re.search(r"^backup: +[0-9].* ago, in /var/backups/companion, which", told.output, re.MULTILINE), told
        assert AS_OWNER in told.errors
        assert "companion@broken/companion.toml" in told.errors
        told = host.run("doctor", "--all", "--json")
        reports = json.loads(told.output)
        assert (told.status, list(reports)) == (2, ["companion", "companion@broken"])
        assert "machine.root" not in {finding["id"] for finding in reports["companion"]["findings"]}
        assert [finding["id"] for finding in reports["companion@broken"]["findings"]] == [
            "config.broken",
            "machine.root",
        ]
        mistake = host.run("doctor", "--all", "-i", "broken")
        assert (mistake.status, "leave out --config" in mistake.errors) == (2, True)
    finally:
        for name in configs:
            shutil.rmtree(host.machine.place(f"/etc/{name}"))
