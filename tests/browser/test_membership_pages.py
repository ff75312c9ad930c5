"""Memberships that end, in the browser: Olivia sets and prolongs them at the desk, players see them and ask to stay."""

import re
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import ONCE, RELOADED, THRICE, Loss, lose_answers, path_in_receipt, press_through
from tests.browser.conftest import PHONE, OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator
from tests.browser.words import Words
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack

DAY = 86_400_000  # milliseconds


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A host whose seasons are of 30 days, and whose players may ask to stay."""
    config = {"membership": {"ends": "30 days", "renew": "ask"}}
    with Stack("sqlite", tmp_path_factory.mktemp("stack"), config=config) as stack:
        yield stack


def days_left(stack: Stack, person: Person) -> int | None:
    """Whole days until the membership ends; None: it does not, or it has."""
    ends_at, now = stack.user(person)["membership"]["endsAt"], stack.user(person)["regTime"]
    return None if ends_at is None else round((ends_at - now) / DAY)


def end(stack: Stack, *people: Person) -> None:
    """Let a year pass for these."""
    for person in people:
        our_database(stack).execute(
            "UPDATE regsvc_user SET member_until = '2020-01-01' WHERE username = ?", (person.name,)
        )
    stack.sync()
    assert [stack.user(person)["membership"]["state"] for person in people] == ["ended"] * len(people)


def account(open_page: OpenPage, person: Person, **options: object) -> Page:
    page = open_page("/account", may_complain=True, **options)
    page.get_by_label("Name or e-mail address").fill(person.name)
    page.get_by_label("Password", exact=True).fill(person.password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=person.name)).to_be_visible()
    return page


class Desk(Operator):
    """Olivia's, with what is about memberships."""

    @property
    def rows(self) -> Locator:
        return self.page.locator(".rows tbody tr")

    def set_term(self, choice: str, date: str | None = None) -> None:
        """Answer the dialog."""
        dialog = self.page.get_by_role("dialog")
        lasts = dialog.get_by_label(self.say("membership_lasts"))
        expect(lasts).to_be_focused()
        lasts.select_option(label=choice)
        if date is not None:
            dialog.get_by_label(self.say("end_on")).fill(date)
        assert find_serious_faults(self.page, ["dialog"]) == []
        dialog.get_by_role("button", name=self.say("member_save")).click()

    def send(self) -> None:
        self.pending_bar.get_by_role("button", name=self.say("send_now")).click()
        expect(self.pending_bar).to_be_hidden()


def test_olivia_sets_ends_and_puts_them_off(stack: Stack, open_page: OpenPage) -> None:
    """By keyboard, and from Carol on with a thumb.

    An answer is lost on the way: the time is added once, and what is about another user waits for it.
    """
    bob, carol, dave = (stack.approved(name) for name in ("bob", "carol", "dave"))
    olivia = Desk(open_page("/admin", is_olivias=True, may_complain=True)).expect_logged_in()
    page, say = olivia.page, olivia.say
    membership = page.locator("dt", has_text=say("membership")).locator("+ dd")
    for person, choice in ((bob, "7 days"), (carol, "90 days")):
        olivia.go(f"#user?name={person.name}")
        expect(page.locator(".view h2")).to_have_text(person.name)
        expect(membership).to_contain_text("Until")
        olivia.press_or_tap("m", page.locator(".row-actions").get_by_role("button", name=say("membership")))
        olivia.set_term(choice)
        if person is bob:
            lose_answers(page, "admin/user/membership", 1)
            olivia.pending_bar.get_by_role("button", name=say("send_now")).click()
            unsent = olivia.pending_bar.locator("li[data-state=unsent]")
            expect(unsent).to_contain_text("Membership of Bob")
            expect(unsent).to_contain_text("7 days")
            assert not is_wider_than_the_screen(page)
            page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    olivia.send()
    assert [days_left(stack, person) for person in (bob, carol, dave)] == [37, 120, 30]

    # who asked for nothing is shown by what ends soon, and by what has ended
    end(stack, carol)
    olivia.go("#users")
    page.get_by_role("button", name=say("filters_show")).click()
    page.get_by_label(say("membership"), exact=True).select_option(label=say("membership_ended"))
    expect(olivia.rows).to_have_count(1)
    expect(olivia.rows).to_contain_text(say("member_over"))
    assert find_serious_faults(page, ["main"]) == []
    olivia.rows.get_by_role("checkbox").check()
    page.locator(".selection-bar").get_by_role("button", name=say("member_renew", length="30 days")).click()
    olivia.send()
    expect(olivia.rows).to_have_count(0)
    assert days_left(stack, carol) == 30

    # many at once, until a day
    olivia.go(f"#users?search={bob.name.partition('_')[0]}")
    expect(olivia.rows.first).to_contain_text("Bob")
    count = olivia.rows.count()
    page.locator("thead .tick").first.click()
    choose = page.locator(".selection-bar").get_by_role("button", name=re.compile(f"{say('membership')}.*{count}$"))
    choose.click()
    olivia.set_term(say("end_date"), "2090-01-01T12:00")
    olivia.send()
    assert stack.user(bob)["membership"]["endsAt"] == 3_786_955_200_000
    assert not is_wider_than_the_screen(page)


