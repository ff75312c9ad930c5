"""Loading the config: typed values, and a sentence with source and remedy for every mistake."""

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from regsvc.config.key_types import keys_of
from regsvc.config.layers import SECTIONS
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.core.units import ChangeLimit, RateLimit
from tests.support.certificate import make_certificate
from tests.support.config_text import Load, loader, problems, write
from tests.support.each import assert_each


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return loader(tmp_path)


# --- values ---


def test_without_a_file_everything_is_at_its_default() -> None:
    config = load_config(None, {})
    assert replace(config, server=Config().server, mail=Config().mail) == Config()
    assert config.server.state_dir == Path("var").absolute()
    assert config.mail.folder == Path("var/mail").absolute()
    assert config.server.port == 8080
    assert config.verification.code_valid == timedelta(minutes=5)
    assert config.auth.login_limits == (RateLimit(5, timedelta(minutes=1)),)
    assert config.sync.max_changes == ChangeLimit(20, 5)
    assert config.http.max_body == 65_536
    assert config.mail.templates is None
    assert config.warnings == ()


def test_the_file_is_read_into_typed_values(load: Load) -> None:
    config = load(
        """
        [server]
        host = "0.0.0.0"
        base_url = "https://play.example.org/"
        [http]
        trusted_proxies = ["10.0.0.0/8", "::1"]
        status_limit = []
        [game]
        rcon = false
        on_ban = "ban"
        [authme]
        backend = "mysql"
        columns.email = "mail"
        columns.salt = ""
        [registration]
        methods = ["email", "captcha"]
        email_domains = ["Bücher.Example"]
        [verification]
        limits_total = ["2 per hour"]
        """
    )
    assert config.server.base_url == "https://play.example.org"
    assert config.http.trusted_proxies == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))
    assert config.http.status_limit == ()
    assert config.game.rcon is False
    assert config.authme.overrides == {"backend": "MYSQL", "columns": {"email": "mail", "salt": ""}}
    assert config.registration.methods == ("email", "captcha")
    assert config.registration.email_domains == ("xn--bcher-kva.example",)
    assert config.verification.limits_total == (RateLimit(2, timedelta(hours=1)),)


def test_downloads_are_a_table_of_tables(load: Load) -> None:
    config = load(
        '[downloads.client]\nname = "Client"\nurl = "/files/client.zip"\n[downloads.map]\nname="Map"\nurl="/m"'
    )
    assert list(config.downloads) == ["client", "map"]
    assert config.downloads["client"].url == "/files/client.zip"


def test_further_game_servers_are_an_array_of_tables(tmp_path: Path, load: Load) -> None:
    write(tmp_path / "console", "the console's password\n")
    config = load(
        """
        [[game.server]]
        name = "survival"
        directory = "servers/survival"
        [[game.server]]
        name = "skyblock"
        rcon_host = "[2001:db8::7]"
        rcon_password_file = "console"
        [game]
        name = "lobby"
        """
    )
    survival, skyblock = config.servers
    assert (survival.name, survival.directory) == ("survival", tmp_path / "servers/survival")
    assert (skyblock.rcon_host, skyblock.rcon_password) == ("2001:db8::7", "the console's password")
    assert config.game_servers == {"": config.game, "survival": survival, "skyblock": skyblock}
    assert "the console's password" not in repr(config)
    [warning] = config.warnings
    assert warning.startswith(f"the game server survival: there is no folder {tmp_path}/servers/survival")


def test_a_byte_order_mark_is_accepted(load: Load) -> None:
    assert load("\ufeff[server]\nport = 9000\n").server.port == 9000


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "companion.toml", "[server]\nport = 1\nname = 'file'\nhost = '::1'\n")
    environ = {"COMPANION_SERVER_PORT": "2", "COMPANION_SERVER_NAME": "environment"}
    server = load_config(file, environ, {"server.port": 3}).server
    assert (server.port, server.name, server.host) == (3, "environment", "::1")


def test_the_environment_sets_every_kind_of_value() -> None:
    config = load_config(
        None,
        {
            "COMPANION_HTTP_LEGACY_STATUS": "true",
            "COMPANION_GAME_RCON": "false",
            "COMPANION_AUTHME_ENABLED": "auto",
            "COMPANION_HTTP_TRUSTED_PROXIES": "10.0.0.1, 10.0.0.2",
            "COMPANION_AUTH_LOGIN_LIMITS": '["5 per minute", "50 per day"]',
            "COMPANION_VERIFICATION_LIMITS_TOTAL": "",
            "COMPANION_AUTHME_COLUMNS_LAST_LOGIN": "seen",
            "COMPANION_DOWNLOADS_MY_CLIENT_NAME": "Client",
            "COMPANION_DOWNLOADS_MY_CLIENT_URL": "/client.zip",
            "COMPANION_TEST_COMMIT_HOOK": "the config leaves test hooks alone",
            "PATH": "/bin",
        },
    )
    assert config.http.legacy_status is True
    assert config.game.rcon is False
    assert config.authme.enabled == "auto"
    assert config.http.trusted_proxies == (ipaddress.ip_network("10.0.0.1"), ipaddress.ip_network("10.0.0.2"))
    assert [str(limit) for limit in config.auth.login_limits] == ["5 per minute", "50 per day"]
    assert config.verification.limits_total == ()
    assert config.authme.columns == {"last_login": "seen"}
    assert config.downloads["my_client"].name == "Client"


