"""Our own web pages. They are small, load nothing from other servers, and use the API like any front end.

`PAGE_TABLE` lists all of them. A page is a layout (`templates/layout.html`: the server's name, the menu, the title),
its texts (`[page.<name>]` and `[page.common]` of the translations) and a script (`pages/<name>.js`) that draws the
content. It allows no inline script and no inline style, so texts from a config cannot become either.

Only what most hosts ask for is drawn here, and no captcha; `templates/register.html` makes it HTML.

`/docs` is the API reference, generated from the OpenAPI document.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tornado.escape import xhtml_escape
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher

from regsvc.accounts.chat.linking import LINKED, PATH, WAITING
from regsvc.auth.derived_secrets import APPLICATION_PATH
from regsvc.auth.password_links import FORGOT_PASSWORD_PATH, SET_PASSWORD_PATH
from regsvc.config.host_sections import CHAT
from regsvc.config.host_style import accent_of, image_sources
from regsvc.core.addresses import public_game_address
from regsvc.core.i18n import Translations
from regsvc.core.shapes import encode_output
from regsvc.http.call import accepts_gzip
from regsvc.http.openapi import OpenApiBuilder
from regsvc.http.route import ACCESS_TOKEN, Route
from regsvc.registration.public_config import PublicConfig, PublicConfigFields
from regsvc.web.assets import (
    BRANDING,
    FEATURES,
    Asset,
    AssetFile,
    AssetHandler,
    Features,
    asset_rules,
    features_of,
    host_style,
    icon_of,
    initial_of,
    list_parts,
    load_files,
    load_icons,
    load_part,
    load_part_style,
    load_script,
    load_style,
    load_template,
    load_words,
    load_worker,
    make_texts,
    preview_of,
    sprite_of,
)
from regsvc.web.base import ReadOnlyHandler, content_security_policy

_LENGTHS: Final = re.compile(r"\{(\d+),(\d+)\}")

_USUAL_CHARACTERS: Final = "[a-zA-Z0-9_]"

_VISIBLE_ASCII: Final = "^[!-~]*$"


class DrawnField(NamedTuple):
    """A field. `kind` is the type of its input."""

    kind: str
    label: str
    hint: str
    is_optional: bool = False


class FirstStep(NamedTuple):
    """The step: the titles of it and of all others, its fields, and whether nothing comes between them and the button.

    Its words are those of the page.
    """

    titles: list[str]
    fields: list[DrawnField]
    is_whole: bool


def first_step(config: PublicConfigFields, texts: Mapping[str, str]) -> FirstStep | None:
    """Return the step in words of `texts`, the page's; None where it is left to the script."""
    fields = _email_field(config, texts) if config.captcha.email_enabled else _name_fields(config, texts)
    if not fields or not config.registration.open:
        return None
    titles = [
        *(["step_email", "step_code"] if config.captcha.email_enabled else []),
        "step_name" if _asks_password(config) else "name",
        *(["step_questionnaire"] if config.questionnaire.enabled else []),
        *(["step_chat"] if config.chat.enabled else []),
    ]
    is_whole = config.captcha.email_enabled and "verify_send" not in config.captcha.required_for
    return FirstStep([texts[title] for title in titles], fields, is_whole)


def _asks_password(config: PublicConfigFields) -> bool:
    rule = config.registration.password
    return rule == "required" or (rule == "optional" and config.authme.enabled)


def _email_field(config: PublicConfigFields, texts: Mapping[str, str]) -> list[DrawnField]:
    domains = ", ".join(config.email_domain_whitelist or ())
    accepted = "\n" + _fill(texts["email_domains"], domains=domains) if domains else ""
    return [DrawnField("email", texts["email"], texts["email_hint"] + accepted)]


def _name_fields(config: PublicConfigFields, texts: Mapping[str, str]) -> list[DrawnField]:
    rules, rule, lengths = config.registration, config.registration.password, _LENGTHS.search(config.username_regex)
    if config.bedrock.enabled or lengths is None or _USUAL_CHARACTERS not in config.username_regex:
        return []
    hint = _fill(texts["name_usual"], minLength=lengths[1], maxLength=lengths[2])
    fields = [DrawnField("text", texts["name"], hint)]
    if _asks_password(config):
        if rules.password_regex != _VISIBLE_ASCII:
            return []
        is_optional = rule == "optional"
        hint = _fill(texts["password_usual"], minLength=rules.password_min_length, maxLength=rules.password_max_length)
        note = f"{texts['password_later']}\n" if is_optional else ""
        fields.append(DrawnField("password", texts["password"], note + hint, is_optional))
    if rules.email == "optional":
        fields.append(DrawnField("email", texts["email"], texts["email_about"], is_optional=True))
    return fields


