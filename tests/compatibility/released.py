"""Released promises, in files: `python -m tests.compatibility.released` (`make promise`) writes them.

The file of the API is its OpenAPI document without what is for people: one line an operation or schema.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from regsvc import __version__
from tests.compatibility.api import find_broken, promises_of
from tests.compatibility.names import list_names, promises_of_names
from tests.support.contract import document

API_FILE: Final = Path(__file__).with_name("openapi-1.0.json")
NAMES_FILE: Final = Path(__file__).with_name("names-1.0.json")
WHAT_TO_DO: Final = """\
These promises of {released} are broken. Keep the old beside the new, and mark it as deprecated, until the next major
version (docs/compatibility.md). If what is gone was never in a released version: make promise"""
_FOR_PEOPLE: Final = {"description", "summary", "example", "examples", "title"}


def released_document() -> dict[str, Any]:
    return dict(json.loads(API_FILE.read_text(encoding="utf-8")))


def released_names() -> dict[str, list[Any]]:
    return dict(json.loads(NAMES_FILE.read_text(encoding="utf-8")))


def without_words(value: Any, *, are_names: bool = False) -> Any:
    """Return a part of the document without texts for people; `are_names`: the keys of `value` are names of fields."""
    if isinstance(value, list):
        return [without_words(member) for member in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: without_words(member, are_names=key in ("properties", "schemas", "responses") and not are_names)
        for key, member in value.items()
        if are_names or key not in _FOR_PEOPLE
    }
    if not are_names and "responses" in kept:  # OpenAPI wants a description there
        kept["responses"] = {
            status: response if "$ref" in response else {**response, "description": ""}
            for status, response in kept["responses"].items()
        }
    return kept


def main() -> int:
    """Write what this version promises; refuse to drop a promise within a major version. Return the exit status."""
    current, names = without_words(document()), list_names()
    current["info"] = {"title": "Companion", "version": __version__}
    if API_FILE.exists():
        old = released_document()
        released = old["info"]["version"]
        broken = find_broken(promises_of(old), promises_of(current))
        broken += find_broken(promises_of_names(released_names()), promises_of_names(names))
        if broken and released.split(".")[0] == __version__.split(".")[0] != "0":
            print(WHAT_TO_DO.format(released=released).partition(" If what")[0], *broken, sep="\n", file=sys.stderr)
            return 1
    API_FILE.write_text(_lines(current), encoding="utf-8")
    NAMES_FILE.write_text(json.dumps(names, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def _lines(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each member of the two outer levels, so that a change is seen in a diff."""
    if depth == 3 or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    members = (f"{json.dumps(key)}: {_lines(value[key], depth + 1)}" for key in sorted(value))
    return "{\n" + ",\n".join(members) + "\n}" + ("" if depth else "\n")


if __name__ == "__main__":
    sys.exit(main())
