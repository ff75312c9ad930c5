"""Our pages over HTTP: what browsers receive, and what the CSP allows."""

import gzip
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urljoin

import pytest

from regsvc.config.host_sections import ServerSection
from regsvc.config.sections import Config, Download, RegistrationSection
from regsvc.core.i18n import Translated, load_translations
from regsvc.http.call import NOTHING_ALLOWED
from regsvc.http.route import Features
from regsvc.web.assets import (
    _LOADED,
    FEATURES,
    Asset,
    features_of,
    list_parts,
    load_part,
    load_part_style,
    load_script,
    load_style,
    load_worker,
    make_texts,
)
from regsvc.web.base import (
    CONTENT_SECURITY_POLICY,
    LANGUAGE_COOKIE,
    content_security_policy,
)
from regsvc.web.pages import OWN_PAGES, PAGE_TABLE, PAGES, WebPage
from tests.support.html_page import Page
from tests.support.live_api import LiveApi, Reply, make_features

TRANSLATIONS = load_translations()
PATHS = [page.path for page in PAGE_TABLE]
ASSETS = list(
    dict.fromkeys(
        [
            *(asset for page in PAGE_TABLE for asset in (load_style(page.name), load_script(page.name))),
            *(
                load(part)
                for page in PAGE_TABLE
                for part in list_parts(page.name)
                for load in (load_part, load_part_style)
            ),
            load_worker("captcha"),
        ]
    )
)
USED = features_of(Config())
LARGEST = {
    "home": 13_100,
    "register": 24_600,
    "account": 19_700,
    "server": 13_400,
    "forgot-password": 13_800,
    "set-password": 15_400,
    "application": 22_650,
    "admin": 16_100,
}
"""Bytes of what a phone needs of each page first; the headers of the answers are 1.4 to 1.9 KB."""
LARGEST_INSIDE = 38_200  # bytes of the admin page and its first part: all but replies before the queue is seen
GZIP = {"Accept-Encoding": "gzip"}
MARKUP = """</title><script>alert("1")</script>' onload='alert(2)' & {{ server }} {minLength}"""

each_page = pytest.mark.parametrize("page", PAGE_TABLE, ids=lambda page: page.name)
each_asset = pytest.mark.parametrize("asset", ASSETS, ids=lambda asset: asset.path)


@pytest.fixture(scope="module")
def api() -> Iterator[LiveApi]:
    with LiveApi(make_features(Config()), pages=[*PAGES, *OWN_PAGES]) as live:
        yield live


def open_page(features: Features, path: str = "/set-password", **headers: str) -> Reply:
    with LiveApi(features, pages=[*PAGES, *OWN_PAGES]) as live:
        return live.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def texts_of(page: Page) -> dict[str, str]:
    texts: dict[str, str] = json.loads(page.all("body")[0]["data-texts"])
    return texts


def parts_of(page: Page) -> list[tuple[str, ...]]:
    """The paths of script, style and texts of each part."""
    files = page.all("body")[0]["data-parts"].split()
    return [tuple(files[index : index + 3]) for index in range(0, len(files), 3)]


def scripts_of(page: WebPage) -> bytes:
    return b"\n".join([load_script(page.name).content, *(load_part(part).content for part in list_parts(page.name))])


@each_page
def test_a_page_is_not_stored(api: LiveApi, page: WebPage) -> None:
    reply = api.request("GET", page.path)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"
    assert "Etag" not in reply.headers


@pytest.mark.parametrize("path", [*PATHS, *(f"/{asset.path}" for asset in ASSETS)])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_reply_says_what_a_browser_may_do(api: LiveApi, method: str, path: str) -> None:
    headers = api.request(method, path, headers={"X-Request-ID": "r-1"}).headers
    has_worker = method == "GET" and path in {page.path for page in PAGE_TABLE if page.asks_captchas}
    policy = NOTHING_ALLOWED if path.startswith("/web/") else content_security_policy(has_worker=has_worker)
    assert headers["Content-Security-Policy"] == policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Request-ID"] == "r-1"
    assert "Server" not in headers
    assert "Set-Cookie" not in headers


