"""`/admin` in a browser: Olivia empties the review queue, and nothing she decides gets lost."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import LOSSES, press_through
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator, box_of, open_queue, standing_clock
from tests.browser.words import Words
from tests.support.applicants import insert_applicants
from tests.support.our_tables import ago, our_busy, our_database
from tests.support.questions import PASSING, TALK, UNSCORED, WORDS, applies, asking, token_for
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until

MARKUP = '<img src=x onerror="document.title=1">'
FIFTEEN = 15


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose queue no other test fills; it has a questionnaire and a short database timeout."""
    directory: Path = tmp_path_factory.mktemp("queue")
    config = {**asking(directory, UNSCORED), "database": {"busy_timeout": "200 ms"}}
    with Stack("sqlite", directory / "stack", config=config) as stack:
        yield stack


@pytest.fixture(autouse=True)
def nobody_waits(stack: Stack) -> Iterator[None]:
    """Every story begins with an empty queue."""
    yield
    our_database(stack).execute(
        "UPDATE regsvc_user SET status = 'rejected', applied_status = 'rejected' WHERE status = 'pending'"
    )


def users(stack: Stack, status: str = "all") -> list[dict[str, Any]]:
    """The newest hundred."""
    query = {"status": status, "sort": "newest", "size": "100"}
    found: list[dict[str, Any]] = stack.get("/api/admin/users", query, token=stack.olivia()).json["users"]
    return found


def waiting(stack: Stack) -> list[dict[str, Any]]:
    return users(stack, "pending")


def is_decision(request: Request) -> bool:
    """Whether the request is about a user, and does more than tell who is open."""
    return "/api/admin/user/" in request.url and not request.url.endswith("/reading")


def link_chat(stack: Stack, person: Person, name: str) -> None:
    """Link a chat account of this name, as if the platform had confirmed it."""
    our_database(stack).execute(
        "INSERT INTO regsvc_chat_link (user_id, claimed_account, platform, account_id, username, discriminator,"
        " token_hash, linked_at) SELECT id, 'discord:4711-' || id, 'discord', '4711', ?, '0', 'no token ' || id, ?"
        " FROM regsvc_user WHERE username_key = ?",
        (name, ago(minutes=1), person.key),
    )


@pytest.mark.parametrize(("size", "language", "count"), [("desktop", "en", FIFTEEN), ("phone", "zh", 5)])
def test_two_keys_empty_a_queue_of_fifteen(
    stack: Stack, open_page: OpenPage, size: str, language: str, count: int
) -> None:
    """And two buttons on a phone a shorter one."""
    names = insert_applicants(stack, count)
    olivia = open_queue(open_page, has_clock=True, size=size, language=language)
    say = olivia.say
    page = olivia.page
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request) if is_decision(request) else None)
    expect(olivia.card.get_by_role("heading", name=names[0])).to_be_visible()
    standing_clock(page)

    # what was taken back within ten seconds was never sent
    olivia.approve()
    expect(olivia.pending_bar).to_contain_text(say("will_approve", names=names[0]))
    expect(olivia.card.get_by_role("heading", name=names[1])).to_be_visible()
    page.clock.run_for(9000)
    page.keyboard.press("u")
    expect(olivia.card.get_by_role("heading", name=names[0])).to_be_visible()
    page.clock.run_for(15_000)
    expect(olivia.pending_bar).to_be_hidden()
    assert sent == []

    rejected = names[4::5]
    for name in names:
        expect(olivia.card.get_by_role("heading", name=name)).to_be_visible()
        if name in rejected:
            olivia.reject()
            dialog = page.get_by_role("dialog")
            expect(dialog.get_by_role("heading")).to_have_text(say("ask_reject", names=name))
            expect(dialog.get_by_label(say("no_reason"))).to_be_checked()
            olivia.press_or_tap("r", dialog.get_by_role("button", name=say("do_reject"), exact=True))
        else:
            olivia.approve()
    expect(page.get_by_text(say("queue_empty"))).to_be_visible()
    assert sent == []
    page.clock.run_for(12_000)
    expect(olivia.pending_bar).to_be_hidden()
    assert len(sent) == 2  # all that say the same are sent together
    assert waiting(stack) == []
    decided = {user["username"]: user for user in users(stack)}
    for name in names:
        user = decided[name]
        assert user["status"] == ("rejected" if name in rejected else "approved")
        assert user["reviewedBy"] == "Olivia"
        assert user["reason"] is None  # none was chosen


