"""`companion config`: one key of a config is shown or changed, and everything else in it stays as it is."""

import stat
import sys
import tomllib
from pathlib import Path

import pytest

from regsvc.cli.config_command import with_value
from regsvc.cli.shipped_files import read_shipped
from regsvc.config.key_types import keys_of, to_toml
from regsvc.config.layers import LISTED, SECTIONS
from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from tests.support.command_line import Finished, companion_here
from tests.support.daemon import clean_environment
from tests.support.quick_start import PROGRAM
from tests.support.terminal import Terminal

WRITTEN = """\
# Olivia's config; [server] is not a section here.
[server]
  port = 8080   # behind nginx # on this machine
announcement = '''
[mail]
#port = 1
port = 2
'''
languages = [
    "en",  # first
    "de",
]  # two
#theme = "default"
#accent = ""
[mail]
host = "a#b"
password = "s3cret"
[[game.server]]
name = "lobby"
[[game.server]]
name = "nether"
"""
CHANGES: list[tuple[str, object, str, str]] = [
    ("server.port", 81, "  port = 8080   #", "  port = 81   #"),
    ("server.languages", ["fr"], '[\n    "en",  # first\n    "de",\n]  # two', '["fr"]  # two'),
    ("server.announcement", "a\nb", "'''\n[mail]\n#port = 1\nport = 2\n'''", '"a\\nb"'),
    ("server.theme", "ocean", '#theme = "default"', 'theme = "ocean"'),
    ("server.name", "Test", "]  # two\n", ']  # two\nname = "Test"\n'),
    ("server.port", None, "  port = 8080   #", "  #port = 8080   #"),
    ("mail.host", "c", '"a#b"', '"c"'),
    ("mail.password_file", "file", 'password = "s3cret"', 'password_file = "file"'),
    ("mail.port", 25, 'password = "s3cret"\n', 'password = "s3cret"\nport = 25\n'),
    ("game.server.2.name", "hub", 'name = "nether"', 'name = "hub"'),
    ("game.server.1.rcon_port", 25576, 'name = "lobby"\n', 'name = "lobby"\nrcon_port = 25576\n'),
    ("log.level", "debug", 'name = "nether"\n', 'name = "nether"\n\n[log]\nlevel = "debug"\n'),
    ("downloads.map.name", "Map", 'name = "nether"\n', 'name = "nether"\n\n[downloads.map]\nname = "Map"\n'),
]


@pytest.mark.parametrize(("key", "value", "old", "new"), CHANGES, ids=[f"{key}={value}" for key, value, *_ in CHANGES])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
def test_only_the_lines_of_the_key_change(key: str, value: object, old: str, new: str, ends: str) -> None:
    assert WRITTEN.count(old) == 1
    before, after = (text.replace("\n", ends) for text in (WRITTEN, WRITTEN.replace(old, new)))
    assert with_value(before, key, value) == after
    assert with_value(f"\ufeff{before}", key, value) == f"\ufeff{after}"
    assert with_value(after, key, value) == after