def _fill(text: str, **values: object) -> str:
    """Put values into a text, as the scripts do."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


ANNOUNCEMENT_COOKIE: Final = "companion_announcement"
"""Cookie with the id of the announcement that the visitor dismissed; written by the pages' own scripts."""

# An address ends before punctuation that belongs to the sentence around it.
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'，。；：！？、）】」』]*[^\s<>\"'，。；：！？、）】」』.,;:!?)\]]")


class TextPart(NamedTuple):
    """A part of a text; `address` is "" unless it is a link."""

    text: str
    address: str = ""


def split_links(text: str) -> list[TextPart]:
    """Return a text as its parts, in which web addresses are links."""
    parts: list[TextPart] = []
    end = 0
    for match in _ADDRESS.finditer(text):
        parts += [TextPart(text[end : match.start()]), TextPart(match[0], match[0])]
        end = match.end()
    parts.append(TextPart(text[end:]))
    return [part for part in parts if part.text]


def announcement_id(text: str) -> str:
    """Return an id that changes with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class WebPage:
    """A page of ours.

    `name` is that of its script, of its own style sheet if it has one, and of its texts ("set-password" has the section
    `page.set_password`). Pages with `is_for_players` have the players' menu; those in the menu and the home page show
    the announcement, and search engines may list them if the host likes.
    """

    path: str
    name: str
    is_for_players: bool = True
    is_in_menu: bool = False
    is_wide: bool = False
    is_mailed: bool = False
    """Mails link to the page, so it exists even if the host has their own front end."""
    template: str = "page.html"
    parts: tuple[str, ...] = ()
    """Parts that it shares with other pages: the texts of "join", how to join the game, are in `[page.join]`."""
    has_script: bool = True
    """Whether a script draws its content."""
    asks_captchas: bool = False
    """Whether one of its forms may ask for a captcha; a worker solves those without a picture."""

    @property
    def section(self) -> str:
        """The section of the translations with its texts."""
        return f"page.{self.name.replace('-', '_')}"

    @property
    def script(self) -> str | None:
        """The name of its script."""
        return self.name if self.has_script else None

    @property
    def preload(self) -> str | None:
        """The name of a small script that asks for a part early, for those who need it."""
        return f"{self.name}-preload" if self.name == "admin" else None

    @property
    def files(self) -> tuple[AssetFile, ...]:
        """Its style sheet, its scripts, the parts that these load later, and the worker that it may start."""
        scripts = [(load_script, name) for name in (self.preload, self.script) if name is not None]
        parts = [(load, part) for part in list_parts(self.name) for load in (load_part, load_part_style)]
        worker = [(load_worker, "captcha")] if self.asks_captchas else []
        return (load_style, self.name), *scripts, *parts, *worker

    @property
    def sections(self) -> tuple[str, ...]:
        """All sections of the translations that its script uses."""
        return ("page.common", *(f"page.{part}" for part in self.parts), self.section)


PAGE_TABLE: Final = (
    WebPage("/", "home", template="home.html"),
    WebPage(
        "/register", "register", is_in_menu=True, template="register.html", parts=("questions",), asks_captchas=True
    ),
    WebPage("/account", "account", is_in_menu=True, parts=("join",), asks_captchas=True),
    WebPage("/server", "server", is_in_menu=True, parts=("join",)),
    WebPage(FORGOT_PASSWORD_PATH, "forgot-password", is_mailed=True, asks_captchas=True),
    WebPage(SET_PASSWORD_PATH, "set-password", is_mailed=True, parts=("join",)),
    WebPage(APPLICATION_PATH, "application", is_mailed=True, parts=("join", "questions"), asks_captchas=True),
    WebPage("/admin", "admin", is_for_players=False, is_wide=True, asks_captchas=True),
)
_HOME: Final = PAGE_TABLE[0]
_LINK_ICONS: Final = (
    (CHAT, "i-message-circle"),
    (re.compile("map|karte|carte|地图", re.IGNORECASE), "i-map"),
    (re.compile("rule|regel|règle|规则", re.IGNORECASE), "i-scroll-text"),
    (re.compile("wiki|guide|news|blog", re.IGNORECASE), "i-book-open"),
    (re.compile("vote|shop|store", re.IGNORECASE), "i-star"),
    (re.compile(""), "i-link"),
)
"""Icons of a host's links, by what their texts or addresses say; the first that fits."""
_LONGEST_WAY_UP: Final = 32  # folders
_DRAWN_CONFIG: Final = {
    *("theme", "logoUrl", "bannerUrl", "favicon", "accent", "description", "links", "announcement"),
    *("language", "languages", "authMethods", "enableEmailAliasLimit"),
}
"""Fields of the public config that the layout has drawn, or that no script of ours needs."""
_MENU: Final = tuple(page for page in PAGE_TABLE if page.is_in_menu)