def test_many_at_once_and_a_reason_of_ones_own(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 104)  # more than a page
    olivia = open_queue(open_page, has_clock=True, is_live=False, may_complain=True)
    page = olivia.page
    expect(page.locator(".overview .value").first).to_have_text("104")
    expect(olivia.person(names[0])).to_be_visible()
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    expect(page.get_by_text("2 of 104 selected")).to_be_visible()
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Reject 2 people?")
    dialog.get_by_label("Reason, in your own words").fill("No alts.")
    dialog.get_by_role("button", name="Save this reason").click()
    dialog.get_by_label("Don’t send an e-mail").check()
    dialog.get_by_label("Allow a new application right away").check()
    assert find_serious_faults(page, ["dialog"]) == []
    standing_clock(page)
    dialog.get_by_role("button", name="Reject", exact=True).click()
    page.keyboard.press("r")  # for the next one what was said last stands there
    expect(dialog.get_by_label("No alts.", exact=False).first).to_be_checked()
    place = box_of(dialog)
    page.keyboard.press("0")
    expect(dialog.get_by_label("No reason")).to_be_checked()
    assert box_of(dialog) == place
    page.keyboard.press("2")
    words, hint = dialog.locator("textarea"), dialog.get_by_text("Sent in each user’s language.")
    expect(words).to_have_value(re.compile("This name cannot be used here"))
    expect(hint).to_be_visible()
    assert box_of(dialog) == place
    words.press_sequentially(" Sorry!")  # her own words from now on
    expect(hint).to_be_hidden()
    page.keyboard.press("Escape")

    # another operator was faster with one of them; without a stream, only the reply says so
    stack.decides("approve", Person(names[2], "", ""))
    page.clock.run_for(12_000)
    expect(olivia.pending_bar).to_contain_text(f"Not carried out: Reject {names[2]}")
    expect(olivia.pending_bar).to_contain_text("Another operator already decided; the status is now approved.")
    assert stack.user(Person(names[0], "", ""))["reason"] == "No alts."
    assert stack.audits(Person(names[0], "", ""), "user.rejected")[0]["detail"]["mayReapply"] is True
    assert stack.smtp.letters_to(f"{names[0]}@example.org") == []
    olivia.pending_bar.get_by_role("button", name="OK").click()
    expect(olivia.pending_bar).to_be_hidden()

    # leaving the page sends what waits; coming back shows all the pages of the list
    expect(olivia.card.get_by_role("heading", name=names[3])).to_be_visible()
    page.keyboard.press("a")
    expect(olivia.pending_bar).to_contain_text(f"Approve {names[3]}")
    page.goto(f"{stack.daemon.base_url}/server")
    ask_until(lambda: stack.user(Person(names[3], "", "")), lambda user: user["status"] == "approved")
    page.goto(f"{stack.daemon.base_url}/admin")
    expect(page.locator(".overview .value").first).to_have_text("101")
    expect(page.locator(".applicants li")).to_have_count(30)
    page.locator(".applicants li").last.scroll_into_view_if_needed()
    expect(page.locator(".applicants li")).to_have_count(101)
    page.keyboard.press("Shift+X")
    expect(page.get_by_text("101 of 101 selected")).to_be_visible()


def test_a_place_in_the_queue_has_an_address(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 130)
    olivia = open_queue(open_page)
    page, say = olivia.page, olivia.say
    expect(olivia.card.get_by_role("heading", name=names[0])).to_be_visible()
    for _ in range(2):
        olivia.press_or_tap("j", page.get_by_role("button", name=say("key_next")))
    page.wait_for_url(f"**/admin#queue?name={names[2]}")
    assert f"{say('view_queue')} – {say('title')}" in page.title()
    olivia.press_or_tap("o", olivia.card.get_by_role("link", name=say("key_open")))
    expect(page.locator(".badges")).to_contain_text(say("page.common.status_pending"))
    assert f"{names[2]} – {say('title')}" in page.title()
    page.go_back()
    expect(olivia.card.get_by_role("heading", name=names[2])).to_be_visible()
    olivia.show_list()
    page.keyboard.press("Shift+X")
    expect(page.get_by_text(say("chosen_of", count=130, total=130))).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator(".badges")).to_contain_text(say("page.common.status_pending"))
    page.go_back()
    expect(page.get_by_text(say("chosen_of", count=130, total=130))).to_be_attached()
    page.reload()
    expect(olivia.card.get_by_role("heading", name=names[2])).to_be_visible()

    olivia.go(f"#queue?name={names[125].lower()}")  # which is on the second page of the list
    expect(olivia.card.get_by_role("heading", name=names[125])).to_be_visible()
    olivia.go("#queue?name=Nobody")
    expect(page.get_by_text(say("not_waiting", name="Nobody"))).to_be_visible()
    expect(olivia.card.get_by_role("heading", name=names[0])).to_be_visible()
    page.evaluate("localStorage.setItem('companion.keys', 'false')")
    page.get_by_role("button", name="Log out").click()
    olivia.log_in()
    expect_tab_and_enter_to_be_enough(olivia)


