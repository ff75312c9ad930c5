"""Every key that takes an address takes its spellings; what it cannot be is refused by name."""

from datetime import timedelta
from operator import attrgetter
from pathlib import Path

import pytest

from plugin_bridge.authme.config import AuthMeConfigError, read_authme_config
from plugin_bridge.server.files import read_server_properties
from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from regsvc.core.addresses import parse_game_address
from regsvc.database.engine import open_database
from tests.support.config_text import write

HOSTS = {
    "[::1]": "::1",
    "::1": "::1",
    "[2001:DB8::1]": "2001:db8::1",
    "localhost": "localhost",
    "LocalHost": "localhost",
    "Mail.Example.ORG.": "mail.example.org",
    " 192.0.2.7 ": "192.0.2.7",
    "mc_db": "mc_db",
    "spiel.Bücher.example": "spiel.xn--bcher-kva.example",
}
KEYS = ("server.host", "mail.host", "game.rcon_host", "authme.host")


@pytest.mark.parametrize("written", HOSTS)
@pytest.mark.parametrize("key", KEYS)
def test_a_host_may_be_written_in_any_way(key: str, written: str) -> None:
    assert attrgetter(key)(load_config(None, {}, {key: written})) == HOSTS[written]
    variable = f"COMPANION_{key.replace('.', '_')}".upper()
    assert attrgetter(key)(load_config(None, {variable: written})) == HOSTS[written]


@pytest.mark.parametrize("written", ["mail.example.org:465", "[::1]:465", "https://a.org", "a b", "[x]", "."])
@pytest.mark.parametrize("key", KEYS)
def test_what_belongs_to_another_key_is_refused(key: str, written: str) -> None:
    with pytest.raises(ConfigError, match="a name or an IP address alone; a port has a key of its own"):
        load_config(None, {}, {key: written})


@pytest.mark.parametrize("key", ["game.address", "bedrock.address"])
@pytest.mark.parametrize("port", ["", ":25566"])
def test_an_address_of_the_game_may_have_a_port(key: str, port: str) -> None:
    for written, host in {"[::1]": "::1", "localhost": "localhost", "Play.Example.org.": "play.example.org"}.items():
        config = load_config(None, {}, {key: written + port})
        assert parse_game_address(attrgetter(key)(config), 7) == (host, 25566 if port else 7)
    assert parse_game_address("2001:db8::1").host == "2001:db8::1"


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("HTTPS://Play.Example.ORG/mc/", "https://play.example.org/mc"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("http://localhost.:8080", "http://localhost:8080"),
        ("https://spiel.bücher.example", "https://spiel.xn--bcher-kva.example"),
    ],
)
def test_a_web_address_is_that_of_browsers(written: str, taken: str) -> None:
    config = load_config(None, {}, {"server.base_url": written, "webhook.url": f"{written.rstrip('/')}/Hook"})
    assert (config.server.base_url, config.webhook.url) == (taken, f"{taken}/Hook")


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://Play.Example.org/", "https://play.example.org"),
        ("https://play.example.org:443", "https://play.example.org"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_is_the_one_that_browsers_send(written: str, sent: str) -> None:
    assert load_config(None, {}, {"http.allowed_origins": [written]}).http.allowed_origins == (sent,)


def test_a_proxy_may_have_brackets_or_the_name_of_this_machine() -> None:
    config = load_config(None, {}, {"http.trusted_proxies": ["[::1]", "[fd00::]/8", "localhost", "10.0.0.1"]})
    assert [str(network) for network in config.http.trusted_proxies] == [
        *("::1/128", "fd00::/8", "127.0.0.0/8", "::1/128", "10.0.0.1/32")
    ]


@pytest.mark.parametrize(("written", "host"), [("[::1]", "::1"), ("DB.example.org.", "db.example.org.")])
def test_the_url_of_a_database_has_a_host_of_any_kind(written: str, host: str) -> None:
    database = open_database(f"mysql://alice:s3cret@{written}:3307/ours", timedelta(seconds=1))
    assert (database.connect_params["host"], database.connect_params["port"]) == (host, 3307)


@pytest.mark.parametrize(
    ("written", "host"),
    [
        *(("'[::1]'", "::1"), ("'::1'", "::1"), ("LOCALHOST", "localhost"), ("db.example.org.", "db.example.org")),
        *(("''", "localhost"), ("one,two", "one,two")),
    ],
)
def test_the_host_of_authmes_database_may_be_as_jdbc_wants_it(tmp_path: Path, written: str, host: str) -> None:
    """LuckPerms#4061: an IPv6 address needs brackets there."""
    file = write(
        tmp_path / "config.yml", f"DataSource:\n  backend: MYSQL\n  mySQLHost: {written}\nEmail:\n  mailSMTP: '[::1]'\n"
    )
    config = read_authme_config(file)
    assert (config.host, config.port, config.mail.host) == (host, 3306, "::1")


@pytest.mark.parametrize("written", ["localhost:3307", "'[::1]:1'", "jdbc:mysql://a", "alice:s3cret@localhost"])
def test_a_host_that_authme_cannot_reach_either_is_named(tmp_path: Path, written: str) -> None:
    file = write(tmp_path / "config.yml", f"DataSource:\n  backend: MARIADB\n  mySQLHost: {written}\n")
    with pytest.raises(AuthMeConfigError, match=r"DataSource\.mySQLHost must") as told:
        read_authme_config(file)
    assert "s3cret" not in str(told.value)
    write(file, file.read_text().replace("MARIADB", "SQLITE"))
    read_authme_config(file)


def test_an_address_in_the_games_own_file_may_have_brackets(tmp_path: Path) -> None:
    file = write(tmp_path / "server.properties", "server-ip=[::1]\nrcon.ip= [::1]\n")
    assert (read_server_properties(file).server_ip, read_server_properties(file).rcon_ip) == ("::1", "::1")
