"""What a host may answer to the questions of `companion install`, and what follows from it."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from regsvc.cli import command_line
from regsvc.cli.install.changes import InstallRecord
from regsvc.cli.install.collecting import Collector, Terminal
from regsvc.cli.install.settings import Settings, list_steps, list_targets
from regsvc.config.places import SystemPlaces

Ask = Callable[..., Settings]
CONFIG = Path("/etc/companion/companion.toml")
START = ("/srv/minecraft", "daemon", "play.example.net", "8090")
END = ("", "")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Give these answers, all of which are asked for, to a host's questions for another system in an empty folder."""

    def ask(
        *answers: str,
        options: tuple[str, ...] = (),
        secrets: tuple[str, ...] = (),
        record: InstallRecord | None = None,
    ) -> Settings:
        typed, hidden = iter(answers), iter(secrets)
        monkeypatch.setattr("builtins.input", lambda question: print(question) or next(typed))
        monkeypatch.setattr("getpass.getpass", lambda question: next(hidden))
        args = command_line.parse(["install", "--root", str(tmp_path), *options])
        settings = Collector(args, tmp_path, Terminal()).collect(record)
        assert [*typed, *hidden] == []
        return settings

    return ask


def config_of(settings: Settings) -> set[str]:
    """Return the lines of the config that the sample does not have."""
    [config] = [target for target in list_targets(settings, ["/x"], Path("/"), None) if target.path == CONFIG]
    assert config.content is not None
    assert config.sample is not None
    return set(config.content.splitlines()) - set(config.sample.splitlines())


