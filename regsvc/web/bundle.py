"""Puts a page's script and the modules it imports into one file, so that a slow line is asked once.

There is no build: the files in `static/` are ordinary ES modules, and this is done in memory at the start. Each module
becomes a function of its own, so that their names cannot meet. Of the language of modules three forms are known, each
at the beginning of a line; others are refused:

    import { one, other as another } from "./file.js";
    export function name(…          (or async function, class, const)
    export { one, other };
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

_IMPORT: Final = re.compile(r'^import \{([\w\s,]*)\} from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export \{((?:\s*\w+\s*(?:,|(?=\})))*\s*)\};$", re.MULTILINE)
_ANY_OTHER: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class UnknownModuleForm(ValueError):
    """A script says `import` or `export` in a way that is not known here, or modules import each other in a ring."""


def join_modules(name: str, read: Callable[[str], str]) -> str:
    """One script with everything that `name` imports; `read` gives the text of a file by its name.

    Raises `UnknownModuleForm`, and whatever `read` raises.
    """
    joined: dict[str, str] = {}
    _add(name, read, joined, ())
    return "\n".join(joined.values())


def _add(name: str, read: Callable[[str], str], joined: dict[str, str], above: tuple[str, ...]) -> None:
    """What a module needs stands before it."""
    if name in above:
        raise UnknownModuleForm(f"modules import each other: {' → '.join((*above, name))}")
    if name in joined:
        return
    source = read(name)
    for match in _IMPORT.finditer(source):
        _add(_resolve(name, match[2]), read, joined, (*above, name))
    joined[name] = _as_function(name, source)


def _as_function(name: str, source: str) -> str:
    exported = [match[1] for match in _EXPORT.finditer(source)]
    exported += [word for match in _EXPORT_LIST.finditer(source) for word in _words(match[1])]
    body = _IMPORT.sub(lambda match: _as_constants(name, match), source)
    body = _EXPORT_LIST.sub("", _EXPORT.sub("", body))
    other = _ANY_OTHER.search(body)
    if other is not None:
        raise UnknownModuleForm(f"{name}: {other[0]}")
    return f"const {_identifier(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _as_constants(name: str, match: re.Match[str]) -> str:
    names = re.sub(r"\s+as\s+", ": ", match[1])
    return f"const {{{names}}} = {_identifier(_resolve(name, match[2]))};"


def _words(names: str) -> list[str]:
    return [word.strip() for word in names.split(",") if word.strip()]


def _resolve(importer: str, written: str) -> str:
    """The name of a file as another one writes it: `./x.js` beside `admin/y.js` is `admin/x.js`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), written))


def _identifier(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
