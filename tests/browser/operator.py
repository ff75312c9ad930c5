"""Somebody in front of the operators' page."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.support.stack import OPERATOR, OPERATORS_PASSWORD


class Operator:
    """`page` shows `/admin` in English."""

    def __init__(self, page: Page, name: str = OPERATOR, password: str = OPERATORS_PASSWORD) -> None:
        self.page = page
        self.name = name
        self.password = password

    def log_in(self, password: str | None = None) -> None:
        """Fill the login and send it, whatever comes of it."""
        self.page.get_by_label("Name or e-mail address").fill(self.name)
        self.page.get_by_label("Password").fill(password or self.password)
        self.page.get_by_role("button", name="Log in").click()

    def expect_desk(self, *, is_live: bool = True) -> None:
        """Until somebody is in, and hears what happens (or cannot)."""
        expect(self.page.locator(".live")).to_have_text("Live" if is_live else "Not live")

    def come_in(self, *, is_live: bool = True) -> Operator:
        """Log in, and be there."""
        self.log_in()
        self.expect_desk(is_live=is_live)
        return self

    def go(self, address: str) -> None:
        """To a view, `#users?status=banned`, without loading the page again."""
        self.page.evaluate("address => { location.hash = address }", address)

    @property
    def tray(self) -> Locator:
        """The decisions that wait."""
        return self.page.locator(".pending-bar")

    @property
    def notice(self) -> Locator:
        return self.page.locator("#notice")

    def person(self, name: str) -> Locator:
        """A line of the review queue."""
        return self.page.locator(".applicants .line", has_text=name)

    @property
    def card(self) -> Locator:
        """The applicant one looks at."""
        return self.page.locator(".applicant")