def test_nothing_is_allowed_that_the_pages_do_not_need() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; worker-src 'none'; style-src 'self'; connect-src 'self'; "
        "img-src data:; manifest-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert content_security_policy(has_worker=True) == CONTENT_SECURITY_POLICY.replace(
        "worker-src 'none'", "worker-src 'self'"
    )


@each_page
def test_a_page_may_start_the_worker_if_its_script_asks_for_captchas(page: WebPage) -> None:
    assert page.asks_captchas is (b"captchaWorker" in load_script(page.name).content)


@pytest.mark.parametrize(
    ("logo", "icon", "sources"),
    [
        ("https://cdn.example.org/logo.png?v=1", "", "data: https://cdn.example.org"),
        ("/logo.png", "https://b.example.org:8443/i.png", "data: 'self' https://b.example.org:8443"),
        ("/logo.png", "gamepad", "data: 'self'"),
    ],
)
def test_the_hosts_own_pictures_may_be_shown(logo: str, icon: str, sources: str) -> None:
    config = Config(server=ServerSection(logo_url=logo), downloads={"client": Download(icon=icon)})
    reply = open_page(make_features(config), "/server")
    assert f"; img-src {sources};" in reply.headers["Content-Security-Policy"]
    assert Page(reply).all("img")[0]["src"] == logo


@pytest.mark.parametrize("path", [*PATHS, *(f"/{asset.path}" for asset in ASSETS)])
def test_head_tells_the_same_without_the_content(api: LiveApi, path: str) -> None:
    got, payload = api.request("GET", path), api.request("HEAD", path)
    assert payload.status == 200
    assert payload.content == b""
    for name in ("Content-Length", "Content-Type", "Cache-Control", "Etag"):
        assert payload.headers[name] == got.headers[name]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/set-password", f"/{ASSETS[0].path}"])
def test_it_can_only_be_read(api: LiveApi, method: str, path: str) -> None:
    reply = api.request(method, path, headers={"Accept-Language": "zh"})
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.content.decode() == TRANSLATIONS.text("refusal.method_not_allowed", "zh") + "\n"


def test_a_form_nobody_can_read_is_the_senders_fault(api: LiveApi) -> None:
    headers = {"Content-Type": "multipart/form-data"}
    assert api.request("POST", "/set-password", b"password=hunter2", headers).status == 400


def test_a_page_that_is_not_there(api: LiveApi) -> None:
    for path in ("/set-password//", "/web/", "/web/set-password.js", "/web/../pages.py"):
        assert api.request("GET", path).status == 404


@each_asset
def test_a_file_is_fetched_once_and_kept(api: LiveApi, asset: Asset) -> None:
    reply = api.request("GET", f"/{asset.path}")
    assert reply.status == 200
    assert reply.content == asset.content
    assert reply.headers["Content-Type"] == asset.media_type
    assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"

    again = api.request("GET", f"/{asset.path}", headers={"If-None-Match": reply.headers["Etag"]})
    assert again.status == 304
    assert again.content == b""


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [("gzip, deflate, br", True), ("GZIP;q=0.5", True), ("gzip;q=0", False), ("br, gzip;q=0.0, x", False), ("", False)],
)
def test_it_is_compressed_for_those_who_take_it(api: LiveApi, accepted: str, is_compressed: bool) -> None:
    asset = ASSETS[0]
    plain = api.request("GET", f"/{asset.path}")
    reply = api.request("GET", f"/{asset.path}", headers={"Accept-Encoding": accepted})
    assert (reply.headers["Content-Encoding"] == "gzip") is is_compressed
    assert (gzip.decompress(reply.content) if is_compressed else reply.content) == asset.content
    assert (reply.headers["Etag"] == plain.headers["Etag"]) is not is_compressed
    assert reply.headers["Vary"] == "Accept-Encoding"


@each_page
def test_a_page_needs_two_files_of_ours_and_nobody_elses(api: LiveApi, page: WebPage) -> None:
    read = Page(api.request("GET", page.path))
    script, style = load_script(page.name, USED), load_style(page.name, USED)
    early = [{"type": "module", "async": "", "src": load_script(page.preload, USED).path}] if page.preload else []
    assert read.all("script") == [*early, {"type": "module", "src": script.path}]
    links = {link["rel"]: link["href"] for link in read.all("link")}
    assert links.pop("icon").startswith("data:image/svg+xml,")
    assert links == {"stylesheet": style.path} | ({"manifest": "manifest.webmanifest"} if page.is_for_players else {})
    for asset in (script, style):
        content = asset.content.replace(b"http://www.w3.org/2000/svg", b"").replace(b'url("data:', b"")
        assert not re.search(rb"[\"'(]//\w|https?://|@import|url\(", content)


