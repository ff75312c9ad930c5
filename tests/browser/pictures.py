"""`make pictures`: every page of ours as people see it, in two sizes, under `docs/pictures`. Made to be looked at.

`python -m tests.browser.pictures review_queue` takes those of one scene alone.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from regsvc.config.host_sections import ServerSection
from regsvc.config.host_style import accent_of
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.notifications.mail.renderer import load_mail_templates
from regsvc.web.pages import OWN_PAGES, PAGES
from tests.browser.admin_pictures import ADMIN_SCENES, admin_stack
from tests.browser.applicant import Applicant, expect_received
from tests.browser.conftest import SIZES, find_chromium
from tests.browser.operators_pictures import OPERATORS_SCENES, operators_stack
from tests.demo.__main__ import prepare
from tests.support.chat_stack import ChatStack
from tests.support.live_api import LiveApi, make_features
from tests.support.peers.oauth_server import OAuthServer
from tests.support.questions import asking
from tests.support.stack import Stack

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
COLOURS = 64
LONGEST = 1600  # pixels; a page that goes on below looks no different there

Take = Callable[..., None]


def registering(page: Page, chat_stack: ChatStack, take: Take) -> None:
    """All the way, with everything a host may ask for."""
    stack = chat_stack.stack
    alice = Applicant(page, stack, stack.newcomer("alice"))
    page.goto(f"{stack.daemon.base_url}/register")
    expect(page.get_by_label("E-mail address")).to_be_visible()
    take("register-email")
    alice.give_email()
    alice.expect_step("Check your e-mail")
    take("register-code")
    alice.give_code()
    alice.fill_name()
    take("register-name")
    alice.press("Next")
    alice.expect_step("Questions")
    take("register-questions")
    alice.press("Next")
    expect(page.get_by_label("Talk")).to_be_focused()
    take("register-questions-empty")
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    alice.press("Next")
    alice.expect_step("Chat account")
    take("register-chat")
    person = chat_stack.person("alice.chat")
    page.context.add_cookies([{"name": "account", "value": person.id, "url": chat_stack.provider.address}])
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Link Discord").click()
    opened.value.wait_for_url("**/chat-linked?*")
    opened.value.close()
    page.bring_to_front()
    alice.press("Register")
    expect_received(page)
    take("register-done")


def account(page: Page, chat_stack: ChatStack, take: Take) -> None:
    stack = chat_stack.stack
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.sync()
    page.goto(f"{stack.daemon.base_url}/account")
    expect(page.get_by_label("Name or e-mail address")).to_be_visible()
    take("login")
    page.get_by_label("Name or e-mail address").fill(bob.name)
    page.get_by_label("Password").fill(bob.password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()
    page.locator("main summary").first.click()
    expect(page.get_by_label("Current password")).to_be_visible()
    take("account")
    page.locator("main summary").first.click()
    part = page.locator("#totp_title")
    part.locator("summary").click()
    part.get_by_label("Current password").fill(bob.password)
    part.get_by_role("button", name="Set up").click()
    expect(part.get_by_role("img")).to_be_visible()
    take("account-totp")


def running(route: Route) -> None:
    """As if the game server were there: on this machine none answers under the name of the pictures' host."""
    reply = route.fetch()
    payload = reply.json()
    payload["data"] |= {
        "online": True,
        "players": {"online": 7, "max": 40},
        "version": "1.21.4",
        "motd": "Willow Valley",
    }
    route.fulfill(response=reply, json=payload)


def small_pages(page: Page, chat_stack: ChatStack, take: Take) -> None:
    page.route("**/api/server/status*", running)
    stack = chat_stack.stack
    base_url, carol = stack.daemon.base_url, stack.newcomer("carol")
    stack.authme.register(carol.name, carol.password)
    stack.sync()
    made = stack.post("/api/admin/user/password-link", {"username": carol.name}, token=stack.olivia())
    token = made.json["link"].partition("#token=")[2]
    for name, path, seen in (
        ("home", "/", "7 of 40 players online"),
        ("server", "/server", "Downloads"),
        ("forgot-password", "/forgot-password", "Send link"),
        ("set-password", f"/set-password#token={token}", "Show password"),
        ("chat-linked", "/chat-linked?outcome=waiting", "is confirmed"),
        ("docs", "/docs", "openapi.json"),
    ):
        page.goto(base_url + path)
        expect(page.get_by_text(seen).first).to_be_visible()
        take(name)


def captcha_only(page: Page, stack: Stack, take: Take) -> None:
    """Where no mail can be sent."""
    page.goto(f"{stack.daemon.base_url}/register")
    expect(page.get_by_role("img", name="Captcha picture")).to_be_visible()
    take("register-captcha")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_label("Minecraft username")).to_be_focused()
    page.keyboard.press("Enter")  # the focus stays, and what is wrong is said
    take("register-captcha-empty")


def demo(page: Page, address: str, take: Take) -> None:
    """What `make run` shows first."""
    page.route("**/api/server/status*", running)
    page.goto(address)
    expect(page.get_by_text("7 of 40 players online")).to_be_visible()
    take("demo", is_whole=False)


