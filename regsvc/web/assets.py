"""Scripts and style sheets of our pages: read, joined and compressed once, and kept by browsers for ever."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from tornado.template import BaseLoader, Template

from regsvc.web.base import ReadOnlyHandler, accepts_gzip
from regsvc.web.bundle import join_modules

_FOLDER: Final = files("regsvc.web") / "static"
_ASSETS_PATH: Final = "web/"
_MEDIA_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_FOREVER: Final = "public, max-age=31536000, immutable"
_BASE_STYLE: Final = "base.css"


@dataclass(frozen=True)
class Asset:
    """A script or style sheet. `path` has the content's hash in it, and no slash in front.

    Pages refer to it relative to themselves: a proxy may show us below a path of its own.
    """

    path: str
    media_type: str
    content: bytes
    compressed: bytes
    digest: str


@cache
def load_script(name: str) -> Asset:
    """The script of a page ("set-password") with all modules it imports. Raises OSError where one is missing."""
    return _asset(name, "js", join_modules(f"{name}.js", _read))


@cache
def load_style(name: str) -> Asset:
    """The shared style sheet, below it `<name>.css` for a page that has one of its own, and those of its parts.

    Parts are `<name>/<part>.css`, in the order of their names: none of them may count on another.
    """
    own = f"{name}.css"
    if not (_FOLDER / own).is_file():
        return _asset("base", "css", _read(_BASE_STYLE))
    parts = sorted(part.name for part in (_FOLDER / name).iterdir()) if (_FOLDER / name).is_dir() else []
    names = [_BASE_STYLE, own, *(f"{name}/{part}" for part in parts if part.endswith(".css"))]
    return _asset(name, "css", "\n".join(map(_read, names)))


def load_template(name: str) -> Template:
    """A template of `web/` and what it extends or includes; it escapes what is filled in. Raises OSError."""
    return _TEMPLATES.load(name)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _asset(name: str, suffix: str, text: str) -> Asset:
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    compressed = gzip.compress(content, mtime=0)
    return Asset(f"{_ASSETS_PATH}{name}.{digest}.{suffix}", _MEDIA_TYPES[suffix], content, compressed, digest)


class _WebTemplates(BaseLoader):
    """Templates out of the package, wherever it is installed."""

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> Template:
        return Template(_read(name), name=name, loader=self)


_TEMPLATES: Final = _WebTemplates()


class AssetHandler(ReadOnlyHandler):
    """A file whose address changes with its content."""

    def initialize(self, asset: Asset) -> None:
        self._asset = asset

    def get(self) -> None:
        is_compressed = accepts_gzip(self.request)
        self.set_header("Cache-Control", _FOREVER)
        self.set_header("Vary", "Accept-Encoding")
        self.set_header("Etag", f'"{self._asset.digest}{"-gzip" if is_compressed else ""}"')
        if self.check_etag_header():
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        self.set_header("Content-Type", self._asset.media_type)
        if is_compressed:
            self.set_header("Content-Encoding", "gzip")
        self.finish(self._asset.compressed if is_compressed else self._asset.content)


def asset_rules(*assets: Asset) -> list[tuple[Any, ...]]:
    """Tornado's rules for them, each once."""
    return [(re.escape(f"/{asset.path}"), AssetHandler, {"asset": asset}) for asset in dict.fromkeys(assets)]
