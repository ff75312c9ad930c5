"""Branding: the home page, colours, icon, previews of links, announcements, and pages that do not exist."""

import json
from collections.abc import Iterator

import pytest

from regsvc.config.host_sections import ServerSection
from regsvc.config.sections import Config, RegistrationSection
from regsvc.core.i18n import Translated
from regsvc.web.pages import ANNOUNCEMENT_COOKIE, OWN_PAGES, PAGES, split_links
from tests.support.html_page import Page
from tests.support.live_api import LiveApi, Reply, make_features

BASE_URL = "https://play.willow.example"
WILLOW = ServerSection(
    name="Willow Valley",
    base_url=BASE_URL,
    description=Translated({"": "A quiet survival world.", "de": "Eine ruhige Welt."}),
    banner_url="/files/banner.jpg",
    accent="#ffcc00",
    links=Translated({"": {"Discord": "https://discord.gg/willow", "Rules": "/rules"}}),
    announcement=Translated({"": "Voting is open: https://vote.example.org/may. <b>Thank you!</b>"}),
)
AS_BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def willow() -> Iterator[LiveApi]:
    with LiveApi(
        make_features(Config(server=WILLOW, custom_css="h1 { color: red }")), pages=[*PAGES, *OWN_PAGES]
    ) as live:
        yield live


@pytest.fixture(scope="module")
def plain() -> Iterator[LiveApi]:
    with LiveApi(make_features(Config()), pages=[*PAGES, *OWN_PAGES]) as live:
        yield live


def metas(page: Page) -> dict[str, str]:
    return {meta.get("name") or meta.get("property", ""): meta.get("content", "") for meta in page.all("meta")}


def style_sheets(page: Page) -> list[str]:
    return [link["href"] for link in page.all("link") if link["rel"] == "stylesheet"]


def test_the_home_page_shows_the_host_before_any_script_runs(willow: LiveApi) -> None:
    page = Page(willow.request("GET", "/"))
    assert page.texts["h1"] == page.texts["title"] == "Willow Valley"
    assert "A quiet survival world." in page.texts["p"]
    assert [image["src"] for image in page.all("img")] == ["/files/banner.jpg"]
    links = [link["href"] for link in page.all("a")]
    assert {"register", "https://discord.gg/willow", "/rules"} <= set(links)


def test_where_registration_is_closed_nobody_is_sent_there() -> None:
    config = Config(registration=RegistrationSection(open=False))
    with LiveApi(make_features(config), pages=OWN_PAGES) as live:
        page = Page(live.request("GET", "/"))
    assert not [link for link in page.all("a") if link.get("class") == "button"]
    assert "Registration is currently closed." in page.texts["span"]


def test_a_preview_shows_name_sentence_and_picture(willow: LiveApi) -> None:
    shown = metas(Page(willow.request("GET", "/register")))
    assert shown["og:title"] == "Register – Willow Valley"
    assert shown["og:description"] == shown["description"] == "A quiet survival world."
    assert shown["og:image"] == f"{BASE_URL}/files/banner.jpg"
    assert shown["og:url"] == f"{BASE_URL}/register"
    assert shown["twitter:card"] == "summary_large_image"


def test_a_host_who_has_set_nothing_previews_the_name_and_what_it_is(plain: LiveApi) -> None:
    shown = metas(Page(plain.request("GET", "/", headers={"Accept-Language": "de"})))
    assert shown["og:title"] == "Game server"
    assert (
        shown["og:description"] == shown["description"] == "Ein Minecraft-Server. Registriere dich, um hier zu spielen."
    )
    assert not {"og:image", "og:url"} & set(shown)


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [("/", True), ("/register", True), ("/set-password", False), ("/forgot-password", False), ("/admin", False)],
)
def test_search_engines_list_what_the_host_allows(plain: LiveApi, path: str, is_listed: bool) -> None:
    assert metas(Page(plain.request("GET", path)))["robots"] == "noindex"
    with LiveApi(make_features(Config(server=ServerSection(index=True))), pages=[*PAGES, *OWN_PAGES]) as live:
        shown = metas(Page(live.request("GET", path)))
    assert (shown.get("robots") is None) is is_listed


