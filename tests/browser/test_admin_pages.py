"""The views of `/admin` beside the queue: Olivia searches, bans, reads, syncs, mails, and is told what is wrong."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect

from regsvc.database.audit import ACTIONS
from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import RELOADED, THRICE, expect_unsure, lose_answers, press_through
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator, box_of
from tests.support.chat_stack import ChatStack
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.peers.oauth_server import OAuthServer
from tests.support.questions import PASSING, applies, asking, token_for
from tests.support.stack import OPERATOR, Person, Stack

MARKUP = "<b>x</b><img src=x>"
WALKERS = 60
VIEWS = {
    "users": "#users?search=walker_0",
    "user": "#user?name=Walker_01",
    "bans": "#bans?search=walker_01",
    "audits": "#audits?target=Walker_01",
    "sync": "#sync",
    "mails": "#mails?to=walker_09@example.org",
    "doctor": "#doctor",
}
DAY = timedelta(days=1)
QUEUE = re.compile(r"/api/admin/users\?.*status=pending&size=30")


@pytest.fixture(scope="module")
def chat_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatStack]:
    directory = tmp_path_factory.mktemp("stack")
    with OAuthServer() as provider:
        sync = {"max_changes": "2 and 1%", "new_players": "approved"}
        sections = {**asking(directory), "chat": provider.config(), "sync": sync}
        with Stack("sqlite", directory / "stack", config=sections) as stack:
            for number in range(WALKERS):
                stack.authme.register(f"Walker_{number:02}", "walkers-secret")
            stack.sync()
            yield ChatStack(stack, provider)


@pytest.fixture(scope="module")
def stack(chat_stack: ChatStack) -> Stack:
    return chat_stack.stack


def pending(stack: Stack, name: str = "alice") -> Person:
    """Register a person who answered the questions and waits for review."""
    person = stack.newcomer(name)
    assert applies(stack, person, token_for(stack)).status == 201
    return person


def approved(stack: Stack, name: str = "bob") -> Person:
    person = pending(stack, name)
    stack.decides("approve", person)
    return person


def open_admin_page(open_page: OpenPage, *, language: str = "en", **options: object) -> Operator:
    page = open_page("/admin", language=language, is_olivias=True, **options)
    return Operator(page, language=language).expect_logged_in()


def shown(page: Page) -> list[str]:
    """The names in the table, once what was asked for is there."""
    return page.locator(".rows .main a").all_text_contents()


def expect_heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", name=name, exact=True).first).to_be_visible()
    expect(page.locator(".view .quiet-text", has_text="One moment")).to_have_count(0)


def test_olivia_searches_filters_and_pages(stack: Stack, open_page: OpenPage) -> None:
    alice = pending(stack)
    olivia = open_admin_page(open_page)
    page = olivia.page
    olivia.go("#users")
    total = stack.get("/api/admin/users", token=stack.olivia()).json["pagination"]["totalCount"]
    expect(page.locator("p.counted")).to_have_text(f"Users: {total}")
    expect(page.locator(".rows tbody tr")).to_have_count(50)
    first = shown(page)
    assert first[0] == alice.name
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Page 2 of 2")).to_be_visible()
    assert "after=" in page.url
    rest = shown(page)
    assert len(rest) == total - 50
    assert not set(first) & set(rest)
    page.keyboard.press("p")
    expect(page.get_by_text("Page 1 of 2")).to_be_visible()
    assert shown(page) == first

    page.keyboard.press("/")
    page.keyboard.type("WALKER_1")
    expect(page.locator("p.counted")).to_have_text("Users: 10")
    page.get_by_label("Sort by").select_option(label="Name")
    expect(page.locator(".rows .main a").first).to_have_text("Walker_10")
    assert page.url.endswith("#users?search=WALKER_1&sort=name")
    page.reload()
    expect(page.locator("p.counted")).to_have_text("Users: 10")
    assert shown(page)[0] == "Walker_10"
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Status", exact=True).select_option(label="Waiting for review")
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    assert shown(page) == [alice.name]
    page.get_by_label("Search name, e-mail or IP").fill("100%_nobody")
    expect(page.locator("p.counted")).to_have_text("Nothing matches “100%_nobody”.")

    page.get_by_role("button", name="Clear filters").click()
    carol = pending(stack, "carol")
    expect(page.locator(".rows .main a").first).to_have_text(carol.name)  # as it happens


def test_olivia_decides_about_many_by_keyboard_alone(stack: Stack, open_page: OpenPage) -> None:
    olivia = open_admin_page(open_page)
    page = olivia.page
    leave_the_queue_while_it_loads(olivia, "#users?search=walker_4&sort=name")
    expect_heading(page, "Users")
    place = page.locator(".rows tbody tr").last.bounding_box()
    for key in ("j", "x"):
        page.keyboard.press(key)
    expect(page.locator(".selection-bar .counted")).to_have_text("1 selected")  # the view that was left takes no keys
    for key in ("j", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator(".selection-bar .counted")).to_have_text("2 selected")
    assert page.locator(".rows tbody tr").last.bounding_box() == place  # nothing moves under the pointer
    offered = page.locator(".selection-bar .row-actions button:visible")
    # they are approved already
    expect(offered).to_have_text(["Membership… 2", "Ban 2", "Delete permanently 2"])
    page.keyboard.press("r")
    expect(olivia.notice).to_have_text("Only users who are waiting can be rejected.")
    page.keyboard.press("b")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Ban 2 people?")
    dialog.get_by_role("textbox").fill("Too loud")
    dialog.get_by_label("Ends").select_option(label="Never")
    page.keyboard.press("Enter")
    expect(page.locator(".rows").get_by_text(": pending")).to_have_text([re.compile(r"^Ban \w+: pending$")] * 2)
    page.keyboard.press("u")
    expect(page.locator(".rows").get_by_text(": pending")).to_have_count(0)
    page.keyboard.press("x")
    page.keyboard.press("b")
    dialog.get_by_role("textbox").fill("Too loud")
    dialog.get_by_label("Ends").select_option(label="Never")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Send now").click()
    expect(page.get_by_role("row", name=re.compile("Walker_42.*Banned"))).to_be_visible()
    payload = stack.get("/api/admin/users", {"search": "walker_4", "status": "banned"}, token=stack.olivia()).json
    assert [(user["username"], user["reason"]) for user in payload["users"]] == [("Walker_42", "Too loud")]


def leave_the_queue_while_it_loads(olivia: Operator, address: str) -> None:
    """Go to `address`; the reply for the queue comes when that view is there."""
    page = olivia.page
    held: list[Route] = []
    page.route(QUEUE, lambda route: held.append(route))
    with page.expect_request(QUEUE):
        olivia.go("#queue?")
    olivia.go(address)
    expect(page.locator(".rows tbody tr").first).to_be_visible()
    with page.expect_response(QUEUE) as response:
        held[0].continue_()
    response.value.finished()
    page.evaluate("() => new Promise(resolve => setTimeout(resolve))")
    page.unroute(QUEUE)


def test_a_thumb_is_offered_what_fits_those_selected(stack: Stack, open_page: OpenPage) -> None:
    olivia = open_admin_page(open_page, size="phone", language="zh")
    page, say = olivia.page, olivia.say
    carol = pending(stack, "carol")
    olivia.go("#users?search=walker_3&sort=name")
    for number in range(2):
        page.locator(".rows tbody input").nth(number).check()
    expect(page.locator(".selection-bar .counted")).to_have_text(say("chosen", count=2))
    offered = page.locator(".selection-bar .row-actions button:visible")
    labels = f"{say('membership')}…", say("do_ban"), say("do_delete")
    expect(offered).to_have_text([say("do_for_some", what=label, count=2) for label in labels])
    offered.nth(1).click()  # ban
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(say("ask_ban", names=say("people", count=2)))
    dialog.get_by_role("button", name=say("page.common.cancel")).click()
    olivia.go(f"#users?search={carol.name}")
    expect(page.locator(".rows tbody input")).to_have_count(1)
    page.locator(".rows tbody input").check()
    expect(offered.first).to_have_text(say("do_for_some", what=say("do_approve"), count=1))
    assert not is_wider_than_the_screen(page)

    # what covers the end of the page leaves the last row in sight, however tall it is
    offered.first.click()
    olivia.pending_bar.get_by_role("button", name=say("tray_show")).click()
    olivia.go("#users?sort=name")
    page.locator(".rows tbody input").nth(2).check()
    expect(page.locator(".selection-bar")).to_be_visible()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    last, bar = page.locator(".rows tbody tr").last, page.locator(".selection-bar")
    assert box_of(last)["y"] + box_of(last)["height"] <= box_of(bar)["y"]
    assert box_of(bar)["y"] + box_of(bar)["height"] == box_of(olivia.pending_bar)["y"]  # they are one bar
    page.keyboard.press("u")
    expect(olivia.pending_bar).to_be_hidden()


def test_olivia_bans_bob_for_a_time_and_lifts_it(stack: Stack, open_page: OpenPage) -> None:
    bob = approved(stack)
    ends = (datetime.now().astimezone() + 3 * DAY).replace(second=0, microsecond=0)
    olivia = open_admin_page(open_page)
    page = olivia.page
    dialog = page.get_by_role("dialog")
    olivia.go(f"#user?name={bob.name.lower()}")
    expect(page.locator(".badges")).to_contain_text("Approved")
    page.keyboard.press("b")
    dialog.get_by_role("textbox").first.fill("Griefing at spawn")
    dialog.get_by_label("Ends").select_option(label="On a date…")
    dialog.get_by_label("Date and time").fill(ends.strftime("%Y-%m-%dT%H:%M"))
    dialog.get_by_role("button", name="Ban", exact=True).click()
    expect(page.locator(".badges")).to_contain_text(": pending")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(page.locator(".badges")).to_contain_text("Banned")
    expect(page.locator(".user-about")).to_contain_text("Griefing at spawn")
    assert stack.user(bob)["banExpiresAt"] == ends.timestamp() * 1000

    olivia.go(f"#bans?search={bob.name}")
    line = page.get_by_role("row", name=bob.name)
    expect(line).to_contain_text("Griefing at spawn")
    line.get_by_role("button", name="Change ban").click()
    expect(dialog.get_by_role("heading")).to_have_text(f"Change the ban of {bob.name}?")
    dialog.get_by_role("textbox").first.fill("Griefing, twice")
    dialog.get_by_role("button", name="Change ban").click()
    page.keyboard.press("?")  # the keys of this view are told
    expect(dialog).to_contain_text("Change ban")
    page.keyboard.press("Escape")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(line).to_contain_text("Griefing, twice")
    assert stack.user(bob)["banExpiresAt"] == ends.timestamp() * 1000  # untouched, to the second
    line.get_by_role("button", name="Change ban").click()
    dialog.get_by_role("button", name="Change ban").click()  # to what it is, which nobody else has done
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_be_hidden()
    line.get_by_role("button", name="Unban").click()
    dialog.get_by_role("button", name="Unban").click()
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(page.get_by_text(f"Nothing matches “{bob.name}”.")).to_be_visible()
    assert stack.status(bob) == "approved"


def _tell_the_console(stack: Stack, player: Person) -> None:
    """Let the history have a command whose reply is markup."""
    command = {"event": "banned", "command": "say {username}", "server": "", "uuid": None, "reply": MARKUP}
    our_database(stack).execute(
        "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, created_at, outcome, payload, "
        "user_id, attempts) SELECT 'rcon', 'host', username, '', 'en', created_at, 'sent', ?, id, 1 FROM regsvc_user "
        "WHERE username_key = ?",
        (json.dumps(command), player.key),
    )


def test_one_user_whole_and_in_words_alone(chat_stack: ChatStack, stack: Stack, open_page: OpenPage) -> None:
    bob = stack.newcomer("bob")
    answers = {**PASSING, "9": {"type": "text", "textAnswer": MARKUP}}
    link = chat_stack.browser(chat_stack.person(MARKUP)).link()
    assert applies(stack, bob, token_for(stack, answers), linkToken=link).status == 201
    stack.decides("approve", bob)
    stack.decides("ban", bob, reason=MARKUP)
    stack.smtp.wait_for(bob.email, 3)
    _tell_the_console(stack, bob)
    olivia = open_admin_page(open_page, size="phone", may_complain=True)
    page = olivia.page
    olivia.go(f"#user?name={bob.name}")
    expect(page.locator(".answers")).to_contain_text(MARKUP)
    expect(page.locator(".history")).to_contain_text(MARKUP)
    expect(page.locator(".user-about")).to_contain_text(f"{MARKUP} (")
    expect(page.get_by_text("Verification code")).to_be_visible()
    expect(page.locator(".why > p")).to_have_text(
        f"{bob.name} is banned for good ({MARKUP}): unban them to let them in."
    )
    page.get_by_text("All that was looked at").click()
    expect(page.locator(".why li")).to_contain_text(["Fine", "Fine", "Problem", "Problem"])
    expect(page.get_by_role("listitem").filter(has_text=f"say {bob.name}")).to_contain_text(f"Reply: {MARKUP}")
    assert page.locator("#main img, .view b").count() == 0

    assert find_serious_faults(page, [".view"], also=["heading-order"]) == []
    page.get_by_role("link", name="127.0.0.1", exact=True).click()
    expect_heading(page, "Users")
    expect(page.get_by_label("Search name, e-mail or IP")).to_have_value("127.0.0.1")
    expect(page.locator(".rows .main a", has_text=bob.name)).to_be_visible()
    assert not [name for name in shown(page) if name.startswith("Walker")]
    assert page.title().startswith("Users – Admin – ") or re.match(r"\(\d+\) Users – Admin", page.title())
    page.go_back()
    expect(page.locator(".badges")).to_contain_text("Banned")
    assert f"{bob.name} – Admin" in page.title()

    page.locator("summary", has_text="Password").click()
    page.get_by_label("New password").fill("a b")
    page.get_by_role("button", name="Set password").click()
    expect(page.locator(".password-part .error")).not_to_be_empty()
    page.get_by_label("New password").fill("bobs-next-secret")
    page.get_by_role("button", name="Set password").click()
    expect(olivia.notice).to_contain_text(bob.name)
    letters = len(stack.smtp.letters_to(bob.email))
    page.get_by_role("button", name="E-mail a link").click()
    page.get_by_role("dialog").get_by_role("button", name="E-mail a link").click()
    expect(olivia.notice).to_have_text(f"A link to set a new password was sent to {bob.name}.")
    stack.smtp.wait_for(bob.email, letters + 1)

    page.get_by_role("link", name="Audit entries").click()
    expect_heading(page, "Audit log")
    line = page.get_by_role("row", name=re.compile("^Banned"))
    expect(line).to_contain_text(MARKUP)
    assert page.locator("#main img, .view b").count() == 0
    page.go_back()
    expect(page.locator(".badges")).to_contain_text("Banned")
    stack.decides("delete", bob)  # which is seen as it happens
    expect(page.get_by_text("There is no user with this name. They may have been deleted.")).to_be_visible()
    expect(page.get_by_role("button", name="Ban")).to_have_count(0)


def test_olivia_undoes_what_mallory_decided(stack: Stack, open_page: OpenPage) -> None:
    mallory, bob = approved(stack), approved(stack)
    Operators(stack).appoint(mallory)
    token = stack.admin_token(mallory.name, mallory.password)
    assert stack.post("/api/admin/user/ban", {"username": bob.name}, token=token).status == 200
    olivia = open_admin_page(open_page, may_complain=True)
    page = olivia.page
    olivia.go(f"#audits?operator={mallory.name}")
    page.get_by_role("button", name=olivia.say("undo_decisions")).click()
    dialog = page.locator("dialog")
    expect(dialog.get_by_label(olivia.say("undo_of"))).to_have_value(mallory.name)
    an_hour_ago = datetime.now().astimezone() - timedelta(hours=1)
    dialog.get_by_label(olivia.say("undo_since")).fill((an_hour_ago + DAY).strftime("%Y-%m-%dT%H:%M"))
    dialog.get_by_role("button", name=olivia.say("undo_plan")).click()
    expect(dialog.locator(".error").last).to_contain_text("still to come")
    plan = dialog.get_by_role("button", name=olivia.say("undo_plan"))
    dialog.get_by_label(olivia.say("undo_since")).fill(an_hour_ago.strftime("%Y-%m-%dT%H:%M"))
    press_through(page, "admin/undo", THRICE, plan.click, unsure=dialog)
    expect(dialog.locator("li")).to_have_text(f"{bob.name} Banned → Approved")
    assert stack.status(bob) == "banned", "a plan changes nothing"
    dialog.get_by_role("button", name=olivia.say("undo_now")).click()
    expect(olivia.notice).to_have_text("Users who got back what they had before: 1.")
    expect(dialog).to_have_count(0)
    assert stack.status(bob) == "approved"

    assert stack.post("/api/admin/user/ban", {"username": bob.name}, token=token).status == 200
    page.get_by_role("button", name=olivia.say("undo_decisions")).click()
    dialog.get_by_label(olivia.say("undo_since")).fill(an_hour_ago.strftime("%Y-%m-%dT%H:%M"))
    plan.click()
    undo = dialog.get_by_role("button", name=olivia.say("undo_now"))
    expect(undo).to_be_visible()
    lose_answers(page, "admin/undo", 1)
    undo.click()
    expect_unsure(page)
    page.get_by_role("button", name=olivia.say("undo_decisions")).click()
    dialog.get_by_label(olivia.say("undo_since")).fill(an_hour_ago.strftime("%Y-%m-%dT%H:%M"))
    plan.click()
    expect(dialog.get_by_text("Users who would get back what they had before: 0.")).to_be_visible()
    expect(undo).to_have_count(0)
    assert stack.status(bob) == "approved"


def test_olivia_reads_the_audit_log(stack: Stack, open_page: OpenPage) -> None:
    bob = approved(stack)
    stack.decides("ban", bob, reason="Griefing")
    olivia = open_admin_page(open_page, may_complain=True)
    page = olivia.page
    olivia.go(f"#audits?action=any&target={bob.name}")
    expect(page.locator("p.counted")).to_have_text("Entries: 3")
    options = page.get_by_label("Action", exact=True).locator("option")
    assert [option.get_attribute("value") for option in options.all()] == ["", "any", *ACTIONS]
    assert not [text for text in options.all_text_contents() if "." in text]  # each has words of its own
    page.get_by_label("Action", exact=True).select_option(label="Banned")
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    expect(page.locator(".rows tbody")).to_contain_text("Griefing")
    expect(page.locator(".rows tbody")).to_contain_text(OPERATOR)
    page.get_by_label("Operator", exact=True).fill("Nobody")
    expect(page.locator("p.counted")).to_have_text("No matches.")
    page.get_by_label("Operator", exact=True).fill(OPERATOR.lower())
    today = datetime.now().astimezone()
    page.get_by_label("From", exact=True).fill(today.strftime("%Y-%m-%d"))
    page.get_by_label("To", exact=True).fill(today.strftime("%Y-%m-%d"))
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    page.get_by_label("From", exact=True).fill((today + DAY).strftime("%Y-%m-%d"))
    page.get_by_label("To", exact=True).fill("")
    expect(page.locator("p.counted")).to_have_text("No matches.")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("p.counted")).not_to_have_text("No matches.")
    stack.decides("unban", bob)
    expect(page.locator(".rows tbody tr").first).to_contain_text("Unbanned")  # as it happens

    page.context.set_offline(True)
    page.get_by_label("About", exact=True).fill(bob.name)
    expect(olivia.notice).to_contain_text("could not be reached")
    expect(page.locator(".rows tbody tr").first).to_contain_text("Unbanned")  # what was there stays
    page.context.set_offline(False)
    page.keyboard.press("Enter")
    expect(page.locator("p.counted")).to_have_text("Entries: 3")


def test_olivia_syncs_and_sees_held_back_changes(stack: Stack, open_page: OpenPage) -> None:
    stack.authme.register("Gina", "ginas-secret")
    pending(stack)  # is in no game yet, which is no difference
    query = {"plugin": "absent", "status": "approved"}
    absent = stack.get("/api/admin/users", query, token=stack.olivia()).json["pagination"]["totalCount"]
    olivia = open_admin_page(open_page, may_complain=True)
    page = olivia.page
    hint = page.get_by_text(olivia.say("no_address"))
    expect(hint).to_be_visible()  # she was adopted from the game without one
    page.route("**/api/user/status?*", lambda route: route.fulfill(json={"success": False, "code": "rate_limited"}))
    page.reload()  # a hint that cannot be fetched leaves the page as it is
    expect(page.get_by_role("navigation").first).to_be_visible()
    expect(hint).to_be_hidden()
    olivia.go("#sync")
    expect(page.locator("p.links")).not_to_be_empty()
    missing = page.get_by_role("link", name="None yet")
    expect(missing).to_have_text([f"None yet: {absent}"] if absent else [])
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".report")).to_contain_text("adopted 1")
    gina = Person("Gina", "", "ginas-secret")
    assert stack.status(gina) is None
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Result of the sync")).to_be_visible()
    expect(page.locator(".rows tbody tr").first).to_contain_text("adopted 1")
    assert stack.status(gina) is not None

    gone = [f"Walker_5{number}" for number in range(4)]
    for name in gone:
        assert stack.authme.unregister_from_console(name)
    page.keyboard.press("s")
    held_back = page.locator(".held-back")
    expect(held_back).to_contain_text("Held back: removed 4")
    expect(held_back).to_contain_text("companion sync --allow-mass-changes")
    expect(page.locator(".rows tbody tr").first).to_contain_text("Sync paused")
    for name in gone:
        stack.authme.register(name, "walkers-secret")
    stack.sync()


def test_olivia_sends_a_failed_mail_again(stack: Stack, open_page: OpenPage) -> None:
    alice = pending(stack)
    stack.smtp.wait_for_receipt(alice.email)
    stack.smtp.refuse(alice.email)
    stack.decides("reject", alice, silent=False)
    stack.smtp.wait_for_refusal(alice.email)
    olivia = open_admin_page(open_page, may_complain=True)
    page = olivia.page
    olivia.go("#mails?state=failed")
    line = page.get_by_role("row", name=re.compile(alice.email))
    expect(line).to_contain_text("No such mailbox")
    stack.smtp.accept(alice.email)
    again = line.get_by_role("button", name="Send again")
    press_through(page, "admin/mails/resend", RELOADED, again.click, is_found_out=True)
    expect(line).to_have_count(0)
    page.get_by_label("Recipient: name or e-mail").fill(alice.name)
    page.get_by_label("Status", exact=True).select_option(label="All")
    expect(page.locator(".rows tbody tr")).to_have_count(3)  # the code went out before there was a user
    expect(page.get_by_role("row", name=re.compile("^Select Rejected.*Sent"))).to_be_visible()
    page.get_by_label("Select all on this page").check()
    page.locator(".selection-bar").get_by_role("button", name="Send again").click()
    expect(olivia.notice).to_contain_text("Sent again: 1")  # a code that was used says nothing any more


def test_the_doctor_tells_what_to_change(stack: Stack, open_page: OpenPage) -> None:
    stack.game.change_authme({"DataSource.caching": True})
    olivia = open_admin_page(open_page)
    page = olivia.page
    olivia.go("#doctor")
    expect(page.get_by_role("button", name="Check again")).to_be_visible()
    page.keyboard.press("l")
    finding = page.locator(".findings li", has_text="DataSource.caching is true.")
    expect(finding).to_contain_text("Fix: Switch the cache off")
    expect(finding.locator("code")).to_have_text(f"{stack.game.authme_config}: DataSource.caching: false")
    page.evaluate("document.cookie = 'companion_language=zh; path=/'")
    page.reload()  # it speaks the operator's language
    finding = page.locator(".findings[lang=zh] li", has_text="DataSource.caching 为 true。")
    expect(finding).to_contain_text("处理： 关闭缓存")
    stack.game.change_authme({"DataSource.caching": False})
    page.get_by_role("button", name="重新检查").click()
    expect(finding).to_have_count(0)


SCROLLED_MENU = ("sync", "mails", "doctor")  # on a phone its first items are outside the window


def test_everybody_can_use_every_view(stack: Stack, open_page: OpenPage) -> None:
    """In the dark on a phone, and by day on a desktop."""
    reason = "A very_long_word_" + "w" * 80
    assert stack.decide("ban", Person("Walker_01", "", ""), reason=reason).status in (200, 409)
    olivia = open_admin_page(open_page, size="phone", dark=True)
    page = olivia.page
    for view, address in VIEWS.items():
        olivia.go(address)
        expect(page.locator(".view > *").nth(1)).to_be_visible()
        expect(page.locator(".view > .quiet-text:nth-child(2):last-child")).to_have_count(0)  # one moment…
        if view == "users":
            page.locator(".rows tbody input").first.check()
        if view == "sync":
            page.keyboard.press("t")
            expect(page.locator(".report .notice")).to_be_visible()
        expect_usable(page, view)
        page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
        page.emulate_media(color_scheme="light")
        expect_usable(page, view)
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page.emulate_media(color_scheme="dark")
        set_text_size(page, "200%")
        assert not is_wider_than_the_screen(page), view
        if view == "users":
            assert box_of(page.locator(".selection-bar"))["height"] < A_SIXTH
        set_text_size(page, "")
        assert not list_small_controls(page), view
        assert page.evaluate("document.querySelector('.view').getBoundingClientRect().top") < 140, view


def expect_usable(page: Page, view: str) -> None:
    parts = None if view in SCROLLED_MENU else [".view"]
    assert find_serious_faults(page, parts, also=["skip-link"]) == [], view
    assert not is_wider_than_the_screen(page), view


A_SIXTH = 740 / 6
"""Of the height of a phone's window."""


def set_text_size(page: Page, size: str) -> None:
    page.evaluate("size => { document.documentElement.style.fontSize = size }", size)


def list_small_controls(page: Page) -> list[str]:
    """Return the controls of a view that are too low for a finger, without links within a line of text."""
    found: list[str] = page.eval_on_selector_all(
        ".view button, .view input:not([type=checkbox]), .view select, .view summary, .view label:has(> input)",
        """all => all.filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 44)
          .map(e => e.outerHTML)""",
    )
    return found
