"""Our own pages, beside the API. They are small, need nobody else's servers, and talk to the API as front ends do.

`PAGE_TABLE` lists all of them. A page is a layout (`templates/layout.html`: the server's name, the menu, the title),
its texts (`[page.<name>]` and `[page.common]` of the translations) and a script (`pages/<name>.js`) that draws the
content. It allows no inline script and no inline style, so texts from a config cannot become either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from tornado.template import Template

from regsvc.config.sections import Config
from regsvc.notifications.mail.renderer import SET_PASSWORD_PATH
from regsvc.web.assets import Asset, asset_rules, load_script, load_style, load_template
from regsvc.web.base import ReadOnlyHandler, content_security_policy


@dataclass(frozen=True)
class WebPage:
    """`name`: of its script, its words, and its own style sheet if it has one; "set-password" says `page.set_password`.

    `is_for_players`: it has the menu of the players' pages. Those in the menu show the host's announcement.
    """

    path: str
    name: str
    is_for_players: bool = True
    is_in_menu: bool = False
    is_wide: bool = False
    is_mailed: bool = False
    """Mails lead here, so it is ours even beside a front end of the host's own."""

    @property
    def section(self) -> str:
        """Where its words stand."""
        return f"page.{self.name.replace('-', '_')}"


PAGE_TABLE: Final = (
    WebPage("/register", "register", is_in_menu=True),
    WebPage("/account", "account", is_in_menu=True),
    WebPage("/server", "server", is_in_menu=True),
    WebPage("/forgot-password", "forgot-password"),
    WebPage(SET_PASSWORD_PATH, "set-password", is_mailed=True),
    WebPage("/admin", "admin", is_for_players=False, is_wide=True),
)
_HOME: Final = PAGE_TABLE[0]
_MENU: Final = tuple(page for page in PAGE_TABLE if page.is_in_menu)


class LayoutHandler(ReadOnlyHandler):
    """A page inside the frame that all of ours share."""

    def send_framed(self, template: Template, page: WebPage, style: Asset, title: str, **inside: object) -> None:
        """`inside`: what the template fills in beside the frame."""
        config, language = self.services.config, self.language
        self.set_header("Content-Security-Policy", content_security_policy(image_sources(config)))
        html = template.generate(
            language=language,
            server=config.server.name,
            logo=config.server.logo_url,
            theme=config.server.theme,
            announcement=config.server.announcement if page.is_in_menu else "",
            page=page,
            menu=_MENU if page.is_for_players and config.http.web_root is None else (),
            menu_word=lambda entry: self._text(f"{entry.section}.menu"),
            common=lambda key: self._text(f"page.common.{key}"),
            style=style.path,
            title=title,
            **{"script": None, **inside},
        )
        self.send_page(html, language)

    def _text(self, key: str) -> str:
        return self.services.translations.text(key, self.language)


class PageHandler(LayoutHandler):
    """A page whose inside a script draws."""

    def initialize(self, page: WebPage, template: Template, style: Asset, script: Asset) -> None:
        self._page, self._template, self._style, self._script = page, template, style, script

    def get(self) -> None:
        translations = self.services.translations
        words = translations.section("page.common", self.language) | translations.section(
            self._page.section, self.language
        )
        self.send_framed(
            self._template,
            self._page,
            self._style,
            title=words["title"],
            script=self._script.path,
            words=json.dumps(words, ensure_ascii=False, separators=(",", ":")),
            languages=" ".join(translations.languages),
        )


def image_sources(config: Config) -> list[str]:
    """From where the pages of this host show pictures, as a policy names it."""
    pictures = (config.server.logo_url, *(download.icon for download in config.downloads.values()))
    return sorted({_source(picture) for picture in pictures if picture})


def _source(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"


def page_rules(pages: Iterable[WebPage]) -> list[tuple[Any, ...]]:
    """Tornado's rules for pages and their files. Raises OSError or `UnknownModuleForm` for a broken script."""
    rules: list[tuple[Any, ...]] = []
    assets: list[Asset] = []
    for page in pages:
        style, script = load_style(page.name), load_script(page.name)
        inside = {"page": page, "template": load_template("page.html"), "style": style, "script": script}
        rules.append((re.escape(page.path), PageHandler, inside))
        assets += [style, script]
    return rules + asset_rules(*assets)


PAGES: Final = page_rules(page for page in PAGE_TABLE if page.is_mailed)
"""Tornado's rules for the pages that every host has."""

OWN_PAGES: Final = page_rules(page for page in PAGE_TABLE if not page.is_mailed)
"""Those for the rest, where the host has no front end of his own; `/` is the first of them."""
OWN_PAGES.extend([("/", *rule[1:]) for rule in OWN_PAGES if rule[0] == re.escape(_HOME.path)])