_loaded: Final = set[tuple[str, Features]]()
"""The pages whose files are in memory, and for which features."""


def load_page(page: WebPage, features: Features = FEATURES) -> None:
    """Load the page's template and assets. Blocking. Raises OSError or `UnsupportedModule` for a broken script."""
    load_template(page.template)
    load_files(page.files, features)
    load_icons(page.template, page.script, features)
    for load, name in ((load_script, page.script), *((load_part, part) for part in list_parts(page.name))):
        if name is not None:
            load_words(load, name, features)
    _loaded.add((page.name, features))


class LayoutHandler(ReadOnlyHandler):
    """Base of all pages, which share one layout."""

    async def render_page(
        self, page: WebPage, title: str, texts: Mapping[str, str] = MappingProxyType({}), **values: object
    ) -> None:
        """Render the page's template, which extends the layout, and send it.

        `texts`: those that its script may need, of which it is given what it names. `values` are the template's own.
        """
        features = features_of(self.config)
        if (page.name, features) not in _loaded:
            await asyncio.to_thread(load_page, page, features)
        config, language = self.config, self.language
        worker = load_worker("captcha").path if page.asks_captchas and config.captcha.without_picture else None
        policy = content_security_policy(image_sources(config), has_worker=worker is not None)
        self.set_header("Content-Security-Policy", policy)
        is_public = page.is_in_menu or page is _HOME
        announcement = self.live.announcement_for(language)
        is_dismissed = self.find_choice(ANNOUNCEMENT_COOKIE) == announcement_id(announcement)
        links = [
            (text, address, _link_icon(text, address))
            for text, address in config.server.in_language(config.server.links, language).items()
        ]
        icons = load_icons(page.template, page.script, features)
        icons |= {icon for _text, _address, icon in links if page is _HOME}
        said, *later = _split_texts(page, texts, features)
        html = load_template(page.template).generate(
            language=language,
            host=config.server,
            initial=initial_of(config),
            links=links,
            sprite=sprite_of(icons),
            description=config.server.in_language(config.server.description, language) or self._text("page.home.about"),
            theme_color=accent_of(config).light,
            host_style=host_style(config),
            icon=icon_of(config),
            preview=preview_of(config, page.path),
            is_indexed=config.server.index and is_public,
            announcement=split_links(announcement) if is_public and not is_dismissed else (),
            announcement_id=announcement_id(announcement),
            # a proxy may serve us under a path prefix, so links are relative, also those of a path in a folder
            root="../" * min(self.request.path.count("/") - 1, _LONGEST_WAY_UP),
            page=page,
            menu=_MENU if page.is_for_players and config.http.web_root is None else (),
            has_front_end=config.http.web_root is not None,
            menu_word=lambda entry: self._text(f"{entry.section}.menu"),
            common=lambda key: self._text(f"page.common.{key}"),
            style=load_style(page.name, features).path,
            captcha_worker=worker,
            parts=" ".join(asset.path for asset in _parts_of(page, later, features)),
            word=lambda key: texts.get(key) if key == "closed" else self._text(f"{page.section}.{key}"),
            preload=load_script(page.preload, features).path if page.preload else None,
            script=load_script(page.name, features).path if page.has_script else None,
            texts_of_script=_to_attribute(said),
            title=title,
            full_title=config.server.name if page is _HOME else f"{title} – {config.server.name}",
            **values,
        )
        self.send_page(html, language)

    def _text(self, key: str) -> str:
        return self.translations.text(key, self.language)


