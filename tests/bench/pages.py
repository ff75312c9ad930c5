"""Our pages on a phone with a slow connection: what they load, and how soon they can be used."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.bench.figures import Row
from tests.browser.conftest import PHONE, find_chromium
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Stack

SLOW_3G: Final = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}  # ms, B/s
CPU_SLOWDOWN: Final = 4
SETTLE: Final = 1500  # milliseconds after a page can be used, in which nothing larger may appear or move

_CAPTCHAS: Final = {"registration": {"methods": ["captcha"]}}
_PAGES: Final[Mapping[str, str]] = {
    "/": "#main a",
    "/register": "#inside form input",
    "/account": "#inside input",
    "/server": "#inside p, #inside dl",
    "/forgot-password": "#inside input",
    "/application": "#inside li",
    "/admin": "#inside input",
}
"""Pages, and an element of each that is there once the page can be used."""
APPLICANTS: Final = 20
_QUEUE: Final = ".applicant .actions"  # a phone shows the first of them, not the list
_OPEN_NEXT: Final = """
const before = document.querySelector(".applicant h3").textContent;
document.querySelector(".card-pager button:last-child").click();
document.querySelector(".applicant h3").textContent !== before;
"""

OBSERVERS: Final = """
window.lcp = 0;
window.cls = 0;
const observe = (type, note) =>
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
observe("largest-contentful-paint", (entry) => { window.lcp = entry.startTime; });
observe("layout-shift", (entry) => { window.cls += entry.hadRecentInput ? 0 : entry.value; });
"""


class Visit(NamedTuple):
    """One visit with an empty cache; times in milliseconds after the address was entered."""

    requests: float
    size: float  # bytes, as compressed
    size_before: float  # the bytes before it could be used
    largest_paint: float
    usable: float
    layout_shift: float


def measure_pages(directory: Path, runs: int) -> list[Row]:
    """Visit each page as often; return medians."""
    with Stack("sqlite", directory) as stack, sync_playwright() as playwright:
        token = stack.register(stack.newcomer("alice")).json["applicationToken"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        rows = []
        for path, element in _PAGES.items():
            address = f"{stack.daemon.base_url}{path}" + (f"#token={token}" if path == "/application" else "")
            rows.append(_row(path, _visit_often(browser, address, element, runs)))
        rows.append(_measure_queue(browser, stack, runs))
        with Stack("sqlite", directory / "captchas", config=_CAPTCHAS) as captchas:
            visit = _visit_often(browser, f"{captchas.daemon.base_url}/register", _PAGES["/register"], runs)
            rows.append(_row("/register", visit, "with a captcha, "))
        browser.close()
    return rows


def _measure_queue(browser: Browser, stack: Stack, runs: int) -> Row:
    """Visit the queue as an operator who is logged in."""
    for number in range(APPLICANTS):
        stack.register(stack.newcomer(f"applicant{number}"))
    login = {"token": stack.admin_token(OPERATOR, OPERATORS_PASSWORD), "username": OPERATOR, "isAdmin": True}
    script = f"sessionStorage['companion.admin'] = {json.dumps(json.dumps(login))};"
    visit = _visit_often(browser, f"{stack.daemon.base_url}/admin", _QUEUE, runs, script, _OPEN_NEXT)
    return (
        f"`/admin`, {APPLICANTS} applicants, on the same phone",
        "<= 45 KB until they are seen",
        "<= 2.5 s",
        f"{visit.size_before / 1000:.1f} KB until they are seen, after {visit.usable / 1000:.2f} s; "
        f"{visit.size / 1000:.1f} KB in all, CLS {visit.layout_shift:.3f}",
    )


def _visit_often(
    browser: Browser, address: str, element: str, runs: int, script: str = "", works: str = "true"
) -> Visit:
    """`script` runs before the page's; `works` is true in a page that can be used."""
    visits = [_visit(browser, address, element, script, works) for _run in range(runs)]
    return Visit(*map(statistics.median, zip(*visits, strict=True)))


def _visit(browser: Browser, address: str, element: str, script: str, works: str) -> Visit:
    context = browser.new_context(viewport=dict(PHONE))  # type: ignore[arg-type]  # a TypedDict of the same keys
    page = context.new_page()
    sizes = _slow_down(context.new_cdp_session(page))
    page.add_init_script(script + OBSERVERS)
    page.goto(address, wait_until="commit")
    page.wait_for_selector(element)
    usable, size_before = _number(page, "performance.now()"), sum(sizes)
    if not page.evaluate(works):
        raise AssertionError(f"{address} is shown, but cannot be used")
    page.wait_for_timeout(SETTLE)
    visit = Visit(len(sizes), sum(sizes), size_before, _number(page, "lcp"), usable, _number(page, "cls"))
    context.close()
    return visit


def _slow_down(session: CDPSession) -> list[float]:
    """Slow the page down; returns a list that receives the bytes of each answer."""
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    session.send("Network.emulateNetworkConditions", SLOW_3G)
    session.send("Emulation.setCPUThrottlingRate", {"rate": CPU_SLOWDOWN})
    return sizes


def _number(page: Page, expression: str) -> float:
    value: Any = page.evaluate(expression)
    return float(value)


def _row(path: str, visit: Visit, how: str = "") -> Row:
    return (
        f"`{path}` {how}on a phone, 50 KB/s, 400 ms, CPU / {CPU_SLOWDOWN}",
        "LCP <= 2 s" if path != "/admin" else "",
        f"usable <= {'1.6' if path != '/admin' else '2.5'} s",
        f"{visit.size / 1000:.1f} KB in {visit.requests:.0f} requests, LCP {visit.largest_paint / 1000:.2f} s, "
        f"usable {visit.usable / 1000:.2f} s, CLS {visit.layout_shift:.3f}",
    )
