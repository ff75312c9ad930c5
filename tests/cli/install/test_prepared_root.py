"""`companion install --root DIR`: what is written, what a second run changes, and what `uninstall` removes."""

import io
import os
import re
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from difflib import unified_diff
from functools import partial
from itertools import count
from pathlib import Path
from pwd import getpwuid
from unittest import mock

import pytest

from companion import main
from regsvc.cli.command_line import INSTALL_COMMANDS
from regsvc.cli.config_command import with_value
from regsvc.cli.install.changes import digest_of
from regsvc.cli.install.installing import find_program, require_program_for
from regsvc.cli.install.settings import NEW_CONFIG, InstallProblem, fill_config, read_values
from regsvc.cli.shipped_files import read_shipped
from tests.support import programs
from tests.support.certificate import make_certificate
from tests.support.command_line import Finished
from tests.support.killing import run_killed_at
from tests.support.other_user import USER_ID
from tests.support.peers.proxies import nginx_command
from tests.support.ports import free_port
from tests.support.programs import needs_root
from tests.support.quick_start import REPOSITORY

pytestmark = needs_root

WANTED = ("--game-dir", "/srv/minecraft", "--user", "games", "--base-url", "https://play.example.net", "--port", "8090")
MAIL = ("--mail-host", "smtp.example.net", "--mail-sender", "a@example.net", "--mail-password-file", "-")
UNIT = "etc/systemd/system/companion.service"
DROP_IN = "etc/systemd/system/companion.service.d/install.conf"
CONFIG = "etc/companion/companion.toml"
PROXY_SAMPLES = ("Caddyfile", "nginx-http.conf", "nginx.conf")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def companion(root: Path, *arguments: str, typed: str = "") -> Finished:
    """Run a command without a terminal."""
    with (
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as errors,
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
    ):
        status = main([*arguments, "--root", str(root)])
    return Finished(status, output.getvalue(), errors.getvalue())


def install(root: Path, *arguments: str, typed: str = "") -> Finished:
    """Install, which succeeds."""
    done = companion(root, "install", *WANTED, *arguments, typed=typed)
    assert done.status == 0, done
    return done


def contents(root: Path) -> dict[str, tuple[str, int]]:
    """Return the text and time of every file below the folder, and the time of every folder."""
    return {
        str(path.relative_to(root)): (path.read_text() if path.is_file() else "", path.stat().st_mtime_ns)
        for path in root.rglob("*")
    }


def test_killed_at_any_step_the_next_run_ends_as_an_undisturbed_one(root: Path, tmp_path: Path) -> None:
    """Whatever was written before is its own, also where the host has another answer by then."""
    arguments = ("--port", "8091", *MAIL)
    (tmp_path / "undisturbed").mkdir()
    install(tmp_path / "undisturbed", *arguments, typed="s3cret\n")
    undisturbed = {name: text for name, (text, _time) in contents(tmp_path / "undisturbed").items()}
    for step in count(1):
        place = root / str(step)
        place.mkdir()
        first = partial(companion, place, "install", *WANTED, *MAIL, typed="mistyped\n")
        if run_killed_at(step, lambda run=first: run().status) is not None:  # type: ignore[misc]
            break
        done = install(place, *arguments, typed="s3cret\n")
        assert {name: text for name, (text, _time) in contents(place).items()} == undisturbed, done
    assert step > 10


def test_a_second_run_changes_nothing(root: Path) -> None:
    install(root)
    before = contents(root)
    assert "no file has to be changed" in install(root).output
    assert contents(root) == before


WRITTEN = """\
# The config of the companion: the keys of this server. All others have their defaults.
# All keys:   companion docs conf/companion.toml
# To set one: companion config set KEY VALUE

[game]
directory = "/srv/minecraft"

[server]
base_url = "https://play.example.net"
port = 8090

[mail]
host = "smtp.example.net"
port = 465
sender = "a@example.net"
security = "tls"
backend = "smtp"
"""


