"""`/register` of a host beside MariaDB that asks for all there is: a questionnaire, a chat account, patience."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.applicant import Applicant
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.chat_village import ChatVillage
from tests.support.mariadb import MariaDBServer
from tests.support.oauth_server import OAuthServer
from tests.support.questions import asking
from tests.support.village import Village

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'
QUESTIONS = "Questions"


@pytest.fixture(scope="module")
def chat_village(mariadb: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatVillage]:
    directory = tmp_path_factory.mktemp("village")
    with OAuthServer() as provider:
        config = {
            **asking(directory, retry_after="1 hour"),
            "chat": provider.config(required=True),
            "server": {"name": MARKUP, "announcement": MARKUP, "theme": "ocean"},
            "game": {"address": "play.example.org:25565"},
            "verification": {"limits_per_address": ["1 per minute", "10 per day"]},
        }
        with Village("mariadb", directory / "village", mariadb, config=config) as village:
            yield ChatVillage(village, provider)


@pytest.fixture
def village(chat_village: ChatVillage) -> Village:
    return chat_village.village


def link_chat(page: Page, chat_village: ChatVillage, name: str) -> None:
    """On the platform, in the tab that opens."""
    person = chat_village.person(name)
    page.context.add_cookies([{"name": "account", "value": person.id, "url": chat_village.provider.address}])
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Link Discord").click()
    expect(opened.value.get_by_role("heading", name="is confirmed")).to_be_visible()
    opened.value.close()
    page.bring_to_front()


def test_alice_goes_all_the_way(chat_village: ChatVillage, village: Village, open_page: OpenPage) -> None:
    provider = chat_village.provider.address
    page = open_page("/register", size="phone", dark=True, may_leave_for=provider)
    alice = Applicant(page, village, village.newcomer("alice"))
    alice.give_email()
    alice.give_code()
    alice.give_name()
    page.get_by_label("Talk").check()
    page.get_by_label("Building").check()
    page.get_by_label("Why here?").fill("I like it.")
    expect(page.get_by_text("So far: 10.")).to_be_visible()
    alice.press("Next")
    expect(page.get_by_role("button", name="Register")).to_be_hidden()
    link_chat(page, chat_village, MARKUP)
    expect(page.get_by_text(f"Linked: {MARKUP}")).to_be_visible()
    assert not is_wider_than_the_screen(page)
    alice.press("Register")
    expect(page.get_by_text("Once you are approved, join at play.example.org.")).to_be_visible()

    village.decides("approve", alice.person)
    page.get_by_role("link", name="My account").last.click()
    page.get_by_label("Name or e-mail address").fill(alice.person.email)
    page.get_by_label("Password").fill(alice.person.password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Join at play.example.org.")).to_be_visible()
    page.locator("summary", has_text="Chat account").click()
    page.get_by_role("button", name="Unlink").click()
    page.get_by_role("dialog").get_by_role("button", name="Unlink").click()
    expect(page.get_by_role("link", name="Link Discord")).to_be_visible()
    assert village.user(alice.person)["chat"] is None
    assert page.title() == f"My account – {MARKUP}"
    assert page.locator("header img, main img, main b").count() == 0


def test_wrong_answers_and_too_many_wishes_are_told(village: Village, open_page: OpenPage) -> None:
    page = open_page("/register", may_complain=True)
    bob = Applicant(page, village, village.newcomer("bob"))
    bob.give_email()
    expect(page.get_by_role("button", name="Send another code (in ")).to_be_disabled()
    bob.give_code()
    bob.give_name()
    bob.press("Next")
    expect(page.get_by_text("Please choose.")).to_be_visible()
    page.get_by_label("Fight").check()
    bob.press("Next")
    expect(page.get_by_role("status")).to_contain_text("0 points; 60 are needed")
    page.get_by_label("Talk").check()
    bob.press("Next")
    expect(page.get_by_role("status")).to_contain_text("(again in ")

    again = Applicant(open_page("/register", may_complain=True), village, bob.person)
    again.give_email()
    expect(again.page.get_by_role("status")).to_contain_text("Too many tries. Please try again in ")
    expect(again.page.get_by_label("E-mail address")).to_have_value(bob.person.email)
