"""Captchas for people who cannot see the picture: by keyboard, with names that a screen reader can read."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import Applicant
from tests.browser.conftest import OpenPage
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

CAPTCHAS: Mapping[str, Mapping[str, Any]] = {
    "registration": {"methods": ["email", "captcha"]},
    "captcha": {"also_for": ["verify_send", "login"]},
}
WORKER = "captcha-worker"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack("sqlite", tmp_path_factory.mktemp("stack"), config=CAPTCHAS) as stack:
        yield stack


def press_with_keyboard(page: Page, control: Locator) -> None:
    """Reach a control with the Tab key alone, and press it."""
    for _stop in range(20):
        page.keyboard.press("Tab")
        if control.evaluate("control => control === document.activeElement"):
            page.keyboard.press("Enter")
            return
    raise AssertionError("the Tab key does not lead there")


def test_alice_registers_without_seeing_a_picture(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/register", size="phone")
    alice = Applicant(page, stack, stack.newcomer("alice"))
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.reload()
    page.get_by_label("E-mail address").fill(alice.person.email)
    expect(page.get_by_role("img", name="Captcha picture")).to_be_visible()
    assert not [url for url in loaded if WORKER in url], "loaded only when wanted"

    press_with_keyboard(page, page.get_by_role("button", name="I can’t see the picture"))
    expect(page.get_by_role("button", name="Use a picture instead")).to_be_focused()
    expect(page.get_by_role("status").filter(has_text="Your browser has solved the puzzle")).to_be_visible()
    expect(page.get_by_role("img", name="Captcha picture")).to_be_hidden()
    expect(page.get_by_label("Result of the sum")).to_be_hidden()
    assert [url for url in loaded if WORKER in url]
    assert find_serious_faults(page, ["main"]) == []
    with page.expect_request("**/verify/send") as sent:
        press_with_keyboard(page, page.get_by_role("button", name="Next"))
    alice.expect_step("Check your e-mail")
    again = stack.post("/api/verify/send", sent.value.post_data_json)
    assert_refused(again, 422, "invalid_captcha", field="captchaAnswer")

    alice.give_code()
    alice.fill_name()
    press_with_keyboard(page, page.get_by_role("button", name="I can’t see the picture"))
    page.get_by_label("Minecraft username").press("Enter")  # at once: the request waits for the solution
    expect(page.get_by_role("heading", name="Your application")).to_be_visible()


def test_a_browser_that_cannot_solve_it_shows_the_picture(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/server", may_complain=True)
    page.route(f"**/{WORKER}*", lambda route: route.abort())
    page.goto(f"{stack.daemon.base_url}/account")
    choose = page.get_by_role("button", name="I can’t see the picture")
    expect(choose).to_be_visible()
    choose.click()
    expect(page.get_by_text("Please use the picture.")).to_be_visible()
    expect(page.get_by_label("Result of the sum")).to_be_visible()


def test_where_there_are_no_pictures_nobody_has_to_do_anything(stack: Stack, open_page: OpenPage) -> None:
    stack.restart_with({"captcha": {"type": "work"}})
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    page = open_page("/account", language="zh-CN", may_complain=True)
    solved = page.get_by_role("status").filter(has_text="浏览器已完成人机验证")
    expect(solved).to_be_visible()
    expect(page.get_by_role("img", name="验证图片")).to_be_hidden()
    assert find_serious_faults(page, ["main"]) == []
    page.get_by_label("用户名或邮箱").fill(bob.name)
    for password in ("a wrong one", bob.password):
        page.get_by_label("密码").fill(password)
        page.keyboard.press("Enter")
        if password != bob.password:
            expect(page.get_by_text("用户名或密码错误")).to_be_visible()
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()
