"""Wrong configs as hosts write them: a sentence names file, section, key, the value if it is no secret, and the remedy.

`check-config`, the doctor and `serve` show these sentences as they are. The configs are in `wrong_configs.txt`: each
block is a config, followed by the mistake (>) or the warning (?) that it leads to.
"""

import os
import re
from pathlib import Path

import pytest

from regsvc.config.loader import load_config
from regsvc.config.places import find_config_file
from regsvc.config.sections import Config, ConfigError
from regsvc.database.location import read_authme
from regsvc.doctor.checkup import examine
from regsvc.doctor.facts.facts import Facts
from tests.support.config_text import problems, write
from tests.support.doctor_case import HEALTHY_HOST

BLOCKS = Path(__file__).with_name("wrong_configs.txt").read_text(encoding="utf-8").strip().split("\n\n")


def cases(mark: str) -> list[tuple[str, str]]:
    """Return the configs whose sentence has this mark, each with its sentence."""
    split = [block.rpartition("\n") for block in BLOCKS]
    return [(text, sentence.removeprefix(mark)) for text, _newline, sentence in split if sentence.startswith(mark)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that configs name."""
    (tmp_path / "mc" / "plugins" / "AuthMe").mkdir(parents=True)
    (tmp_path / "words").mkdir()
    write(tmp_path / "words" / "nl.toml", "")
    write(tmp_path / "a-file", "x")
    write(tmp_path / "no.pem", "x")
    write(tmp_path / "empty.secret", "")
    write(tmp_path / "open.secret", "x", 0o644)
    return tmp_path


def load(folder: Path, text: str) -> Config:
    config = load_config(write(folder / "companion.toml", f"{text}\n"), {})
    config.require_secrets()
    return config


@pytest.mark.parametrize(("text", "sentence"), cases("> "), ids=lambda text: text[:40].replace("\n", " "))
def test_a_mistake_is_one_sentence_that_is_enough(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert str(caught.value).replace(f"{folder}/", "FOLDER/") == f"FOLDER/companion.toml: {sentence}"
    [finding] = examine(Facts(caught.value, HEALTHY_HOST)).findings
    assert (finding.id, finding.title) == ("config.broken", str(caught.value))


@pytest.mark.parametrize(("text", "sentence"), cases("? "))
def test_what_does_not_prevent_a_start_is_a_warning(folder: Path, text: str, sentence: str) -> None:
    assert [warning.replace(str(folder), "FOLDER") for warning in load(folder, text).warnings] == [sentence]


@pytest.mark.parametrize(
    ("yaml", "sentence"),
    [
        (
            "DataSource:\n\tbackend: SQLITE\n",
            "is not valid YAML (line 2, column 1: a tab is used where YAML needs spaces).",
        ),
        ("DataSource: 'x\n", "is not valid YAML (line 2, column 1)."),
        ("- a list\n", "is not an AuthMe config: it has no sections."),
    ],
)
def test_a_mistake_in_authmes_config_names_its_file_and_line(folder: Path, yaml: str, sentence: str) -> None:
    file = write(folder / "config.yml", yaml)
    config = load(folder, f'[authme]\nconfig = "{file}"')
    assert problems(lambda: read_authme(config)) == f"{file} {sentence}"


def test_a_mistake_in_our_section_about_authme(folder: Path) -> None:
    config = load(folder, '[authme]\nbackend = "SQLITE"\npassword_hash = "MD6"')
    sentence = "authme.password_hash: AuthMe has no algorithm 'MD6'; choose one, such as BCRYPT."
    assert problems(lambda: read_authme(config)) == f"{folder}/companion.toml: {sentence}"
    config = load(folder, '[authme]\nenabled = true\n[game]\ndirectory = "mc"')
    place = f"{folder}/mc/plugins/AuthMe/config.yml"
    sentence = f"there is no AuthMe config at {place}: set game.directory or authme.config."
    assert problems(lambda: read_authme(config)) == f"{folder}/companion.toml: [authme] enabled = true: {sentence}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[server]\nname = " + b"[" * 10_000, "it is not TOML: brackets are nested too deeply."),
        (b"[server]\nport = " + b"9" * 5000, "it is not TOML: a number is too long."),
        (b"[server]\nport = 0x" + b"f" * 5000, "this must be a whole number from 0 to 65535."),
        ("[server]\n".encode("utf-16-le"), "it is not UTF-8 text; save it as UTF-8."),
    ],
)
def test_a_file_that_nobody_could_read(folder: Path, content: bytes, sentence: str) -> None:
    (folder / "companion.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        load_config(folder / "companion.toml", {})


def test_a_variable_that_is_nested_too_deeply() -> None:
    with pytest.raises(ConfigError, match=r"COMPANION_GAME_OPERATORS.* must be a list"):
        load_config(None, {"COMPANION_GAME_OPERATORS": "[" * 10_000})


@pytest.mark.parametrize("key", ["SERVER_NAME", "SERVER_DESCRIPTION", "GAME_OPERATORS", "MAIL_PASSWORD"])
def test_a_variable_that_is_not_utf8(key: str) -> None:
    with pytest.raises(ConfigError, match=f"COMPANION_{key}: .*: this must be UTF-8 text"):
        load_config(None, {f"COMPANION_{key}": os.fsdecode(b"Gr\xfc\xdfe")})


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        find_config_file("x" * 300, None, {})
