"""The pages of a host that cannot send mail. The process is this one, because only here captchas can be answered."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import Page, expect

from regsvc.database.models import User
from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import expect_first_step_drawn, expect_received, lose_answers, press_register
from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator
from tests.support.authme.authme_like import long_ago
from tests.support.captchas import answer_to
from tests.support.services import PASSWORD, ServiceHarness
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD

NEW = "a-new-secret-1"


@pytest.fixture
def settings() -> Mapping[str, object]:
    return {"registration__methods": ["captcha"], "mail__backend": "off"}


def register(
    page: Page,
    services: ServiceHarness,
    address: str,
    name: str,
    email: str,
    *,
    password: str | None = PASSWORD,
    is_answer_lost: bool = False,
) -> None:
    """Register on `/register`, whose only step this is; `password` None: it asks for none."""
    with page.expect_response("**/captcha/generate*") as response:
        page.goto(f"{address}/register")
    captcha = response.value.json()
    expect(page.get_by_role("img", name="Captcha picture")).to_have_attribute("src", captcha["image"])
    page.get_by_label("Minecraft username").fill(name)
    if password is None:
        expect(page.get_by_role("heading", name="Minecraft username")).to_be_visible()
        expect(page.locator("input[type=password]")).to_have_count(0)
    else:
        page.get_by_label("Password", exact=False).first.fill(password)
    page.get_by_label("E-mail address").fill("not an address")
    page.get_by_label("Result of the sum").fill(answer_to(services.app, captcha["token"]))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_text("That doesn’t look like an e-mail address.")).to_be_visible()
    page.get_by_label("E-mail address").fill(email)
    if is_answer_lost:
        press_register(page)
    page.get_by_role("button", name="Register").click()


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name or e-mail address").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()


def test_from_the_registration_to_a_link_handed_over(
    open_page: OpenPage, services: ServiceHarness, address: str
) -> None:
    page = open_page("/register", at=address, may_complain=True)
    expect_first_step_drawn(page)
    register(page, services, address, "Alice", "alice@example.org", is_answer_lost=True)
    expect_received(page)
    expect(page.get_by_text("we can’t e-mail you a new one")).to_be_visible()
    page.get_by_text("Wrong e-mail address?").click()
    expect(page.get_by_label("Your e-mail address")).to_have_value("alice@example.org")
    page.get_by_label("Your e-mail address").fill("alice@example.net")
    assert find_serious_faults(page, ["main"]) == []
    lose_answers(page, "application/email", 2)  # the first one has ended the token of this page, which notices
    page.get_by_role("button", name="Correct address").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status")).to_contain_text("Your e-mail address was changed")
    page.get_by_role("link", name="My account").last.click()
    log_in(page, "Alice", PASSWORD)
    expect(page.get_by_text("you will see the decision here")).to_be_visible()
    expect(page.get_by_text("E-mail address", exact=True)).to_have_count(1)  # shown, with no section to change it
    page.goto(f"{address}/forgot-password")
    expect(page.get_by_text("Ask a moderator for a link")).to_be_visible()

    long_ago(services.table).register(OPERATOR, OPERATORS_PASSWORD)
    services.sync()
    services.decide("approve", "Alice")
    admin = open_page("/admin", at=address, may_complain=True)
    operator = Operator(admin).log_in()
    operator.go("#user?name=Alice")
    admin.locator("summary", has_text="Password").click()
    expect(admin.get_by_role("button", name="E-mail a link")).to_be_hidden()
    admin.get_by_role("button", name="Create link").click()
    link = admin.get_by_label("Link for Alice").input_value()

    page.goto(link.replace("http://127.0.0.1:8080", address))
    page.get_by_label("New password").fill(NEW)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("status")).to_contain_text("You can join the server now.")
    assert services.authme.login("Alice", NEW)


@pytest.mark.parametrize(
    "settings", [{"registration__methods": ["captcha"], "mail__backend": "off", "authme__enabled": False}]
)
def test_without_authme_no_page_speaks_of_a_password(
    open_page: OpenPage, services: ServiceHarness, address: str
) -> None:
    page = open_page("/server", at=address, may_complain=True)
    register(page, services, address, "Alice", "alice@example.org", password=None)
    expect_received(page)
    expect(page.get_by_text("password")).to_have_count(0)
    services.decide("approve", "Alice")
    expect(page.get_by_role("status")).to_contain_text("You’re in, Alice!")
    expect(page.get_by_text("password")).to_have_count(0)


@pytest.mark.parametrize(
    "settings", [{"registration__methods": ["captcha"], "mail__backend": "off", "authme__enabled": False}]
)
def test_without_a_password_a_lost_answer_is_given_again(
    open_page: OpenPage, services: ServiceHarness, address: str
) -> None:
    """Nothing but the key of the attempt proves who asks again; the captcha is spent."""
    page = open_page("/server", at=address, may_complain=True)
    register(page, services, address, "Alice", "alice@example.org", password=None, is_answer_lost=True)
    expect_received(page)
    assert [user.username for user in User.select()] == ["Alice"]
