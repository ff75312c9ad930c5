"""A slow applicant with a nervous thumb: nothing is lost on the way, and one code is enough."""

from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import (
    Applicant,
    Loss,
    each_loss,
    expect_received,
    expect_unsure,
    press_register,
    press_through,
)
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.our_tables import age_code, our_database
from tests.support.questions import UNSCORED, asking
from tests.support.stack import Stack, find_code, has_code

WORDS = "I like it."


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("stack")
    reserved = {"registration": {"reserved_names": ["Herobrine"]}}
    config = asking(directory, UNSCORED, retry_after="1 minute") | reserved
    with Stack("sqlite", directory / "stack", config=config) as stack:
        yield stack


def test_alice_takes_her_time(stack: Stack, open_page: OpenPage) -> None:
    """A quarter of an hour in the questionnaire, Back twice, a reload, one failed attempt."""
    page = open_page(
        "/register", size="phone", language="en", may_complain=True, prepare=lambda page: page.clock.install()
    )
    alice = Applicant(page, stack, stack.newcomer("alice"))
    send = page.locator("form button:not([type])")
    page.get_by_label("E-mail address").fill(alice.person.email)
    send.click()
    page.get_by_label("Verification code").fill(alice.code())
    page.get_by_label("Minecraft username").fill(alice.person.name)
    send.click()
    expect(page.get_by_role("heading", level=2)).to_be_focused()
    assert page.evaluate("scrollY") == 0
    page.get_by_label("Why here?").fill(WORDS)
    expect(page.get_by_text("Up to 100 characters (0 so far)")).to_be_visible()
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)

    # a question is spoken in the language that it is written in
    page.locator("#language summary").click()
    page.get_by_role("button", name="Deutsch").click()
    expect(page.locator("legend", has_text="Was tust du?")).to_be_visible()
    assert page.locator("legend", has_text="Was tust du?").get_attribute("lang") is None
    expect(page.locator("label", has_text="Why here?")).to_have_attribute("lang", "en")
    assert find_serious_faults(page, ["main"]) == []
    page.locator("#language summary").click()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_text(f"({len(WORDS)} so far)")).to_be_visible()

    page.reload()  # there is no password to type again
    expect(page.get_by_label("Why here?")).to_have_value(WORDS)

    age_code(stack, alice.person.email, minutes=16)
    page.go_back()
    expect(page.get_by_label("Minecraft username")).to_have_value(alice.person.name)
    page.go_back()
    page.reload()
    expect(send).to_be_visible()
    send.click()  # the address is verified
    expect(page.get_by_label("Minecraft username")).to_have_value(alice.person.name)
    send.click()
    expect(page.get_by_label("Why here?")).to_have_value(WORDS)

    page.get_by_label("Fight").check()
    send.click()
    expect(page.get_by_role("status")).to_contain_text("0 points; you need 60")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # the button floats above what is below it
    assert find_serious_faults(page, ["main"]) == []
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    our_database(stack).execute("DELETE FROM regsvc_rate_limit WHERE scope = 'questionnaire.failed'")
    page.clock.run_for(61_000)
    expect(send).to_have_text("Register")  # the wait is over
    expect(page.get_by_role("status")).to_have_text("You can try again now.")
    send.click()
    expect(page.get_by_role("status")).to_contain_text("received your application")
    assert len([letter for letter in stack.smtp.letters_to(alice.person.email) if has_code(letter)]) == 1


def test_what_nobody_may_have_is_refused_before_the_questions(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/register", size="phone", may_complain=True)
    alice = Applicant(page, stack, stack.newcomer("alice"))
    name, password = page.get_by_label("Minecraft username"), page.get_by_label("Password (optional)", exact=True)
    alice.give_email()
    alice.give_code()
    alice.give_name("Herobrine", "123456")
    expect(page.locator(".error", has_text="too easy to guess")).to_be_visible()
    expect(password).to_be_focused()
    password.fill(alice.person.password)
    alice.press("Next")
    expect(page.locator(".error", has_text="reserved")).to_be_visible()
    expect(name).to_be_focused()
    expect(name).to_have_value("Herobrine")
    expect(password).to_have_value(alice.person.password)
    name.fill(alice.person.name)
    our_database(stack).execute("DELETE FROM regsvc_verification WHERE email_key = ?", (alice.person.email.lower(),))
    alice.press("Next")
    expect(page.get_by_role("status")).to_contain_text("verify your e-mail address again")
    alice.give_email()
    alice.give_code(find_code(stack.smtp.wait_for(alice.person.email, 2, counts=has_code).text))
    expect(name).to_have_value(alice.person.name)
    expect(password).to_have_value(alice.person.password)
    alice.press("Next")
    expect(page.get_by_label("Why here?")).to_be_visible()


def test_a_registration_whose_answer_was_lost_comes_before_its_questions(stack: Stack, open_page: OpenPage) -> None:
    """The proof of the address is spent, with which the answers would be sent again. So it is under another name."""
    for change in ("the answers", "the name"):
        alice = Applicant(open_page("/register", may_complain=True), stack, stack.newcomer("alice"))
        page = alice.page
        alice.give_email()
        alice.give_code()
        alice.give_name()
        for answer in ("Talk", "Building"):
            page.get_by_label(answer).check()
        press_register(page)
        if change == "the answers":
            page.get_by_label("Why here?").fill(WORDS)
        elif change == "the name":
            page.go_back()
            alice.fill_name("Somebody_else")
            alice.press("Next")
        if change != "the name":  # at which the page asks already
            alice.press("Register")
        expect_received(page)
        assert len([letter for letter in stack.smtp.letters_to(alice.person.email) if has_code(letter)]) == 1
        assert stack.user(alice.person)["status"] == "pending"


@each_loss
def test_each_step_whose_answer_is_lost_is_done_once(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    alice = Applicant(open_page("/register", may_complain=True), stack, stack.newcomer("alice"))
    page = alice.page
    alice.give_email()
    code = alice.code()
    press_through(page, "verify/check", loss, lambda: alice.give_code(code))
    send = page.locator("form button:not([type])")
    press_through(page, "register/check", loss, send.click, partial(alice.fill_name, password=""))

    def answer() -> None:
        for label in ("Talk", "Building"):
            page.get_by_label(label).check()

    press_through(page, "questionnaire/submit", loss, send.click, answer)
    expect_received(page)
    assert len([letter for letter in stack.smtp.letters_to(alice.person.email) if has_code(letter)]) == 1
    assert stack.user(alice.person)["status"] == "pending"


def test_what_did_not_arrive_is_not_sent_as_it_was(stack: Stack, open_page: OpenPage) -> None:
    """Alice mends her name while the network is away, and no server ever heard of the first one."""
    page = open_page("/register", may_complain=True)
    alice = Applicant(page, stack, stack.newcomer("alice"))
    alice.give_email()
    alice.give_code()
    alice.give_name(f"{alice.person.name}x")
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    page.clock.install()
    page.route("**/api/register", lambda route: route.abort(), times=3)
    alice.press("Register")
    for _time in range(2):
        expect(page.get_by_role("status")).to_contain_text("Sending it again")
        page.clock.run_for(4_001)
    expect_unsure(page)
    page.go_back()
    alice.give_name()
    alice.press("Register")
    expect_received(page)
    assert stack.user(alice.person)["status"] == "pending"
