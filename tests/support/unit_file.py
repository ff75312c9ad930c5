"""A systemd unit file, as far as the tests' sandbox applies it."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
SECONDS = {"": 1, "s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class UnitFile:
    """Values by key, in order, over all sections (no key of ours occurs in two)."""

    keys: dict[str, list[str]]

    @classmethod
    def read(cls, *files: Path, name: str = "companion") -> "UnitFile":
        """Read a unit and its drop-ins; an empty assignment discards the values before it, as systemd does.

        `name` is the unit's name without its type, for the specifiers.
        """
        keys: dict[str, list[str]] = {}
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for line in text.replace("%N", name).replace("%n", f"{name}.service").replace("\\\n", " ").splitlines():
            if "=" not in line or line.startswith(("#", ";", "[")):
                continue
            key, value = (part.strip() for part in line.split("=", 1))
            keys[key] = [*keys.get(key, []), value] if value else []
        return cls(keys)

    def value(self, key: str) -> str:
        """Return the last value; raises KeyError if the unit does not set the key."""
        return self.keys[key][-1]

    def words(self, key: str) -> list[str]:
        """Return all values, split like a command line; empty if there are none."""
        return [word for value in self.keys.get(key, []) for word in shlex.split(value)]

    def size(self, key: str) -> int:
        """Return bytes, from `256M`."""
        number, unit = _number_and_unit(self.value(key))
        return number * SIZES[unit]

    def seconds(self, key: str) -> int:
        """Return seconds, from `30` or `5min`."""
        number, unit = _number_and_unit(self.value(key))
        return number * SECONDS[unit]


def _number_and_unit(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+)([A-Za-z]*)", text)
    if found is None:
        raise ValueError(f"neither a size nor a duration: {text}")
    return int(found[1]), found[2]
