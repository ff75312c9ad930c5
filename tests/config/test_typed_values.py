"""Values as people, files of variables and panels leave them: read as they are meant, or named; never in silence."""

from operator import attrgetter
from pathlib import Path

import pytest

from regsvc.cli.install.settings import parse_setting
from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from tests.support.config_text import write

QUOTES = "the quotes around it are left out; where they belong to it, write them twice"
SECRET = "correct-horse"


def variable(key: str) -> str:
    return f"COMPANION_{key.replace('.', '_')}".upper()


@pytest.mark.parametrize(
    ("key", "written", "taken"),
    [
        ("mail.password", f'"{SECRET}"', SECRET),
        ("mail.password", f"'{SECRET}'", SECRET),
        ("mail.password", f"“{SECRET}”", SECRET),
        ("mail.password", f'""{SECRET}""', f'"{SECRET}"'),
        ("mail.password", f'" {SECRET} "', f" {SECRET} "),
        ("game.operators", '"Olivia,Ben"', ("Olivia", "Ben")),
        ("game.operators", '"Olivia","Ben"', ("Olivia", "Ben")),
        ("game.operators", '\'["Olivia", "Ben"]\'', ("Olivia", "Ben")),
        ("server.port", '"8081"', 8081),
        ("registration.open", "'false'", False),
        ("sync.every", '"30 seconds"', None),
        ("server.name", "'Willow'", "Willow"),
        ("server.base_url", '"https://play.example.org/"', "https://play.example.org"),
    ],
)
def test_quotes_that_are_kept_are_left_out_and_named(key: str, written: str, taken: object) -> None:
    config = load_config(None, {variable(key): written})
    value = attrgetter(key)(config)
    assert taken is None or value == taken
    section, _dot, name = key.partition(".")
    remark = f"environment variable {variable(key)}: [{section}] {name}: {QUOTES}."
    assert [warning for warning in config.warnings if "quotes" in warning] == [remark]
    unquoted = load_config(None, {}, {key: parse_setting(key, written)})
    assert attrgetter(key)(unquoted) == value or written.startswith('""'), "as an option of the installer"


def test_quotes_in_quotes_are_named_in_the_config_and_in_a_file_of_a_secret_too(tmp_path: Path) -> None:
    write(tmp_path / "secret", f'"{SECRET}"\r\n')
    text = (
        "[mail]\nhost = \"'mail.example.org'\"\nusername = 'olivia'\npassword_file = 'secret'\n"
        "[game]\noperators = ['\"Olivia\"', 'Ben']\n[server]\nannouncement = '\"Welcome!\"'\n"
    )
    file = write(tmp_path / "companion.toml", text)
    config = load_config(file, {})
    assert (config.mail.host, config.mail.password) == ("mail.example.org", SECRET)
    assert config.game.operators == ("Olivia", "Ben")
    assert config.server.announcement.in_language("en", "en") == '"Welcome!"', "a text may be in quotes"
    named = [warning for warning in config.warnings if QUOTES in warning]
    assert [name.partition(", line ")[2][:20].partition(":")[0] for name in named] == ["2", "4", "6"]
    assert SECRET not in str(config.warnings)


@pytest.mark.parametrize("around", ["{}\r", "{}\n", " {}\t", "\ufeff{}", "{}\u200b", "\u00a0{}\u3000", "\u200e{}"])
def test_what_copying_leaves_around_a_value_is_no_part_of_it(tmp_path: Path, around: str) -> None:
    given = {"mail.host": "mail.example.org", "server.port": "8081", "registration.open": "no", "sync.every": "1 hour"}
    given |= {"game.operators": "Olivia", "mail.backend": "smtp", "log.level": "info"}
    plain = load_config(None, {variable(key): value for key, value in given.items()})
    dirty = load_config(None, {variable(key): around.format(value) for key, value in given.items()})
    for key in given:
        assert attrgetter(key)(dirty) == attrgetter(key)(plain), key
    for environ in (
        {"COMPANION_METRICS_TOKEN": around.format(SECRET).removeprefix(" ")},
        {"COMPANION_METRICS_TOKEN_FILE": str(write(tmp_path / "token", around.format(SECRET).removeprefix(" ")))},
    ):
        assert load_config(None, environ).metrics.token == SECRET