@each_page
def test_a_page_brings_the_public_config_along(api: LiveApi, page: WebPage) -> None:
    """Without what `/api/config` says twice, and what no script needs."""
    read = Page(api.request("GET", page.path))
    config = json.loads(read.all("body")[0]["data-config"])
    served = api.request("GET", "/api/config").json["config"]
    assert config == {name: served[name] for name in config} | {"authme": {"enabled": served["authme"]["enabled"]}}
    left_out = served.keys() - config.keys()
    assert left_out >= {"discord", "enableEmailDomainWhitelist", "wsPort", "links", "announcement"}
    assert not re.search(rf"\bconfig\.({'|'.join(left_out)})\b", scripts_of(page).decode())
    assert b'get("config"' not in load_script(page.name).content


def test_players_pages_have_the_hosts_time_zone_and_contact() -> None:
    section = ServerSection(timezone="Europe/Paris", contact="mods@example.org")
    [body] = Page(open_page(make_features(Config(server=section)), "/account")).all("body")
    assert body["data-timezone"] == "Europe/Paris"
    assert json.loads(body["data-config"])["contact"] == "mods@example.org"


def test_without_a_contact_the_hosts_chat_is_it() -> None:
    common = {
        "Map": "https://map.example.org",
        "Chat": "/chat",
        "Our Discord": "https://a.example",
        "QQ": "https://b.c",
    }
    links = Translated({"": common, "de": {"Forum": "https://de.example"} | common})
    section = ServerSection(links=links)
    for server, contact in (
        (section, "https://a.example"),
        (replace(section, language="de"), "https://de.example"),
        (replace(section, contact="#help"), "#help"),
        (replace(section, links=Translated({"": {"Map": "https://map.example.org"}})), ""),
    ):
        [body] = Page(open_page(make_features(Config(server=server)), "/account")).all("body")
        assert json.loads(body["data-config"])["contact"] == contact


@each_page
def test_it_works_below_a_path_of_a_proxy(api: LiveApi, page: WebPage) -> None:
    """Everything the page asks for is named relative to it."""
    read = Page(api.request("GET", page.path))
    references = [a["href"] for a in read.all("a")] + [read.all("script")[0]["src"]]
    assert not [reference for reference in references if reference.startswith("/")]
    assert not re.search(rb"""["'`]/[a-z]""", scripts_of(page))


@each_page
def test_a_page_is_small_on_the_wire(api: LiveApi, page: WebPage) -> None:
    html = api.request("GET", page.path, headers={"Accept-Encoding": "gzip"})
    assert html.headers["Content-Encoding"] == "gzip"
    size = len(html.content) + len(load_script(page.name).compressed) + len(load_style(page.name).compressed)
    assert size < LARGEST[page.name]
    if page.preload:
        size += len(load_script(page.preload).compressed)
        first = [
            api.request("GET", f"/{path}", headers=GZIP) for path in parts_of(Page(api.request("GET", page.path)))[0]
        ]
        assert size + sum(len(reply.content) for reply in first) < LARGEST_INSIDE


def test_the_parts_of_a_page_have_the_rest_of_its_texts(api: LiveApi) -> None:
    """Each once, in the language of the page; also after a restart, when no page was sent yet."""
    for language in TRANSLATIONS.languages_of("page.admin"):
        page = Page(api.request("GET", "/admin", headers={"Accept-Language": language}))
        parts = parts_of(page)
        assert [path.split(".")[0] for path, _style, _texts in parts] == [f"web/{part}" for part in list_parts("admin")]
        for load in (load_part, load_part_style, make_texts):
            load.cache_clear()
        _LOADED.clear()
        found = [texts_of(page)]
        for script, style, texts in parts:
            assert [api.request("GET", f"/{path}").status for path in (script, style)] == [200, 200]
            found.append(api.request("GET", f"/{texts}").json)
        known = TRANSLATIONS.section("page.common", language) | TRANSLATIONS.section("page.admin", language)
        reasons = {f"reason.{code}" for code in TRANSLATIONS.section("reason", language)}
        assert sorted(key for texts in found for key in texts) == sorted(known.keys() | reasons)
        assert all(known.get(key, text) == text for texts in found for key, text in texts.items())
        named = set[str]()
        scripts = [load_script("admin", USED), *(load_part(part, USED) for part in list_parts("admin"))]
        for asset, own in zip(scripts, found, strict=True):
            named |= own.keys()
            assert set(re.findall(r"""["`](\w+)["`]""", asset.content.decode())) & known.keys() <= named


