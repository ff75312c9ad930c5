"""The pages beside the API: what arrives in a browser, and what a browser is told to allow."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from tornado.netutil import bind_sockets

from regsvc.api.application import make_application, make_server
from regsvc.api.pages import CONTENT_SECURITY_POLICY, PAGES, Asset, load_asset
from regsvc.config import Config, ServerSection
from regsvc.i18n import load_translations
from regsvc.mail_renderer import SET_PASSWORD_PATH
from regsvc.services import Services
from tests.support.live_api import LiveApi, Reply, make_services

ASSETS = [load_asset("set-password.css"), load_asset("set-password.js")]
LARGEST_FILE = 10 * 1024
MARKUP = """</title><script>alert("1")</script>' onload='alert(2)' & {{ server }} {minLength}"""


class LivePages(LiveApi):
    """The API with the pages beside it, as the daemon serves them."""

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = make_server(make_application(self._services, pages=PAGES), self._services.config)
        sockets = bind_sockets(0, "127.0.0.1")
        self.port = sockets[0].getsockname()[1]
        server.add_sockets(sockets)
        self._is_ready.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()


class Page(HTMLParser):
    """A page as a browser understands it. `texts`: the words by the element they stand in."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, str] = {}
        self._tag = ""
        self.feed(reply.content.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._tag] = self.texts.get(self._tag, "") + data

    def all(self, wanted: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag == wanted]


@pytest.fixture(scope="module")
def api() -> Iterator[LivePages]:
    with LivePages(make_services(Config())) as live:
        yield live


def open_page(services: Services, accept_language: str | None = None) -> Reply:
    headers = {"Accept-Language": accept_language} if accept_language else {}
    with LivePages(services) as live:
        return live.request("GET", SET_PASSWORD_PATH, headers=headers)


def test_the_mailed_link_opens_a_page_that_is_not_stored(api: LivePages) -> None:
    reply = api.request("GET", "/set-password")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"
    assert "Etag" not in reply.headers


@pytest.mark.parametrize("path", ["/set-password", *(f"/{asset.path}" for asset in ASSETS)])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_reply_says_what_a_browser_may_do(api: LivePages, method: str, path: str) -> None:
    headers = api.request(method, path, headers={"X-Request-ID": "r-1"}).headers
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Request-ID"] == "r-1"
    assert "Server" not in headers
    assert "Set-Cookie" not in headers


def test_nothing_is_allowed_that_the_page_does_not_need() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )


@pytest.mark.parametrize("path", ["/set-password", *(f"/{asset.path}" for asset in ASSETS)])
def test_head_tells_the_same_without_the_content(api: LivePages, path: str) -> None:
    got, told = api.request("GET", path), api.request("HEAD", path)
    assert told.status == 200
    assert told.content == b""
    for name in ("Content-Length", "Content-Type", "Cache-Control", "Etag"):
        assert told.headers[name] == got.headers[name]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/set-password", f"/{ASSETS[0].path}"])
def test_it_can_only_be_read(api: LivePages, method: str, path: str) -> None:
    reply = api.request(method, path, headers={"Accept-Language": "zh"})
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.content.decode() == load_translations().text("refusal.method_not_allowed", "zh") + "\n"


def test_a_form_nobody_can_read_is_the_senders_fault(api: LivePages) -> None:
    headers = {"Content-Type": "multipart/form-data"}
    assert api.request("POST", "/set-password", b"password=hunter2", headers).status == 400


def test_a_page_that_is_not_there(api: LivePages) -> None:
    for path in ("/", "/set-password/", "/web/", "/web/set-password.js", "/web/../pages.py"):
        assert api.request("GET", path).status == 404


@pytest.mark.parametrize("asset", ASSETS, ids=lambda asset: asset.media_type)
def test_a_file_is_fetched_once_and_kept(api: LivePages, asset: Asset) -> None:
    reply = api.request("GET", f"/{asset.path}")
    assert reply.status == 200
    assert reply.content == asset.content
    assert reply.headers["Content-Type"] == asset.media_type
    assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"

    again = api.request("GET", f"/{asset.path}", headers={"If-None-Match": reply.headers["Etag"]})
    assert again.status == 304
    assert again.content == b""


def test_the_page_needs_these_two_files_and_nobody_elses(api: LivePages) -> None:
    page = Page(api.request("GET", "/set-password"))
    assert [script["src"] for script in page.all("script")] == [ASSETS[1].path]
    assert [link["href"] for link in page.all("link")] == [ASSETS[0].path]
    for asset in ASSETS:
        assert not re.search(rb"//\w|@import|url\(", asset.content)


def test_it_works_below_a_path_of_a_proxy(api: LivePages) -> None:
    """Everything the page asks for is named relative to it."""
    page = Page(api.request("GET", "/set-password"))
    for reference in (page.all("script")[0]["src"], page.all("link")[0]["href"]):
        assert not reference.startswith("/")
    assert not re.search(rb"""["'`]/""", ASSETS[1].content)


