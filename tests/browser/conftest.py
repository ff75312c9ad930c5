"""A real browser: the system's Chromium. Pages may send requests to the companion only, and may log no complaints."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from regsvc.web.pages import OWN_PAGES, PAGES
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.live_api import LiveApi
from tests.support.manual_clock import ManualClock
from tests.support.programs import find_library
from tests.support.pseudo_locale import write_pseudo_locale
from tests.support.services import ServiceHarness, open_services
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Stack

NO_CHROMIUM = "NO CHROMIUM HERE: it is missing (Debian: apt-get install chromium-headless-shell)"
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
SIZES: Mapping[str, Mapping[str, int]] = {"phone": PHONE, "desktop": DESKTOP}

TIMEOUT = 30_000  # milliseconds; only what fails takes so long
REFUSED = "Failed to load resource:"

expect.set_options(timeout=TIMEOUT)

OpenPage = Callable[..., Page]


def find_chromium() -> str | None:
    """Return the path of the browser; of several the one that is fastest without a screen."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="package")  # it turns an event loop of its own, and tests elsewhere want theirs
def playwright() -> Iterator[Playwright]:
    find_library("libatomic.so.1")  # without which Playwright's own Node.js does not start
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    chromium = find_chromium()
    if chromium is None:
        pytest.skip(NO_CHROMIUM)
    # without its sandbox: on CI we are root, and the pages are our own
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory: Path = tmp_path_factory.mktemp("stack")
    words = tmp_path_factory.mktemp("words")
    write_pseudo_locale(words)
    with Stack("sqlite", directory, config={"server": {"translations": str(words)}}) as stack:
        yield stack


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "sqlite"


@pytest.fixture
def settings() -> Mapping[str, object]:
    """Keys of the config for `services`, with two underscores for the dot; modules have their own."""
    return {}


@pytest.fixture
def services(
    game_server: GameServer, authme_table: AuthMeTable, tmp_path: Path, settings: Mapping[str, object]
) -> Iterator[ServiceHarness]:
    """Services in this process, for what only it knows: the right answers of captchas."""
    services = open_services(game_server, authme_table, ManualClock(), tmp_path / "state", **settings)
    yield services
    services.close()


@pytest.fixture
def address(services: ServiceHarness) -> Iterator[str]:
    """Where `services` are served, with our pages."""
    with LiveApi(services.app.features, pages=[*PAGES, *OWN_PAGES]) as api:
        yield f"http://127.0.0.1:{api.port}"


PUT_AWAY = """() => {
  const quit = (event) => event.stopImmediatePropagation();  // nothing is sent or stored any more
  for (const kind of ["beforeunload", "pagehide", "visibilitychange"]) addEventListener(kind, quit, { capture: true });
  try {
    sessionStorage.clear();
    return /native code/.test(setTimeout);
  } catch {
    return location.protocol === "about:";
  }
}"""
"""Returns whether the page can be used again: not after an error of the network, nor with a clock of Playwright's."""


