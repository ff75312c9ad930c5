"""Bundler of a page's script and the modules it imports into one file, to save round trips on slow connections.

There is no build step: the files in `static/` are ordinary ES modules, bundled in memory when the process starts. Each
module becomes a function, so that top-level names cannot collide. Comments, a third of what a phone would load, are
left out: lines that begin with `//`, and `/** … */`. Template strings must not span lines, so that none is taken for a
comment. Three forms of `import` and `export` are supported, each at the beginning of a line; all others are refused:

    import { one, other as another } from "./file.js";
    export function name(…          (or async function, class, const)
    export { one, other };
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

_BLOCK: Final = r"/\*\*(?:(?!\*/).)*\*/"
_COMMENT: Final = re.compile(rf"^[ \t]*(?://[^\n]*|{_BLOCK}[ \t]*)\n|{_BLOCK} ?", re.MULTILINE | re.DOTALL)
_IMPORT: Final = re.compile(r'^import \{([\w\s,]*)\} from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export \{((?:\s*\w+\s*(?:,|(?=\})))*\s*)\};$", re.MULTILINE)
_ANY_OTHER: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class UnsupportedModule(ValueError):
    """A script uses an unsupported form of `import`, `export` or a string, or modules import each other in a cycle."""


def bundle_modules(name: str, read: Callable[[str], str]) -> str:
    """Return one script with `name` and everything it imports; `read` returns the text of a file by its name.

    Raises `UnsupportedModule`, and whatever `read` raises.
    """
    bundled: dict[str, str] = {}
    _add(name, read, bundled, ())
    return "\n".join(bundled.values())


def _add(name: str, read: Callable[[str], str], bundled: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add a module after the modules it imports."""
    if name in importers:
        raise UnsupportedModule(f"modules import each other: {' → '.join((*importers, name))}")
    if name in bundled:
        return
    source = _COMMENT.sub("", read(name))
    for match in _IMPORT.finditer(source):
        _add(_resolve(name, match[2]), read, bundled, (*importers, name))
    bundled[name] = _as_function(name, source)


def _as_function(name: str, source: str) -> str:
    exported = [match[1] for match in _EXPORT.finditer(source)]
    exported += [exported_name for match in _EXPORT_LIST.finditer(source) for exported_name in _split(match[1])]
    body = _IMPORT.sub(lambda match: _as_constants(name, match), source)
    body = _EXPORT_LIST.sub("", _EXPORT.sub("", body))
    other = _ANY_OTHER.search(body)
    if other is not None:
        raise UnsupportedModule(f"{name}: {other[0]}")
    for line in source.splitlines():
        if line.count("`") % 2:
            raise UnsupportedModule(f"{name}: {line}")
    return f"const {_identifier(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _as_constants(name: str, match: re.Match[str]) -> str:
    names = re.sub(r"\s+as\s+", ": ", match[1])
    return f"const {{{names}}} = {_identifier(_resolve(name, match[2]))};"


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _resolve(importer: str, specifier: str) -> str:
    """Resolve a specifier relative to the importer: `./x.js` in `admin/y.js` is `admin/x.js`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))


def _identifier(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