def test_the_hosts_colour_and_style_sheet_come_after_ours(willow: LiveApi) -> None:
    page = Page(willow.request("GET", "/admin"))
    _ours, theirs = style_sheets(page)
    assert metas(page)["theme-color"] == "#856a00"
    reply = willow.request("GET", f"/{theirs}")
    text = reply.content.decode()
    assert text.startswith(":root { --accent: #856a00; --on-accent: #ffffff; }\n@media (prefers-color-scheme: dark) {")
    assert text.endswith("h1 { color: red }")
    assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_a_style_sheet_of_the_config_before_is_not_kept(willow: LiveApi) -> None:
    reply = willow.request("GET", "/web/host.0123456789abcdef.css")
    assert reply.status == 200
    assert reply.headers["Cache-Control"] == "no-cache"


def test_the_manifest_is_the_hosts(willow: LiveApi) -> None:
    reply = willow.request("GET", "/manifest.webmanifest")
    assert reply.headers["Content-Type"].startswith("application/manifest+json")
    manifest = json.loads(reply.content)
    assert (manifest["name"], manifest["theme_color"]) == ("Willow Valley", "#856a00")
    assert manifest["icons"][0]["src"].startswith("data:image/svg+xml,")
    assert manifest["start_url"] == "./"


@pytest.mark.parametrize(
    "server", [ServerSection(favicon="/icon.png", logo_url="/logo.png"), ServerSection(logo_url="/icon.png")]
)
def test_an_icon_may_be_the_hosts_own_or_the_logo(server: ServerSection) -> None:
    with LiveApi(make_features(Config(server=server)), pages=OWN_PAGES) as live:
        reply = live.request("GET", "/")
    assert [link["href"] for link in Page(reply).all("link") if link["rel"] == "icon"] == ["/icon.png"]
    assert "img-src data: 'self';" in reply.headers["Content-Security-Policy"]


# --- Announcements ---


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("See https://a.example/x?y=1#z.", ["https://a.example/x?y=1#z"]),
        ("(http://a.example/b) and https://c.example!", ["http://a.example/b", "https://c.example"]),
        ("请看https://a.example/规则。谢谢", ["https://a.example/规则"]),
        ("javascript:alert(1) ftp://a.example https://", []),
        ("", []),
    ],
)
def test_web_addresses_become_links(text: str, addresses: list[str]) -> None:
    parts = split_links(text)
    assert "".join(part.text for part in parts) == text
    assert [part.address for part in parts if part.address] == addresses


def test_an_announcement_has_links_and_no_markup(willow: LiveApi) -> None:
    page = Page(willow.request("GET", "/server"))
    assert "https://vote.example.org/may" in [link["href"] for link in page.all("a")]
    assert not page.all("b")


def test_an_announcement_stays_away_once_it_was_dismissed(willow: LiveApi) -> None:
    def box(reply: Reply) -> list[dict[str, str]]:
        return [element for element in Page(reply).all("div") if element.get("class") == "announcement"]

    [shown] = box(willow.request("GET", "/account"))
    for name in (ANNOUNCEMENT_COOKIE, f"__Host-{ANNOUNCEMENT_COOKIE}"):
        cookie = {"Cookie": f"{name}={shown['data-id']}"}
        assert box(willow.request("GET", "/account", headers=cookie)) == []
    older = {"Cookie": f"{ANNOUNCEMENT_COOKIE}=0123456789ab"}
    assert box(willow.request("GET", "/account", headers=older)) == [shown]


# --- Pages that do not exist ---


@pytest.mark.parametrize(("path", "root"), [("/rules", ""), ("/rules/", "../"), ("/a/b/c", "../../")])
def test_people_get_a_page_that_leads_home(willow: LiveApi, path: str, root: str) -> None:
    reply = willow.request("GET", path, headers=AS_BROWSER)
    page = Page(reply)
    assert reply.status == 404
    assert page.texts["h1"] == "Page not found"
    assert f"{root}register" in [link["href"] for link in page.all("a")]
    assert all(sheet.startswith(f"{root}web/") for sheet in style_sheets(page))


def test_a_path_of_many_folders_does_not_blow_up_the_page(willow: LiveApi) -> None:
    assert len(willow.request("GET", "/a" * 4000, headers=AS_BROWSER).content) < 8000


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/rules", {}),
        ("GET", "/rules", {"Accept": "application/json"}),
        ("GET", "/api/rules", AS_BROWSER),
        ("POST", "/rules", AS_BROWSER),
    ],
)
def test_programs_get_json(willow: LiveApi, method: str, path: str, headers: dict[str, str]) -> None:
    reply = willow.request(method, path, headers=headers)
    assert (reply.status, reply.json["code"]) == (404, "unknown_path")
