"""Typed access to AuthMe's `config.yml`: each value is taken or ignored as AuthMe does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class IgnoredValue:
    """A value that AuthMe silently replaces. `written` is the name of a deprecated algorithm, never a secret."""

    key: str
    written: str = ""


class ConfigDocument:
    """Values by path, each converted to AuthMe's type or replaced by the default; `ignored` lists what AuthMe ignores.

    `root` is the object that the YAML parser returned.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self.ignored: list[IgnoredValue] = []

    def ignore(self, path: str, written: str = "") -> None:
        """Record that AuthMe does not use the value at this path, if there is one."""
        if self.find(path) is not None:
            self.ignored.append(IgnoredValue(path, written))

    def find(self, path: str) -> object:
        """Return the raw value, or None if there is none."""
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
        """Return the fields of `record` that have a path, each read as the type of its default."""
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
    """Return a string, number or boolean as Java writes it; None for everything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None