def test_columns_from_the_environment_join_those_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "companion.toml", '[authme.columns]\nemail = "mail"\nip = "address"\n')
    config = load_config(file, {"COMPANION_AUTHME_COLUMNS_IP": "ip_address"})
    assert config.authme.columns == {"email": "mail", "ip": "ip_address"}


def test_every_key_can_be_given_by_the_environment() -> None:
    for section, declaring in SECTIONS.items():
        for name, key in keys_of(declaring).items():
            if isinstance(key.default, str | int):
                written = str(key.default).lower() if isinstance(key.default, bool) else str(key.default)
                environ = {f"COMPANION_{section}_{name}".upper(): written}
                assert load_config(None, environ) == load_config(None, {}), environ


# --- layers ---


def test_files_of_the_game_are_found_from_its_directory() -> None:
    config = load_config(None, {}, {"game.directory": "/srv/game"})
    assert config.game.ops_path == Path("/srv/game/ops.json")
    assert config.game.server_properties_path == Path("/srv/game/server.properties")
    assert config.authme_config_path == Path("/srv/game/plugins/AuthMe/config.yml")
    assert Config().game.ops_path is None
    assert Config().authme_config_path is None


@pytest.mark.parametrize(
    ("server", "bound_port", "address"),
    [
        ({}, None, "http://127.0.0.1:8080"),
        ({"port": 0}, 40123, "http://127.0.0.1:40123"),
        ({"host": "::1"}, None, "http://[::1]:8080"),
        ({"host": "0.0.0.0"}, None, "http://localhost:8080"),
        ({"base_url": "https://play.example.org"}, 40123, "https://play.example.org"),
    ],
)
def test_the_address_of_links_is_made_from_host_and_port(
    server: Mapping[str, object], bound_port: int | None, address: str
) -> None:
    overrides = {f"server.{name}": value for name, value in server.items()}
    assert load_config(None, {}, overrides).base_url(bound_port) == address


# --- invalid values ---


def test_a_mistake_is_refused_with_its_place_and_what_to_do(load: Load) -> None:
    """Some more than in wrong_configs.txt, of whose sentences the tests beside it compare every word."""

    def check(case: tuple[str, str]) -> None:
        text, expected = case
        message = problems(lambda: load(text))
        assert expected in message
        assert message.endswith(".")

    assert_each(
        [
            ("[server]\nport = true", "companion.toml: [server] port = true: this must be a whole number"),
            ("[server]\nname = 5", "[server] name = 5: this must be text in quotes"),
            ('[server]\nname = "two\\nlines"', "one line without control characters"),
            ('[server]\nbase_url = "http://host:port"', "this must be a web address"),
            ('[server]\nlogo_url = "javascript:alert(1)"', "this must be a web address"),
            ('[http]\ntrusted_proxies = ["10.0.0.1/8"]', "has host bits set"),
            ('[http]\nallowed_origins = ["*"]', "this must be only scheme and host"),
            ('[authme]\ntable = "authme; drop table"', "letters, digits and underscores"),
            ('[authme.columns]\nusername = ""', "letters, digits and underscores"),
            ('[authme.columns]\nusername = "a`b"', "letters, digits and underscores"),
            ('[registration]\nmethods = ["email", "email"]', "this must not contain anything twice"),
            ("[server]\nrcon = true", '[server] has no key "rcon"; it belongs to [game].'),
            ("[log]\nxyzzy = 1", '[log] has no key "xyzzy"; the keys are level, format.'),
            ("port = 8080", "port is above all headers; write it below [server] or [authme] or [mail]."),
            ("[downloads]\nclient = 1", "downloads.client must be a section"),
            ('[downloads."a b"]\nname = "x"', "the id of a download consists of letters"),
            ('[database]\nurl = "mysql://a:b@host:port/name"', "[database] url: write"),
            ('[database]\nurl = "mysql://a:b@host"', "[database] url: write"),
            ('[database]\nurl = "mysql://a:12/b@host/name"', "(percent-encode special characters in the password"),
            ('[database]\nurl = "sqlite://"', "[database] url: write"),
            ('[registration]\nemail_domains = ["a.org"]\nblocked_email_domains = ["A.org"]', "a.org is in"),
            ('[chat]\nplatform = "custom"\nclient_id = "a"\nclient_secret = "b"', "it needs chat.authorize_url and"),
            (
                '[chat]\nplatform = "discord"\nclient_id = "a"\nclient_secret = "b"\nrole_ids = ["1"]',
                "set chat.guild_id",
            ),
            ('[membership]\nrole_ids = ["1"]', 'accounts on Discord have roles; set chat.platform = "discord"'),
            ('[membership]\nrole_ids = ["1"]', "a role belongs to a guild; set chat.guild_id too"),
            ('[membership]\nrole_ids = ["1"]', "a bot looks at roles; set chat.bot_token"),
            ('[chat]\ngive_role_id = "1"', "a bot looks at roles; set chat.bot_token"),
            ('[membership]\nrole_ids = ["1"]\n[chat]\ngive_role_id = "1"', "who loses it would be given it again"),
        ],
        check,
    )


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "companion.toml"
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in problems(lambda: load_config(file, {}))
    assert "cannot be read (Is a directory)" in problems(lambda: load_config(tmp_path, {}))


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    file = write(tmp_path / "companion.toml", '[server]\nport = -1\n[mail]\nbackend = "smtp"\n[http]\nnonsense = 1\n')
    expected = problems(lambda: load_config(file, {"COMPANION_LOG_LEVEL": "loud"})).splitlines()
    assert len(expected) == 4
    assert 'environment variable COMPANION_LOG_LEVEL: [log] level = "loud": ' in "\n".join(expected)


