"""The sample config is generated from the declarations, and shows exactly the defaults."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from regsvc.config.key_types import keys_of
from regsvc.config.layers import SECTIONS
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from tests.generators.sample_config import SAMPLE_FILE, main, sample_config


def test_the_sample_in_the_repository_is_current() -> None:
    assert SAMPLE_FILE.read_text(encoding="utf-8") == sample_config(), "run: make sample"


def test_the_sample_loads_to_the_defaults(tmp_path: Path) -> None:
    assert _load(tmp_path, sample_config()) == _load(tmp_path, "")


def test_the_sample_with_every_key_uncommented_loads_to_the_defaults(tmp_path: Path) -> None:
    uncommented = re.sub(r"^#(?=[a-z])", "", sample_config(), flags=re.MULTILINE)
    assert "\nport = 8080\n" in uncommented
    assert _load(tmp_path, uncommented) == _load(tmp_path, "")


def test_the_sample_explains_every_key_of_every_section() -> None:
    sample = sample_config()
    for name, section in SECTIONS.items():
        part = sample.split(f"\n[{name}]\n")[1].split("\n[")[0]
        for key in keys_of(section):
            assert re.search(rf"^# .+\n#{key} = ", part, re.MULTILINE), f"[{name}] {key}"


def test_its_download_works_when_uncommented(tmp_path: Path) -> None:
    config = _load(tmp_path, re.sub(r"^#     ", "", sample_config(), flags=re.MULTILINE))
    assert config.downloads["client"].name == "Client"


def test_check_notices_a_sample_that_is_not_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conf" / "companion.toml"
    assert main(["--check"], file) == 1
    assert "make sample" in capsys.readouterr().err
    assert main([], file) == 0
    assert main(["--check"], file) == 0
    file.write_text("# old\n", encoding="utf-8")
    assert main(["--check"], file) == 1


def _load(folder: Path, text: str) -> Config:
    """Load a config with this text, without the fields that say where it was read from."""
    file = folder / "companion.toml"
    file.write_text(text, encoding="utf-8")
    return replace(load_config(file, {}), file=None)