def _split_texts(page: WebPage, texts: Mapping[str, str], features: Features) -> list[dict[str, str]]:
    """Return the texts that the page's script names, and for each of its parts those that no earlier one does.

    The last part has the rest.
    """
    if page.script is None:
        return [{}]
    left, split = dict(texts), []
    parts = list_parts(page.name)
    for load, name in ((load_script, page.script), *((load_part, part) for part in parts)):
        is_said = load_words(load, name, features)
        said = {key: text for key, text in left.items() if is_said(key) or (parts and name == parts[-1])}
        left = {key: text for key, text in left.items() if key not in said}
        split.append(said)
    return split


def _parts_of(page: WebPage, texts: Iterable[Mapping[str, str]], features: Features) -> Iterator[Asset]:
    """Yield script, style and texts of each part."""
    for part, own in zip(list_parts(page.name), texts, strict=True):
        yield load_part(part, features)
        yield load_part_style(part, features)
        yield make_texts(part, _to_json(own))


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_attribute(value: Mapping[str, Any]) -> str:
    """Return it as the JSON of an attribute in single quotes, which is shorter than one with escaped double ones."""
    return _to_json(value).replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")


def _without_drawn(config: PublicConfigFields) -> dict[str, Any]:
    return {name: value for name, value in json.loads(encode_output(config)).items() if name not in _DRAWN_CONFIG}


def _link_icon(text: str, address: str) -> str:
    return next(icon for pattern, icon in _LINK_ICONS if pattern.search(f"{text} {address}"))


class PageHandler(LayoutHandler):
    """Handler for a page whose content is drawn by a script."""

    def initialize(self, page: WebPage) -> None:
        self._page = page

    @property
    def languages(self) -> list[str]:
        """The languages of this page: those of the players' pages need not have the texts for operators."""
        return self.translations.languages_of(self._page.section)

    async def get(self) -> None:
        texts = _texts_of(self._page, self.translations, self.language)
        if "paused" in texts and self.live.is_paused:
            texts["closed"] = texts["paused"]
        public = self.application.features.of_class(PublicConfig).in_language(self.language)
        await self.render_page(
            self._page,
            title=texts["title"],
            texts=texts,
            first=first_step(public, texts) if self._page.name == "register" else None,
            languages=" ".join(self.languages),
            is_open=self.config.registration.open,
            has_address=public_game_address(self.config.game.address) is not None,
            has_review=self.config.registration.approval,
            has_questions=public.questionnaire.enabled,
            config=_to_attribute(_without_drawn(public)),
        )