def expect_tab_and_enter_to_be_enough(olivia: Operator) -> None:
    """Olivia has no single-key shortcuts, large text and her own colours."""
    page, say = olivia.page, olivia.say
    expect(page.locator(".view > h2")).to_be_focused()
    expect(olivia.card.locator("h3")).not_to_be_empty()
    first, second = page.locator(".applicants .line").nth(0), page.locator(".applicants .line").nth(1)
    first.focus()
    page.keyboard.press("ArrowDown")
    expect(second).to_be_focused()
    name = second.locator(".name").inner_text()
    page.keyboard.press("Enter")
    expect(olivia.card.locator("h3")).to_be_focused()
    page.keyboard.press("Escape")
    expect(second).to_be_focused()
    for key in ("Enter", "Tab", "Enter"):
        page.keyboard.press(key)
    expect(olivia.pending_bar).to_contain_text(say("will_approve", names=name))

    page.emulate_media(forced_colors="active")
    current, other = page.locator(".nav-bar a").nth(0), page.locator(".nav-bar a").nth(1)
    border = "e => getComputedStyle(e).borderBottomColor"
    assert current.evaluate(border) != other.evaluate(border)
    row = page.locator(".applicants li:has([aria-current])")
    assert row.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.emulate_media(forced_colors="none")

    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert not is_wider_than_the_screen(page)
    assert box_of(olivia.card.locator(".actions"))["height"] <= 0.15 * 740
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
    assert not is_wider_than_the_screen(page)
    assert box_of(olivia.card.locator(".details"))["width"] > 0.3 * 1280


def test_olivia_searches_the_queue_and_decides_about_all_she_finds(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 130)
    found = [names[110], names[120]]
    our_database(stack).execute(
        "UPDATE regsvc_user SET registration_ip = '10.9.9.9', language = 'de' WHERE username_key IN (?, ?)",
        tuple(name.lower() for name in found),
    )
    olivia = open_queue(open_page, has_clock=True, size="phone", language="zh")
    page, say = olivia.page, olivia.say
    badge, counted = page.locator(".nav-bar .count"), page.locator(".list-pane .counted")
    expect(badge).to_have_text("130")
    olivia.show_list()
    olivia.press_or_tap("/", page.get_by_label(say("search_queue")))
    page.keyboard.type("10.9.9.9")
    page.keyboard.press("Enter")
    expect(page.locator(".applicants .name")).to_have_text(found)
    expect(counted).to_have_text(say("queue_found", count=2))
    expect(olivia.card).to_contain_text("10.9.9.9")
    assert "#queue?search=10.9.9.9" in page.url
    expect(olivia.person(found[0])).to_be_focused()
    assert find_serious_faults(page, [".list-pane"]) == []

    standing_clock(page)
    both = page.get_by_text(say("chosen_of", count=2, total=2))
    page.keyboard.press("Shift+X")
    expect(both).to_be_visible()
    dialog = olivia.reject_selected()
    expect(dialog.get_by_label(say("no_reason"))).to_be_checked()
    words = say("reason.reject.has_account")
    page.keyboard.press("3")
    page.keyboard.press("r")
    expect(olivia.pending_bar).to_contain_text(words)
    expect(olivia.pending_bar).to_contain_text(say("tray_count", count=2))
    expect(page.get_by_text(say("nothing_matches", search="10.9.9.9"))).to_be_visible()
    expect(badge).to_have_text("128")
    page.keyboard.press("u")
    expect(both).to_be_visible()
    expect(badge).to_have_text("130")

    # the reason chosen last is suggested now; each reads it in their own language
    olivia.reject_selected()
    expect(dialog.get_by_label(words)).to_be_checked()
    page.keyboard.press("r")
    page.clock.run_for(12_000)
    expect(olivia.pending_bar).to_be_hidden(timeout=20_000)
    assert "Du hast hier schon ein Konto." in stack.smtp.wait_for(f"{found[0]}@example.org").text
    assert stack.user(Person(found[0], "", ""))["reason"] == "You already have an account here."

    page.get_by_role("button", name=say("filters_clear")).click()
    expect(counted).to_be_hidden()
    expect(page.locator(".overview .value").first).to_have_text("128")
    second = olivia.person(names[1])
    place = box_of(second)
    page.locator(".applicants input").first.check()
    expect(page.get_by_text(say("chosen_of", count=1, total=128))).to_be_visible()
    assert box_of(second) == place  # nothing moves under the pointer
    assert page.locator(".bulk").evaluate("bar => bar.scrollWidth <= bar.clientWidth")
    page.get_by_role("button", name=say("choose_all", count=128)).click()
    expect(page.get_by_text(say("chosen_of", count=128, total=128))).to_be_visible()
    expect(page.locator(".applicants input:checked")).to_have_count(128)


