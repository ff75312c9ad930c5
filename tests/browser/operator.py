"""An operator's browser, on the admin page."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.support.stack import OPERATOR, OPERATORS_PASSWORD


class Operator:
    """`page` shows `/admin` in English."""

    def __init__(self, page: Page, name: str = OPERATOR, password: str = OPERATORS_PASSWORD) -> None:
        self.page = page
        self.name = name
        self.password = password

    def submit_login(self, password: str | None = None) -> None:
        """Fill in the login form and submit it, without waiting for the outcome."""
        self.page.get_by_label("Name or e-mail address").fill(self.name)
        self.page.get_by_label("Password").fill(password or self.password)
        self.page.get_by_role("button", name="Log in").click()

    def expect_logged_in(self, *, is_live: bool = True) -> None:
        """Wait until the operator is logged in and receives live events (or cannot)."""
        expect(self.page.locator(".live")).to_have_text("Live" if is_live else "Not live")

    def log_in(self, *, is_live: bool = True) -> Operator:
        """Log in, and wait until the page is ready."""
        self.submit_login()
        self.expect_logged_in(is_live=is_live)
        return self

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
        return self.page.locator(".applicants .line", has_text=name)

    @property
    def card(self) -> Locator:
        """The applicant who is shown."""
        return self.page.locator(".applicant")
