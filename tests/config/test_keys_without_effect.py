"""Keys that a host sets in vain, because of another key or of their place: each is named, with what it needs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from plugin_bridge.authme.config import MailAccount
from regsvc.config.host_sections import GameServer
from regsvc.config.key_types import (
    ANY_CONSOLE,
    AUTHME,
    AUTHME_ON_SERVER,
    DATABASE_SERVER,
    MAIL,
    OWN_CONSOLE,
    TRUSTED_PROXIES,
    AnyOf,
    Key,
    Needs,
    NeedsFact,
    NeedsHigher,
    NeedsItem,
    NeedsWithout,
    Requirement,
    keys_of,
    needs_of,
)
from regsvc.config.layers import LISTED, SECTIONS
from regsvc.config.loader import load_config
from regsvc.config.sections import Config, Download
from regsvc.notifications.mail.backends import SmtpBackend, make_mail_backend
from tests.support.certificate import make_certificate
from tests.support.config_text import problems, write
from tests.support.daemon import to_toml
from tests.support.each import assert_each

Settings = dict[str, Any]
"""TOML values by "section.key"."""

CANDIDATES = (
    *(
        "x",
        "https://play.example.org/x",
        "3 per hour",
        "20 seconds",
        "8 days",
        "20 and 9%",
        "#123456",
        "127.0.0.1",
        "A.b",
        "olivia@example.org",
    ),
    *("to={to}&subject={subject}&text={text}", "X-Key: {key}", "ab" * 32, 7, 1, 5, {"approved": ["say hello"]}),
    {"email": "mail"},
)
BESIDE: Mapping[tuple[str, object], Settings] = {
    ("mail.backend", "http"): {"mail.http_provider": "resend", "mail.http_key": "k", "mail.sender": "a@example.org"},
    ("mail.http_provider", "generic"): {
        "mail.http_url": "https://example.org",
        "mail.http_body": "to={to}&subject={subject}&text={text}",
    },
    ("chat.platform", "discord"): {"chat.client_id": "a", "chat.client_secret": "b"},
    ("chat.platform", "custom"): {
        "chat.client_id": "a",
        "chat.client_secret": "b",
        **{f"chat.{name}": "https://chat.example.org" for name in ("authorize_url", "token_url", "profile_url")},
    },
    ("captcha.type", "work"): {"captcha.without_picture": True},
    ("team_chat.platform", "discord"): {
        "team_chat.public_key": "ab" * 32,
        "server.base_url": "https://play.example.org",
    },
    ("team_chat.platform", "onebot"): {"team_chat.token": "a-long-access-token"},
}
"""What the config requires beside a value, as errors say."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of two game servers: one on SQLite without a console, one on MariaDB with one."""
    for name, backend, console in (("small", "SQLITE", "false"), ("large", "MARIADB", "true")):
        authme = tmp_path / name / "plugins" / "AuthMe"
        authme.mkdir(parents=True)
        write(authme / "config.yml", f"DataSource:\n  backend: {backend}\n")
        properties = f"enable-rcon={console}\nrcon.password=a-long-password\n"
        write(tmp_path / name / "server.properties", properties)
    write(tmp_path / "questions.toml", "")
    write(tmp_path / "ca.pem", make_certificate(tmp_path / "large").certificate_file.read_text(encoding="ascii"))
    return tmp_path


FACTS: Mapping[NeedsFact, tuple[Settings, Settings]] = {
    AUTHME: ({"game.directory": "small"}, {}),
    MAIL: ({"mail.host": "127.0.0.1"}, {}),
    DATABASE_SERVER: ({"game.directory": "large"}, {"game.directory": "small"}),
    AUTHME_ON_SERVER: ({"game.directory": "large"}, {"game.directory": "small"}),
    ANY_CONSOLE: ({"game.directory": "large"}, {"game.directory": "small"}),
    OWN_CONSOLE: ({"directory": "large"}, {"directory": "small"}),
    TRUSTED_PROXIES: ({"http.trusted_proxies": ["10.0.0.1"]}, {"http.trusted_proxies": []}),
}
"""What makes a fact so, and what makes it not so."""