def test_a_thumb_that_taps_twice_undoes_nothing(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 3)
    olivia = open_queue(open_page, has_clock=True, size="phone", language="zh")
    page, say = olivia.page, olivia.say
    approve = olivia.card.get_by_role("button", name=say("do_approve"), exact=True)
    decisions = page.locator(".pending-bar > ul > li")
    standing_clock(page)
    places, heights = [], []
    for count, name in enumerate(names, 1):
        expect(olivia.card.get_by_role("heading", name=name)).to_be_visible()
        expect(olivia.card.get_by_text(say("history_none"))).to_be_visible()
        places.append(box_of(approve))
        approve.click(position={"x": places[0]["width"] - 8, "y": 8})
        expect(decisions).to_have_count(count)
        heights.append(box_of(olivia.pending_bar)["height"])
        if count < len(names):  # nothing of the page shows between the bar and the buttons
            bar, actions = box_of(olivia.pending_bar), box_of(olivia.card.locator(".actions"))
            assert abs(bar["y"] + bar["height"] - actions["y"]) <= 1
    assert places[1:] == places[:1] * 2
    assert len(set(heights)) == 1
    page.mouse.click(places[0]["x"] + places[0]["width"] - 8, places[0]["y"] + 8)  # once too often
    expect(decisions).to_have_count(3)

    expect(decisions.first).to_be_hidden()
    page.get_by_role("button", name=say("tray_show")).click()
    expect(decisions.first).to_be_visible()
    page.get_by_role("button", name=say("tray_hide")).click()
    undo = say("undo") + ": " + say("will_approve", names="{}")
    olivia.pending_bar.get_by_role("button", name=undo.format(names[2])).click()
    expect(decisions).to_have_count(2)
    expect(olivia.card.get_by_role("heading", name=names[2])).to_be_visible()
    assert not is_wider_than_the_screen(page)

    # nor does the second tap on the list decide about a card that has come into its place
    olivia.pending_bar.get_by_role("button", name=undo.format(names[1])).click()
    page.get_by_role("button", name=say("queue_place", place=1, count=2)).click()
    page.get_by_role("checkbox", name=names[1]).check()
    page.locator(".bulk").get_by_role("button", name=say("do_approve"), exact=True).click()
    expect(decisions).to_have_count(2)
    expect(olivia.card).to_be_hidden()


def test_everybody_can_review(stack: Stack, open_page: OpenPage) -> None:
    """In the dark on a phone, and by day on a desktop."""
    alice, bob = stack.newcomer("alice"), stack.newcomer("bob")
    assert applies(stack, bob, token_for(stack)).status == 201
    stack.decides("reject", bob, reason=MARKUP)
    words = {"9": {"type": "text", "textAnswer": "<b>Bold</b> & all"}}
    assert applies(stack, replace(alice, email=bob.email), token_for(stack, PASSING | words)).status == 201
    link_chat(stack, alice, MARKUP)
    insert_applicants(stack, 3, timedelta())

    page = open_page("/admin", size="phone", language="zh", dark=True)
    expect(page.locator("form")).to_be_visible()
    expect_usable_in_both_looks(page)
    page.locator("input").nth(0).fill("Olivia")
    page.locator("input").nth(1).fill("olivias-secret")
    page.keyboard.press("Enter")
    card = page.locator(".applicant")
    expect(card.locator("blockquote", has_text="<b>Bold</b> & all")).to_be_visible()
    expect(card.locator("q", has_text=MARKUP)).to_be_visible()
    expect(card.locator("dd", has_text=f"{MARKUP} (4711)")).to_be_visible()
    expect(card.locator("li", has_text="Who told you").locator(".worth")).to_have_count(0)  # it earns no points
    expect(page.locator(".applicants .badge[data-kind=wait]")).to_have_count(1)  # one is unread
    expect(page.locator(".applicants .points-sum", has_text="60")).to_have_count(1)
    assert page.locator("main img, main b").count() == 0
    card.locator("details.why > summary").click()
    expect(card.locator(".why p")).to_contain_text(alice.name)  # has been waiting for a review
    expect_usable_in_both_looks(page)
    page.keyboard.press("a")
    page.keyboard.press("r")
    expect(page.locator("dialog")).to_be_visible()
    expect_usable_in_both_looks(page)
    page.keyboard.press("Enter")
    page.keyboard.press("?")
    page.locator("dialog.keys input").uncheck()  # for people who dictate
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(page.locator(".pending-bar > ul > li")).to_have_count(2)
    page.locator(".keys-button").click()
    page.locator("dialog.keys input").check()
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(page.locator(".pending-bar > ul > li")).to_have_count(1)
    page.locator(".card-pager button").nth(1).click()
    page.locator(".applicants input").first.check()
    expect(page.locator(".bulk")).to_be_visible()
    expect_usable_in_both_looks(page)


