"""Branding of a host: style sheet, icon, manifest, and previews of links."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin

from tornado.escape import xhtml_escape

from regsvc.config.host_style import DARK, LIGHT, Accent, accent_of
from regsvc.config.sections import Config
from regsvc.web.assets import Asset, AssetHandler, make_style
from regsvc.web.base import ReadOnlyHandler

_STYLE_NAME: Final = "host"
_ICON: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='{colour}'/>"
    "<text x='16' y='23' font-family='sans-serif' font-size='20' font-weight='bold' text-anchor='middle' fill='#fff'>"
    "{letter}</text></svg>"
)


class Preview(NamedTuple):
    """Preview of a link to a page, as chats show it. Addresses are absolute; "" leaves a part out."""

    url: str
    image: str
    is_large: bool


def host_style(config: Config) -> Asset | None:
    """Return the style sheet of a host, to be linked after ours; None if they have neither colour nor style sheet."""
    if not config.server.accent and not config.custom_css:
        return None
    return _make_style(accent_of(config) if config.server.accent else None, config.custom_css)


@lru_cache(maxsize=2)
def _make_style(accent: Accent | None, custom_css: str) -> Asset:
    if accent is None:
        return make_style(_STYLE_NAME, custom_css)
    light = f":root {{ --accent: {accent.light}; --on-accent: {LIGHT['on-accent']}; }}"
    dark = f":root {{ --accent: {accent.dark}; --on-accent: {DARK['on-accent']}; }}"
    return make_style(_STYLE_NAME, f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n{custom_css}")


def initial_of(config: Config) -> str:
    """Return the first letter of the host's name, in place of a logo."""
    return config.server.name.strip()[:1].upper()


def icon_of(config: Config) -> str:
    """Return the address of the host's icon; without one, a data URL with the first letter of the host's name."""
    if config.server.favicon:
        return config.server.favicon
    letter = xhtml_escape(initial_of(config))
    return f"data:image/svg+xml,{quote(_ICON.format(colour=accent_of(config).light, letter=letter), safe=' =:/')}"


def preview_of(config: Config, path: str) -> Preview:
    """Return the preview of a page, without what needs `server.base_url` where that is not set."""
    server = config.server
    image = server.banner_url or server.logo_url
    if image.startswith("data:"):  # chats fetch pictures
        image = ""
    if image.startswith("/"):
        image = server.base_url and urljoin(server.base_url, image)
    return Preview(server.base_url and server.base_url + path, image, is_large=bool(image and server.banner_url))


def _manifest(config: Config, language: str) -> dict[str, object]:
    server = config.server
    description = server.in_language(server.description, language)
    return {
        "name": server.name,
        "short_name": server.name,
        **({"description": description} if description else {}),
        "start_url": "./",
        "scope": "./",
        "display": "minimal-ui",
        "theme_color": accent_of(config).light,
        "background_color": LIGHT["page"],
        "icons": [{"src": server.favicon or server.logo_url or icon_of(config), "sizes": "any"}],
    }


class HostStyleHandler(AssetHandler):
    """Handler for the style sheet of a host, which a reload of the config may change."""

    async def get(self) -> None:
        self.send_asset(host_style(self.config) or make_style(_STYLE_NAME, ""))


class ManifestHandler(ReadOnlyHandler):
    """Handler for the manifest, from which browsers install the pages as an app."""

    def get(self) -> None:
        self.set_header("Content-Type", "application/manifest+json; charset=utf-8")
        self.finish(json.dumps(_manifest(self.config, self.language), ensure_ascii=False))


BRANDING: Final[list[tuple[Any, ...]]] = [
    (rf"/web/{_STYLE_NAME}\.[0-9a-f]{{16}}\.css", HostStyleHandler, {"files": ()}),
    (r"/manifest\.webmanifest", ManifestHandler),
]
"""Tornado's rules for a host's style sheet and the manifest."""