def test_what_is_written(root: Path) -> None:
    """A config holds what the host has chosen, and says where everything else is."""
    done = install(root, "--mail-host", "smtp.example.net", "--mail-port", "465", "--mail-sender", "a@example.net")
    assert "[server]" not in done.output
    assert '    +server.base_url = "https://play.example.net"\n    +server.port = 8090\n' in done.output
    assert (root / CONFIG).read_text() == WRITTEN
    (root / CONFIG).write_text(with_value(with_value(WRITTEN, "server.name", "Willow"), "log.level", "debug"))
    assert (root / CONFIG).read_text() == WRITTEN.replace(
        "port = 8090\n", 'port = 8090\nname = "Willow"\n'
    ) + '\n[log]\nlevel = "debug"\n'
    assert (root / UNIT).read_text() == read_shipped("systemd/companion.service")
    assert oct((root / UNIT).parent.stat().st_mode & 0o777) == "0o755"
    drop_in = (root / DROP_IN).read_text().splitlines()
    assert "User=games" in drop_in
    assert drop_in[1:3] == ["[Unit]", "RequiresMountsFor=/srv/minecraft /var/lib/companion"]
    assert "ReadWritePaths=-/srv/minecraft/plugins/AuthMe" in drop_in
    backup = (root / "etc/systemd/system/companion-backup.service.d/install.conf").read_text()
    assert backup.endswith(" backup --config /etc/companion/companion.toml /var/backups/companion\n")
    assert (root / "etc/systemd/system/companion-backup.timer").exists()
    nginx = (root / "etc/companion/proxy/nginx.conf").read_text()
    assert "    server_name play.example.net;" in nginx
    assert "127.0.0.1:8090;" in nginx


@pytest.mark.parametrize("address", ["play.example.net", "play.example.net/mc"])
def test_the_proxy_samples_load_as_they_are_written(root: Path, tmp_path: Path, address: str) -> None:
    """Step by step, as docs/install.md says: nginx on port 80 before there is a certificate, and then with one."""
    install(root, "--base-url", address)
    samples = {name: (root / "etc/companion/proxy" / name).read_text() for name in PROXY_SAMPLES}

    def loads(*texts: str) -> bool:
        ports = [re.sub(r"(listen (?:\[::\]:)?)(?:80|443)\b", rf"\g<1>{free_port()}", text) for text in texts]
        command = [*nginx_command(tmp_path, *ports), "-t"]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    assert loads(samples["nginx-http.conf"])
    assert not loads(samples["nginx-http.conf"], samples["nginx.conf"])
    made, folder = make_certificate(tmp_path), "/etc/letsencrypt/live/play.example.net"
    secure = samples["nginx.conf"].replace(f"{folder}/fullchain.pem", str(made.certificate_file))
    assert loads(samples["nginx-http.conf"], secure.replace(f"{folder}/privkey.pem", str(made.key_file)))
    caddy = [programs.find_program("caddy"), "validate", "--adapter", "caddyfile", "--config"]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    validated = subprocess.run(
        [*caddy, str(root / "etc/companion/proxy/Caddyfile")], capture_output=True, timeout=60, env=environment
    )
    assert validated.returncode == 0, validated.stderr


def test_a_dry_run_writes_nothing(root: Path) -> None:
    done = install(root, "--dry-run")
    assert "/etc/companion/companion.toml: new, 0640 root:" in done.output
    assert '    +game.directory = "/srv/minecraft"' in done.output
    assert not [*root.iterdir()]


def test_an_edited_config_is_kept(root: Path) -> None:
    install(root)
    edited = with_value((root / CONFIG).read_text(), "registration.open", False).replace("open = f", "'open'=f")
    edited += '\n[downloads.client]\nname = "Client"  # all of it\nurl = "/client.zip"\n'
    (root / CONFIG).write_text(edited)
    assert "no file has to be changed" in companion(root, "install").output
    done = install(root, "--port", "8091", *MAIL, typed="s3cret\n")
    assert "/etc/companion/companion.toml: edited, changed in these lines alone" in done.output
    assert "Registration is closed; to open it: companion config set registration.open true" in done.output
    assert "    -server.port = 8090\n    +server.port = 8091\n" in done.output
    changed = (root / CONFIG).read_text()
    assert [line for line in unified_diff(edited.splitlines(), changed.splitlines(), n=0) if line[0] in "+-"][2:] == [
        *("-port = 8090", "+port = 8091"),
        *("+", "+[mail]", '+host = "smtp.example.net"', '+sender = "a@example.net"', '+backend = "smtp"'),
        '+password_file = "/run/credentials/companion.service/secrets_mail_password"',
    ]
    assert 'name = "Client"  # all of it\nurl = "/client.zip"\n' in changed
    assert "no file has to be changed" in companion(root, "install").output
    assert (root / CONFIG).read_text() == changed
    (root / CONFIG).write_text(changed.replace("port = 8091", "'port' = 8091"))
    done = companion(root, "install", "--port", "8092")
    assert (done.status, "server.port is written in a way" in done.errors) == (78, True), done
    (root / CONFIG).write_text(changed)
    (root / UNIT).write_text("# by hand\n")
    assert f"/{UNIT}: edited, left as it is" in install(root).output
    assert (root / UNIT).read_text() == "# by hand\n"