def expect_usable_in_both_looks(page: Page) -> None:
    """As the page is, in the dark on a phone, and the same by day on a desktop."""
    for size, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert find_serious_faults(page) == [], scheme
        assert not is_wider_than_the_screen(page), scheme
        heights = page.eval_on_selector_all(
            "main button, main nav a, .applicants label",
            "all => all.filter(e => e.checkVisibility()).map(e => [e.outerHTML, e.getBoundingClientRect().height])",
        )
        assert not [height for height in heights if height[1] < 44], scheme


def test_who_applies_again_is_read_beside_the_earlier_answers(stack: Stack, open_page: OpenPage) -> None:
    """And what Olivia notes of it is there for the rest of the team."""
    alice = stack.newcomer("alice")
    applies(stack, alice, token_for(stack, TALK | WORDS))
    stack.decides("reject", alice, mayReapply=True)
    applies(stack, alice, token_for(stack))
    olivia = open_queue(open_page, size="phone")
    page, card = olivia.page, olivia.card
    talk, build, why = (card.locator(".answers > li", has_text=it) for it in ("What do", "Which are", "Why here"))
    expect(talk).to_contain_text("as before")
    expect(build.locator(".earlier blockquote")).to_have_text("skipped")
    expect(why.locator(".earlier blockquote")).to_have_text("I like it.")
    expect(why.locator(".badge")).to_have_text("changed")
    expect(card.get_by_text("No notes yet.")).to_be_visible()
    card.get_by_label("New note").fill("Asked Bob, who knows her")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card.locator("section blockquote")).to_have_text("Asked Bob, who knows her")
    expect(card.get_by_label("New note")).to_have_value("")
    assert find_serious_faults(page, [".applicant"]) == []
    assert not is_wider_than_the_screen(page)
    olivia.go(f"#user?name={alice.name}")
    expect(page.locator("section blockquote", has_text="Asked Bob")).to_be_visible()


