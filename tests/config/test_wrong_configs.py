"""Wrong configs as hosts write them: a sentence names file, section, key, the value if it is no secret, and the remedy.

`check-config`, the doctor and `serve` show these sentences as they are. The configs are in `wrong_configs.txt`: each
block is a config, followed by the mistake (>) or the warning (?) that it leads to.
"""

from pathlib import Path

import pytest

from regsvc.config.loader import load_config
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
