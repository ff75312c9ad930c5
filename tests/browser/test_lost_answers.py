"""Answers that get lost on the way: every form says what it knows, and the next press gets the answer, done once.

Each is lost in each of three ways: once, three times, and before the page is loaded again.
"""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from regsvc.users.transitions import TRANSITIONS
from regsvc.web.assets import list_parts
from regsvc.web.pages import PAGE_TABLE, WebPage
from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import (
    ONCE,
    Applicant,
    Loss,
    each_loss,
    expect_unsure,
    lose_answers,
    path_in_receipt,
    press_register,
    press_through,
)
from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator
from tests.browser.words import Words
from tests.support.authenticator import Authenticator
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.stack import OPERATORS_PASSWORD, Person, Stack, find_code, find_link_token, has_code

STATIC = Path(__file__).resolve().parents[2] / "regsvc" / "web" / "static"
MANY = ("reject", "approve", "ban", "unban")


def log_in(page: Page, name: str, password: str, loss: Loss, path: str = "login") -> None:
    def fill() -> None:
        page.get_by_label("Name or e-mail address").fill(name)
        page.get_by_label("Password", exact=True).fill(password)

    press_through(page, path, loss, page.get_by_role("button", name="Log in").click, fill)


def opened(page: Page, title: str) -> Locator:
    """A section of the account, which is opened unless it is."""
    part = page.locator(f"#{title}")
    expect(part).to_be_attached()
    if part.get_attribute("open") is None:
        part.locator("summary").first.click()
    return part