def test_an_earlier_version_of_a_part_is_gone(api: LiveApi) -> None:
    for kind in ("js", "css", "json"):
        assert api.request("GET", f"/web/admin-1-inside.0123456789abcdef.{kind}").status == 404


@each_page
def test_nothing_runs_that_stands_in_the_page(api: LiveApi, page: WebPage) -> None:
    read = Page(api.request("GET", page.path))
    assert not read.all("style")
    assert "script" not in read.texts
    for _tag, attributes in read.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


@each_page
def test_a_browser_without_scripts_is_told_so(api: LiveApi, page: WebPage) -> None:
    """And there is no form that it could send by itself: a password would stand in the address."""
    read = Page(api.request("GET", page.path))
    assert TRANSLATIONS.text("page.common.needs_script", "en") in read.texts["p"]
    assert not read.all("form")
    assert [attributes for _tag, attributes in read.tags if attributes.get("aria-live") == "polite"]


@each_page
def test_a_script_makes_no_markup_of_text(page: WebPage) -> None:
    script = scripts_of(page).decode()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.style\b", script
    )


@pytest.mark.parametrize("language", TRANSLATIONS.languages)
@each_page
def test_no_word_is_missing(api: LiveApi, page: WebPage, language: str) -> None:
    if not page.is_for_players and language not in TRANSLATIONS.languages_of(page.section):
        language = "en"
    read = Page(api.request("GET", page.path, headers={"Accept-Language": language}))
    known = {key for section in page.sections for key in TRANSLATIONS.section(section, language)}
    for features, texts in ((FEATURES, known), (USED, set(texts_of(read)))):
        script = load_script(page.name, features).content.decode()
        said = set(re.findall(r"""(?<![\w.])t\("([\w.]+)"[,)]""", script))
        assert said
        assert said <= texts
    assert read.texts["title"].startswith(TRANSLATIONS.text(f"{page.section}.title", language)) or page.path == "/"


def test_what_a_host_does_not_use_is_not_sent() -> None:
    """Neither its scripts nor its words, nor words of other pages."""
    sizes = []
    for config in (Config(), Config(registration=RegistrationSection(methods=("captcha",)))):
        page = Page(open_page(make_features(config), "/register"))
        assert not [key for key in texts_of(page) if key.startswith(("login_", "chat_", "answer_"))]
        assert ("captcha_hint_math" in texts_of(page)) is ("captcha" in config.registration.methods)
        sizes.append(len(load_script("register", features_of(config)).compressed))
    assert max(sizes) < 0.9 * len(load_script("register").compressed)


@each_page
def test_a_page_does_not_say_otherwise_what_all_say(page: WebPage) -> None:
    common, own = TRANSLATIONS.section("page.common", "en"), TRANSLATIONS.section(page.section, "en")
    assert not set(common) & set(own)


@pytest.mark.parametrize(
    ("offered", "path", "language", "choices"),
    [
        (["zh", "de"], "/server", "de", "de zh"),
        (["de"], "/admin", "de", "de"),
    ],
)
def test_a_page_is_offered_in_the_hosts_languages_only(
    offered: list[str], path: str, language: str, choices: str
) -> None:
    features = make_features(Config(server=ServerSection(language="de", languages=tuple(offered))))
    reply = open_page(features, path, Accept_Language="fr, en", Cookie=f"{LANGUAGE_COOKIE}=fr")
    page = Page(reply)
    assert page.all("html")[0]["lang"] == language
    assert page.all("body")[0]["data-languages"] == choices


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
    headers = {"Accept-Language": accept_language} if accept_language else {}
    reply = open_page(make_features(Config(server=ServerSection(language=host))), **headers)
    page = Page(reply)
    assert page.all("html") == [{"lang": language, "data-theme": "default"}]
    assert page.texts["h1"] == title
    assert reply.headers["Content-Language"] == language
    assert "Accept-Language" in reply.headers["Vary"]