def mails(page: Page, _chat_stack: ChatStack, take: Take) -> None:
    """Mails as clients show them: with a code, with a button and a reason, and with whom to ask."""
    accent = accent_of(Config(server=ServerSection(accent="#6a43a8")))
    common = {
        "server": "Willow Valley",
        "accent": accent.light,
        "accent_dark": accent.dark,
        "logo": None,
        "game": "play.example.org",
        "contact": "https://discord.gg/example",
        "username": "Alice_012",
    }
    told: dict[str, dict[str, str | None]] = {
        "verification_code": {"code": "920757", "minutes": "5", "link": None},
        "approved": {
            "reason": "Welcome! Please read the rules first.",
            "until": None,
            "link": "https://play.example.org/server",
        },
        "banned": {"reason": "Griefing", "until": "24 November, 05:37 (UTC+1)", "link": "https://play.example.org/"},
    }
    for name, values in told.items():
        _subject, _text, html = load_mail_templates(None).get(name, "en").fill({**common, **values})
        page.set_content(html)
        take(f"mail-{name.replace('_', '-')}")


SCENES = (registering, account, small_pages, mails)


def main(*wanted: str) -> None:
    """Write `docs/pictures/<page>-<size>.png`; `wanted`: scenes by their names, else all."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        stacks = (
            (stack, SCENES),
            (captcha_stack, (captcha_only,)),
            (demo_stack, (demo,)),
            (operators_stack, OPERATORS_SCENES),
            (admin_stack, ADMIN_SCENES),
        )
        for make_stack, scenes in stacks:
            chosen = [scene for scene in scenes if not wanted or scene.__name__ in wanted]
            if chosen:
                show_all(browser, make_stack, chosen)
        browser.close()


def show_all(browser: Browser, make_stack: Callable[[], Any], scenes: Sequence[Any]) -> None:
    """Play all these scenes on one stack, in every size."""
    with make_stack() as opened:
        for size in SIZES:
            for scene in scenes:
                play(browser, scene, opened, size)


def play(browser: Browser, scene: Callable[..., None], opened: Any, size: str) -> None:
    # dark mode on phones and light mode on desktops, so that the pictures show both
    look: dict[str, Any] = {"viewport": SIZES[size], "color_scheme": "dark" if size == "phone" else "light"}
    with browser.new_context(locale="en", reduced_motion="reduce", **look) as context:
        page = context.new_page()

        def take(name: str, *, is_whole: bool = True) -> None:
            """Take a picture; `is_whole`: of the whole page, not only of the visible part."""
            file = FOLDER / f"{name}-{size}.png"
            if not is_whole:
                page.screenshot(path=file)
                make_small(file)
                return
            height = min(LONGEST, page.evaluate("document.documentElement.scrollHeight"))
            part: Any = {"x": 0, "y": 0, "width": SIZES[size]["width"], "height": max(height, SIZES[size]["height"])}
            page.screenshot(path=file, full_page=True, clip=part)
            make_small(file)

        scene(page, opened, take)


def make_small(file: Path) -> None:
    with Image.open(file) as opened:
        flat = opened.convert("RGB").quantize(COLOURS)
    flat.save(file, optimize=True)


@contextmanager
def stack() -> Iterator[ChatStack]:
    """A host that asks for everything, and tells everything."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(OAuthServer())
        config: dict[str, dict[str, Any]] = {
            **asking(directory),
            "chat": provider.config(required=True),
            "server": {
                "name": "Willow Valley",
                "description": "A quiet survival world for people who like to build.",
                "announcement": "The new world opens on Saturday at 18:00.",
                "links": {"Discord": "https://example.org/chat", "Map": "https://example.org/map"},
            },
            "game": {"address": "play.example.org"},
            "downloads": {
                "client": {
                    "name": "Client",
                    "description": "With all the mods that are played here.",
                    "version": "1.21.4",
                    "size": "120 MB",
                    "url": "https://example.org/client.zip",
                }
            },
        }
        yield ChatStack(stack.enter_context(Stack("sqlite", directory / "stack", config=config)), provider)


@contextmanager
def captcha_stack() -> Iterator[Stack]:
    """A host without mail."""
    config: dict[str, dict[str, Any]] = {
        "registration": {"methods": ["captcha"]},
        "mail": {"backend": "off"},
        "server": {"name": "Willow Valley"},
    }
    with tempfile.TemporaryDirectory() as directory, Stack("sqlite", Path(directory), config=config) as stack:
        yield stack


@contextmanager
def demo_stack() -> Iterator[str]:
    """The demo, without its people, who are on the pages of operators; yields its address."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as opened:
        prepare(Path(directory))
        config = load_config(Path(directory, "demo.toml"), {})
        live = opened.enter_context(LiveApi(make_features(config), pages=[*PAGES, *OWN_PAGES]))
        yield f"http://127.0.0.1:{live.port}/"


if __name__ == "__main__":
    main(*sys.argv[1:])
