"""`/` in a browser: what it shows of the host, on a phone and on a desktop, and what a visitor can do from there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from regsvc.config.host_sections import ServerSection
from regsvc.config.host_style import READABLE, accent_of, contrast
from regsvc.config.sections import Config
from tests.bench.pages import OBSERVERS
from tests.browser.accessibility import find_serious_faults
from tests.browser.conftest import TIMEOUT, OpenPage, is_wider_than_the_screen
from tests.support.peers.minecraft_server import MinecraftServer
from tests.support.stack import Stack

ACCENT = "#ffcc00"
LARGEST_SHIFT = 0.02  # CLS
READY = {"/": "online", "/register": "E-mail address", "/account": "Log in", "/server": "online"}
PAINTED = """() => new Promise((done) => {
  new PerformanceObserver(() => done()).observe({ type: "paint", buffered: true });
})"""
SHIFT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(window.cls))))"
PAIRS = [
    *(("--text", back) for back in ("--page", "--card", "--sunken", "--accent-1", "--accent-2", "--accent-3")),
    *(("--quiet", back) for back in ("--page", "--card", "--sunken", "--accent-1")),
    *(("--accent", back) for back in ("--page", "--card")),
    *(("--on-accent", back) for back in ("--accent", "--accent-8")),
    ("--accent-8", "--accent-2"),
    *((f"--{kind}", f"--{back}") for kind in ("bad", "good", "wait", "info") for back in (f"soft-{kind}", "card")),
]
"""What is written on what."""
COLOURS = """accent => {
  document.documentElement.style.setProperty("--accent", accent);
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const hex = name => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    context.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    context.fillRect(0, 0, 1, 1);
    const channels = [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    return "#" + channels.map(e => e.toString(16).padStart(2, 0)).join("");
  };
  const names = "page card sunken text quiet accent on-accent accent-1 accent-2 accent-3 accent-8 bad good wait info " +
    "soft-bad soft-good soft-wait soft-info";
  return Object.fromEntries(names.split(" ").map(name => [`--${name}`, hex(`--${name}`)]));
}"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("stack")
    style = directory / "own.css"
    style.write_text(".lead { text-transform: uppercase }\n", encoding="utf-8")
    with MinecraftServer() as game:
        config: dict[str, dict[str, Any]] = {
            "game": {"address": game.address},
            "server": {
                "name": "Willow Valley",
                "description": "A quiet survival world.",
                "accent": ACCENT,
                "custom_css": str(style),
                "links": {"Rules": "/rules"},
                "announcement": "Voting is open: https://vote.example.org.",
            },
        }
        with Stack("sqlite", directory / "stack", config=config) as stack:
            yield stack


def colour_of_button(page: Page) -> str:
    colour: str = page.locator("main a.button").evaluate("link => getComputedStyle(link).backgroundColor")
    return colour


def test_a_visitor_sees_the_server_and_applies(open_page: OpenPage) -> None:
    page = open_page("/", size="phone", dark=True, language="zh")
    expect(page.get_by_role("heading", name="Willow Valley")).to_be_visible()
    expect(page.get_by_text("在线玩家 2 / 20")).to_be_visible()
    assert page.title() == "Willow Valley"
    expect(page.get_by_text("选好名字，告诉我们怎么联系你")).to_be_visible()  # nothing is asked here
    assert page.locator(".lead").evaluate("e => getComputedStyle(e).textTransform") == "uppercase"
    assert colour_of_button(page) == "rgb(255, 204, 0)"
    page.emulate_media(color_scheme="light")
    assert colour_of_button(page) == "rgb(133, 106, 0)"
    assert find_serious_faults(page) == []
    assert not is_wider_than_the_screen(page)
    page.get_by_role("link", name="申请加入").click()
    expect(page.locator("main form")).to_be_visible()
    page.get_by_role("link", name="Willow Valley").click()
    expect(page.get_by_text("在线玩家 2 / 20")).to_be_visible()


def test_every_step_of_any_accent_can_be_read_on(open_page: OpenPage) -> None:
    """Text, quiet text and the accent, on what is made of the accent: in both modes, as the browser mixes it."""
    page = open_page("/register", size="phone")
    for accent in ("#ffcc00", "#7a3db8", "#39ff14", "#2f6f4f", "#ff0000", "#111111"):
        for mode in ("light", "dark"):
            page.emulate_media(color_scheme="light" if mode == "light" else "dark")
            shown = getattr(accent_of(Config(server=ServerSection(accent=accent))), mode)
            colours: dict[str, str] = page.evaluate(COLOURS, shown)
            for front, back in PAIRS:
                found = contrast(colours[front], colours[back])
                assert found >= READABLE, f"{front} on {back}: {found:.2f} with {accent} in {mode} mode"


