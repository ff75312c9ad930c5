"""A host beside MariaDB that asks for all there is: both editions, a questionnaire, a chat account, a review."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import LOSSES, Applicant, expect_received, press_register, press_through
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator, box_of
from tests.support.chat_stack import ChatStack
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.oauth_server import OAuthServer
from tests.support.questions import asking
from tests.support.stack import Stack

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'
WORDS = "<b>I</b> like it."


PHONES = ((320, 568), (360, 640), (375, 667), (390, 664))
FIND_COVERED_FIELDS = """() => {
  const covered = [];
  const all = [...document.querySelectorAll("#inside :is(input, select, textarea)")];
  const fields = all.filter((field) => field.checkVisibility());
  for (let top = 0; top <= document.documentElement.scrollHeight - innerHeight + 40; top += 40) {
    scrollTo({ top, behavior: "instant" });
    for (const field of fields) {
      const { left, right, top: upper, bottom } = field.getBoundingClientRect();
      const [x, y] = [(left + right) / 2, (upper + bottom) / 2];
      if (y < 1 || y > innerHeight - 1) continue;
      const hit = document.elementFromPoint(x, y);
      if (hit !== field && !field.labels[0]?.contains(hit)) covered.push(`${field.name} under ${hit?.textContent}`);
    }
  }
  scrollTo({ top: 0, behavior: "instant" });
  return covered;
}"""
"""Returns the fields in whose middle is something else, wherever the page is scrolled to."""


@pytest.fixture(scope="module")
def chat_stack(mariadb: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatStack]:
    directory = tmp_path_factory.mktemp("stack")
    with OAuthServer() as provider:
        config = {
            **asking(directory, retry_after="1 hour"),
            "chat": provider.config(required=True),
            "server": {"name": MARKUP, "announcement": MARKUP, "theme": "ocean"},
            "game": {"address": "play.example.org:25565"},
            "bedrock": {"enabled": True},
            "verification": {"limits_per_address": ["1 per minute", "10 per day"]},
        }
        dotted = {"settings.restrictions.allowedNicknameCharacters": "[a-zA-Z0-9_.]*"}  # for players of Bedrock
        with Stack("mariadb", directory / "stack", mariadb, config=config, authme=dotted) as stack:
            yield ChatStack(stack, provider)


@pytest.fixture
def stack(chat_stack: ChatStack) -> Stack:
    return chat_stack.stack


def link_chat(page: Page, chat_stack: ChatStack, name: str, payload: str) -> None:
    """On the platform, in the tab that opens; `told`: what our page says at the end of the way."""
    person = chat_stack.person(name)
    page.context.add_cookies([{"name": "account", "value": person.id, "url": chat_stack.provider.address}])
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Link Discord").click()
    expect(opened.value.get_by_role("heading", name=payload)).to_be_visible()
    opened.value.close()
    page.bring_to_front()


def change_what_was_given(alice: Applicant, name: str) -> None:
    """At the last step she sees all of it, mends her name and an answer, and is back with one button each."""
    page = alice.page
    summary = page.get_by_role("region", name="Check before you send")
    for given in (alice.person.email, "Bedrock Edition", "Answered: 3"):
        expect(summary).to_contain_text(given)
    assert find_serious_faults(page, ["main"]) == []
    summary.get_by_role("button", name="Change: Minecraft username").click()
    page.get_by_label("Minecraft username").fill(f"{name[1:]}x")
    alice.press("Next")
    alice.expect_step("Chat account")
    expect(summary).to_contain_text(f"{name[1:]}x")
    summary.get_by_role("button", name="Change: Minecraft username").click()
    page.get_by_label("Minecraft username").fill(name[1:])
    alice.press("Next")
    summary.get_by_role("button", name="Change: Questions").click()
    expect(page.get_by_label("Why here?")).to_have_value(WORDS)
    page.get_by_label("Why here?").fill(f"{WORDS}!!")
    alice.press("Next")
    alice.expect_step("Chat account")


def expect_words_alone(page: Page) -> None:
    """Nothing of what people and the host have written became markup."""
    assert page.locator("header img, main img:not(.qr-code), main b:not(.pending-bar b, .menu b)").count() == 0
    assert page.evaluate("document.title") != "1"


def approve_with_a_message(olivia: Operator, name: str) -> None:
    """Olivia sees who has just registered, and answers in markup as well."""
    expect(olivia.card.get_by_role("heading", name=name)).to_be_visible()  # as it happens
    expect(olivia.card.locator("blockquote")).to_have_text(f"{WORDS}!!")
    expect(olivia.card.locator("dd", has_text=MARKUP)).to_be_visible()
    expect(olivia.card.locator(".score")).to_contain_text("60 of ")
    olivia.page.keyboard.press("Shift+A")
    olivia.page.get_by_label("Message, in your own words").fill(MARKUP)
    olivia.page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(olivia.pending_bar).to_contain_text(MARKUP)
    expect_words_alone(olivia.page)
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_be_hidden()


def unlink(page: Page) -> None:
    page.get_by_role("button", name="Unlink").click()
    page.get_by_role("dialog").get_by_role("button", name="Unlink").click()


def test_alice_goes_all_the_way_from_the_mail_to_the_game(
    chat_stack: ChatStack, stack: Stack, open_page: OpenPage
) -> None:
    """Her name has a space on her tablet, and everything she and the host write is full of markup."""
    olivia = Operator(open_page("/admin", is_olivias=True)).expect_logged_in()
    expect(olivia.page.get_by_text("All caught up")).to_be_visible()

    provider = chat_stack.provider.address
    page = open_page("/register", size="phone", dark=True, may_leave_for=provider, may_complain=True)
    alice = Applicant(page, stack, stack.newcomer("alice"))
    name = f".{alice.person.name}"  # what Floodgate makes of it
    alice.give_email()
    alice.give_code()
    expect(page.get_by_text("3–16 letters, digits or _")).to_be_visible()
    alice.give_name("Max der Große")
    expect(page.locator(".error", has_text="letters, digits")).to_be_visible()
    page.get_by_label("Bedrock Edition").check()
    expect(page.get_by_text("Your gamertag, exactly as on your device.")).to_be_visible()
    alice.fill_name(alice.person.name.replace("_", " "))
    expect(page.get_by_text(f"Your name on the server: {name}")).to_be_visible()
    alice.press("Next")
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    page.get_by_label("Why here?").fill(WORDS)
    expect(page.get_by_text(f"({len(WORDS)} so far)")).to_be_visible()
    alice.press("Next")
    expect(page.get_by_role("button", name="Register")).to_be_hidden()
    change_what_was_given(alice, name)
    link_chat(page, chat_stack, MARKUP, "is confirmed")
    expect(page.get_by_text(f"Linked: {MARKUP}")).to_be_visible()
    assert not is_wider_than_the_screen(page)
    alice.press("Register")
    expect(page.get_by_text("Join at play.example.org.")).to_be_visible()
    expect_words_alone(page)

    approve_with_a_message(olivia, name)
    stack.smtp.wait_for(alice.person.email, 1, counts=lambda letter: MARKUP in letter.text)
    assert stack.authme.login(name, alice.person.password)

    page.get_by_role("link", name="My account").last.click()
    page.get_by_label("Name or e-mail address").fill(alice.person.email)
    page.get_by_label("Password").fill(alice.person.password)
    page.get_by_role("button", name="Log in").click()
    # what there is to say depends on whether the companion has noticed yet that no game runs here
    expect(page.get_by_text(re.compile("Join at play.example.org.|The game server is not running"))).to_be_visible()
    expect(page.locator(".join details[open] summary")).to_contain_text("Bedrock Edition")
    player = replace(alice.person, name=name)
    open_chat = page.locator("summary", has_text="Chat account")
    open_chat.click()
    for loss in LOSSES:
        press_through(page, "chat/unlink", loss, lambda: unlink(page), is_found_out=True)
        if loss.is_reloaded:
            open_chat.click()
        expect(page.get_by_role("link", name="Link Discord")).to_be_visible()
        assert stack.user(player)["chat"] is None
        link_chat(page, chat_stack, "alice.at.home", "is linked")
        expect(page.get_by_text("Linked: alice.at.home")).to_be_visible()
        assert stack.user(player)["chat"]["username"] == "alice.at.home"
    assert page.title() == f"My account – {MARKUP}"
    expect_words_alone(page)


def test_a_registration_whose_answer_was_lost_is_not_lost(
    chat_stack: ChatStack, stack: Stack, open_page: OpenPage
) -> None:
    """Nor is its chat account, which it has spent: after a reload the page asks what became of it, and not her."""
    page = open_page("/register", may_leave_for=chat_stack.provider.address, may_complain=True)
    alice = Applicant(page, stack, stack.newcomer("alice"))
    alice.give_email()
    alice.give_code()
    alice.give_name()
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    alice.press("Next")
    link_chat(page, chat_stack, "alice.at.chat", "is confirmed")
    expect(page.get_by_text("Linked: alice.at.chat")).to_be_visible()
    press_register(page)
    page.reload()
    expect_received(page)
    assert stack.user(alice.person)["chat"]["username"] == "alice.at.chat"


def test_wrong_answers_and_too_many_requests_are_reported(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/register", may_complain=True)
    bob = Applicant(page, stack, stack.newcomer("bob"))
    bob.give_email()
    expect(page.get_by_role("button", name="Send a new code (in ")).to_be_disabled()
    bob.give_code()
    bob.give_name()
    bob.press("Next")
    expect(page.locator(".error").get_by_text("Please choose an option.")).to_be_visible()
    page.get_by_label("Fight").check()
    bob.press("Next")
    failed = "You scored 0 points; you need 60. Read the rules, and try again in 60 minutes."
    expect(page.get_by_role("status")).to_have_text(failed)
    waiting = page.get_by_role("button", name="Next")
    expect(page.get_by_role("status")).to_be_focused()
    expect(waiting).to_have_attribute("aria-disabled", "true")

    again = Applicant(open_page("/register", may_complain=True), stack, bob.person)
    again.give_email()
    expect(again.page.get_by_text(f"We sent an e-mail to {bob.person.email} a moment ago")).to_be_visible()
    again.give_code()
    again.expect_step("Name and password")


def test_on_phones_nothing_lies_on_a_field(stack: Stack, open_page: OpenPage) -> None:
    """And the first one is near the top: the page has neither a strip nor a row of links there."""
    page = open_page("/register", size="phone")
    alice = Applicant(page, stack, stack.newcomer("alice"))
    alice.give_email()
    alice.give_code()
    alice.expect_step("Name and password")
    for language in ("en", "de", "fr", "zh"):
        page.goto(f"{page.url.partition('?')[0]}?language={language}")
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.locator("#inside form [name=username]")).to_be_visible()
        expect(page.get_by_role("navigation")).to_be_hidden()
        for (width, height), size in product(PHONES, ("100%", "200%")):
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate("size => { document.documentElement.style.fontSize = size }", size)
            assert page.evaluate(FIND_COVERED_FIELDS) == [], (language, width, size)
            if size == "100%" and width >= 360:
                field, header = box_of(page.locator("#inside .field").first), box_of(page.locator("header"))
                assert field["y"] - header["height"] < 220, (language, width)
