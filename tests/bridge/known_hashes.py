"""Records of the known hashes in the file beside this one."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from plugin_bridge.hashers import HashedPassword

NAME = "Alice"


@dataclass(frozen=True)
class Known:
    """A hash of `algorithm`, and a password that does, or does not, match it; `why` says what is wrong with it."""

    algorithm: str
    password: str
    stored: HashedPassword
    why: str = ""


def _read() -> tuple[list[Known], list[Known]]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    right = [
        Known(algorithm, password, HashedPassword(*columns))
        for algorithm, rows in tables["right"].items()
        for password, *columns in rows
    ]
    wrong = [
        Known(algorithm, password, HashedPassword(*columns), why)
        for algorithm, rows in tables["wrong"].items()
        for why, password, *columns in rows
    ]
    return right, wrong


RIGHT, WRONG = _read()


def of(algorithm: str) -> list[Known]:
    """Return the records of one algorithm whose password matches."""
    return [one for one in RIGHT if one.algorithm == algorithm]