def _texts_of(page: WebPage, translations: Translations, language: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for section in page.sections:
        texts |= translations.section(section, language)
    if not page.is_for_players:
        reasons = translations.section("reason", language)
        texts |= {f"reason.{code}": words for code, words in reasons.items()}
    return texts


def _load_texts(page: WebPage, translations: Translations, features: Features) -> None:
    """Load the texts of the page's parts in each language. Blocking."""
    for language in translations.languages_of(page.section):
        _said, *later = _split_texts(page, _texts_of(page, translations, language), features)
        list(_parts_of(page, later, features))


class SlashedHandler(ReadOnlyHandler):
    """Handler that leads to a page whose path was requested with a slash at its end, as people and some proxies do."""

    def initialize(self, page: WebPage) -> None:
        self._page = page

    def get(self) -> None:
        query = f"?{self.request.query}" if self.request.query else ""
        self.set_status(HTTPStatus.PERMANENT_REDIRECT)
        self.set_header("Location", f"..{self._page.path}{query}")  # relative: a proxy may serve us under a path prefix


def page_rules(pages: Iterable[WebPage]) -> list[tuple[Any, ...]]:
    """Return Tornado's rules for pages and their assets."""
    listed = tuple(pages)
    rules: list[tuple[Any, ...]] = [(re.escape(page.path), PageHandler, {"page": page}) for page in listed]
    rules += [(re.escape(f"{page.path}/"), SlashedHandler, {"page": page}) for page in listed if page is not _HOME]
    rules += [
        (rf"/web/{part}\.[0-9a-f]{{16}}\.json", AssetHandler, {"load_all": partial(_load_texts, page)})
        for page in listed
        for part in list_parts(page.name)
    ]
    return rules + asset_rules(*(file for page in listed for file in page.files))


class NotFoundHandler(LayoutHandler):
    """Handler that tells people, instead of programs, that there is no such page."""

    async def get(self) -> None:
        self.set_status(HTTPStatus.NOT_FOUND)
        words: dict[str, Any] = {key: self._text(f"{_NOT_FOUND.section}.{key}") for key in ("title", "advice", "go_on")}
        await self.render_page(_NOT_FOUND, **words)


class _WantedAsPage(Matcher):
    """Matches what browsers request to show it, outside the API."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        is_wanted = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
        return {} if is_wanted and not re.match(r"/api(?:/|$)", request.path or "") else None


_NOT_FOUND: Final = WebPage("", "not-found", template="not-found.html", has_script=False)

PAGES: Final = [*page_rules(page for page in PAGE_TABLE if page.is_mailed), *BRANDING]
"""Tornado's rules for the pages that exist on every host."""

OWN_PAGES: Final = page_rules(page for page in PAGE_TABLE if not page.is_mailed)
"""Tornado's rules for the other pages, for hosts without their own front end, to be added last."""
OWN_PAGES.append((_WantedAsPage(), NotFoundHandler))


_REASONS: Final = {
    "invalid_state": "refusal.invalid_state",
    "chat_denied": "refusal.chat_denied",
    "not_in_guild": "fault.chat_not_member.not_in_guild",
    "lacks_role": "fault.chat_not_member.lacks_role",
    "chat_account_taken": "refusal.chat_account_taken",
    "rate_limited": "page.chat_linked.limited",
    "provider_away": "refusal.provider_away",
    "not_enabled": "refusal.not_enabled",
    "overloaded": "refusal.overloaded",
    "busy": "refusal.busy",
    "database_away": "refusal.database_away",
    "unwritable": "fault.database_away.unwritable",
}
"""Translation keys of the reasons why linking failed, by outcome. Other outcomes get no reason."""

_ADVICE: Final = {LINKED: "advice_linked", WAITING: "advice_waiting", "chat_account_taken": "advice_taken"}


class ChatLinkedHandler(LayoutHandler):
    """Handler that shows only our own texts, chosen by the query's `outcome`. It needs no script."""

    async def get(self) -> None:
        outcome = self.get_query_argument("outcome", "")
        has_reason = outcome in _REASONS
        await self.render_page(
            _CHAT_LINKED,
            title=self._word(outcome if outcome in (LINKED, WAITING) else "failed"),
            reason=self._text(_REASONS[outcome]) if has_reason else "",
            advice=self._word(_ADVICE.get(outcome, "advice_failed")),
            go_on=self._word("go_on"),
        )

    def _word(self, key: str) -> str:
        return self._text(f"{_CHAT_LINKED.section}.{key}")


_CHAT_LINKED: Final = WebPage(PATH, "chat-linked", is_for_players=False, template="chat-linked.html", has_script=False)

CHAT_PAGE: Final[list[tuple[Any, ...]]] = [
    (re.escape(PATH), ChatLinkedHandler),
    *asset_rules(*_CHAT_LINKED.files),
]
"""Tornado's rules for the page and its style sheet."""

Schema = dict[str, Any]

_STYLE: Final = "docs"
_DEEPEST: Final = 3


class DocsHandler(ReadOnlyHandler):
    """Handler of the page, which needs no script."""

    async def get(self) -> None:
        config, is_compressed = self.config, accepts_gzip(self.request)
        style = host_style(config)
        plain, compressed = await asyncio.to_thread(
            _page,
            self.application.routes,
            self.translations,
            config.server.name,
            config.server.theme,
            icon_of(config),
            "" if style is None else style.path,
            config.http.legacy_status,
        )
        self.set_header("Content-Security-Policy", content_security_policy(image_sources(config)))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Language", "en")
        self.set_header("Vary", "Accept-Encoding")
        if is_compressed:
            self.set_header("Content-Encoding", "gzip")
        self.finish(compressed if is_compressed else plain)

    async def head(self) -> None:
        await self.get()


@lru_cache(maxsize=1)  # rendered once: it changes only with the config
def _page(
    routes: tuple[Route, ...],
    translations: Translations,
    server: str,
    theme: str,
    icon: str,
    own_style: str,
    is_legacy: bool,
) -> tuple[bytes, bytes]:
    """Return the page, plain and compressed."""
    document = OpenApiBuilder(routes, translations, server_url="/", is_legacy=is_legacy).build()
    groups: dict[str, list[Schema]] = {}  # in the order of their first operation
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            described = operation | {"method": method.upper(), "path": path}
            groups.setdefault(operation["tags"][0], []).append(described)
    page: bytes = load_template("docs.html").generate(
        server=server,
        theme=theme,
        icon=icon,
        styles=tuple(filter(None, (load_style(_STYLE).path, own_style))),
        info=document["info"],
        groups=groups,
        reference=_Reference(document),
        rich=rich,
    )
    return page, gzip.compress(page, mtime=0)


def rich(text: str) -> str:
    """Return a text as escaped HTML, with `backticks` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", xhtml_escape(text))


@dataclass(frozen=True)
class _Reference:
    """Parts of the OpenAPI document that the template shows."""

    document: Schema

    def credentials(self, operation: Schema) -> str:
        """Return the credentials that the operation requires or accepts, in words."""
        words = []
        for name in (name for alternative in operation.get("security", ()) for name in alternative):
            scheme = self.document["components"]["securitySchemes"][name]
            is_bearer = scheme["type"] == "http"
            words.append("`Authorization: Bearer …`" if is_bearer else f"the {scheme['in']} `{scheme['name']}`")
        if not words:
            return ""
        verb = "Requires" if operation["security"] == [{ACCESS_TOKEN: []}] else "Accepts"
        return f"{verb} {', '.join(words)}"

    def bodies(self, operation: Schema) -> Iterator[tuple[str, Schema, str]]:
        """Yield schema and example of the request (with the status "") and of each reply."""
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            yield "", self._resolve(content["schema"]), _dump(content["example"])
        elif parameters := operation.get("parameters"):
            fields = {
                each["name"]: {"description": each.get("description", ""), **each["schema"]} for each in parameters
            }
            yield "", {"properties": fields, "required": [each["name"] for each in parameters if each["required"]]}, ""
        for status, response in operation["responses"].items():
            content = self._resolve(response).get("content", {}).get("application/json", {})
            schema = content.get("schema", {})
            for kind in schema.get("anyOf", [schema]):
                if name := kind.get("$ref", "").rpartition("/")[2]:
                    yield status, self._resolve(kind), _dump(content["examples"][name]["value"])

    def refusals(self, operation: Schema) -> list[tuple[str, str, str]]:
        """Return status, code and cause of each refusal."""
        return [
            (status, code, about)
            for status, response in operation["responses"].items()
            for code, about in re.findall(r"^- `(\w+)`: (.*)$", self._resolve(response)["description"], re.MULTILINE)
        ]

    def fields(self, schema: Schema, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, bool, str, str]]:
        """Yield the dotted name of each field (such as `data.status`), whether it is required, type and description."""
        for name, field in schema.get("properties", {}).items():
            value = self._unwrap(field)
            yield prefix + name, name in schema.get("required", ()), _kind_of(value), value.get("description", "")
            is_list = value.get("type") == "array" and "items" in value
            inner = self._unwrap(value["items"]) if is_list else value
            if "properties" in inner and depth < _DEEPEST:
                yield from self.fields(inner, f"{prefix}{name}{'[].' if is_list else '.'}", depth + 1)

    def _unwrap(self, schema: Schema) -> Schema:
        """Return the schema without its reference or null alternative; `may_be_null` records the latter."""
        kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
        may_be_null = len(kinds) < len(schema.get("anyOf", ()))
        resolved = self._resolve(kinds[0] if len(kinds) == 1 else schema)
        return resolved | {"may_be_null": True} if may_be_null else resolved

    def _resolve(self, part: Schema) -> Schema:
        if "$ref" not in part:
            return part
        _root, _components, kind, name = part["$ref"].split("/")
        resolved: Schema = self.document["components"][kind][name]
        return resolved


def _dump(example: object) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)


def _kind_of(schema: Schema) -> str:
    """Return the type of a value in a few words."""
    kinds = [_kind_of(kind) for kind in schema["anyOf"]] if "anyOf" in schema else [_plain_kind(schema)]
    if schema.get("may_be_null"):
        kinds.append("null")
    return " | ".join(dict.fromkeys(kinds))


def _plain_kind(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        inner = schema.get("items", {})
        return f"list of {_plain_kind(inner) if 'type' in inner else 'object'}s"
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    bounds = f" ({low if low is not None else ''}…{high})" if high is not None and high < 10**6 else ""
    return f"{schema.get('type', 'anything')}{bounds}"


DOCS: Final[list[tuple[Any, ...]]] = [("/docs", DocsHandler), *asset_rules((load_style, _STYLE))]
"""Tornado's rules for the page and its style sheet."""