def test_a_dismissed_announcement_does_not_come_back(open_page: OpenPage) -> None:
    page = open_page("/register", size="phone")
    is_whole = "e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight + 1"
    assert page.locator(".announcement p").evaluate(is_whole)
    page.goto(page.url.replace("register", "account"))
    link = page.get_by_role("link", name="https://vote.example.org")
    expect(link).to_have_attribute("href", "https://vote.example.org")
    page.get_by_role("button", name="Dismiss").click()
    expect(link).to_have_count(0)
    page.get_by_role("link", name="Server", exact=True).click()
    expect(page.get_by_text("Server online")).to_be_visible()
    expect(page.locator(".announcement")).to_have_count(0)


def test_nothing_moves_when_the_script_comes(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/chat-linked", size="phone")
    with page.add_init_script(OBSERVERS):
        held: list[Route] = []
        page.route("**/web/*.js", lambda route: held.append(route))
        for path, seen in (
            ("/", "online"),
            ("/register", "E-mail address"),
            ("/account", "Log in"),
            ("/server", "online"),
        ):
            page.goto(f"{stack.daemon.base_url}{path}", wait_until="commit")
            page.evaluate(PAINTED)
            held.pop().continue_()
            expect(page.locator("#inside").get_by_text(seen).first).to_be_visible()
            assert page.evaluate(SHIFT) < LARGEST_SHIFT, path
            assert not held, "a page has one script"


def test_over_https_no_other_host_can_set_our_cookies(browser: Browser, stack: Stack) -> None:
    """A stand-in for the host's proxy: the browser sees https."""
    https = "https://play.example.org"

    def forward(route: Route) -> None:
        request = route.request
        response = route.fetch(url=request.url.replace(https, stack.daemon.base_url), headers=request.all_headers())
        route.fulfill(response=response)

    context = browser.new_context(locale="en")
    context.set_default_timeout(TIMEOUT)
    context.route(f"{https}/**", forward)
    page = context.new_page()
    page.goto(f"{https}/account")
    page.get_by_role("button", name="Dismiss").click()
    page.locator("#language summary").click()
    page.get_by_role("button", name="Deutsch").click()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.locator(".announcement")).to_have_count(0)
    cookies = context.cookies()
    assert {cookie["name"] for cookie in cookies} == {"__Host-companion_announcement", "__Host-companion_language"}
    assert all(cookie["secure"] and cookie["path"] == "/" and cookie["sameSite"] == "Lax" for cookie in cookies)
    context.unroute_all(behavior="wait")  # what is still under way would fail in the next test
    context.close()


def test_the_address_can_be_copied_while_the_game_is_away(open_page: OpenPage, tmp_path: Path) -> None:
    """The address of the module's own game server is not shown, because it is loopback."""
    config = {
        "game": {"address": "play.willow.invalid:25566"},
        "server": {"logo_url": "/files/gone.png", "banner_url": "/files/gone.jpg"},
    }
    with Stack("sqlite", tmp_path, config=config) as away:
        permissions = ["clipboard-read", "clipboard-write"]
        page = open_page("/", size="phone", at=away.daemon.base_url, permissions=permissions, may_complain=True)
        expect(page.locator("img")).to_have_count(0)  # rather than broken ones
        expect(page.get_by_text("Server offline")).to_be_visible()
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == "play.willow.invalid:25566"


def test_a_wrong_address_leads_home(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/rules/old", size="desktop", dark=False, language="en", may_complain=True)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert find_serious_faults(page) == []
    assert not is_wider_than_the_screen(page)
    page.get_by_role("link", name="Go to the home page").click()
    expect(page.get_by_role("heading", name="Willow Valley")).to_be_visible()

    # without a status the rest is there
    page.route("**/api/server/status*", lambda route: route.abort())
    page.reload()
    expect(page.locator(".needs-script")).to_have_count(0)
    expect(page.get_by_role("link", name="Apply to join")).to_be_visible()
    expect(page.get_by_role("link", name="Rules")).to_be_visible()
    expect(page.locator(".state")).to_be_hidden()

    # the reference of the API has the host's colours and icon
    page.goto(f"{stack.daemon.base_url}/docs")
    assert page.locator("header .server").evaluate("e => getComputedStyle(e).color") == "rgb(133, 106, 0)"
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("^data:image/svg"))
