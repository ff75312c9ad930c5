"""An operator's browser, on the admin page."""

import re
from datetime import UTC, datetime, timedelta
from typing import Self

from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.conftest import PHONE, OpenPage
from tests.browser.words import Words
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD


class Operator:
    """`page` shows `/admin`; `say` gives its words, `say("undo")`, in the language it was opened in."""

    def __init__(
        self, page: Page, name: str = OPERATOR, password: str = OPERATORS_PASSWORD, *, language: str = "en"
    ) -> None:
        self.page = page
        self.say = Words(language, "page.admin")
        self.name = name
        self.password = password

    def submit_login(self, password: str | None = None) -> None:
        """Fill in the login form and submit it, without waiting for the outcome."""
        self.page.locator("[autocomplete=username]").fill(self.name)
        self.page.locator("[autocomplete=current-password]").fill(password or self.password)
        self.page.keyboard.press("Enter")

    def expect_logged_in(self, *, is_live: bool = True) -> Self:
        """Wait until the operator is logged in and receives live events (or cannot)."""
        live = self.page.locator(".live")
        expect(live).to_have_attribute("data-is", "live" if is_live else re.compile("^(?!live$)."))
        return self

    def log_in(self, *, is_live: bool = True) -> Self:
        """Log in, and wait until the page is ready."""
        self.submit_login()
        return self.expect_logged_in(is_live=is_live)

    def go(self, address: str) -> None:
        """Go to a view, `#users?status=banned`, without reloading the page."""
        self.page.evaluate("address => { location.hash = address }", address)

    @property
    def pending_bar(self) -> Locator:
        """The pending decisions."""
        return self.page.locator(".pending-bar")

    @property
    def notice(self) -> Locator:
        return self.page.locator("#notice")

    def person(self, name: str) -> Locator:
        """A line of the review queue."""
        return self.page.locator(".applicants .line", has=self.page.get_by_text(name, exact=True))

    @property
    def card(self) -> Locator:
        """The applicant who is shown."""
        return self.page.locator(".applicant")

    @property
    def has_keyboard(self) -> bool:
        return self.page.viewport_size != PHONE

    def approve(self) -> None:
        """Approve the applicant who is shown, with the key or the thumb."""
        approve = self.card.get_by_role("button", name=self.say("do_approve"), exact=True)
        self.press_or_tap("a", approve)

    def reject(self) -> None:
        """Open the dialog that asks for the reason, with the key or the thumb."""
        self.press_or_tap("r", self.opener("do_reject", self.card))

    def reject_selected(self) -> Locator:
        """Open the dialog for all who are selected in the queue, and return it."""
        self.press_or_tap("r", self.opener("do_reject", self.page.locator(".bulk")))
        return self.page.get_by_role("dialog")

    def confirm(self, password: str | None = None, code: str | None = None) -> None:
        """Give one's own password, and a code if there is one, in the dialog that asks for it."""
        dialog = self.page.get_by_role("dialog")
        dialog.locator("[autocomplete=current-password]").fill(password or self.password)
        if code is not None:
            dialog.locator("[autocomplete=one-time-code]").fill(code)
        self.page.keyboard.press("Enter")

    def opener(self, decision: str, place: Locator) -> Locator:
        """The button in `place` that opens the dialog of a decision, `do_ban`."""
        name = self.say("opens", what=self.say(decision))
        return place.get_by_role("button", name=name, exact=True)

    def press_or_tap(self, key: str, element: Locator) -> None:
        """Press the key; on a phone tap the element that does the same."""
        if self.has_keyboard:
            self.page.keyboard.press(key)
        else:
            element.click()

    def show_list(self) -> None:
        """Show the list, which a phone has behind the card."""
        if not self.has_keyboard:
            self.page.locator(".card-pager button").nth(1).click()


def open_queue(
    open_page: OpenPage, *, is_live: bool = True, has_clock: bool = False, language: str = "en", **options: object
) -> Operator:
    """Open Olivia's page; `has_clock`: with a clock that the test controls."""

    def prepare(page: Page) -> None:
        if not is_live:
            page.route("**/events", lambda route: route.abort())
        if has_clock:
            page.clock.install()

    page = open_page("/admin", language=language, prepare=prepare, is_olivias=True, **options)
    return Operator(page, language=language).expect_logged_in(is_live=is_live)


def standing_clock(page: Page) -> None:
    """From now on time passes only when the story says so. The page was opened with a clock."""
    now = datetime.fromtimestamp(page.evaluate("Date.now()") / 1000, UTC)
    page.clock.pause_at(now + timedelta(milliseconds=500))


def box_of(element: Locator) -> FloatRect:
    """The place and the size of an element that is shown."""
    box = element.bounding_box()
    assert box is not None
    return box