def test_the_program_is_that_of_the_prepared_system(root: Path) -> None:
    packaged = "/opt/companion/.venv/bin/companion"
    assert f"the units start {packaged}, which is not in {root} yet" in install(root).output
    assert f"\nExecStart={packaged} serve " in (root / DROP_IN).read_text()
    (root / packaged[1:]).parent.mkdir(parents=True)
    (root / packaged[1:]).touch()
    assert "the units start" not in install(root).output


def test_the_proxy_takes_the_path_off(root: Path) -> None:
    install(root, "--base-url", "play.example.net/mc")
    nginx, caddy = ((root / "etc/companion/proxy" / name).read_text() for name in ("nginx.conf", "Caddyfile"))
    assert "\n    rewrite ^/mc$ /mc/ redirect;\n    rewrite ^/mc(/.*)$ $1;\n" in nginx
    assert "\n\tredir /mc /mc/\n\turi strip_prefix /mc\n" in caddy


def test_more_players_than_the_limits_let_in(root: Path) -> None:
    install(root, "--players-first-hour", "50")
    assert "registration" not in tomllib.loads((root / CONFIG).read_text())
    install(root, "--players-first-hour", "400", "--registration-methods", "captcha")
    config = tomllib.loads((root / CONFIG).read_text())
    assert config["registration"] == {"methods": ["captcha"], "limits_total": ["800 per hour", "4000 per day"]}


@pytest.mark.parametrize(
    ("word", "keys"),
    [
        ("later", {"registration.open": False}),
        ("LATER", {"registration.open": False}),
        ("captcha", {"registration.methods": ["captcha"], "mail.backend": "off"}),
    ],
)
def test_a_word_of_the_questions_is_an_option_too(root: Path, word: str, keys: dict[str, object]) -> None:
    done = install(root, "--mail-host", word)
    assert ("config set registration.open true" in done.output) == (word != "captcha")
    known = {"game.directory", "server.base_url", "server.port"}
    assert {key: value for key, value in read_values(root / CONFIG).items() if key not in known} == keys


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--mail-host", "http"), 'the keys of a service are in docs/install.md, "Where SMTP is blocked"'),
        (("--mail-host", "back"), "this word is for questions on a terminal. Name a mail server"),
        (("--mail-host", "authme"), "--mail-host authme: AuthMe has no mail account"),
        (("--mail-host", "later", "--mail-port", "25"), "means no mail server: leave out --mail-port"),
        (("--mail-host", "captcha", "--mail-password-file", "-"), "leave out --mail-password-file"),
    ],
)
def test_a_word_that_is_not_enough_is_refused(root: Path, options: tuple[str, ...], sentence: str) -> None:
    done = companion(root, "install", *WANTED, *options, typed="s3cret\n")
    assert (done.status, sentence in done.errors) == (2, True), done
    assert not [*root.iterdir()]


@pytest.mark.parametrize("blank", ["", "# Olivia was here.\n", "the package's", "the sample"])
def test_a_config_without_a_key_is_filled(root: Path, blank: str) -> None:
    """As a package leaves it, or a host who has copied the sample: what is written there stays."""
    package = REPOSITORY.joinpath("packaging/deb/postinst").read_text().partition("<<'END'\n")[2].partition("END\n")[0]
    assert package == NEW_CONFIG
    text = {"the package's": package, "the sample": read_shipped("conf/companion.toml")}.get(blank, blank)
    (root / CONFIG).parent.mkdir(parents=True)
    (root / CONFIG).write_text(text)
    assert "    +server.port = 8090" in install(root).output
    config = (root / CONFIG).read_text()
    keys = {section: keys for section, keys in tomllib.loads(config).items() if keys}
    assert keys == {
        "game": {"directory": "/srv/minecraft"},
        "server": {"base_url": "https://play.example.net", "port": 8090},
    }
    comments = [line for line in (text or NEW_CONFIG).splitlines() if line.startswith("# ")]
    assert [line for line in config.splitlines() if line.startswith("# ")] == comments