@pytest.mark.parametrize(
    "answers",
    [("",), ("later",), ("smtp.example.net", "later"), ("smtp.example.net", "", "", "later"), ("http", "LATER")],
    ids=" ".join,
)
def test_mail_may_come_later(ask: Ask, answers: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Until then nobody fills in a form in vain, and the doctor has nothing to call broken."""
    settings = ask(*START, *answers, *END, options=("--instance", "lobby"))
    assert settings.values["registration.open"] is False
    assert not [key for key in settings.values if key.startswith("mail.")]
    said = capsys.readouterr().out
    assert "companion -i lobby install --mail-host HOST --mail-sender ADDRESS" in said
    assert ": companion -i lobby config set registration.open true" in said


def test_mail_may_be_replaced_by_a_captcha(ask: Ask) -> None:
    assert {'methods = ["captcha"]', 'backend = "off"'} <= config_of(ask(*START, "captcha", *END))


def test_words_are_words_in_any_case_and_no_mail_servers(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ask(*START, "AuthMe", "Captcha", *END)
    assert (settings.values["registration.methods"], "mail.host" in settings.values) == (["captcha"], False)
    assert "AuthMe has no mail account" in capsys.readouterr().out


def test_mail_may_be_sent_by_a_service(ask: Ask) -> None:
    settings = ask(*START, "http", "pigeon", "generic", "resend", "", "", *END, secrets=("", "a-key"))
    assert {
        'backend = "http"',
        'http_provider = "resend"',
        'http_key_file = "/run/credentials/companion.service/secrets_mail_key"',
        'sender = "noreply@play.example.net"',
    } <= config_of(settings)
    assert "a-key" not in str(config_of(settings))


def test_authmes_account_is_the_default(ask: Ask, tmp_path: Path) -> None:
    authme = tmp_path / "plugins/AuthMe"
    authme.mkdir(parents=True)
    (authme / "config.yml").write_text("Email:\n  mailAccount: a@example.net\n  mailPassword: s3cret\n")
    settings = ask(str(tmp_path), *START[1:], "", *END)
    assert not {"registration.open", "mail.host", "mail.backend"} & settings.values.keys()


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("play.example.net", "https://play.example.net"),
        ("play.example.net:8443/mc", "https://play.example.net:8443/mc"),
        ("localhost:8090", "http://localhost:8090"),
        ("203.0.113.7", "http://203.0.113.7"),
        ("http://play.example.net", "http://play.example.net"),
    ],
)
def test_an_address_gets_its_scheme(ask: Ask, typed: str, taken: str) -> None:
    assert ask(*START[:2], typed, "8090", "later", *END).values["server.base_url"] == taken


def test_back_begins_again_with_what_was_typed(ask: Ask) -> None:
    settings = ask(*START, "smtp.example.net", "back", *[""] * 4, "", "465", "", "", "", "", *END)
    assert settings.values["server.port"] == 8090
    expected = {"host": "smtp.example.net", "port": 465, "security": "tls", "sender": "noreply@play.example.net"}
    assert {f"mail.{key}": value for key, value in expected.items()}.items() <= settings.values.items()


def test_a_port_of_another_server_or_of_root_is_asked_for_again(ask: Ask, tmp_path: Path) -> None:
    other = tmp_path / "etc/companion@other/companion.toml"
    other.parent.mkdir(parents=True)
    other.write_text("[server]\nport = 8091\n")
    assert ask(*START[:3], "8091", "443", "0", "8090", "later", *END).values["server.port"] == 8090


def test_a_purged_installation_gets_its_backups_back(ask: Ask, tmp_path: Path) -> None:
    """A purge takes the units' lines and the timer, and its config may come back."""
    config = tmp_path / "etc/companion/companion.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[server]\nbase_url = "https://play.example.net"\n[game]\ndirectory = "/srv/minecraft"\n')
    assert ask("daemon", "").has_backups
    (tmp_path / "etc/systemd/system/companion.service.d").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/companion.service.d/install.conf").touch()
    assert ask("daemon", "").has_backups  # one that was killed before it wrote what it had done
    declined = InstallRecord("daemon", unfinished={}, has_backups=False)
    assert ask(record=declined).has_backups is False
    assert ask(record=InstallRecord("daemon")).has_backups is None


def test_backups_may_be_declined(ask: Ask) -> None:
    assert ask(*START, "later", *END).has_backups
    assert not ask(*START, "later", "", "n").has_backups
    assert ask(*START, "later", "", options=("--no-backup",)).has_backups is False


AUTHME_AS_NEW = """\
DataSource: {caching: true}
settings: {restrictions: {kickNonRegistered: false}, sessions: {enabled: true}}
"""
AUTHME_DONE = """\
DataSource: {caching: false}
settings: {registration: {enabled: false}, restrictions: {kickNonRegistered: true}, sessions: {enabled: true}}
"""


def test_what_is_left_to_the_host_is_a_short_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is seen to be done; the name of the address is looked up."""
    known: list[str] = []

    def look_up(host: str, port: object) -> list[object]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [host]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    authme = tmp_path / "plugins/AuthMe"
    authme.mkdir(parents=True)
    (authme / "config.yml").write_text(AUTHME_AS_NEW)
    (tmp_path / "server.properties").write_text("enable-rcon=true\n")
    values = {"game.directory": str(tmp_path), "server.base_url": "https://play.example.net"}
    places = SystemPlaces("companion@lobby")

    def left(**more: object) -> list[str]:
        return list_steps(Settings(places, "mc", values | more))

    samples = "Caddyfile; or nginx-http.conf, then nginx.conf"
    web = f"web server: use a sample in /etc/companion@lobby/proxy ({samples}), so that"
    assert left(**{"registration.open": False}) == [
        "DNS: play.example.net is not known; let it point to this machine",
        f"{web} https://play.example.net leads here",
        f"{authme}/config.yml: DataSource.caching: false, settings.registration.enabled: false, "
        "settings.restrictions.kickNonRegistered: true, settings.sessions.enabled: false",
        f"{tmp_path}/server.properties: enable-rcon=true and a long rcon.password, its port blocked",
        "registration is closed; to open it: companion -i lobby config set registration.open true",
    ]
    known.append("play.example.net")
    (authme / "config.yml").write_text(AUTHME_DONE)
    (tmp_path / "server.properties").write_text("enable-rcon=true\nrcon.password=long-enough-for-anyone\n")
    assert left(**{"server.tls_cert_file": "/etc/ssl/own.pem"}) == []
    values["server.base_url"] = "http://127.0.0.1:8080"
    (authme / "config.yml").unlink()
    authme.rmdir()
    [gate] = left()
    assert "white-list=true" in gate
