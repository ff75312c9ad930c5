"""`/set-password` in a browser: the link in the mail, a new password, and playing with it."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from regsvc.web.pages import PAGES
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.live_api import LiveApi
from tests.support.services import ServiceHarness
from tests.support.stack import Person, Stack, find_link_token


@pytest.fixture
def settings(tmp_path: Path) -> Mapping[str, object]:
    """A host with a front end of their own."""
    return {"http__web_root": str(tmp_path)}


def forgotten(stack: Stack) -> tuple[Person, str]:
    """An approved user who forgot the password, and the token in the mail."""
    bob = stack.approved("bob")
    stack.post("/api/password/forgot", {"email": bob.email})
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "#token=" in letter.text)
    return bob, find_link_token(letter.text)


def set_password(page: Page, password: str) -> None:
    page.get_by_label("New password").fill(password)
    page.get_by_role("button", name="Set password").click()


def test_bob_sets_a_new_password_and_mends_his_mistakes(stack: Stack, open_page: OpenPage) -> None:
    bob, token = forgotten(stack)
    page = open_page(f"/set-password#token={token}", language="zh-CN", size="phone", dark=True, may_complain=True)
    expect(page).to_have_url(re.compile(r"/set-password$"))  # the token is in neither address bar nor history
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.get_by_role("button", name="设置密码")).to_be_visible()
    page.locator("#language summary").click()
    page.get_by_role("button", name="English", exact=True).click()
    expect(page.get_by_role("button", name="Set password")).to_be_visible()  # the token came along
    expect(page).to_have_url(re.compile(r"/set-password$"))
    set_password(page, "x")
    expect(page.get_by_text("The password is too short")).to_be_visible()
    expect(page.get_by_label("New password")).to_be_focused()
    field = page.get_by_label("New password")
    expect(field).to_have_attribute("type", "password")
    page.get_by_role("button", name="Show password").click()
    expect(field).to_have_attribute("type", "text")
    page.get_by_role("button", name="Hide password").click()
    expect(field).to_have_attribute("type", "password")
    set_password(page, "bobs-new-secret")
    expect(page.get_by_role("status")).to_contain_text("Your password is set.")
    assert not is_wider_than_the_screen(page)
    assert stack.login(bob, "bobs-new-secret").status == 200
    assert stack.login(bob).status == 401

    # a used link, and half of one, are told
    page.goto(f"{stack.daemon.base_url}/set-password?again#token={token}")
    expect(page.get_by_role("status")).to_contain_text("has been used")  # before anything is typed
    expect(page.get_by_label("New password")).to_be_hidden()
    assert stack.login(bob, "bobs-new-secret").status == 200
    page.goto(f"{stack.daemon.base_url}/set-password")
    expect(page.get_by_role("status")).to_contain_text("incomplete")
    expect(page.get_by_label("New password")).to_be_hidden()


def test_beside_a_hosts_front_end_links_lead_to_pages_that_exist(services: ServiceHarness, open_page: OpenPage) -> None:
    with LiveApi(services.app.features, pages=PAGES) as api:
        at = f"http://127.0.0.1:{api.port}"
        page = open_page("/set-password#token=used", at=at, may_complain=True)
        page.get_by_role("link", name="Request a new link").click()
        page.get_by_label("E-mail").fill("bob@example.org")
        page.get_by_role("button").click()
        expect(page.get_by_role("link", name="Back to log in")).to_have_attribute("href", "./")