def met(need: Requirement, section: str) -> Settings:
    """Return settings with which a requirement is met."""
    if isinstance(need, AnyOf):
        return met(need.first, section)
    if isinstance(need, NeedsFact):
        if need in FACTS:
            return {qualified(name, section): value for name, value in FACTS[need][0].items()}
        return {"game.directory": "small", "authme.password_hash": str(need.sentence.facts["algorithm"])}
    assert isinstance(need, Needs | NeedsItem | NeedsWithout | NeedsHigher)
    name = qualified(need.key, section)
    if isinstance(need, NeedsItem):
        return {name: [need.item]}
    if isinstance(need, NeedsHigher):
        return {name: "900 days" if need.key == "user_token" else 5000}
    if isinstance(need, NeedsWithout):
        return {} if need.unwanted is None else {name: [{"email": "captcha"}[need.unwanted]]}
    value = need.values[0] if need.values else "questions.toml" if need.key == "file" else another(name)
    return {name: value, **beside(name, value)}


def unmet(need: Requirement, section: str) -> Settings:
    """Return settings with which a requirement is not met."""
    if isinstance(need, AnyOf):
        return unmet(need.first, section) | unmet(need.other, section)
    if isinstance(need, NeedsFact):
        return {qualified(name, section): value for name, value in FACTS.get(need, ({}, {}))[1].items()} or (
            {} if need in FACTS else {"game.directory": "small"}
        )
    assert isinstance(need, Needs | NeedsItem | NeedsWithout | NeedsHigher)
    name = qualified(need.key, section)
    if isinstance(need, NeedsItem):
        return {name: ["captcha" if need.item == "email" else "email"]} if need.key == "registration.methods" else {}
    if isinstance(need, NeedsHigher):
        return {name: "1 minute" if need.key == "user_token" else 4}
    if isinstance(need, NeedsWithout):
        return {name: another(name)} if need.unwanted is None else {name: [need.unwanted]}
    if not need.values:
        return {name: []} if need.key == "status_limit" else {name: "0 seconds"} if need.key == "reapply_after" else {}
    choices = declared(name).choices
    value = next(choice for choice in choices if choice not in need.values and choice != "")
    return {name: value, **beside(name, value)}


def beside(name: str, value: object) -> Settings:
    return next((settings for case, settings in BESIDE.items() if case == (name, value)), {})


def qualified(name: str, section: str) -> str:
    return name if "." in name else f"{section}.{name}"


def declared(name: str) -> Key[Any]:
    section, _dot, key = name.rpartition(".")
    return keys_of(SECTIONS.get(section) or LISTED[section])[key]


def another(name: str) -> object:
    """Return a value of a key that is not its default."""
    key = declared(name)
    for candidate in (*key.choices, *CANDIDATES):
        value = [candidate] if isinstance(key.default, list) and not isinstance(candidate, dict) else candidate
        try:
            parsed = key.parse(value)
        except ValueError:
            continue
        if value not in (key.default, "", "auto") and parsed != key.parse(key.default) and parsed:
            return value
    return not key.default


def conditional_keys() -> Iterator[tuple[str, str]]:
    for section, declaring in {**SECTIONS, **LISTED}.items():
        yield from ((section, name) for name, needs in needs_of(declaring).items() if needs)


def load(folder: Path, settings: Settings) -> Config:
    """Load a config with these settings; sections in double brackets have one table."""
    tables: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section, _dot, key = name.rpartition(".")
        tables.setdefault(section, {})[key] = value
    if "game.server" in tables:
        tables.setdefault("game", {})["server"] = [{"name": "survival", **tables.pop("game.server")}]
    if "team_chat" in tables:
        tables["team_chat"] = [{"platform": "telegram", "token": "x", "channel": "-1"} | tables["team_chat"]]  # type: ignore[assignment]
    return load_config(write(folder / "companion.toml", to_toml(tables)), {})


