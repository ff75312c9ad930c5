"""How to join, on `/server`, after a registration and on the account, also while the game server shows nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import Applicant
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.browser.words import Words
from tests.support.stack import Stack, find_link_token
from tests.support.watching import ask_until

ADDRESS = "play.willow.example:25570"
LINK = "minecraft:?addExternalServer=Willow%20%26%20Valley|play.willow.example:19132"
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A host who reviews nobody, for both editions; the game server is set to show no status."""
    config: dict[str, dict[str, Any]] = {
        "server": {"name": "Willow & Valley"},
        "game": {"address": ADDRESS, "versions": "1.20 to 1.21.4"},
        "bedrock": {"enabled": True},
        "registration": {"approval": False},
    }
    with Stack("sqlite", tmp_path_factory.mktemp("stack"), config=config) as stack:
        stack.game.write_properties(enable_status="false")
        ask_until(lambda: stack.get("/api/server/status").json["data"], lambda data: data["statusHidden"])
        yield stack


def list_menus(say: Words) -> dict[str, list[str]]:
    """Return the steps for Java, each with what is written in its pictures of the game's menus."""
    multiplayer, add, label, done, join = (
        say(f"game_{key}") for key in ("multiplayer", "add", "address", "done", "join")
    )
    return {
        say("join_java_open", multiplayer=multiplayer): [multiplayer],
        say("join_java_add", add=add, address=ADDRESS, label=label, done=done): [add, f"{label}{ADDRESS}{done}"],
        say("join_java_join", join=join): [f"Willow & Valley{join}"],
    }


def expect_help(page: Page, language: str = "en") -> None:
    say = Words(language, "page.join")
    menus = list_menus(say)
    expect(page.get_by_role("heading", name=say("join_title"))).to_be_visible()
    expect(page.locator(".copyable").get_by_text(ADDRESS, exact=True)).to_be_visible()
    expect(page.get_by_text("1.20 to 1.21.4")).to_be_visible()
    for step in menus:
        expect(page.get_by_role("listitem").filter(has_text=step)).to_be_visible()
    expect(page.locator("li > [aria-hidden=true]")).to_have_text([text for texts in menus.values() for text in texts])
    page.get_by_text(say("join_bedrock"), exact=True).click()
    expect(page.get_by_text(say("join_bedrock_type", host="play.willow.example", port=19132))).to_be_visible()
    expect(page.get_by_role("link", name=say("join_bedrock_add"))).to_have_attribute("href", LINK)
    picture = page.get_by_role("img", name=say("join_qr_code"))
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 100
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)


def test_it_says_how_to_join_though_it_knows_no_status(stack: Stack, open_page: OpenPage) -> None:
    """The address can be copied; a page that is not served over HTTPS has no clipboard, and selects it."""
    say = Words("zh", "page.common")
    page = open_page("/server", permissions=CLIPBOARD, size="phone", language="zh", dark=True)
    expect(page.get_by_text(say("page.server.status_hidden"))).to_be_visible()
    expect_help(page, "zh")
    copy = page.get_by_role("button", name=say("copy"))
    copy.click()
    expect(page.get_by_text(say("copied"))).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == ADDRESS
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    copy.click()
    expect(page.get_by_text(say("copy_selected"))).to_be_visible()
    assert page.evaluate("getSelection().toString()") == ADDRESS

    page.goto(f"{stack.daemon.base_url}/")
    expect(page.get_by_text(ADDRESS)).to_be_visible()
    expect(page.locator(".state")).to_be_hidden()  # it is not called offline
    assert find_serious_faults(page, ["main"]) == []


def test_who_is_in_is_told_how_to_join(stack: Stack, open_page: OpenPage) -> None:
    person = stack.newcomer("alice")
    page = open_page(f"/register?name=.{person.name}", size="phone")  # as AuthMe can fill it in
    alice = Applicant(page, stack, person)
    alice.give_email()
    alice.give_code()
    name = page.get_by_label("Minecraft username")
    expect(name).to_have_value(f".{person.name}")
    expect(name).to_have_attribute("readonly", "")
    assert "name=" not in page.url
    assert find_serious_faults(page, ["main"]) == []
    page.get_by_label("Password", exact=False).first.fill("x")
    alice.press("Register")
    expect(page.get_by_text("The password is too short")).to_be_visible()
    expect(page.get_by_text("That isn’t a valid username.")).to_have_count(0)
    alice.press("Use another name")
    expect(page.get_by_label("Bedrock")).to_be_checked()
    page.get_by_label("Java").check()
    alice.give_name()
    expect(page.get_by_role("main")).to_contain_text(f"You’re in!{alice.person.name}")
    expect_help(page)
    page.get_by_role("link", name="My account").last.click()
    page.get_by_label("Name or e-mail address").fill(alice.person.name)
    page.get_by_label("Password").fill(alice.person.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=alice.person.name)).to_be_visible()
    expect_help(page)

    stack.post("/api/password/forgot", {"email": alice.person.email})
    letter = stack.smtp.wait_for(alice.person.email, 1, counts=lambda letter: "#token=" in letter.text)
    page.goto(f"{stack.daemon.base_url}/set-password#token={find_link_token(letter.text)}")
    page.get_by_label("New password").fill("alices-new-secret")
    expect(page.get_by_text("Strength: strong")).to_be_visible()
    assert find_serious_faults(page, ["main"]) == []
    page.get_by_role("button", name="Set password").click()
    expect_help(page)