def invitations(stack: Stack) -> int:
    return len(stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"])


def without_events(page: Page) -> None:
    """Let answers alone tell."""
    page.route("**/events*", lambda route: route.abort())


def change_email(page: Page, stack: Stack, alice: Person, loss: Loss) -> None:
    part, new = page.locator("#email_title"), f"new.{alice.email}"

    def fill_email() -> None:
        opened(page, "email_title").get_by_label("New e-mail address").fill(new)

    def fill_code() -> None:
        part.get_by_label("Verification code").fill(code)
        part.get_by_label("Current password").fill(alice.password)

    press_through(page, "verify/send", loss, part.get_by_role("button", name="Send code").click, fill_email)
    code = find_code(stack.smtp.wait_for(new, 1, counts=has_code).text)
    change = part.get_by_role("button", name="Change e-mail address")
    press_through(page, "user/update", loss, change.click, fill_code, is_found_out=True)
    expect(page.locator("dd", has_text=new)).to_be_visible()
    assert len([letter for letter in stack.smtp.letters_to(new) if has_code(letter)]) == 1


def use_second_factor(page: Page, password: str, loss: Loss) -> None:
    """Turn it on, make other recovery codes, and turn it off with one of these."""
    part = page.locator("#totp_title")
    codes = part.locator(".recovery-codes code")

    def fill(place: Locator, code: str = "") -> None:
        opened(page, "totp_title")
        place.get_by_label("Current password").fill(password)
        if code:
            place.locator("input").last.fill(code)

    press_through(page, "user/totp/begin", loss, part.get_by_role("button", name="Set up").click, lambda: fill(part))
    app = Authenticator(part.locator(".secret").inner_text().replace(" ", ""))
    part.get_by_label("Authenticator code").fill(app.code())
    press_through(page, "user/totp/confirm", loss, part.get_by_role("button", name="Turn on").click, is_found_out=True)
    opened(page, "totp_title")
    expect(codes).not_to_have_count(0)  # they are shown once, and now
    part.get_by_role("button", name="I’ve saved them").click()

    def form(title: str) -> Locator:
        return part.locator("details", has_text=title).last

    new, off = "New recovery codes", "Turn off"
    form(new).locator("summary").click()
    renew = form(new).get_by_role("button", name=new)
    press_through(
        page, "user/totp/recovery-codes", loss, renew.click, lambda: fill(form(new), app.code(1)), is_found_out=True
    )
    opened(page, "totp_title")
    expect(codes).to_have_count(10)
    code = codes.first.inner_text()
    part.get_by_role("button", name="I’ve saved them").click()
    form(off).locator("summary").click()
    assert find_serious_faults(page, ["main"]) == []

    def turn_off() -> None:
        form(off).get_by_role("button", name=off).click()
        page.get_by_role("dialog").get_by_role("button", name=off).click()

    press_through(page, "user/totp/off", loss, turn_off, lambda: fill(form(off), code), is_found_out=True)
    opened(page, "totp_title")
    expect(part.get_by_role("button", name="Set up")).to_be_visible()


@each_loss
def test_alices_account(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    """Her address, second factor and password."""
    alice, new = stack.approved("alice"), "alices-next-secret"
    elsewhere = stack.user_token(alice)
    page = open_page("/account", may_complain=True)
    told = page.get_by_role("status")
    log_in(page, alice.name, alice.password, loss)
    end = page.locator("#sessions_title").get_by_role("button", name="Log out there").last  # the older one
    sessions = stack.get("/api/user/sessions", token=elsewhere).json["sessions"]
    assert len(sessions) == 2, "a login is carried out once"
    press_through(page, "user/sessions/end", loss, end.click, lambda: opened(page, "sessions_title"), is_found_out=True)
    expect(opened(page, "sessions_title").locator("li")).to_have_count(1)
    assert stack.get("/api/user/sessions", token=elsewhere).status == 401
    change_email(page, stack, alice, loss)
    use_second_factor(page, alice.password, loss)
    assert stack.authme.get(alice.name)["totp"] is None

    part = page.locator("#password_title")

    def fill() -> None:
        opened(page, "password_title").get_by_label("Current password").fill(alice.password)
        part.get_by_label("New password").fill(new)

    change = part.get_by_role("button", name="Change password")
    press_through(page, "user/password", loss, change.click, fill, is_found_out=True)
    expect(told).to_have_text("Your password was changed. Please log in again.")
    assert new not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    log_in(page, alice.name, new, loss)
    leave = page.get_by_role("button", name="Log out", exact=True)
    press_through(page, "logout", loss, leave.click, is_found_out=True)
    expect(told).to_have_text("You are logged out.")


@each_loss
def test_bobs_forgotten_password_and_his_leave(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    bob = stack.approved("bob")
    page = open_page("/forgot-password", may_complain=True)
    send = page.get_by_role("button", name="Send link")
    press_through(
        page, "password/forgot", loss, send.click, lambda: page.get_by_label("E-mail address").fill(bob.email)
    )
    expect(send).to_have_count(0)
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "set-password#token=" in letter.text)

    page.goto(f"{stack.daemon.base_url}/set-password#token={find_link_token(letter.text)}")
    page.get_by_label("New password").fill("bobs-next-secret")
    save = page.get_by_role("button", name="Set password")
    press_through(page, "password/reset", loss, save.click, is_found_out=True)
    expect(page.get_by_role("status")).to_contain_text("Your password is set. You can join the server now.")

    page.goto(f"{stack.daemon.base_url}/account")
    log_in(page, bob.name, "bobs-next-secret", loss)
    part = page.locator("#delete_title")

    def leave() -> None:
        part.get_by_role("button", name="Delete permanently").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()

    def fill() -> None:
        opened(page, "delete_title").get_by_label("Current password").fill("bobs-next-secret")

    press_through(page, "user/delete", loss, leave, fill, is_found_out=True)
    expect(page.get_by_role("status")).to_have_text(f"Your account {bob.name} was deleted.")
    assert stack.status(bob) is None
    assert len([it for it in stack.smtp.letters_to(bob.email) if it.subject.startswith("Set a password")]) == 1


@each_loss
def test_carols_answer_to_the_team(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    carol = stack.pending("carol")
    path = path_in_receipt(stack, carol)
    assert stack.decide("ask", carol, question="Which Bob?").status == 200
    page = open_page(path, may_complain=True, prepare=without_events)
    send = page.get_by_role("button", name="Send the answer")

    def fill() -> None:
        page.get_by_label("Your answer").fill("The one with the hat.")

    press_through(page, "application/answer", loss, send.click, fill, is_found_out=True)
    expect(page.get_by_text("The one with the hat.")).to_be_visible()
    expect(send).to_have_count(0)


@each_loss
def test_erin_whose_registration_used_her_invitation_up(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    made = stack.post("/api/admin/invitation", {"uses": 1, "days": 1, "grants": ["no_review"]}, token=stack.olivia())
    page = open_page(f"/register#{made.json['link'].partition('#')[2]}", may_complain=True)
    erin = Applicant(page, stack, stack.newcomer("erin"))
    email, go_on = page.get_by_label("E-mail address"), page.get_by_role("button", name="Next")
    press_through(page, "verify/send", loss, go_on.click, lambda: email.fill(erin.person.email))
    erin.give_code()
    assert len([letter for letter in stack.smtp.letters_to(erin.person.email) if has_code(letter)]) == 1
    erin.fill_name()
    press_register(page, 1 if loss == ONCE else 3)
    if loss.is_reloaded:
        assert erin.person.password not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
        page.reload()
    elif loss.times > 1:
        erin.press("Register")
    expect(page.get_by_role("main")).to_contain_text("You’re in")


@each_loss
def test_olivias_desk(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    """What she makes is made once, and its secret shown."""
    dan = stack.pending("dan")
    page = open_page(f"/admin#queue?name={dan.name}", may_complain=True, is_olivias=True, prepare=without_events)
    olivia = Operator(page)
    say = olivia.say
    note, code = olivia.card.get_by_label(say("note_label")), page.locator(".copyable code")
    add = olivia.card.get_by_role("button", name=say("note_add"))
    press_through(page, "admin/user/note", loss, add.click, lambda: note.fill("Knows Rick."))
    expect(note).to_have_value("")
    notes = our_database(stack).query("SELECT * FROM regsvc_note WHERE username_key = ?", (dan.key,))
    assert [it["text"] for it in notes] == ["Knows Rick."]

    olivia.go("#invitations")
    before = invitations(stack)
    invite = page.get_by_role("button", name=say("invite"))
    press_through(page, "admin/invitation", loss, invite.click)
    expect(code).to_contain_text("#invite=")
    assert invitations(stack) == before + 1
    revoke = page.get_by_role("button", name=say("token_revoke"), exact=True)
    expect(revoke.first).to_be_visible()
    shown = revoke.count()

    def confirm_revocation() -> None:
        page.get_by_role("dialog").get_by_role("button", name=say("token_revoke")).click()

    def revoke_newest() -> None:
        revoke.first.click()
        confirm_revocation()

    press_through(page, "admin/invitation/revoke", loss, revoke_newest, is_found_out=True)
    expect(revoke).to_have_count(shown - 1)

    olivia.go("#team")
    name = f"bot-{dan.name}"
    form, line = page.locator("form", has_text=say("token_make")), page.locator("ul.team li", has_text=name)

    def fill() -> None:
        form.locator("input[type=text]").fill(name)
        form.locator("input[value='users.read']").check()

    def make_token() -> None:
        form.get_by_role("button", name=say("token_make")).click()
        olivia.confirm(OPERATORS_PASSWORD)

    press_through(page, "admin/token/create", loss, make_token, fill)
    expect(code).not_to_be_empty()
    token = code.inner_text()
    expect(line).to_have_count(1)
    assert stack.get("/api/admin/users", token=token).status == 200

    def revoke_token() -> None:
        line.locator("button").click()
        confirm_revocation()

    press_through(page, "admin/token/revoke", loss, revoke_token, is_found_out=True)
    expect(line).to_have_count(0)
    assert stack.get("/api/admin/users", token=token).status == 401


@each_loss
def test_olivias_server(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    rita = stack.approved("rita")
    page = open_page("/admin#team", size="phone", may_complain=True, is_olivias=True, prepare=without_events)
    olivia = Operator(page)
    say = olivia.say
    form = page.locator("form", has_text=say("role_give"))

    def fill() -> None:
        form.locator("input").fill(rita.name)
        form.locator("select").select_option("reviewer")

    press_through(page, "admin/user/role", loss, form.locator("button").click, fill)
    expect(page.locator("ul.team li", has_text=rita.name)).to_contain_text(say("role_reviewer"))
    given = {"action": "user.role_changed", "target": rita.name}
    assert stack.get("/api/admin/audits", given, token=stack.olivia()).json["pagination"]["totalCount"] == 1

    olivia.go("#server")
    close = page.get_by_role("button", name=say("registration_close"))
    press_through(page, "admin/server/registration", loss, close.click, is_found_out=True)
    expect(page.locator(".badge", has_text=say("registration_is_closed"))).to_be_visible()
    page.get_by_role("button", name=say("registration_open")).click()
    expect(page.locator(".badge", has_text=say("registration_is_open"))).to_be_visible()

    save = page.get_by_role("button", name=say("announcement_save"))
    english = page.locator("textarea[data-language=en]")
    press_through(page, "admin/server/announcement", loss, save.click, lambda: english.fill("We move."))
    expect(olivia.notice).not_to_contain_text("we don’t know")
    expect(open_page("/").locator(".announcement")).to_contain_text("We move.")
    stack.post("/api/admin/server/announcement", {"texts": {}}, token=stack.olivia())

    olivia.go("#sync")
    preview = page.get_by_role("button", name="Preview")
    press_through(page, "admin/sync", loss, preview.click, lambda: expect(preview).to_be_enabled())
    expect(page.locator(".report")).to_be_visible()


def send_through(olivia: Operator, decision: str, loss: Loss) -> None:
    """Send what she has decided, while answers get lost; it is sent again by itself, at once when a network is back."""
    page, path = olivia.page, f"admin/user/{decision}"
    for number in range(loss.times):
        lose_answers(page, path, 1)
        with page.expect_event("requestfailed", lambda request: request.url.endswith(f"/api/{path}")):
            if number == 0:
                olivia.pending_bar.get_by_role("button", name="Send now").click()
            else:
                page.evaluate("dispatchEvent(new Event('online'))")
        expect_unsure(page, olivia.pending_bar)
        expect(olivia.pending_bar).not_to_contain_text("Not sent")
    if loss.is_reloaded:
        page.reload()
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(olivia.pending_bar).to_be_hidden()


@each_loss
def test_olivia_decides_about_many_on_a_phone(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    """Each is decided once, and mailed once, whatever she decides."""
    people = [stack.pending("fay") for _number in range(2)]
    options = {"may_complain": True, "is_olivias": True, "prepare": without_events}
    page = open_page("/admin#users?status=pending&search=fay_", size="phone", **options)
    olivia, say = Operator(page), Words("en", "page.admin")
    for decision, status in (("reject", "rejected"), ("approve", "approved"), ("ban", "banned"), ("unban", "approved")):
        status_before = stack.user(people[0])["status"]
        olivia.go("#bans?search=fay_" if decision == "unban" else f"#users?status={status_before}&search=fay_")
        page.get_by_label("Select all on this page").check()
        bar = page.locator(".selection-bar")
        bar.get_by_role("button", name=re.compile(rf"^{say(f'do_{decision}')}")).click()
        dialog = page.get_by_role("dialog")
        if decision == "ban":
            dialog.get_by_role("textbox").first.fill("Griefing")
            dialog.get_by_label(say("end"), exact=True).select_option(index=1)
        if decision != "approve":
            dialog.locator("form .buttons button").first.click()
        send_through(olivia, decision, loss)
        assert [stack.user(it)["status"] for it in people] == [status] * 2
        made = our_database(stack).query("SELECT * FROM regsvc_review WHERE transition = ?", (decision,))
        assert [sum(it["username"] == person.name for it in made) for person in people] == [1, 1]
    for person in people:
        stack.decides("delete", person)  # the next story selects all of this name


@each_loss
def test_olivia_on_bobs_page(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    bob, dan = stack.approved("bob"), stack.pending("dan")
    session = stack.user_token(bob)
    page = open_page(f"/admin#user?name={bob.name}", may_complain=True, is_olivias=True, prepare=without_events)
    olivia = Operator(page)
    say = olivia.say
    end = page.get_by_role("button", name=say("session_end"), exact=True)
    press_through(page, "admin/user/sessions/end", loss, end.click, is_found_out=True)
    expect(end).to_have_count(0)
    assert stack.get("/api/user/sessions", token=session).status == 401

    def open_passwords() -> None:
        part = page.locator("details", has=page.locator("summary", has_text=say("password_part")))
        expect(part).to_be_attached()
        if part.get_attribute("open") is None:
            part.locator("summary").click()

    def mail_link() -> None:
        page.get_by_role("button", name=say("password_mail"), exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=say("password_mail")).click()

    link = page.get_by_role("button", name=say("password_link"), exact=True)
    shown = page.get_by_label(say("password_link_label", name=bob.name))
    press_through(page, "admin/user/password-link", loss, link.click, open_passwords)
    expect(shown).to_have_value(re.compile("#token="))
    press_through(page, "admin/user/password", loss, mail_link, open_passwords)
    expect(olivia.notice).not_to_contain_text("we don’t know")
    assert len([it for it in stack.smtp.letters_to(bob.email) if "set-password#token=" in it.text]) <= 1

    page.locator(".row-actions").get_by_role("button", name=say("membership")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(say("membership_lasts")).select_option(label="7 days")
    dialog.get_by_role("button", name=say("member_save")).click()
    send_through(olivia, "membership", loss)
    assert stack.user(bob)["membership"]["endsAt"] is not None
    page.reload()  # not while it is drawn anew after the decision
    for decision in ("reopen", "delete"):
        if decision == "delete":
            page.reload()  # not while it is drawn anew after the decision
            page.locator(".row-actions summary").click()
        page.get_by_role("button", name=say("opens", what=say(f"do_{decision}")), exact=True).click()
        page.get_by_role("dialog").locator("form .buttons button").first.click()
        send_through(olivia, decision, loss)
    assert stack.status(bob) is None

    olivia.go(f"#queue?name={dan.name}")

    def ask() -> None:
        expect(olivia.card.get_by_role("heading", name=dan.name)).to_be_visible()
        olivia.card.get_by_role("button", name="Ask…").click()  # keys may not be loaded yet
        dialog.get_by_role("textbox").fill("Which Bob?")

    send = dialog.get_by_role("button", name=say("ask_send"))
    press_through(page, "admin/user/ask", loss, send.click, ask, unsure=dialog)
    expect(dialog).to_have_count(0)
    asked = our_database(stack).query("SELECT * FROM regsvc_question WHERE username_key = ?", (dan.key,))
    assert len(asked) == 1


@each_loss
def test_oscar_comes_and_goes(stack: Stack, open_page: OpenPage, loss: Loss) -> None:
    oscar = Operators(stack).new("oscar")
    page = open_page("/admin", size="phone", may_complain=True, prepare=without_events)
    log_in(page, oscar.name, oscar.password, loss, "admin/login")
    leave = page.get_by_role("button", name="Log out", exact=True)
    lose_answers(page, "logout", 1)
    leave.click()
    expect(page.locator("#notice")).to_contain_text(re.compile("we don’t know|logged out"))
    if loss.is_reloaded:
        page.reload()  # what another request may have told before is told once
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        return
    leave.evaluate_all("found => found.forEach((button) => button.click())")  # unless another request has told already
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    expect(page.locator("#notice")).to_contain_text("logged out")


HERE = "test_lost_answers"
LOOKS = "it changes nothing, and is asked again by itself"
STORIES: dict[str, dict[str, str]] = {
    "register": {
        "invitation/check": LOOKS,
        "verify/send": f"{HERE}.test_erin_whose_registration_used_her_invitation_up",
        **dict.fromkeys(
            ("verify/check", "register/check", "questionnaire/submit"),
            "test_register_slowly.test_each_step_whose_answer_is_lost_is_done_once",
        ),
        "register": "applicant.press_register",
    },
    "account": {
        **dict.fromkeys(
            (
                "logout",
                "user/password",
                "user/sessions/end",
            ),
            f"{HERE}.test_alices_account",
        ),
        **dict.fromkeys(("verify/send", "user/update"), f"{HERE}.change_email"),
        **{f"user/totp/{it}": f"{HERE}.use_second_factor" for it in ("begin", "confirm", "recovery-codes", "off")},
        "login": f"{HERE}.log_in",
        "user/membership/ask": "test_membership_pages.test_alice_asks_to_stay_and_olivia_renews_with_one_key",
        "user/membership/look": LOOKS,
        "user/delete": f"{HERE}.test_bobs_forgotten_password_and_his_leave",
        "user/made/end": "test_account_page.test_oscar_ends_what_his_old_password_made",
        "chat/unlink": "test_register_with_everything.test_alice_goes_all_the_way_from_the_mail_to_the_game",
    },
    "forgot-password": {"password/forgot": f"{HERE}.test_bobs_forgotten_password_and_his_leave"},
    "set-password": {
        "password/link": LOOKS,
        "password/reset": f"{HERE}.test_bobs_forgotten_password_and_his_leave",
    },
    "application": {
        "application/answer": f"{HERE}.test_carols_answer_to_the_team",
        "application/answers": "test_application_page.test_rick_edits_his_answers_and_applies_again",
        "application/email": "test_captcha_only_pages.test_from_the_registration_to_a_link_handed_over",
    },
    "admin": {
        "admin/login": f"{HERE}.test_oscar_comes_and_goes",
        "logout": f"{HERE}.test_oscar_comes_and_goes",
        "admin/user/reading": LOOKS,
        "admin/user/note": f"{HERE}.test_olivias_desk",
        "admin/user/points": "test_admin_queue_page.test_answers_have_links_and_are_given_points_on_the_card",
        "admin/user/ask": f"{HERE}.test_olivia_on_bobs_page",
        **{f"admin/user/{it}": f"{HERE}.test_olivia_decides_about_many_on_a_phone" for it in MANY},
        **{f"admin/user/{it}": f"{HERE}.test_olivia_on_bobs_page" for it in ("reopen", "delete")},
        "admin/user/membership": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/password": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/password-link": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/sessions/end": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/role": f"{HERE}.test_olivias_server",
        "admin/token/create": f"{HERE}.test_olivias_desk",
        "admin/token/revoke": f"{HERE}.test_olivias_desk",
        "admin/invitation": f"{HERE}.test_olivias_desk",
        "admin/invitation/revoke": f"{HERE}.test_olivias_desk",
        "admin/team-chat/code": "test_team.test_olivia_links_her_account_on_discord",
        "admin/team-chat/unlink": "test_team.test_olivia_links_her_account_on_discord",
        "admin/mails/resend": "test_admin_pages.test_olivia_sends_a_failed_mail_again",
        "admin/sync": f"{HERE}.test_olivias_server",
        "admin/undo": "test_admin_pages.test_olivia_undoes_what_mallory_decided",
        "admin/server/registration": f"{HERE}.test_olivias_server",
        "admin/server/announcement": f"{HERE}.test_olivias_server",
    },
}
"""By page and what it sends, the story in which its answers get lost."""


IN_SOME_WAYS = {
    "admin/undo": "a second press asks for a plan, which says that nothing is left",
    "admin/mails/resend": "a mail is sent again to an address that refused it",
    "application/answers": "the page looks for itself what became of it",
    "application/email": "its answer ends the token of the page, which looks for itself",
    "user/made/end": "there is nothing left to end",
}
"""What is not lost in each of the three ways."""


def posts_of(page: WebPage) -> set[str]:
    """Return what the scripts of a page send, by their text."""
    todo = [STATIC / "pages" / f"{name}.js" for name in (page.name, *list_parts(page.name))] if page.has_script else []
    read: dict[Path, str] = {}
    while todo:
        file = todo.pop().resolve()
        if file not in read:
            read[file] = file.read_text(encoding="utf-8")
            todo += [file.parent / path for path in re.findall(r'(?:from|import)\s*\(?"(\.[^"]+)"', read[file])]
    text = "\n".join(read.values())
    found = set()
    for name, template, variable in re.findall(r'\.post\(\s*(?:"([^"]+)"|`([^`]+)`|(\w+))', text):
        if template:
            assert template == "admin/user/${decision}"
            found |= {f"admin/user/{it}" for it in (*TRANSITIONS, "membership")}
        elif variable == "path":  # of the login that pages share
            found |= {*re.findall(r'\bpath: "([^"]+)"', text)}
        elif name:
            found.add(name)
        else:
            assert variable in ("entries", "alike")  # decisions, to the method that sends them
    return found


def test_what_any_page_sends_has_a_story_in_which_answers_get_lost() -> None:
    assert {page.name: posts_of(page) for page in PAGE_TABLE if posts_of(page)} == {
        page: {*stories} for page, stories in STORIES.items()
    }
    folder = Path(__file__).parent
    for page, stories in STORIES.items():
        for path, story in stories.items():
            if story is not LOOKS:
                module, function = story.split(".")
                text = (folder / f"{module}.py").read_text(encoding="utf-8")
                body = re.search(rf"^def {function}\(.*?(?=^def |\Z)", text, re.MULTILINE | re.DOTALL)
                assert body is not None, (page, story)
                decision = path.removeprefix("admin/user/")
                named = decision if decision in (*TRANSITIONS, "membership") else path
                assert f'"{named}"' in body[0], (page, path, story)
                assert re.search("(press|send)_through|lose_answers|press_register", body[0]), (page, path, story)
                if path not in IN_SOME_WAYS:
                    assert re.search(r"\b(loss|lost: int)\b", body[0]), (page, path, story)
