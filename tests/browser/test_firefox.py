"""The journeys in Firefox: registering, an account, decisions, and answers that get lost on the way."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from tests.browser.applicant import Applicant, expect_received
from tests.browser.conftest import OpenPage, Window, Windows
from tests.browser.firefox import write_program
from tests.browser.operator import Operator
from tests.support.peers.losing_proxy import LosingProxy
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Stack

NO_FIREFOX = "NO firefox-esr HERE (run tests/install_system_packages.sh)"


@pytest.fixture(scope="module")
def browser(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    firefox = shutil.which("firefox-esr")
    if firefox is None:
        pytest.skip(NO_FIREFOX)
    browser = playwright.firefox.launch(
        executable_path=write_program(firefox, tmp_path_factory.mktemp("firefox")),
        channel="moz-firefox",
        firefox_user_prefs={"ui.prefersReducedMotion": 1},
    )
    yield browser
    browser.close()


class FreshWindows(Windows):
    """Windows that are used once: only Chromium's can be emptied."""

    @contextmanager
    def lent(self, language: str, options: Mapping[str, Any]) -> Iterator[Window]:
        with self.browser.new_context(locale=language, **options) as context:
            yield Window(context)


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Windows:
    return FreshWindows(browser)


@pytest.fixture
def proxy(stack: Stack) -> Iterator[LosingProxy]:
    with LosingProxy(stack.daemon.port) as proxy:
        yield proxy


def test_alice_registers_is_approved_and_changes_her_password_although_answers_get_lost(
    stack: Stack, open_page: OpenPage, proxy: LosingProxy
) -> None:
    alice = Applicant(open_page("/register", size="phone", at=proxy.address), stack, stack.newcomer("alice"))
    page = alice.page
    alice.press("Next")
    expect(page.get_by_text("Please fill in this field.")).to_be_visible()
    alice.give_email()
    expect(page.get_by_label("Verification code")).to_be_focused()
    alice.give_code()
    alice.fill_name()
    proxy.lose("register")
    alice.press("Register")
    expect(page.get_by_text("Sending it again")).to_be_attached()
    expect_received(page)

    olivias = open_page("/admin", at=proxy.address)
    olivia = Operator(olivias, OPERATOR, OPERATORS_PASSWORD).log_in()
    olivia.go(f"#queue?name={alice.person.name}")
    expect(olivia.card.get_by_role("heading", name=alice.person.name)).to_be_visible()
    proxy.lose("admin/user/approve")
    olivias.keyboard.press("a")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(page.get_by_role("status")).to_contain_text(f"You’re in, {alice.person.name}!")
    expect(olivia.pending_bar).to_be_hidden()
    assert proxy.has_lost_all
    assert len(stack.audits(alice.person, "user.approved")) == 1

    page.goto(f"{proxy.address}/account")
    change_password(page, proxy, alice.person)


def change_password(page: Page, proxy: LosingProxy, alice: Person) -> None:
    log_in(page, alice.name, alice.password)
    expect(page.get_by_role("heading", name=alice.name)).to_be_visible()
    part = page.locator("#password_title")
    part.locator("summary").click()
    part.get_by_label("Current password").fill(alice.password)
    part.get_by_label("New password").fill("alices-next-secret")
    proxy.lose("user/password")
    part.get_by_role("button", name="Change password").click()
    expect(page.locator("#notice")).to_contain_text("we don’t know whether it arrived")
    page.reload()
    expect(page.get_by_role("status")).to_have_text("Your password was changed. Please log in again.")
    log_in(page, alice.name, "alices-next-secret")
    expect(page.get_by_role("heading", name=alice.name)).to_be_visible()


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name or e-mail address").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()