def test_every_file_is_small(api: LivePages) -> None:
    page = api.request("GET", "/set-password").content
    assert all(len(content) < LARGEST_FILE for content in (page, *(asset.content for asset in ASSETS)))


def test_nothing_runs_that_stands_in_the_page(api: LivePages) -> None:
    page = Page(api.request("GET", "/set-password"))
    assert not page.all("style")
    assert "script" not in page.texts
    for _tag, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_nothing_can_be_sent_before_the_script_is_there(api: LivePages) -> None:
    """A form sent by the browser itself would put the password into the address."""
    page = Page(api.request("GET", "/set-password"))
    assert "hidden" in page.all("form")[0]
    assert page.all("noscript")
    assert not [field for field in page.all("input") if "name" in field]


def test_every_field_has_a_label_and_is_a_new_password(api: LivePages) -> None:
    page = Page(api.request("GET", "/set-password"))
    fields = page.all("input")
    assert [field["id"] for field in fields] == [label["for"] for label in page.all("label")]
    assert {(field["type"], field["autocomplete"]) for field in fields} == {("password", "new-password")}
    ids = {attributes["id"] for _tag, attributes in page.tags if "id" in attributes}
    assert all(set(field["aria-describedby"].split()) <= ids for field in fields)
    assert [attributes for _tag, attributes in page.tags if attributes.get("aria-live") == "polite"]


def test_the_script_finds_what_it_looks_for(api: LivePages) -> None:
    script = ASSETS[1].content.decode()
    page = Page(api.request("GET", "/set-password"))
    ids = {attributes["id"] for _tag, attributes in page.tags if "id" in attributes}
    assert set(re.findall(r'getElementById\("(\w+)"\)', script)) <= ids
    words = {re.sub(r"-(\w)", lambda part: part[1].upper(), name.removeprefix("data-")) for name in page.all("form")[0]}
    assert set(re.findall(r"\bwords\.(\w+)\b(?!\()", script)) == words - {"id", "hidden", "novalidate"}


@pytest.mark.parametrize(
    ("accept_language", "host", "language", "title"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.5", "en", "zh", "设置密码"),
        ("en-GB,en;q=0.9", "zh", "en", "Set your password"),
        ("tlh", "zh", "zh", "设置密码"),
        (None, "zh", "zh", "设置密码"),
        (None, "tlh", "en", "Set your password"),
    ],
)
def test_it_speaks_the_browsers_language(accept_language: str | None, host: str, language: str, title: str) -> None:
    reply = open_page(make_services(Config(server=ServerSection(language=host))), accept_language)
    page = Page(reply)
    assert page.all("html") == [{"lang": language}]
    assert page.texts["h1"] == title
    assert reply.headers["Content-Language"] == language
    assert reply.headers["Vary"] == "Accept-Language"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_word_is_missing(language: str) -> None:
    translations = load_translations()
    form = Page(open_page(make_services(Config()), language)).all("form")[0]
    assert form["data-mismatch"] == translations.text("page.set_password.mismatch", language)
    assert form["data-too-short"] == translations.text("fault.invalid_password.too_short", language)
    assert "{minLength}" in form["data-length"]
    assert "{maxLength}" in form["data-length"]
    assert all(words for name, words in form.items() if name.startswith("data-"))


def test_a_servers_name_full_of_markup_stays_a_name() -> None:
    page = Page(open_page(make_services(Config(server=ServerSection(name=MARKUP)))))
    assert page.texts["bdi"] == MARKUP
    assert page.texts["title"] == f"Set your password – {MARKUP}"
    assert len(page.all("script")) == 1
    assert not [attributes for _tag, attributes in page.tags if "onload" in attributes]


def test_a_token_in_the_wrong_place_is_not_logged(api: LivePages, caplog: pytest.LogCaptureFixture) -> None:
    """The page's own link keeps it behind the `#`, which browsers do not send."""
    with caplog.at_level(logging.DEBUG):
        reply = api.request("GET", "/set-password?token=1.sesame")
    assert reply.status == 200
    assert b"sesame" not in reply.content
    assert "/set-password" in caplog.text
    assert "sesame" not in caplog.text
