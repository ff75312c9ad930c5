"""A systemd unit file as far as our sandbox acts on it."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
SECONDS = {"": 1, "s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class UnitFile:
    """Key → its values, in order, over all sections (no key of ours stands in two)."""

    keys: dict[str, list[str]]

    @classmethod
    def read(cls, file: Path) -> "UnitFile":
        """An assignment of nothing forgets the values before it, as systemd does."""
        keys: dict[str, list[str]] = {}
        for line in file.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            if "=" not in line or line.startswith(("#", ";", "[")):
                continue
            key, value = (part.strip() for part in line.split("=", 1))
            keys[key] = [*keys.get(key, []), value] if value else []
        return cls(keys)

    def value(self, key: str) -> str:
        """The last value; KeyError when the unit does not set it."""
        return self.keys[key][-1]

    def is_on(self, key: str) -> bool:
        return self.keys.get(key, ["no"])[-1] in ("yes", "true", "on", "1")

    def words(self, key: str) -> list[str]:
        """All values, split as a command line; empty when there are none."""
        return [word for value in self.keys.get(key, []) for word in shlex.split(value)]

    def size(self, key: str) -> int:
        """Bytes, from `256M`."""
        number, unit = _number_and_unit(self.value(key))
        return number * SIZES[unit]

    def seconds(self, key: str) -> int:
        """From `30` or `5min`."""
        number, unit = _number_and_unit(self.value(key))
        return number * SECONDS[unit]


def _number_and_unit(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+)([A-Za-z]*)", text)
    if found is None:
        raise ValueError(f"neither a size nor a duration: {text}")
    return int(found[1]), found[2]
