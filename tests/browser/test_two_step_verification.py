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


def test_bob_replaces_his_recovery_codes_and_turns_it_off(strict: Stack, open_page: OpenPage) -> None:
    bob = strict.pending("bob")
    app = Authenticator()
    assert strict.authme.set_totp(bob.name, app.secret)
    page = open_page("/account#totp_title", at=strict.daemon.base_url, language="zh", may_complain=True)
    page.locator("input").first.fill(bob.name)
    page.locator("input[type=password]").first.fill(bob.password)
    page.keyboard.press("Enter")
    expect(page.locator("input[inputmode=numeric]").first).to_have_attribute("aria-required", "true")
    page.locator("input[inputmode=numeric]").first.fill(app.code())
    page.keyboard.press("Enter")
    part = page.locator("#totp_title")
    part.locator("summary", has_text="更换恢复码").click()
    expect_no_faults(page)
    new = part.locator("details").first
    new.locator("input").first.fill(bob.password)
    new.locator("input").last.fill(app.code(1))
    new.get_by_role("button").click()
    codes = part.locator(".recovery-codes code")
    expect(codes).to_have_count(10)
    code = codes.first.inner_text()
    part.get_by_role("button").click()
    part.locator("summary", has_text="关闭两步验证").click()
    off = part.locator("details").last
    off.locator("input").first.fill(bob.password)
    off.locator("input").last.fill(code)
    off.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="关闭两步验证").click()
    expect(page.get_by_role("status")).to_have_text("两步验证已关闭。")
    assert strict.authme.get(bob.name)["totp"] is None


def test_sessions_are_ended_one_by_one(stack: Stack, open_page: OpenPage) -> None:
    alice = stack.approved("alice")
    left_open = stack.user_token(alice)
    page = open_page("/account#sessions_title", size="phone")
    log_in(page, alice)
    part = page.locator("#sessions_title")
    expect(part.get_by_role("listitem")).to_have_count(2)
    expect_no_faults(page)
    part.get_by_role("button", name="Log out there").click()
    expect(page.get_by_role("status")).to_have_text("The session was ended.")
    expect(part.get_by_role("listitem")).to_have_count(1)
    assert stack.get("/api/user/sessions", token=left_open).status == 401

    here = page
    page = open_page("/admin#user?name=" + alice.name)
    log_in(page, Person("Olivia", "", "olivias-secret"))
    page.get_by_role("button", name="End", exact=True).click()
    expect(page.locator("#notice")).to_have_text(f"The session of {alice.name} was ended.")
    expect(page.get_by_text("Active sessions (0)")).to_be_visible()
    here.close()