def test_a_config_that_1_0_0_wrote_stays_with_its_comments(root: Path) -> None:
    """It is the whole sample with the keys in it; only what is asked for anew changes."""
    install(root)
    old = fill_config(read_shipped("conf/companion.toml"), read_values(root / CONFIG) | {"mail.username": "a"})
    record = root / "etc/companion/installed.json"
    record.write_text(record.read_text().replace(digest_of((root / CONFIG).read_text()), digest_of(old)))
    (root / CONFIG).write_text(old)
    assert "no file has to be changed" in companion(root, "install").output
    install(
        root, "--port", "8091", "--mail-host", "smtp.example.net", "--mail-username", "", "--mail-sender", "a@b.org"
    )
    changed = (root / CONFIG).read_text()
    assert len(changed.splitlines()) == len(old.splitlines())
    assert tomllib.loads(changed)["server"]["port"] == 8091
    assert "username" not in tomllib.loads(changed)["mail"], "an empty answer is none"


def test_the_units_of_a_package_are_used(root: Path) -> None:
    packaged = root / "lib/systemd/system"
    packaged.mkdir(parents=True)
    for name in ("companion.service", "companion-backup.service", "companion-backup.timer"):
        (packaged / name).write_text(read_shipped(f"systemd/{name}"))
    install(root)
    units = {str(path.relative_to(root)) for path in (root / "etc/systemd").rglob("*") if path.is_file()}
    assert units == {DROP_IN, DROP_IN.replace("companion.service", "companion-backup.service")}


def test_only_what_is_written_is_writable(root: Path, tmp_path: Path) -> None:
    """AuthMe's table is on a database server, and the state is elsewhere."""
    authme = tmp_path / "game/plugins/AuthMe"
    authme.mkdir(parents=True)
    (authme / "config.yml").write_text("DataSource:\n  backend: MYSQL\n")
    game = ("--game-dir", str(tmp_path / "game"))
    install(root, *game)
    assert "ReadWritePaths=-" not in (root / DROP_IN).read_text()

    (tmp_path / "game/server.properties").write_text("white-list=true\n")  # its allowlist is replaced in the folder
    assert "approved users get in by: AuthMe's table and the game's allowlist" in install(root, *game).output
    assert f"\nReadWritePaths=-{tmp_path}/game\n" in (root / DROP_IN).read_text()

    choose_state(root, "/srv/state")
    install(root, *game)
    assert "\nReadWritePaths=/srv/state\n" in (root / DROP_IN).read_text()
    assert (root / "srv/state").owner() == "games"
    backup = (root / "etc/systemd/system/companion-backup.service.d/install.conf").read_text()
    assert "\nConditionPathExists=/srv/state/home.json\n[Service]\nExecStartPre=\n" in backup

    assert "remove it yourself" in companion(root, "uninstall", "--yes", "--purge").output
    assert (root / "srv/state").exists()


def choose_state(root: Path, folder: str) -> None:
    config = root / CONFIG
    config.write_text(with_value(config.read_text(), "server.state_dir", folder))


def test_a_chosen_state_directory_is_the_companions_alone(root: Path) -> None:
    install(root)
    choose_state(root, "/srv/minecraft")
    world = root / "srv/minecraft/world"
    world.mkdir(parents=True)
    done = companion(root, "install")
    assert (done.status, "server.state_dir = /srv/minecraft has files of others in it" in done.errors) == (1, True), (
        done
    )
    assert world.owner() == "root"