def test_a_space_of_a_secret_stays_and_is_named() -> None:
    config = load_config(None, {"COMPANION_METRICS_TOKEN": f"{SECRET} "})
    assert config.metrics.token == f"{SECRET} "
    assert "the space at its beginning or end is part of it" in config.warnings[0]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("Olivia;Ben", ("Olivia", "Ben")),
        ("Olivia, Ben;", ("Olivia", "Ben")),
        ("Olivia\nBen\n", ("Olivia", "Ben")),
        ("['Olivia', 'Ben']", ("Olivia", "Ben")),
        (".Ben Smith,*Zoe", (".Ben Smith", "*Zoe")),
        ("Null", ()),
    ],
)
def test_a_list_has_any_separator(written: str, names: tuple[str, ...]) -> None:
    if names:
        assert load_config(None, {"COMPANION_GAME_OPERATORS": written}).game.operators == names
    else:
        assert load_config(None, {"COMPANION_GAME_OPERATORS": f'["{written}"]'}).game.operators == (written,)


@pytest.mark.parametrize(
    "name",
    ["Olivia;Ben", "Olivia,Ben", "Olivia Ben", "Olivia|Ben", '"Olivia', "op:Olivia", "a" * 17, "[Olivia]", "a#b"],
)
def test_a_name_that_no_player_can_have_is_no_operator(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a player"):
        load_config(None, {}, {"game.operators": [name]})


@pytest.mark.parametrize("name", ["Olivia-Ben", "Olivia.Ben", "Olivia!", "@a"])
def test_a_name_that_hardly_a_player_has_is_named(name: str) -> None:
    assert f'game.operators has "{name}"' in load_config(None, {}, {"game.operators": [name]}).warnings[0]
    settings = {"game.operators": [name], "registration.username_regex": ".*"}
    assert load_config(None, {}, settings).warnings == ()
    for usual in ("Olivia", "O_1", ".Ben_Smith", "小明"):
        assert load_config(None, {}, {"game.operators": [usual]}).warnings == ()


@pytest.mark.parametrize(
    ("word", "is_on"),
    [
        ("True", True),
        ("yes", True),
        ("1", True),
        ("ON", True),
        ("y", True),
        ("FALSE", False),
        ("No", False),
        ("0", False),
    ],
)
def test_a_variable_says_yes_or_no_in_any_way(word: str, is_on: bool) -> None:
    config = load_config(None, {"COMPANION_REGISTRATION_APPROVAL": word, "COMPANION_GAME_PROFILES": word})
    assert (config.registration.approval, config.game.profiles) == (is_on, is_on)
    assert load_config(None, {"COMPANION_GAME_RCON": "AUTO"}).game.rcon == "auto"


@pytest.mark.parametrize(
    ("key", "written", "reason"),
    [
        ("mail.password", "${MAIL_PASSWORD}", "this names a variable, which nothing has replaced by its value"),
        ("database.url", "mysql://alice:${DB_PASSWORD}@db/ours", "this names a variable"),
        ("server.base_url", "{{ base_url }}", "this names a variable"),
        ("mail.username", "$MAIL_USER", "this names a variable"),
        ("mail.host", "<your-host>", "this is a placeholder; write your own value"),
        ("mail.username", "changeme", "this is a placeholder"),
        ("mail.password", "YOUR_PASSWORD_HERE", "this is a well-known placeholder"),
        ("metrics.token", "****", "this is a well-known placeholder"),
        ("metrics.token", "<token>", "this is a well-known placeholder"),
        ("mail.username", "null", "this is a word for no value"),
        ("mail.password", "None", "this is a word for no value"),
        ("game.directory", "undefined", "this is a word for no value"),
        ("server.port", "8080 # of the proxy", 'what follows " #" is part of it'),
        ("registration.open", "true # for now", 'what follows " #" is part of it'),
        ("sync.every", "30", "write a duration such as"),
    ],
)
def test_what_nobody_meant_is_refused_with_what_to_do(key: str, written: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(
            None, {variable(key): written, "COMPANION_MAIL_HOST": "mail.example.org"} | {variable(key): written}
        )
    assert reason in str(caught.value)
    if key == "mail.password":
        assert written not in str(caught.value)


def test_a_comment_that_a_file_of_variables_keeps_is_named() -> None:
    config = load_config(None, {"COMPANION_METRICS_TOKEN": f"{SECRET} # of Prometheus"})
    assert 'what follows " #" is part of it: take that out' in config.warnings[0]
    assert SECRET not in config.warnings[0]


@pytest.mark.parametrize("written", ["30days", "30 Days", "720h", "30\u00a0days"])
def test_a_duration_is_read_as_people_write_it(written: str) -> None:
    assert load_config(None, {"COMPANION_AUTH_USER_TOKEN": written}).auth.user_token.days == 30
