"""Two-step verification in a browser: Oscar is sent from the admin page to his account, and sets it up there."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.authenticator import Authenticator
from tests.support.operators import Operators
from tests.support.stack import Person, Stack


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A host who requires the second factor of operators; Olivia, who approves, has one from the game."""
    with Stack("sqlite", tmp_path_factory.mktemp("strict"), config={"registration": {"approval": False}}) as stack:
        stack.restart_with({"auth": {"operators_need_totp": True}})
        yield stack


def log_in(page: Page, person: Person, code: str | None = None) -> None:
    page.get_by_label("Name or e-mail address").fill(person.name)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Log in").click()
    if code is not None:
        page.get_by_label("Authenticator code").fill(code)
        page.get_by_role("button", name="Log in").click()


def expect_no_faults(page: Page) -> None:
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)


def test_oscar_is_led_to_his_account_and_sets_it_up(strict: Stack, open_page: OpenPage) -> None:
    oscar = strict.pending("oscar")
    Operators(strict).appoint(oscar)
    page = open_page("/admin", at=strict.daemon.base_url, size="phone", may_complain=True)
    log_in(page, oscar)
    expect(page.locator("#notice")).to_contain_text("Operators need two-step verification")
    expect_no_faults(page)
    page.get_by_role("link", name="Set it up").click()
    log_in(page, oscar)
    part = page.locator("#totp_title")
    expect(part.get_by_text("Operators of this server need it")).to_be_visible()
    part.get_by_label("Current password").fill(oscar.password)
    part.get_by_role("button", name="Set up").click()
    expect(part.get_by_role("img")).to_be_visible()
    expect_no_faults(page)
    app = Authenticator(part.locator("code").inner_text().replace(" ", ""))
    part.get_by_label("Authenticator code").fill(app.wrong_code())
    part.get_by_role("button", name="Turn on").click()
    expect(part.get_by_text("That code isn’t right.")).to_be_visible()
    part.get_by_label("Authenticator code").fill(app.code())
    part.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("status")).to_contain_text("Two-step verification is on.")
    expect(part.locator(".recovery-codes code")).to_have_count(10)
    codes = part.locator(".recovery-codes code").all_inner_texts()
    expect_no_faults(page)
    part.get_by_role("button", name="I’ve saved them").click()
    expect(part.get_by_text("Recovery codes left: 10")).to_be_visible()
    page.goto(f"{strict.daemon.base_url}/admin")
    log_in(page, oscar, codes[0])
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