def test_links_of_a_former_owner_lead_nowhere(root: Path, tmp_path: Path) -> None:
    """The user who owned the state leaves links to root's files behind, before another gets it."""
    install(root)
    outside = tmp_path / "shadow"
    outside.write_text("root's own")
    outside.chmod(0o600)
    state = root / "var/lib/companion"
    (state / "mail").mkdir()
    (state / "mail/link").symlink_to(outside)
    (state / "folder").symlink_to(tmp_path)
    (state / "companion.db").write_text("")
    for path in state.rglob("*"):
        os.chown(path, state.stat().st_uid, -1, follow_symlinks=False)
    assert companion(root, "install", "--user", "daemon").status == 0
    given = [state, *(state / name for name in ("mail", "mail/link", "folder", "companion.db"))]
    assert {getpwuid(path.lstat().st_uid).pw_name for path in given} == {"daemon"}
    assert (outside.owner(), oct(outside.stat().st_mode & 0o777), tmp_path.owner()) == ("root", "0o600", "root")


def test_a_link_in_place_of_a_users_folder_is_refused(root: Path, tmp_path: Path) -> None:
    install(root)
    home = root / "home/games"
    home.mkdir(parents=True)
    os.chown(home, USER_ID, USER_ID)
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    (home / "state").symlink_to(target)
    choose_state(root, "/home/games/state")
    assert companion(root, "install").status == 1
    assert (target.owner(), oct(target.stat().st_mode & 0o777)) == ("root", "0o755")


def test_purge_removes_no_database_without_a_backup_and_follows_no_link(root: Path, tmp_path: Path) -> None:
    install(root)
    state = root / "var/lib/companion"
    (state / "companion.db").write_text("")
    done = companion(root, "uninstall", "--purge", "--yes")
    assert (done.status, "has a database, but no home.json" in done.errors) == (1, True), done
    assert (root / CONFIG).exists()

    moved = state.rename(tmp_path / "disk")
    (moved / "companion.db").unlink()
    (moved / "mail").mkdir()
    state.symlink_to(moved)
    done = companion(root, "uninstall", "--purge", "--yes")
    assert f"cannot remove {state}" in done.errors
    assert f"removed {state}" not in done.output
    assert (moved / "mail").exists()


def test_only_what_differs_changes(root: Path) -> None:
    install(root, *MAIL, typed="s3cret\n")
    before = contents(root)
    done = companion(root, "install", "--port", "8092", "--user", "daemon")
    assert done.status == 0, done
    after = contents(root)
    changed = {name for name in after if after[name][0] != before[name][0]}
    proxy = {"etc/companion/proxy/nginx.conf", "etc/companion/proxy/Caddyfile"}  # the other one names no port
    assert changed == {CONFIG, DROP_IN, "etc/companion/installed.json", *proxy}
    assert "    -server.port = 8090\n    +server.port = 8092\n" in done.output
    assert 'password_file = "/run/credentials/companion.service/secrets_mail_password"' in after[CONFIG][0]
    assert (root / "var/lib/companion").owner() == "daemon"


def test_an_instance_has_places_of_its_own(root: Path) -> None:
    install(root)
    for name, port in (("alpha", "8091"), ("beta", "8092")):
        done = companion(root, "install", *WANTED, "--instance", name)
        assert "game.directory = /srv/minecraft is that of another server: " in done.errors
        done = companion(root, "install", *WANTED, "--instance", name, "--game-dir", f"/srv/{name}")
        assert "server.port = 8090 is that of another server: " in done.errors
        install(root, "--instance", name, "--game-dir", f"/srv/{name}", "--port", port)
    assert (root / "etc/companion@alpha/companion.toml").exists()
    assert (root / "var/lib/companion@alpha").owner() == "games"
    assert (root / "etc/systemd/system/companion@alpha.service.d/install.conf").exists()
    template = root / "etc/systemd/system/companion@.service"
    assert not template.is_symlink()

    assert companion(root, "uninstall", "--yes", "-i", "alpha").status == 0
    assert template.exists()
    (root / "var/lib/companion@beta/home.json").write_text("{}")
    kept = companion(root, "uninstall", "--yes", "--purge", "-i", "beta")
    assert (kept.status, "no backup can be made" in kept.errors) == (1, True)
    (root / "var/lib/companion@beta/home.json").unlink()
    assert companion(root, "uninstall", "--yes", "--purge", "-i", "beta").status == 0
    assert not template.exists()
    assert (root / "etc/companion@alpha/companion.toml").exists()
    assert not (root / "etc/companion@beta").exists()
    assert (root / UNIT).exists()