def test_every_key_decides_what_it_needs() -> None:
    """A new key is in its section's `NEEDS`, once: under what it needs, or under () if it always has an effect."""
    for declaring in (*SECTIONS.values(), *LISTED.values(), Download):
        listed = " ".join(declaring.NEEDS).split()  # type: ignore[attr-defined]
        inherited = set(keys_of(GameServer)) if issubclass(declaring, GameServer) else set()
        assert sorted(listed) == sorted(keys_of(declaring)), declaring
        assert inherited <= set(listed)


def test_each_key_is_named_without_what_it_needs_and_silent_with_it(folder: Path) -> None:
    def check(case: tuple[str, str]) -> None:
        section, name = case
        key, needs = f"{section}.{name}", needs_of(SECTIONS.get(section) or LISTED[section])[name]
        said = f"] {'#1 ' if section in ('team_chat', 'game.server') else ''}{name} has no effect: it needs "
        all_met = {setting: value for need in needs for setting, value in met(need, section).items()}
        own = {key: SPECIAL[key] if key in SPECIAL else another(key), **BESIDE_KEYS.get(key, {})}
        config = load(folder, all_met | (own if key not in all_met else {}))
        assert [it for it in config.without_effect if said in it] == [], all_met
        for index, missing in enumerate(needs):  # the first one that is missing is named
            others = {it: value for need in needs[:index] for it, value in met(need, section).items()}
            found = load(folder, others | unmet(missing, section) | own).without_effect
            [sentence] = [it for it in found if said in it]
            assert sentence.startswith(f"{folder}/companion.toml")
            header = f"{section} #1" if section in ("team_chat", "game.server") else section
            assert sentence.endswith(f"it needs {missing.describe(header)}.")

    assert_each(list(conditional_keys()), check)


_DISCORD: Final[Settings] = {
    "chat.platform": "discord",
    "chat.client_id": "a",
    "chat.client_secret": "b",
    "chat.guild_id": "1",
}
BESIDE_KEYS: Mapping[str, Settings] = {
    "chat.role_ids": {"chat.guild_id": "1"},
    "chat.give_role_id": {**_DISCORD, "chat.bot_token": "t"},
    "chat.bot_token": _DISCORD,
    "membership.idle_returns": {"game.directory": "small"},
}
SPECIAL: Settings = {
    "captcha.also_for": ["forgot"],
    "registration.reapply_holds": "address",
    "authme.config": "small/plugins/AuthMe/config.yml",
    "mail.templates": ".",
    "mail.ca_file": "ca.pem",
    "mail.http_header": "X-Key: {key}",
    "registration.blocked_email_domains": ["blocked.example"],
    "http.max_connections_per_client": 100,
    "auth.user_idle": "8 days",
    "server.theme": "ocean",
    "team_chat.public_key": "ab" * 32,
}
"""Values that matter where another would not."""


def test_a_key_is_named_with_its_line(folder: Path) -> None:
    file = write(
        folder / "companion.toml", "[server]\nport = 9000\n[mail]\n# by files\nbackend = 'folder'\nport = 465\n"
    )
    assert load_config(file, {}).without_effect == (
        f'{file}, line 6: [mail] port has no effect: it needs mail.backend = "auto" or "smtp".',
    )
    # tables of one key, and keys above all headers
    text = "mail.port = 465\n[game.commands]\napproved = ['say hello']\n[authme.columns]\nemail = 'mail'\n"
    lines = [it.partition(":")[0] for it in load_config(write(file, text), {}).without_effect]
    assert lines == [f"{file}, line {number}" for number in (1, 2, 4)]
    # the first line that looks like the key is in a text of several lines
    text = "[server]\nannouncement = '''\n[mail]\nport = 1\n'''\n[mail]\nbackend = 'folder'\nport = 465\n"
    [sentence] = load_config(write(file, text), {}).without_effect
    assert sentence.startswith(f"{file}: [mail] port ")