def test_olivia_asks_alice_answers_on_her_phone_and_is_approved(stack: Stack, open_page: OpenPage) -> None:
    """And Bob, who has no address, is shown what he was asked when he looks."""
    alice = stack.newcomer("alice")
    token = applies(stack, alice, token_for(stack)).json["applicationToken"]
    [bob] = insert_applicants(stack, 1, timedelta())
    our_database(stack).execute(
        "UPDATE regsvc_user SET email = NULL, email_key = NULL WHERE username_key = ?", (bob.lower(),)
    )
    phone, told = open_page(f"/application#token={token}", size="phone", language="de"), Words("de", "page.application")
    expect(phone.get_by_role("heading", name=told("asked_title"))).to_have_count(0)
    olivia = open_queue(open_page, has_clock=True)
    page, card, dialog = olivia.page, olivia.card, olivia.page.get_by_role("dialog")
    heading, row = card.locator("h3"), olivia.person(alice.name)
    expect(heading).to_have_text(alice.name)
    page.keyboard.press("q")
    dialog.get_by_role("button", name="Send the question").click()
    expect(dialog.get_by_label("Question")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("Question").fill("Which Bob?")
    assert find_serious_faults(page, ["dialog"]) == []
    dialog.get_by_role("button", name="Send the question").click()
    expect(olivia.notice).to_contain_text("The question is on its way")
    expect(heading).to_have_text(bob)
    expect(row).to_contain_text("waits for the applicant")
    card.get_by_role("button", name="Ask…").click()
    dialog.get_by_label("Question").fill("Who are you?")
    dialog.get_by_role("button", name="Send the question").click()
    expect(olivia.notice).to_contain_text("Can’t be e-mailed")
    row.click()
    expect(card).to_contain_text("The application waits for the applicant’s answer.")
    expect(card.locator(".asked")).to_contain_text("Not answered")

    expect(phone.get_by_text("Which Bob?")).to_be_visible()
    waits = phone.locator(".notice[data-kind=wait]")  # for her, and until when
    expect(waits).to_contain_text(re.compile(r"beantworte unsere Frage bis \d+\.\d+\.\d{4}, "))
    expect(phone).to_have_title(re.compile("^Wartet auf deine Antwort"))
    expect(phone.locator("main")).not_to_contain_text("eingegangen")
    expect(phone.locator("main")).not_to_contain_text("dauert meist")
    assert find_serious_faults(phone, ["main"]) == []
    assert not is_wider_than_the_screen(phone)
    phone.get_by_label(told("asked_answer")).fill("The builder.")
    phone.get_by_role("button", name=told("asked_send")).click()
    expect(phone.get_by_text("The builder.")).to_be_visible()
    expect(phone.get_by_label(told("asked_answer"))).to_have_count(0)
    expect(waits).to_have_count(0)

    expect(olivia.notice).to_contain_text(f"{alice.name} has just answered")
    expect(row.locator(".badge", has_text="answered")).to_be_visible()
    expect(card.locator(".asked blockquote")).to_have_text(["Which Bob?", "The builder."])
    assert find_serious_faults(page, [".applicants", ".applicant"]) == []
    standing_clock(page)
    olivia.approve()
    page.clock.run_for(12_000)
    expect(phone.get_by_role("heading", name=alice.name, exact=True)).to_be_visible()
    olivia.go(f"#user?name={alice.name}")
    expect(page.locator(".asked")).to_contain_text("The builder.")
    expect(page.get_by_role("button", name="Ask…")).to_have_count(0)
    olivia.go(f"#user?name={bob}")
    expect(page.locator(".badges")).to_contain_text("waits for the applicant")
    page.keyboard.press("q")
    expect(dialog).to_be_visible()


def test_a_wave_from_one_network_is_seen_as_such(stack: Stack, open_page: OpenPage) -> None:
    """And what nobody read of Alice is told until the decision, as she applies from Bob's address."""
    names = insert_applicants(stack, 3)
    ours = our_database(stack)
    for number, name in enumerate(names):
        ours.execute(
            "UPDATE regsvc_user SET registration_ip = ? WHERE username = ?", (f"203.0.113.{number // 2}", name)
        )
    ours.execute(
        "UPDATE regsvc_user SET email = NULL, email_key = NULL, is_email_verified = 0 WHERE username = ?", (names[0],)
    )
    for source in ("ip", "regip"):
        ours.execute(
            "INSERT INTO regsvc_player_address (user_id, source, address, seen_at)"
            " SELECT id, ?, '198.51.100.7', created_at FROM regsvc_user WHERE username = ?",
            (source, names[0]),
        )
    alice, bob = stack.newcomer("alice"), stack.newcomer("bob")
    applies(stack, alice, token_for(stack, TALK | WORDS))
    stack.decides("approve", alice)
    stack.decides("ban", alice)
    applies(stack, bob, token_for(stack, TALK | WORDS))
    ours.execute(
        "UPDATE regsvc_user SET registration_ip = ? WHERE username IN (?, ?)", ("198.18.0.9", alice.name, bob.name)
    )
    olivia = open_queue(open_page, size="phone")
    page, card = olivia.page, olivia.card
    in_game = card.locator("dl div", has=page.get_by_text("Address (in the game)"))
    expect(in_game.locator("dd")).to_have_text("198.51.100.7")
    expect(card).to_contain_text(f"From the same address (1; registered here): {names[1]} (Waiting for review)")
    expect(card).to_contain_text(f"From the same network (1; registered here): {names[2]}")
    expect(card.get_by_text("not verified")).to_have_count(0)  # there is none
    assert find_serious_faults(page, [".applicant"]) == []
    assert not is_wider_than_the_screen(page)

    # in a row of the queue the worst comes first, since what does not fit is cut off; points are no tag
    expect(olivia.person(bob.name).locator(".badge")).to_have_text(["1 banned · 1 × IP", "1 to read"])
    expect(olivia.person(bob.name)).to_contain_text("50 pts")
    card.get_by_role("link", name=names[1]).click()
    expect(page.get_by_role("heading", name=names[1])).to_be_visible()
    olivia.go(f"#queue?name={bob.name}")
    expect(card.get_by_role("heading", name=bob.name)).to_be_visible()
    expect(card.locator(".worth[data-is=unread]")).to_have_count(1)
    olivia.go(f"#user?name={alice.name}")
    answers = page.locator(".answers")
    expect(answers).to_contain_text("I like it.")
    expect(answers.locator(".worth")).to_have_text(["50 of 50", "0 of 20"])  # of the text, nothing
    expect(page.get_by_text("Answers to review")).to_have_count(0)


def test_answers_have_links_and_are_given_points_on_the_card(stack: Stack, open_page: OpenPage) -> None:
    """A text that brings none is only marked as read; after the decision nothing is to be read any more."""
    alice = stack.newcomer("alice")
    text = "See http://a.io/x."
    more = {"9": {"type": "text", "textAnswer": text}, "11": {"type": "text", "textAnswer": "A friend"}}
    applies(stack, alice, token_for(stack, TALK | more))
    olivia = open_queue(open_page, may_complain=True, is_live=False)  # answers alone redraw the card
    card = olivia.card
    answer = card.locator(".answers blockquote", has_text="See")
    expect(answer).to_have_text(text)
    [opened] = answer.get_by_role("link").all()
    assert [opened.get_attribute(name) for name in ("href", "rel", "target")] == [
        "http://a.io/x",
        "noreferrer nofollow ugc",
        "_blank",
    ]
    expect(card.locator(".score")).to_contain_text("50")
    expect(card.get_by_label("Points, up to")).to_have_count(1)
    points = card.get_by_label("Points, up to 30")
    for loss, worth in zip(LOSSES, ("5", "10", "20"), strict=True):
        press, fill = partial(points.press, "Enter"), partial(points.fill, worth)
        press_through(olivia.page, "admin/user/points", loss, press, fill)
        expect(card.locator(".score")).to_contain_text(f"{50 + int(worth)} of 100")
    expect(card.locator(".score")).to_contain_text("70")
    expect(card.get_by_label("Points, up to 30")).to_have_value("20")
    expect(card.locator(".score")).to_contain_text("needs review")
    card.get_by_role("button", name="Mark as read").click()
    expect(card.locator(".score")).not_to_contain_text("needs review")
    expect(card.get_by_role("button", name="Mark as read")).to_have_count(0)
    assert find_serious_faults(olivia.page, [".applicant"]) == []


def too_many(route: Route) -> None:
    refusal = {"success": False, "code": "rate_limited", "message": "Slow down.", "remainingSeconds": 5}
    route.fulfill(status=429, headers={"Retry-After": "5"}, json=refusal)


def test_the_queue_in_figures_that_lead_to_what_they_count(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 3)
    people = [Person(name, f"{name.lower()}@example.org", "") for name in names]
    [today] = stack.get("/api/admin/overview", token=stack.olivia()).json["decided"][-1:]
    olivia = open_queue(open_page)
    page, strip = olivia.page, olivia.page.locator(".overview")

    def figure(label: str) -> Locator:
        return strip.locator("li", has=page.get_by_text(label, exact=True)).locator(".value")

    expect(figure("Waiting")).to_have_text("3")
    expect(figure("Awaiting answer")).to_have_text("–")
    assert find_serious_faults(page, [".overview"]) == []
    assert box_of(strip)["height"] <= 44  # above the applicants, who are what the page is for
    olivia.approve()
    expect(figure("Waiting")).to_have_text("2")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(figure("Last 7 days")).to_contain_text(f"{today['approved'] + 1} approved")
    stack.decides("reject", people[1])
    expect(figure("Last 7 days")).to_contain_text(f"{today['rejected'] + 1} rejected")
    expect(strip.get_by_role("img")).to_have_attribute("aria-label", re.compile(f"{today['approved'] + 1} approved"))
    stack.decides("ask", people[2], question="Which Bob?")
    expect(figure("Waiting")).to_have_text("Nobody")
    expect(figure("Oldest")).to_have_text("–")
    expect(page.locator(".nav-bar .count")).to_be_hidden()
    figure("Awaiting answer").get_by_role("link", name="1").click()
    expect(page.locator(".applicants .name")).to_have_text([names[2]])
    assert page.url.endswith("#queue?waitingFor=applicant")
    strip.get_by_role("link", name="approved").click()
    expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
    expect(page.locator(".rows .main").first).to_have_text("Approved")
    assert "#audits?action=user.approved&from=20" in page.url


def test_what_is_being_typed_outlives_a_reload_and_the_next_applicant(stack: Stack, open_page: OpenPage) -> None:
    alice, bob = insert_applicants(stack, 2)
    olivia = open_queue(open_page)
    page, card, dialog = olivia.page, olivia.card, olivia.page.get_by_role("dialog")
    note, reason = card.get_by_label("New note"), dialog.locator("textarea")
    note.fill("Knows Rick")
    note.press("End")
    with page.expect_response("**/api/admin/users?*"):
        stack.decides("ask", Person(bob, "", ""), question="Which Bob?")  # the queue is loaded again
    expect(olivia.person(bob)).to_contain_text("waits for the applicant")
    expect(note).to_be_focused()
    page.keyboard.type(" from school.")
    olivia.person(bob).click()
    expect(note).to_have_value("")
    olivia.person(alice).click()
    expect(note).to_have_value("Knows Rick from school.")
    page.locator(".applicants .line").first.focus()
    page.keyboard.press("r")
    reason.fill("Not this season, because")
    expect(page).to_have_url(re.compile(f"name={alice}"))  # a moment after she was opened
    page.reload()
    expect(note).to_have_value("Knows Rick from school.")
    expect(olivia.page.locator(".live")).to_have_attribute("data-is", "live")
    page.keyboard.press("r")
    expect(reason).to_have_value("Not this season, because")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)  # no longer in the document: before that keys are the dialog's
    page.keyboard.press("r")
    expect(reason).to_have_value("")  # nobody wants to give it any more
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    card.get_by_role("button", name="Save the note").click()
    expect(note).to_have_value("")
    note.fill("And Bob.")
    page.get_by_role("button", name="Log out").click()
    olivia.log_in()
    expect(card.get_by_text("Knows Rick from school.")).to_be_visible()
    expect(note).to_have_value("")


