"""`/register` in a browser: from an e-mail address to waiting for an operator, and what goes wrong on the way."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import (
    Applicant,
    expect_first_step_drawn,
    expect_received,
    path_in_receipt,
    press_register,
)
from tests.browser.conftest import DESKTOP, OpenPage, is_wider_than_the_screen
from tests.support.crash.brief_outage import table_missing
from tests.support.our_tables import our_database
from tests.support.stack import Stack, find_code, has_code

NAME = "Minecraft username"
PASSWORD = "Password (optional)"

Apply = Callable[..., Applicant]


@pytest.fixture
def apply(stack: Stack, open_page: OpenPage) -> Apply:
    """`apply("alice", size="phone")`: a new applicant opens the page."""

    def apply(name: str = "alice", **options: object) -> Applicant:
        return Applicant(open_page("/register", **options), stack, stack.newcomer(name))

    return apply


def at_name(applicant: Applicant) -> Applicant:
    """With a right code in hand."""
    applicant.give_email()
    applicant.give_code()
    applicant.expect_step("Name and password")
    return applicant


def error_at(page: Page, label: str) -> str:
    """Return the error shown below a field."""
    field = page.get_by_label(label, exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    described = (field.get_attribute("aria-describedby") or "").split()
    return page.locator(f"#{described[0]}").inner_text()


def test_four_requests_and_one_can_type_and_then_nothing_moves(open_page: OpenPage) -> None:
    page = open_page("/server", size="phone", may_complain=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page.url.replace("/server", "/register"))
    page.get_by_label("E-mail address").fill("alice@example.org")
    page.wait_for_load_state("networkidle")
    assert len([url for url in asked if not url.startswith("data:")]) <= 4
    expect_first_step_drawn(page)


def test_bob_registers_in_chinese_and_changes_his_mind_in_the_middle(stack: Stack, apply: Apply) -> None:
    bob = apply("bob", language="zh-CN", size="phone")
    page = bob.page
    page.get_by_label("邮箱").fill(bob.person.email)
    page.get_by_role("button", name="下一步").click()
    page.get_by_label("验证码").fill(bob.code())
    page.get_by_label("Minecraft 用户名").fill(bob.person.name)
    page.locator("#language summary").click()
    page.get_by_role("button", name="English", exact=True).click()
    expect(page.get_by_label(NAME)).to_have_value(bob.person.name)
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.locator("#language summary").click()
    page.get_by_role("button", name="中文").click()
    page.get_by_label(re.compile("^密码")).fill(bob.person.password)
    page.get_by_role("button", name="提交注册").click()
    expect(page.get_by_role("status")).to_contain_text("我们已经收到")
    assert stack.user(bob.person)["language"] == "zh"


def test_mistakes_are_told_at_the_step_they_belong_to(apply: Apply) -> None:
    """In the address, in the code, in the name and in the password; the last are told before anything is sent."""
    alice = apply(size="phone", may_complain=True)
    page = alice.page
    alice.give_email("alice")
    assert "doesn’t look like" in error_at(page, "E-mail address")
    alice.give_email("alice@[192.0.2.1]")
    assert "not accepted" in error_at(page, "E-mail address")
    alice.give_email("somebody.else@example.org")
    alice.press("Wrong address? Change it")
    expect(page.get_by_label("E-mail address")).to_have_value("somebody.else@example.org")
    alice.give_email(" alice@gmial.com ")
    assert error_at(page, "E-mail address").startswith("Did you mean alice@gmail.com?")
    alice.press("Use alice@gmail.com")
    expect(page.get_by_label("E-mail address")).to_have_value("alice@gmail.com")
    alice.give_email("alice@gmial.com")
    expect(page.get_by_text("We’ve sent an e-mail to alice@gmial.com")).to_be_visible()  # it may exist
    alice.press("Back")

    alice.give_email()
    expect(page.get_by_label("Verification code")).to_be_focused()
    right = alice.code()
    expect(page.get_by_text("Valid for 5 minutes.")).to_be_visible()
    alice.give_code(right[:-1])
    alice.press("Next")
    assert "Enter the 6 digits" in error_at(page, "Verification code")
    alice.give_code("000000" if right != "000000" else "111111")
    assert "wrong or has expired" in error_at(page, "Verification code")
    assert find_serious_faults(page, ["main"]) == []
    alice.give_code(f"Your code: {right[:3]} {right[3:]}.")  # as it was pasted
    alice.expect_step("Name and password")

    for name, password, label, payload in (
        ("a b", "a-good-secret", NAME, "may only have letters"),
        (" ab ", "a-good-secret", NAME, "too short; it needs at least 3"),
        ("a" * 17, "a-good-secret", NAME, "too long; it may have at most 16"),
        ("", "a-good-secret", NAME, "Please fill in this field"),
        ("Alice_in", "abc", PASSWORD, "too short"),
        ("Alice_in", "söcret-one", PASSWORD, "no spaces"),
        ("Alice_in", "alice_in", PASSWORD, "must not be the same as your name"),
    ):
        alice.give_name(name, password)
        assert payload in error_at(page, label)
    page.get_by_label(PASSWORD, exact=True).fill("a-good-secret")
    expect(page.get_by_text("Strength: strong")).to_be_visible()


def test_a_name_that_is_not_free_is_told_and_a_password_left_for_later(stack: Stack, apply: Apply) -> None:
    """And the address is proven anew where that was too long ago."""
    rick, bob, mallory = stack.pending("rick"), stack.pending("bob"), stack.newcomer("mallory")
    path = path_in_receipt(stack, rick)
    stack.decides("reject", rick)
    stack.authme.register(mallory.name, mallory.password)  # whom only the game knows
    alice = at_name(apply(may_complain=True))
    alice.give_name(rick.name)
    assert re.search(r"apply under it again from .*20\d\d, [^,]*\.$", error_at(alice.page, NAME))
    alice.give_name(bob.name)
    assert "otherwise choose another one" in error_at(alice.page, NAME)  # at once
    alice.give_name(mallory.name)
    assert "already taken" in error_at(alice.page, NAME)

    our_database(stack).execute("DELETE FROM regsvc_verification WHERE email_key = ?", (alice.person.email.lower(),))
    alice.give_name(password="")
    expect(alice.page.get_by_role("status")).to_contain_text("verify your e-mail address again")
    alice.give_email()
    alice.expect_step("Check your e-mail")
    alice.give_code(find_code(stack.smtp.wait_for(alice.person.email, 2, counts=has_code).text))
    expect_received(alice.page)
    expect(alice.page.get_by_text("a link to set your password")).to_be_visible()
    stack.decides("approve", alice.person)
    stack.smtp.wait_for(alice.person.email, 1, counts=lambda letter: "#token=" in letter.text)

    alice.page.goto(f"{stack.daemon.base_url}{path}")  # Rick's, who has to wait
    expect(alice.page.get_by_text("You can apply again from")).to_be_visible()
    expect(alice.page.get_by_role("link", name="Apply again")).to_have_count(0)


def test_an_address_is_seen_and_changed_before_the_application_is_sent(stack: Stack, apply: Apply) -> None:
    alice = apply()
    page, summary = alice.page, alice.page.get_by_role("region", name="Check before you send")
    alice.give_email("alice.of.old@example.org")
    alice.give_code(find_code(stack.smtp.wait_for("alice.of.old@example.org", 1, counts=has_code).text))
    alice.fill_name()
    expect(summary).to_contain_text("alice.of.old@example.org")
    assert find_serious_faults(page, ["main"]) == []
    summary.get_by_role("button", name="Change: E-mail address").click()
    alice.give_email()
    alice.give_code()
    expect(summary).to_contain_text(alice.person.email)
    expect(page.get_by_label(NAME)).to_have_value(alice.person.name)
    summary.get_by_role("button", name="Change: E-mail address").click()
    alice.press("Next")  # nothing changed, and nothing is asked anew
    alice.expect_step("Name and password")
    alice.press("Register")
    expect_received(page)
    assert stack.user(alice.person)["email"] == alice.person.email


def test_each_step_is_an_entry_of_the_history_and_alice_is_approved(stack: Stack, apply: Apply) -> None:
    alice = at_name(apply(size="phone"))
    page = alice.page
    heading = page.get_by_role("heading", level=2)
    expect(heading).to_be_focused()
    expect(heading).to_have_accessible_description("Step 3 of 3")
    server = page.title().rpartition(" – ")[2]
    expect(page).to_have_title(f"Name and password (3/3) – {server}")
    alice.fill_name()
    page.evaluate("scrollTo(0, 9999)")
    page.go_back()
    expect(page.get_by_text(f"{alice.person.email} is verified.")).to_be_visible()
    expect(page).to_have_title(f"Check your e-mail (2/3) – {server}")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(page).to_have_title(f"Contact (1/3) – {server}")
    alice.press("Next")  # its address is proven
    expect(page.get_by_label(NAME)).to_have_value(alice.person.name)
    alice.press("Back")
    expect(page).to_have_title(f"Contact (1/3) – {server}")
    page.go_forward()
    expect(page.get_by_label(PASSWORD, exact=True)).to_have_value(alice.person.password)
    alice.press("Register")
    expect(page).to_have_title(f"Waiting for review – {server}")
    page.go_back()
    page.get_by_role("link", name="See your application").click()
    expect_received(page)

    expect(page.get_by_text(f"We’ll e-mail the decision to {alice.person.email}")).to_be_visible()
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
    assert not is_wider_than_the_screen(page)
    stack.decides("approve", alice.person)
    expect(page.get_by_role("status")).to_contain_text(f"You’re in, {alice.person.name}!")
    assert stack.login(alice.person).json["status"] == "approved"
    assert stack.authme.login(alice.person.name, alice.person.password)


def test_a_registration_whose_answer_was_lost_is_not_lost(stack: Stack, apply: Apply) -> None:
    """Nor what was typed in a tunnel, or while the game was away. It is sent again; nothing is mailed or asked anew."""
    alice = apply(may_complain=True)
    context: BrowserContext = alice.page.context
    context.set_offline(True)
    alice.give_email()
    expect(alice.page.locator("form > [role=status]:has(+ button)")).to_contain_text("could not be reached")
    context.set_offline(False)
    at_name(alice)
    with table_missing(stack):
        alice.give_name()
        expect(alice.page.get_by_role("status")).to_contain_text("cannot reach the game server’s accounts")
    expect(alice.page.get_by_label(NAME)).to_have_value(alice.person.name)
    expect(alice.page.get_by_label(PASSWORD, exact=True)).to_have_value(alice.person.password)
    press_register(alice.page, lost=1)
    expect_received(alice.page)
    stack.smtp.wait_for_receipt(alice.person.email)
    assert len(stack.smtp.letters_to(alice.person.email)) == 1, "the code"


def test_a_phone_that_forgot_the_page_goes_on_where_it_was(apply: Apply) -> None:
    alice = apply(size="phone")
    context, address = alice.page.context, alice.page.url
    alice.give_email()
    alice.give_code()
    alice.fill_name()
    alice.page.go_back()
    alice.page.reload()
    alice.press("Next")
    expect(alice.page.get_by_role("status")).to_contain_text("Please enter your password again")
    alice.fill_name()
    alice.page.reload()
    expect(alice.page.get_by_label(NAME)).to_have_value(alice.person.name)
    expect(alice.page.get_by_label(PASSWORD, exact=True)).to_have_value("")  # it is kept in memory alone
    expect(alice.page.get_by_role("status")).to_contain_text("Please enter your password again")
    stored = alice.page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    assert alice.person.password not in stored
    alice.page.close()
    alice.page = context.new_page()
    alice.page.goto(address)
    expect(alice.page.get_by_label(NAME)).to_have_value(alice.person.name)
    expect(alice.page.get_by_role("button", name="Start over")).to_be_visible()
    alice.give_name()
    expect_received(alice.page)
    assert alice.person.email not in alice.page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