class Window:
    """A browser context with a page, and a record of its requests to other hosts, and of complaints in the console."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page = context.new_page()
        self._known: tuple[str, ...] = ()
        self._expected: tuple[str, ...] = ()
        self._origins: set[str] = set()
        self.foreign_urls: list[str] = []
        self.complaints: list[str] = []
        context.set_default_timeout(TIMEOUT)
        context.on("request", lambda request: self._follow(request.url))
        context.on("console", lambda message: self._hear(message.type, message.text))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def watch(self, address: str, may_leave_for: str | None, expected: tuple[str, ...]) -> None:
        """Begin a record; `expected`: what complaints may say."""
        self._known = (address, "data:", "blob:", *([may_leave_for] if may_leave_for else []))
        self._expected = expected
        self.foreign_urls, self.complaints = [], []

    def empty(self) -> bool:
        """Forget what the pages have stored, and show none; return whether another test may have the window."""
        if self.page.is_closed() or not self.page.evaluate(PUT_AWAY):
            return False
        self._known = self._expected = ("",)  # what is put away may be interrupted
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        self.page.unroute_all(behavior="ignoreErrors")
        self.context.set_offline(False)
        self.page.goto("about:blank")
        self.context.clear_cookies()
        devtools = self.context.new_cdp_session(self.page)  # while there is one, pages that are left are not offline
        for origin in self._origins:
            devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        devtools.detach()
        self._origins = set()
        return True

    def _hear(self, kind: str, text: str) -> None:
        is_expected = any(expected in text for expected in self._expected)
        if kind in ("error", "warning") and not is_expected:
            self.complaints.append(text)

    def _follow(self, url: str) -> None:
        if not url.startswith(self._known):
            self.foreign_urls.append(url)
        parts = urlsplit(url)
        if parts.netloc:
            self._origins.add(f"{parts.scheme}://{parts.netloc}")


@dataclass
class Windows:
    """Windows that one test after the other borrows, by their languages: to open one takes longer than most stories.

    Those with options of their own, or with what cannot be undone, are used once.
    """

    browser: Browser
    _spare: dict[str, list[Window]] = field(default_factory=dict)

    @contextmanager
    def lent(self, language: str, options: Mapping[str, Any]) -> Iterator[Window]:
        spare = self._spare.setdefault(language, [])
        window = spare.pop() if spare and not options else self._open(language, options)
        yield window
        if not options and window.empty():
            spare.append(window)
        else:
            window.context.close()

    def _open(self, language: str, options: Mapping[str, Any]) -> Window:
        return Window(self.browser.new_context(locale=language, reduced_motion="reduce", **options))


@pytest.fixture(scope="package")
def windows(browser: Browser) -> Windows:
    return Windows(browser)


@pytest.fixture
def open_page(windows: Windows, stack: Stack) -> Iterator[OpenPage]:
    """`open_page("/docs", size="phone", language="zh", dark=True)`; looks at the end whether the page behaved.

    `may_complain`: of requests that are refused or not answered, which browsers write down; or what else it may say.
    `at`: another address than the stack's; `may_leave_for`: one of somebody else's. `options`: more for the
    browser's context, such as `permissions`. `prepare`: is given the page before it opens `path`. `is_olivias`: she has
    logged in at /admin.
    """
    lent: list[Window] = []

    def open_page(
        path: str,
        *,
        size: str = "desktop",
        language: str = "en",
        dark: bool = False,
        may_complain: bool | str = False,
        at: str | None = None,
        may_leave_for: str | None = None,
        prepare: Callable[[Page], object] = lambda page: None,
        is_olivias: bool = False,
        **options: Any,
    ) -> Page:
        window = open_windows.enter_context(windows.lent(language, options))
        lent.append(window)
        address = at or stack.daemon.base_url
        expected = (may_complain,) if isinstance(may_complain, str) else (REFUSED,) if may_complain else ()
        window.watch(address, may_leave_for, expected)
        window.page.set_viewport_size(dict(SIZES[size]))  # type: ignore[arg-type]
        window.page.emulate_media(color_scheme="dark" if dark else "light", forced_colors="none")
        prepare(window.page)
        if is_olivias:
            login = {"token": stack.admin_token(OPERATOR, OPERATORS_PASSWORD), "username": OPERATOR, "isAdmin": True}
            with window.page.add_init_script(f"sessionStorage['companion.admin'] = {json.dumps(json.dumps(login))}"):
                window.page.goto(f"{address}{path}")
        else:
            window.page.goto(f"{address}{path}")
        return window.page

    with ExitStack() as open_windows:
        yield open_page
    assert not [url for window in lent for url in window.foreign_urls]
    assert not [complaint for window in lent for complaint in window.complaints]


def is_wider_than_the_screen(page: Page) -> bool:
    """Return whether the page has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))