def lose_the_answer(route: Route) -> None:
    route.fetch()
    route.abort()


def test_what_cannot_be_sent_stays(stack: Stack, open_page: OpenPage) -> None:
    names = insert_applicants(stack, 2)

    def prepare(page: Page) -> None:
        page.route("**/events", lambda route: route.abort())  # answers alone tell
        page.clock.install()

    page = open_page("/admin", may_complain=True, size="phone", language="zh", prepare=prepare)
    olivia = Operator(page, language="zh")
    say = olivia.say
    olivia.submit_login("not-her-secret")
    expect(olivia.notice).to_have_text(say("refusal.bad_credentials"))
    olivia.log_in(is_live=False)
    expect(olivia.card.get_by_role("heading", name=names[0])).to_be_visible()
    standing_clock(page)

    # the database is away
    olivia.approve()
    with our_busy(stack):
        page.clock.run_for(11_000)
        expect(olivia.pending_bar).to_contain_text(say("not_sent", why=say("refusal.busy")))
    page.clock.run_for(5000)  # it is sent again by itself
    expect(olivia.pending_bar).to_be_hidden()
    assert stack.user(Person(names[0], "", ""))["status"] == "approved"

    # too many requests, then no network, then an answer that is lost on its way: it was done, and is done once
    expect(olivia.card.get_by_role("heading", name=names[1])).to_be_visible()
    olivia.approve()
    decide = "**/api/admin/user/approve"
    page.route(decide, too_many, times=1)
    page.clock.run_for(11_000)
    expect(olivia.pending_bar).to_contain_text(say("not_sent", why="Slow down."))
    page.context.set_offline(True)
    olivia.pending_bar.get_by_role("button", name=say("page.common.try_again")).click()
    expect(olivia.pending_bar).to_contain_text(say("page.common.unreachable"))
    page.route(decide, lose_the_answer, times=1)
    with page.expect_event("requestfailed", lambda request: "/api/admin/user/approve" in request.url):
        page.context.set_offline(False)  # it is sent at once
    assert stack.user(Person(names[1], "", ""))["status"] == "approved"
    expect(olivia.pending_bar).to_contain_text(say("page.common.unsure"))
    page.clock.run_for(5000)
    expect(olivia.pending_bar).to_be_hidden()


