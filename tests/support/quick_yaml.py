"""YAML as the program reads it, with libyaml: most tests read the same few files, which takes longer than their story.

What libyaml might read otherwise, and what it refuses, is given to the program's own loader, so that every error and
every oddity is that one's. `tests/bridge` reads AuthMe's files with the latter alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import yaml

from plugin_bridge import java_formats

OwnLoader: Any = vars(java_formats)["_Loader"]
_READ_OTHERWISE = frozenset("\t&*")
"""Tabs, anchors and aliases, which SnakeYAML takes where libyaml does not."""
_BRACKETS = 100
"""How many there may be: libyaml goes down as deeply as they do."""


class QuickLoader:
    """What `parse_yaml` needs of its loader."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.oddities: dict[java_formats.OddityKind, java_formats.Oddity] = {}

    def get_single_data(self) -> Any:
        is_plain = _READ_OTHERWISE.isdisjoint(self._text) and self._text.count("[") + self._text.count("{") < _BRACKETS
        for kind in (_WithLibyaml, OwnLoader) if is_plain else (OwnLoader,):
            loader = kind(self._text)
            try:
                document = loader.get_single_data()
            except Exception:
                if kind is OwnLoader:
                    raise
            else:
                break
        self.oddities = loader.oddities
        return document


class _WithLibyaml(yaml.CSafeLoader, OwnLoader):  # type: ignore[misc]
    """The program's own rules for words, keys and values, on the nodes of libyaml."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        self.oddities: dict[java_formats.OddityKind, java_formats.Oddity] = {}


def read_yaml_quickly() -> None:
    """Let this process read so from now on."""
    vars(java_formats)["_Loader"] = QuickLoader


@contextmanager
def quick_yaml() -> Iterator[None]:
    """Let this process read so for a while."""
    with mock.patch.object(java_formats, "_Loader", QuickLoader):
        yield


def parse_yaml_quickly(text: str) -> Any:
    """Do what `yaml.safe_load` does, in an eighth of the time."""
    return yaml.load(text, Loader=yaml.CSafeLoader)