@pytest.mark.parametrize(
    ("text", "key", "sentence"),
    [
        ("server.port = 80\n", "server.port", "line 1 of the config: server.port is written in a way"),
        ("\nserver = {port = 80}\n", "server.port", "line 2 of the config: server.port is written in a way"),
        ("[server]\n\n'port' = 80\n", "server.port", "line 3 of the config: server.port is written in a way"),
        ('[server]\nlinks.Map = "/map"\n', "server.links", "line 2 of the config: server.links is written in a way"),
        ("server = 1\n", "server.port", "server is no section: change it by hand"),
    ],
)
def test_what_is_written_in_another_way_is_left(text: str, key: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        with_value(text, key, 81 if key == "server.port" else {"Shop": "/shop"})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The shipped sample, which sets no key."""
    file = tmp_path / "companion.toml"
    file.write_text(read_shipped("conf/companion.toml"))
    file.chmod(0o640)
    return file


def lines_of(file: Path) -> set[str]:
    """Return the lines of the file that the sample does not have."""
    return set(file.read_text().splitlines()) - set(read_shipped("conf/companion.toml").splitlines())


def run(config: Path, *words: str, typed: str = "") -> Finished:
    return companion_here("config", *words, config=config, typed=typed)


def test_values_are_typed_as_people_write_them(config: Path) -> None:
    for key, value in (
        ("mail.host", "smtp.example.org"),
        ("mail.backend", "smtp"),
        ("server.theme", '"ocean"'),
        ("server.links", "My Map=https://map.example.org,Shop=/shop"),
        ("registration.open", "false"),
        ("registration.limits_total", "500 per hour, 900 per day"),
    ):
        assert run(config, "set", key, value).status == 0, key
    assert lines_of(config) == {
        'host = "smtp.example.org"',
        'backend = "smtp"',
        'theme = "ocean"',
        'links = {"My Map" = "https://map.example.org", Shop = "/shop"}',
        "open = false",
        'limits_total = ["500 per hour", "900 per day"]',
    }
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert run(config, "get", "registration.limits_total").output == '["500 per hour", "900 per day"]\n'
    assert run(config, "get", "mail.port").output == "587\n"
    assert "it takes effect on SIGHUP" in run(config, "unset", "server.theme").output
    assert "it takes effect at the next start" in run(config, "set", "mail.port", "2525").output
    assert "mail.port is so already" in run(config, "set", "mail.port", "2525").output
    odd = 'warning: mail.port is 465 and mail.security "starttls": on that port almost all mail servers want "tls"'
    assert odd in run(config, "set", "mail.port", "465").output


def test_quotes_and_line_ends_are_no_part_of_a_value_unless_they_are_doubled(config: Path) -> None:
    told = "warning: the quotes around it are left out"
    done = run(config, "set", "game.operators", "-", typed='"Olivia;Ben"\r\n')
    assert (lines_of(config), told in done.output) == ({'operators = ["Olivia", "Ben"]'}, True)
    done = run(config, "set", "metrics.token", "-", typed="'s3cret'")
    assert ('token = "s3cret"' in lines_of(config), told in done.output) == (True, True)
    assert run(config, "set", "metrics.token", "-", typed="''s3cret''").status == 0
    assert load_config(config, {}).metrics.token == "'s3cret'"
    assert "s3cret" not in done.output


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("server.prot", "80", '[server] has no key "prot"; did you mean "port"?'),
        ("sever.port", "80", 'there is no section [sever]; did you mean "server"?'),
        ("nam", "80", 'a key is written with its section, such as server.name; no section has "nam".'),
        ("port", "80", "written with its section: server.port or authme.port or mail.port."),
        ("server.port", "high", '[server] port = "high": this must be a whole number'),
        ("mail.backend", "smtp", "it needs a mail server; set mail.host"),
        (
            "game.server.2.name",
            "x",
            "there is no [[game.server]] #2 in the config: add it by hand",
        ),
    ],
)
def test_a_mistake_changes_nothing(config: Path, key: str, value: str, sentence: str) -> None:
    before = config.read_text()
    done = run(config, "set", key, value)
    assert (done.status, sentence in done.errors) == (78, True), done
    assert config.read_text() == before


def test_a_broken_config_is_mended_key_by_key(config: Path) -> None:
    config.write_text("[server]\nport = 80000\n[mail]\nport = 'x'\n")
    done = run(config, "set", "server.port", "8081")
    assert (done.status, "warning: " in done.output, "[mail] port" in done.output) == (0, True, True), done
    assert "warning" not in run(config, "unset", "mail.port").output
    assert config.read_text() == "[server]\nport = 8081\n[mail]\n#port = 587\n"


def test_a_key_that_is_set_in_vain_is_named_once(config: Path) -> None:
    config.write_text("[server]\nport = 8081\n[captcha]\nlength = 5\n")
    done = run(config, "set", "server.name", "Willow")  # moves the other key to the next line
    assert (done.status, "warning" in done.output) == (0, False), done
    done = run(config, "set", "mail.port", "465")
    assert done.output.count("warning: ") == 1
    assert f"warning: {config}, line 8: [mail] port has no effect: it needs mail.host.\n" in done.output
    assert "has no effect" not in run(config, "set", "mail.host", "smtp.example.org").output


def test_secrets_are_not_taken_from_the_command_line(config: Path) -> None:
    done = run(config, "set", "mail.password", "s3cret")
    assert (done.status, "companion config set mail.password - < FILE" in done.errors) == (2, True), done
    assert lines_of(config) == set()
    done = run(config, "set", "mail.password", "-", typed="s3cret\n")
    assert (done.status, "s3cret" in done.output) == (0, False), done
    assert lines_of(config) == {'password = "s3cret"'}
    assert run(config, "get", "mail.password").output == "(a secret)\n"
    assert run(config, "set", "mail.username").status == 2  # nobody could type it
    secret = config.with_name("password")
    secret.write_text("another")
    secret.chmod(0o600)
    assert run(config, "set", "mail.password_file", str(secret)).status == 0
    assert lines_of(config) == {f'password_file = "{secret}"'}


SECRETS = {
    "database.url": "mysql://companion:s3cret@db.example.org/companion",
    "auth.installation_key": "an installation key that is long enough",
    "auth.signing_key": "a signing key that is long enough, too",
    "auth.previous_keys": "a former signing key that is long enough,another former key that is long enough",
    "webhook.url": "https://hooks.example.org/s3cret",
    "webhook.secret": f"whsec_{'c2VjcmV0' * 4}",
    "webhook.2.url": "https://other.example.org/s3cret",
}
"""Values of secrets that any other text cannot be."""
GAME_SERVER = '[[game.server]]\nname = "{}"\nrcon_host = "10.0.0.1"'
TEAM_CHAT = '[[team_chat]]\nplatform = "telegram"\nchannel = "{}"'
LISTED_HEADERS = {
    "game.server.2": (GAME_SERVER.format("lobby"), GAME_SERVER.format("nether")),
    "team_chat.2": (TEAM_CHAT.format("-1"), TEAM_CHAT.format("-2")),
    "webhook.2": ("[[webhook]]", "[[webhook]]"),
}


def every_secret() -> list[str]:
    """Return all keys for secrets as `companion config` names them, of sections of which there are many the second."""
    listed = {f"{name}.2": declaring for name, declaring in LISTED.items()}
    return [
        f"{section}.{name}"
        for section, declaring in {**SECTIONS, **listed}.items()
        for name, key in keys_of(declaring).items()
        if key.is_secret
    ]


def test_every_kind_of_secret_is_walked() -> None:
    some = {"mail.password", "mail.http_key", "metrics.token", "team_chat.2.token", "webhook.secret", "webhook.2.url"}
    some |= {"game.rcon_password", "game.server.2.rcon_password", "chat.client_secret", "database.url"}
    assert some | {"authme.password", "auth.installation_key", "questionnaire.scorer_key"} <= {*every_secret()}
    assert {*SECRETS} <= {*every_secret()}


@pytest.mark.parametrize("key", every_secret())
def test_a_secret_that_is_in_a_file_is_set_there(key: str, config: Path) -> None:
    """The config stays as it is, and so do owner and mode, but that others may read it no more."""
    section, _dot, name = key.rpartition(".")
    headers = "\n\n".join(LISTED_HEADERS.get(section, [f"[{section}]"]))
    config.write_text(f"# by Olivia\n{headers}\n{name}_file = 'secrets/it' # {name}\n")
    secret = config.parent / "secrets" / "it"
    secret.parent.mkdir()
    before, value = config.read_text(), SECRETS.get(key, "n3w-s3cret")
    written = value.replace(",", "\n") if key == "auth.previous_keys" else value
    for mode, left in ((0o400, 0o400), (0o644, 0o640)):
        secret.write_text("the old one\n")
        secret.chmod(mode)
        done = run(config, "set", key, "-", typed=f"{value}\n")
        assert (done.status, done.output.splitlines()[0]) == (0, f"{secret}: {key} = …"), done
        assert secret.read_text() == f"{written}\n"
        assert stat.S_IMODE(secret.stat().st_mode) == left
        assert config.read_text() == before
    shown = run(config, "get", key)
    assert shown.output == f"(a secret, in {secret})\n"
    secret.unlink()
    assert run(config, "set", key, "-", typed=value).status == 0, "systemd, or Olivia, may have removed it"
    assert stat.S_IMODE(secret.stat().st_mode) == stat.S_IMODE(config.stat().st_mode) & 0o640

    config.write_text(config.read_text() + f"{name} = {to_toml(['x'] if 'keys' in name else 'x')}\n")  # in both ways
    assert run(config, "set", key, "-", typed=value).status == 0
    assert config.read_text() == before.replace("'", '"')
    done = run(config, "unset", key)
    if section in ("team_chat.2", "game.server.2"):
        assert (done.status, f"[[{section[:-2]}]] #2" in done.errors) == (78, True), "it cannot do without"
        return
    assert (done.status, f"{secret} still has the secret: remove it" in done.output) == (0, True), done
    assert tomllib.loads(config.read_text()) == tomllib.loads(before.replace(f"{name}_file", "#"))
    assert f"{name}_file" not in config.read_text()
    assert value not in done.output + shown.output


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "cannot be empty; to go without the secret: companion config unset mail.password"),
        ("changeme", "this is a well-known placeholder"),
        ("\udcff\udcfe", "the value of mail.password is not UTF-8 text; nothing was changed"),
        ("s3cret", "cannot be written (Is a directory); nothing was changed"),
    ],
)
def test_a_secret_that_cannot_be_written_stays(typed: str, sentence: str, config: Path) -> None:
    config.write_text('[mail]\npassword_file = "it"\n')
    before, secret = config.read_text(), config.with_name("it")
    if typed == "s3cret":
        secret.mkdir()
    else:
        secret.write_text("the old one\n")
        secret.chmod(0o600)
    done = run(config, "set", "mail.password", "-", typed=typed)
    assert (done.status, sentence in done.errors) == (78, True), done
    assert config.read_text() == before
    assert secret.is_dir() or secret.read_text() == "the old one\n"
    assert {path.name for path in config.parent.iterdir()} == {config.name, "it"}


def test_a_secret_whose_file_is_not_there_yet_is_asked_for(config: Path) -> None:
    done = run(config, "set", "mail.password_file", "it")
    assert (done.status, f"there is no {config.with_name('it')} yet" in done.output) == (0, True), done


def test_a_variable_that_hides_the_key_is_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANION_MAIL_PASSWORD", "another")
    done = run(config, "set", "mail.password", "-", typed="s3cret")
    assert "the environment variable COMPANION_MAIL_PASSWORD is set here, and counts instead" in done.output


def test_olivia_types_a_secret_on_a_terminal(config: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--config", str(config), "config", "set", "mail.password"]
    with Terminal(command, clean_environment()) as terminal:
        terminal.answer("mail.password (not shown): ", "s3cret")
        assert terminal.wait() == 0, terminal.shown
    assert "s3cret" not in terminal.shown
    assert lines_of(config) == {'password = "s3cret"'}