def test_who_leaves_or_is_logged_out_finds_it_all_again(stack: Stack, open_page: OpenPage) -> None:
    [name] = insert_applicants(stack, 1)
    olivia = open_queue(open_page, has_clock=True, is_live=False, may_complain=True)
    page = olivia.page
    expect(olivia.card.get_by_role("heading", name=name)).to_be_visible()
    standing_clock(page)

    # the network is away while the page is left
    page.keyboard.press("a")
    expect(olivia.pending_bar).to_contain_text(f"Approve {name}")
    page.context.set_offline(True)
    page.goto("about:blank")
    page.context.set_offline(False)
    page.goto(f"{stack.daemon.base_url}/admin")
    olivia.expect_logged_in(is_live=False)
    expect(olivia.pending_bar).to_contain_text(f"Approve {name}")

    # the login has ended elsewhere
    token = page.evaluate("JSON.parse(sessionStorage['companion.admin']).token")
    assert stack.post("/api/logout", {}, token=token).status == 200
    page.clock.run_for(11_000)
    expect(olivia.notice).to_have_text("You’ve been logged out. Please log in again.")
    expect(olivia.pending_bar).to_contain_text(f"Approve {name}")
    expect(olivia.pending_bar).to_contain_text("Not sent")
    assert stack.user(Person(name, "", ""))["status"] == "pending"
    page.reload()  # even that loses nothing
    olivia.log_in(is_live=False)
    expect(olivia.pending_bar).to_contain_text(f"Approve {name}")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_be_hidden()
    assert stack.user(Person(name, "", ""))["status"] == "approved"