def test_a_default_is_not_named() -> None:
    """Panels set every variable that they know, and hosts uncomment samples."""
    [sentence] = load_config(None, {"COMPANION_MAIL_PORT": "25", "COMPANION_CAPTCHA_LENGTH": "4"}).without_effect
    assert sentence == "environment variable COMPANION_MAIL_PORT: [mail] port has no effect: it needs mail.host."
    assert load_config(None, {"COMPANION_MAIL_HOST": "", "COMPANION_WEBHOOK_SECRET": ""}).without_effect == ()


def test_what_a_variable_hides_in_the_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "key", "from-a-file\n")
    text = "[server]\nport = 9000\nname = 'Willow'\n[metrics]\ntoken = 's3cret'\n"
    file = write(tmp_path / "companion.toml", text)
    environ = {
        "COMPANION_SERVER_PORT": "9001",
        "COMPANION_SERVER_NAME": "Willow",
        "COMPANION_METRICS_TOKEN_FILE": str(tmp_path / "key"),
    }
    config = load_config(file, environ)
    assert (config.server.port, config.metrics.token) == (9001, "from-a-file")
    assert config.without_effect == (
        f"{file}, line 5: [metrics] token has no effect: environment variable COMPANION_METRICS_TOKEN_FILE takes its "
        "place.",
        f"{file}, line 2: [server] port has no effect: environment variable COMPANION_SERVER_PORT takes its place.",
    )
    assert load_config(file, {}, {"server.port": 9002}).without_effect == ()  # on purpose, just now
    [emptied, *_port] = load_config(
        write(file, "[game]\naddress = 'a.example.org'\n"), {"COMPANION_GAME_ADDRESS": ""}
    ).without_effect
    assert emptied.endswith(
        "[game] address has no effect: environment variable COMPANION_GAME_ADDRESS takes its place."
    )


def test_a_variable_in_small_letters_is_named() -> None:
    [sentence] = load_config(None, {"companion_mail_host": "127.0.0.1", "COMPANIONS": "x"}).without_effect
    assert sentence == "The environment variable companion_mail_host has no effect: write COMPANION_MAIL_HOST."


def test_a_variable_that_names_no_key_says_which_one_does() -> None:
    def check(case: tuple[str, str]) -> None:
        variable, hint = case
        assert problems(lambda: load_config(None, {variable: "x"})).endswith(f"; {hint}")

    assert_each(
        [
            ("COMPANION_PORT", "write COMPANION_SERVER_PORT or COMPANION_AUTHME_PORT or COMPANION_MAIL_PORT."),
            ("COMPANION_BASE_URL", "write COMPANION_SERVER_BASE_URL."),
            ("COMPANION__MAIL__HOST", "write COMPANION_MAIL_HOST."),
            ("COMPANION_MAIL_PASSWRD", 'did you mean "password"?'),
            ("COMPANION_SERVER_NAME_FILE", "only secrets are read from files; write name."),
            ("COMPANION_TEAM_CHAT_TOKEN", "[[team_chat]] is in the config file alone."),
            ("COMPANION_WEBHOOK_2_URL", "other webhooks are in the config file alone, below [[webhook]]."),
        ],
        check,
    )


def test_a_mail_server_that_is_set_is_used(folder: Path) -> None:
    """Also beside AuthMe's own mail account; that one is used where nothing is set."""
    authmes = MailAccount("authme@example.org", "secret", "smtp.authme.example")

    def server_of(settings: Settings) -> str | None:
        backend = make_mail_backend(load(folder, settings).mail, authmes)
        return backend.account.address if isinstance(backend, SmtpBackend) else None

    ours: Settings = {"mail.host": "smtp.example.org", "mail.port": 465, "mail.security": "tls"}
    assert server_of(ours) == "smtp.example.org:465"
    assert load(folder, ours).without_effect == ()
    assert server_of({"game.directory": "small"}) == "smtp.authme.example:465"
    assert server_of({"mail.port": 25}) == "smtp.authme.example:465"
    assert server_of({**ours, "mail.backend": "off"}) is None
