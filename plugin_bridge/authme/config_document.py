"""What stands in AuthMe's `config.yml`, value by value, taken or ignored as AuthMe does it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class IgnoredValue:
    """A value that AuthMe silently replaces by another. `written` is there for names of a list only, never a secret."""

    key: str
    written: str = ""


class ConfigDocument:
    """Values by path, each turned into AuthMe's type or into the default; `ignored` gathers those that AuthMe ignores.

    `root` is what the YAML parser made of the file.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self.ignored: list[IgnoredValue] = []

    def ignore(self, path: str, written: str = "") -> None:
        """Note that AuthMe does not take what stands at the path, if anything does."""
        if self.find(path) is not None:
            self.ignored.append(IgnoredValue(path, written))

    def find(self, path: str) -> object:
        """The raw value; None if there is none."""
        value = self._root
        for part in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(part)
        return value

    def text(self, path: str, default: str) -> str:
        value = _as_text(self.find(path))
        if value is None:
            self.ignore(path)
            return default
        return value

    def number(self, path: str, default: int) -> int:
        value = self.find(path)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"):
            return int(value)  # neither .inf nor .nan
        self.ignore(path)
        return default

    def flag(self, path: str, default: bool) -> bool:
        value = self.find(path)
        if isinstance(value, bool):
            return value
        self.ignore(path)
        return default

    def texts(self, path: str, default: Iterable[str]) -> list[str]:
        value = self.find(path)
        if not isinstance(value, list):
            self.ignore(path)
            return list(default)
        return [text for text in map(_as_text, value) if text is not None]

    def values_of(self, record: type[DataclassInstance]) -> dict[str, Any]:
        """The fields of a record that stand at a path, each read as its default's type."""
        return {
            part.name: self._read_like(part.metadata["key"], part.default)
            for part in fields(record)
            if "key" in part.metadata
        }

    def _read_like(self, path: str, default: Any) -> object:
        if isinstance(default, bool):
            return self.flag(path, default)
        if isinstance(default, int):
            return self.number(path, default)
        return self.text(path, default)


def _as_text(value: object) -> str | None:
    """A string, number or boolean as Java writes it; None for everything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None