def test_uninstall_keeps_what_is_needed_to_come_back(root: Path) -> None:
    install(root, *MAIL, typed="s3cret\n")
    (root / DROP_IN).write_text("# by hand\n")
    done = companion(root, "uninstall", "--yes")
    assert done.status == 0, done
    left = {name for name in contents(root) if (root / name).is_file()}
    assert left == {CONFIG, DROP_IN, "etc/companion/installed.json", "etc/companion/secrets/mail_password"}
    assert f"kept /{DROP_IN}: it was edited" in done.output
    assert (root / "var/lib/companion").is_dir()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["install"], "missing: --game-dir (the game server's folder, with ops.json"),
        (["install", "--game-dir", "/srv/x", "--user", "games"], "missing: --base-url (public address"),
        (["install", *WANTED, "--port", "high"], "--port high: this must be a whole number"),
        (["install", *WANTED, "--base-url", "a b"], "--base-url a b: this must be a web address"),
        (["install", *WANTED, "--user", "nobody-here"], 'there is no user "nobody-here"'),
        (["install", *WANTED, "--mail-port", "25"], "--mail-port needs --mail-host"),
        (["install", *WANTED, "--mail-host", "x"], "--mail-host needs --mail-sender"),
        (["install", *WANTED, "--config", "x"], "leave out --config"),
        (["uninstall"], "installed.json is missing"),
    ],
)
def test_mistakes_are_named(root: Path, arguments: list[str], sentence: str) -> None:
    done = companion(root, *arguments)
    assert done.status in (1, 2)
    assert sentence in done.errors
    assert not [*root.iterdir()]


def test_only_root_installs(root: Path) -> None:
    install(root, *MAIL, typed="s3cret\n")
    before = contents(root)
    os.seteuid(USER_ID)
    try:
        attempts = [companion(root, command) for command in INSTALL_COMMANDS]
        attempts.append(companion(root, "install", "--dry-run"))
    finally:
        os.seteuid(0)
    assert [done.status for done in attempts] == [1, 1, 1]
    told = "".join(done.errors for done in attempts)
    assert "only root can install it" in told
    assert "only root can uninstall it" in told
    assert "Permission denied" in told
    assert contents(root) == before


def test_a_broken_record_is_named(root: Path) -> None:
    install(root)
    (root / "etc/companion/installed.json").write_text("{")
    done = companion(root, "install", *WANTED)
    assert done.status == 1
    assert "installed.json is broken" in done.errors


def test_a_program_that_its_user_cannot_run(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "companion"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(InstallProblem, match=r"games cannot run .*/closed/companion \(Permission denied\)"):
        require_program_for("games", [str(program)])


def test_a_program_that_others_may_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The backup's unit and a reload run it as root."""
    program = tmp_path / "companion"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    assert (find_program("root", Path("/")), capsys.readouterr().out) == ([str(program)], "")
    os.chown(tmp_path, USER_ID, USER_ID)
    assert find_program("root", Path("/")) == [str(program)]
    assert f"warning: others than root may change {tmp_path}, " in capsys.readouterr().out


def test_a_filled_sample_sets_what_was_asked_for() -> None:
    values = {"server.port": 1, "mail.port": 2, "mail.password_file": "/x", "authme.columns": {"email": "mail"}}
    filled = tomllib.loads(fill_config(read_shipped("conf/companion.toml"), values))
    assert {section: keys for section, keys in filled.items() if keys} == {
        "server": {"port": 1},
        "mail": {"port": 2, "password_file": "/x"},
        "authme": {"columns": {"email": "mail"}},
    }


@pytest.mark.parametrize(
    ("white_list", "told"), [("false", "Approvals let nobody in"), ("true", "the game's allowlist")]
)
def test_without_authme_it_says_who_gets_in(root: Path, tmp_path: Path, white_list: str, told: str) -> None:
    """The list is found without a question; without it, the host is told what to do."""
    game = tmp_path / "game"
    game.mkdir()
    (game / "server.properties").write_text(f"white-list={white_list}\n")
    shown = install(root, "--game-dir", str(game)).output
    assert told in shown
    assert ("white-list=true" in shown) == (white_list == "false")
    assert (f"ReadWritePaths=-{game}\n" in (root / DROP_IN).read_text()) == (white_list == "true")