@pytest.mark.parametrize(
    "variable",
    [
        "COMPANION_GAME_SERVER_1_RCON_PASSWORD",
        "COMPANION_FOO",
        "COMPANION_MAIL_HOSTT",
        "COMPANION_SERVER",
        "COMPANION_DOWNLOADS_X",
    ],
)
def test_an_unknown_variable_is_refused_without_its_value(variable: str) -> None:
    expected = problems(lambda: load_config(None, {variable: "hunter2"}))
    assert expected.startswith(f"environment variable {variable}")
    assert "hunter2" not in expected


def test_an_unknown_override_is_refused() -> None:
    assert "command line: [game] has no key" in problems(lambda: load_config(None, {}, {"game.dir": "/srv"}))


# --- rules between keys ---


def test_what_does_go_together_is_accepted(tmp_path: Path, load: Load) -> None:
    texts = [
        '[database]\nurl = "sqlite:///var/companion.db"',
        '[database]\nurl = "mysql://a:p%40ss@127.0.0.1:3307/name"',
        '[questionnaire]\nfile = "questions.toml"\nscorer_url = "http://127.0.0.1:9000/score"',
        '[chat]\nplatform = "discord"\nclient_id = "a"\nclient_secret = "b"',
        '[mail]\nbackend = "smtp"\nhost = "127.0.0.1"\nport = 2525\nsecurity = "none"',
        '[mail]\nhost = "127.0.0.1"\nsender = "Example Server <noreply@example.org>"',
        '[mail]\nhost = "127.0.0.1"\nadmins = ["olivia@example.org"]',
        '[webhook]\nurl = "https://hooks.example.org/token"\nsecret = "whsec_AAECAw=="',
        '[webhook]\nurl = "http://127.0.0.1:9000/token"\nallow_private = true',
        "[registration]\npassword_regex = '^(?=.*[A-Z])(?=.*[0-9]).{8,}$'",
        "[registration]\nusername_regex = '^(?:[A-Za-z0-9]_?){3,16}$'",
        '[game]\nrcon = true\nrcon_password = "a-long-secret"',
    ]

    def check(text: str) -> None:
        assert load(text).warnings == ()

    write(tmp_path / "questions.toml", "")
    assert_each(texts, check)


def test_certificate_and_key_come_together_and_the_key_is_private(tmp_path: Path, load: Load) -> None:
    made = make_certificate(tmp_path)
    certificate, private_key = made.certificate_file, made.key_file
    private_key.chmod(0o644)
    both = f'[server]\ntls_cert_file = "{certificate}"\ntls_key_file = "{private_key}"\n'
    assert "set server.tls_key_file too" in problems(lambda: load(both.split("tls_key_file")[0]))
    assert f"chmod 600 {private_key}" in problems(lambda: load(both))
    private_key.chmod(0o600)
    assert load(both).base_url() == "https://127.0.0.1:8080"
    write(private_key, "not a key")
    assert "must hold a certificate and its key" in problems(lambda: load(both))
    private_key.unlink()
    assert f"there is no file {private_key}" in problems(load(both).require_secrets)


def test_a_bad_value_is_not_followed_by_rules_about_its_default(load: Load) -> None:
    expected = problems(lambda: load('[auth]\nadmin_token = "soon"\nadmin_idle = "20 hours"\n'))
    assert len(expected.splitlines()) == 1
