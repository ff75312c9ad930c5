"""Pages of ours, beside the API. They are small, need nobody else's servers, and talk to the API as front ends do.

A page is a template of `web/`, filled with the words of the visitor's language, and the two files it refers to. It
allows no inline script and no inline style, so words from a config cannot become either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from tornado.template import Template

from regsvc.api.base import BaseHandler
from regsvc.errors import InternalFault, MalformedRequest, MethodNotAllowed, Refusal
from regsvc.mail_renderer import SET_PASSWORD_PATH

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

_FOLDER: Final = files("regsvc") / "web"
_ASSETS_PATH: Final = "web/"
_MEDIA_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_FOREVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """A script or style sheet. `path` has the content's hash in it, and no slash in front.

    Pages refer to it relative to themselves: a proxy may show us below a path of its own.
    """

    path: str
    media_type: str
    content: bytes
    digest: str


def load_asset(name: str) -> Asset:
    """A file of `web/`, such as "set-password.js". Raises OSError where it is missing."""
    stem, _dot, suffix = name.rpartition(".")
    content = (_FOLDER / name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Asset(f"{_ASSETS_PATH}{stem}.{digest}.{suffix}", _MEDIA_TYPES[suffix], content, digest)


def load_template(name: str) -> Template:
    """A template of `web/`; it escapes what is filled in. Raises OSError where it is missing."""
    return Template((_FOLDER / name).read_text(encoding="utf-8"), name=name)


class ReadOnlyHandler(BaseHandler):
    """Answers GET and HEAD; what goes wrong is told in one plain sentence."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)

    @property
    def language(self) -> str:
        """The browser's language, or else the host's."""
        accepted = self.request.headers.get("Accept-Language")
        return self.services.translations.pick(None, accepted, self.services.config.server.language)

    def head(self) -> Awaitable[None] | None:
        return self.get()

    def write_error(self, status_code: int, **_kwargs: Any) -> None:
        refusal = self._refusal_for(status_code)
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        self.set_status(refusal.category)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self.services.translations.refusal(refusal, self.language) + "\n")

    def _refusal_for(self, status_code: int) -> Refusal:
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(["GET", "HEAD"])
        if status_code < HTTPStatus.INTERNAL_SERVER_ERROR:  # Tornado objects to a form it cannot read
            return MalformedRequest()
        return InternalFault(self.request_id)


class AssetHandler(ReadOnlyHandler):
    """A file whose address changes with its content."""

    def initialize(self, asset: Asset) -> None:
        self._asset = asset

    def get(self) -> None:
        self.set_header("Cache-Control", _FOREVER)
        self.set_header("Etag", f'"{self._asset.digest}"')
        if self.check_etag_header():
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        self.set_header("Content-Type", self._asset.media_type)
        self.finish(self._asset.content)


class PageHandler(ReadOnlyHandler):
    """A page in the visitor's language."""

    def initialize(self, template: Template, section: str, style: Asset, script: Asset) -> None:
        """`section`: where the page's words stand in the translations, such as `page.set_password`."""
        self._template = template
        self._section = section
        self._style = style
        self._script = script

    def get(self) -> None:
        language = self.language
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Language", language)
        self.set_header("Vary", "Accept-Language")
        self.finish(
            self._template.generate(
                language=language,
                server=self.services.config.server.name,
                style=self._style.path,
                script=self._script.path,
                word=self._word,
                fault=self._fault,
            )
        )

    def _word(self, key: str) -> str:
        """A word of the page; a `{name}` in it stays for the script to fill in."""
        return self.services.translations.text(f"{self._section}.{key}", self.language)

    def _fault(self, key: str) -> str:
        """What the API would say of a password, so that the page may say it first."""
        return self.services.translations.text(f"fault.invalid_password.{key}", self.language)


def _page(path: str, name: str) -> list[tuple[Any, ...]]:
    """The rules of a page and its two files; "set-password" has its words under `page.set_password`."""
    style, script = load_asset(f"{name}.css"), load_asset(f"{name}.js")
    page = {
        "template": load_template(f"{name}.html"),
        "section": f"page.{name.replace('-', '_')}",
        "style": style,
        "script": script,
    }
    assets = [(re.escape(f"/{asset.path}"), AssetHandler, {"asset": asset}) for asset in (style, script)]
    return [(re.escape(path), PageHandler, page), *assets]


PAGES: Final[list[tuple[Any, ...]]] = _page(SET_PASSWORD_PATH, "set-password")
"""Tornado's rules for all pages."""
