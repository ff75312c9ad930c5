"""Config files as the tests write them, and the errors in them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regsvc.config.loader import load_config
from regsvc.config.sections import Config, ConfigError

Load = Callable[[str], Config]


def loader(directory: Path) -> Load:
    """Return a function that loads a config file with the given text, mode 0600, without any environment."""

    def load_text(text: str) -> Config:
        return load_config(write(directory / "companion.toml", text), {})

    return load_text


def write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def problems(load: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        load()
    return str(caught.value)
