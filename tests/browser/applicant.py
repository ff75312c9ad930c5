"""An applicant's browser on the registration page, and their mailbox."""

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.stack import Person, Stack, find_code, has_code


def expect_received(page: Page) -> None:
    """The page of the application, which says so."""
    expect(page.get_by_role("status")).to_contain_text("received your application")


def path_in_receipt(stack: Stack, person: Person) -> str:
    """The address of the application's page, without the host. Before a decision, after which no receipt is sent."""
    found = re.search(r"/application#token=\S+", stack.smtp.wait_for_receipt(person.email).text)
    assert found is not None
    return found[0]


_PLACES = """(element) => [...element.querySelectorAll(".steps, h2, label, input, .hint, button")]
    .filter((part) => part.checkVisibility() && part.textContent !== "" || part.tagName === "INPUT")
    .map((part) => [part.tagName, part.textContent, JSON.stringify(part.getBoundingClientRect())].join(" "))"""


def expect_first_step_drawn(page: Page) -> None:
    """What the server has drawn cannot be used; the script draws the same, at the same places, and perhaps more."""
    expect(page.locator("#inside form")).to_be_visible()
    usable = page.locator("#inside").evaluate(_PLACES)
    page.route("**/*.js", lambda route: route.abort())
    page.reload()
    drawn = page.locator("#inside .drawn")
    expect(drawn).to_be_visible()
    seen = drawn.evaluate(_PLACES)
    assert seen
    assert seen == usable[: len(seen)]
    expect(page.get_by_label("E-mail address")).to_have_count(0)  # inert: for nobody, seeing or not
    page.unroute("**/*.js")


def lose_answers(page: Page, path: str, times: int) -> None:
    """Let the server handle the next requests, and the connection break before the page hears of it."""

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route(f"**/api/{path}", lose_the_answer, times=times)


def press_register(page: Page, lost: int = 3) -> None:
    """While so many answers get lost: the page sends three times by itself, and then says that nothing was answered."""
    page.clock.install()
    lose_answers(page, "register", lost)
    page.get_by_role("button", name="Register", exact=True).click()
    for _answer in range(min(lost, 2)):
        expect(page.get_by_role("status")).to_contain_text("Sending it again")
        page.clock.run_for(4_001)
    if lost == 3:
        expect_unsure(page)


_UNSURE = re.compile("we don’t know whether it arrived|nous ne savons pas si|不知道是否已送达")


def expect_unsure(page: Page, place: Locator | None = None) -> None:
    """The page says what it knows."""
    expect(place or page.locator("#notice")).to_contain_text(_UNSURE)


class Loss(NamedTuple):
    """How often the answer of a request gets lost, and whether the page is loaded again then, as phones do."""

    times: int
    is_reloaded: bool = False


LOSSES = RELOADED, ONCE, THRICE = Loss(1, is_reloaded=True), Loss(1), Loss(3)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=["reloaded", "once", "three times"])


def press_through(
    page: Page,
    path: str,
    loss: Loss,
    press: Callable[[], object],
    fill: Callable[[], object] = lambda: None,
    *,
    unsure: Locator | None = None,
    is_found_out: bool = False,
) -> None:
    """Fill in and press while answers of this path get lost, and once more.

    `unsure`: where the page says so, if not at the top. `is_found_out`: a page that is loaded again shows, without a
    press, that it was done.
    """
    fill()
    for _time in range(loss.times):
        lose_answers(page, path, 1)
        with page.expect_event("requestfailed", lambda request: request.url.endswith(f"/api/{path}")):
            press()
        expect_unsure(page, unsure)
    if loss.is_reloaded:
        page.reload()
        if is_found_out:
            return
        fill()
    press()


class Applicant:
    """`page` shows `/register` in English."""

    def __init__(self, page: Page, stack: Stack, person: Person) -> None:
        self.page = page
        self.stack = stack
        self.person = person

    def give_email(self, email: str | None = None) -> None:
        self.page.get_by_label("E-mail address").fill(email or self.person.email)
        self.press("Next")

    def code(self) -> str:
        """The digits in the newest mail, which may still be on its way."""
        return find_code(self.stack.smtp.wait_for(self.person.email, 1, counts=has_code).text)

    def give_code(self, code: str | None = None) -> None:
        """Send it by typing its last digit."""
        self.page.get_by_label("Verification code").fill(code or self.code())

    def fill_name(self, name: str | None = None, password: str | None = None) -> None:
        self.page.get_by_label("Minecraft username").fill(self.person.name if name is None else name)
        secret = self.person.password if password is None else password
        self.page.get_by_label("Password", exact=False).first.fill(secret)

    def give_name(self, name: str | None = None, password: str | None = None) -> None:
        """At the last step this registers."""
        self.fill_name(name, password)
        self.page.locator("form button:not([type])").click()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def expect_step(self, name: str) -> None:
        expect(self.page.get_by_role("heading", name=name, exact=True)).to_be_visible()