def test_erin_is_approved_for_another_time_than_the_usual_one(stack: Stack, open_page: OpenPage) -> None:
    erin = stack.pending("erin")
    olivia = Desk(open_page("/admin", is_olivias=True)).expect_logged_in()
    olivia.go(f"#user?name={erin.name}")
    olivia.page.get_by_role("button", name=olivia.say("approve_for")).click()
    dialog = olivia.page.get_by_role("dialog")
    lasts = dialog.get_by_label(olivia.say("membership_lasts"))
    expect(lasts).to_be_focused()
    expect(lasts.locator("option:checked")).to_have_text(olivia.say("end_usual", length="30 days"))
    lasts.select_option(label="90 days")
    dialog.get_by_role("button", name=olivia.say("do_approve")).click()
    olivia.send()
    assert (stack.status(erin), days_left(stack, erin)) == ("approved", 90)


def test_who_has_ended_is_told_so_everywhere(stack: Stack, open_page: OpenPage) -> None:
    """Bob, on the narrowest phone: nowhere is he told that he is in."""
    bob = stack.approved("bob")
    receipt = path_in_receipt(stack, bob)
    page = open_page(receipt, size="phone")
    expect(page.locator(".welcome")).to_be_visible()
    end(stack, bob)
    expect(page.get_by_text(f"{bob.name}, your membership has ended.")).to_be_visible()  # the open page follows
    expect(page.get_by_text(re.compile("^Your membership ended on"))).to_be_visible()
    expect(page.locator(".welcome, .confetti, .join, .stages")).to_have_count(0)
    assert page.title().startswith("Membership ended")
    page.set_viewport_size({"width": 320, "height": 640})
    assert not is_wider_than_the_screen(page)
    assert find_serious_faults(page, ["main"]) == []

    bobs = account(open_page, bob, size="phone")
    bobs.set_viewport_size({"width": 320, "height": 640})
    expect(bobs.get_by_text("Membership ended", exact=True)).to_be_visible()
    expect(bobs.get_by_text(re.compile("^Your membership ended on"))).to_be_visible()
    expect(bobs.locator(".join")).to_have_count(0)
    assert not is_wider_than_the_screen(bobs)
    assert find_serious_faults(bobs, ["main"]) == []

    link = stack.post("/api/admin/user/password-link", {"username": bob.name}, token=stack.olivia()).json["link"]
    page.goto(link)
    page.get_by_label("New password").fill("bobs-next-secret")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("status")).to_have_text("Your password is set.")


@pytest.mark.parametrize("loss", [ONCE, THRICE, RELOADED])
def test_alice_asks_to_stay_and_olivia_renews_with_one_key(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    """Olivia, in Chinese."""
    alice = stack.approved("alice")
    our_database(stack).execute(
        "UPDATE regsvc_user SET member_until = datetime('now', '+2 days') WHERE username = ?", (alice.name,)
    )
    say = Words("en", "page.account")
    page = account(open_page, alice, size="phone")
    expect(page.locator(".notice[data-kind=wait]")).to_be_visible()
    words, ask = page.get_by_label(say("stay_text")), page.get_by_role("button", name=say("stay_ask"))
    assert find_serious_faults(page, ["main"]) == []
    fill = partial(words.fill, "I was away for the exams.")
    press_through(page, "user/membership/ask", loss, ask.click, fill, is_found_out=True)
    expect(ask).to_have_count(0)
    expect(page.locator(".notice[data-kind=wait]")).to_contain_text(say("stay_asked").partition("{at}")[0])

    olivia = Desk(open_page("/admin", is_olivias=True, language="zh"), language="zh").expect_logged_in()
    olivia.page.locator(".overview li", has_text=olivia.say("overview_stay")).get_by_role("link").click()
    row = olivia.rows.filter(has_text=alice.name)
    expect(row).to_contain_text(olivia.say("member_asked"))
    row.get_by_role("link", name=alice.name).focus()
    olivia.page.keyboard.press("n")
    olivia.send()
    expect(row).to_have_count(0)
    assert (days_left(stack, alice), stack.user(alice)["membership"]["stayAskedAt"]) == (32, None)
    page.reload()
    expect(page.get_by_text(say("member_until"))).to_be_visible()
    expect(page.locator(".notice[data-kind=wait]")).to_have_count(0)


def test_olivia_declines_and_dave_sees_that_he_may_ask_again(stack: Stack, open_page: OpenPage) -> None:
    """She sees his words among the notes, and the page follows his request without being reloaded."""
    dave = stack.approved("dave")
    end(stack, dave)
    olivia = Desk(open_page("/admin", size="phone", is_olivias=True)).expect_logged_in()
    olivia.go(f"#user?name={dave.name}")
    decline = olivia.page.get_by_role("button", name=olivia.say("member_decline"))
    expect(olivia.page.get_by_role("button", name=olivia.say("member_renew", length="30 days"))).to_be_visible()
    expect(decline).to_have_count(0)
    request = {"text": "I was away for the exams."}
    assert stack.post("/api/user/membership/ask", request, token=stack.user_token(dave)).status == 200
    expect(olivia.page.get_by_text(request["text"])).to_be_visible()
    decline.click()
    olivia.send()
    expect(decline).to_have_count(0)
    page = account(open_page, dave, size="phone")
    expect(page.get_by_role("button", name="Ask to stay")).to_be_visible()