@pytest.mark.parametrize(("chosen", "language"), [("zh", "zh"), ("tlh", "en"), ("", "en"), ("<script>", "en")])
def test_the_visitors_choice_comes_before_the_browsers(api: LiveApi, chosen: str, language: str) -> None:
    headers = {"Accept-Language": "en", "Cookie": f"{LANGUAGE_COOKIE}={chosen}"}
    reply = api.request("GET", "/register", headers=headers)
    assert reply.headers["Content-Language"] == language
    assert "Cookie" in reply.headers["Vary"]


@pytest.mark.parametrize(
    ("query", "language"),
    [("language=zh-CN", "zh"), ("language=tlh", "en"), ("language=", "en"), ("language=%FF", "en"), ("outcome=", "en")],
)
def test_a_link_may_name_the_language(api: LiveApi, query: str, language: str) -> None:
    headers = {"Cookie": f"{LANGUAGE_COOKIE}=en", "Accept-Language": "en"}
    reply = api.request("GET", f"/register?{query}", headers=headers)
    assert reply.status == 200
    assert reply.headers["Content-Language"] == language


@each_page
def test_a_hosts_words_full_of_markup_stay_words(page: WebPage) -> None:
    section = ServerSection(
        name=MARKUP,
        announcement=Translated({"": MARKUP}),
        theme=MARKUP,
        description=Translated({"": MARKUP}),
        links=Translated({"": {MARKUP: "/a"}}),
    )
    read = Page(open_page(make_features(Config(server=section)), page.path))
    assert read.texts["bdi"] == MARKUP
    assert read.texts["title"].endswith(MARKUP)
    assert read.all("html")[0]["data-theme"] == MARKUP
    assert len(read.all("script")) == (2 if page.preload else 1)
    assert not [attributes for _tag, attributes in read.tags if "onload" in attributes]


def test_a_token_in_the_wrong_place_is_not_logged(api: LiveApi, caplog: pytest.LogCaptureFixture) -> None:
    """The page's own link keeps it behind the `#`, which browsers do not send."""
    with caplog.at_level(logging.DEBUG):
        reply = api.request("GET", "/set-password?token=1.sesame")
    assert reply.status == 200
    assert b"sesame" not in reply.content
    assert "/set-password" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize(
    ("path", "location"),
    [
        *((f"{page.path}/", f"..{page.path}") for page in PAGE_TABLE if page.path != "/"),
        ("/register/?language=de&next=//evil.example.org", "../register?language=de&next=//evil.example.org"),
    ],
)
def test_a_slash_at_the_end_leads_to_the_page(api: LiveApi, path: str, location: str) -> None:
    for method in ("GET", "HEAD"):
        reply = api.request(method, path)
        assert (reply.status, reply.headers["Location"], reply.content) == (308, location, b"")
    address = urljoin(f"https://play.example.org/mc{path}", location)
    assert address.partition("?")[0] == f"https://play.example.org/mc{path.partition('?')[0].rstrip('/')}"


@pytest.mark.parametrize(
    "path", ["//evil.example.org/", "//register/", "/register//", "/%2Fevil.example.org/", "/.//register/", "//"]
)
def test_no_path_leads_to_another_server(api: LiveApi, path: str) -> None:
    reply = api.request("GET", path)
    assert (reply.status, reply.headers.get("Location")) == (404, None)


@pytest.mark.parametrize("page", [page for page in PAGE_TABLE if page.is_mailed], ids=lambda page: page.name)
def test_a_link_scanner_gets_the_page_and_uses_up_nothing(api: LiveApi, page: WebPage) -> None:
    """What a link proves is behind the #, which no scanner sends; the page's script sends it in a POST."""
    sent = [api.request(method, f"{page.path}?utm_source=scanner") for method in ("HEAD", "GET", "GET")]
    assert [reply.status for reply in sent] == [200] * 3
    assert not any("Set-Cookie" in reply.headers for reply in sent)
