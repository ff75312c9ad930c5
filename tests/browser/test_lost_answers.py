"""Answers that get lost on the way: every form says what it knows, and the next press gets the answer, done once."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from regsvc.users.transitions import TRANSITIONS
from regsvc.web.assets import list_parts
from regsvc.web.pages import PAGE_TABLE, WebPage
from tests.browser.applicant import (
    LOSSES,
    Applicant,
    expect_unsure,
    lose_answers,
    path_in_receipt,
    press_and_reload,
    press_register,
    press_until_answered,
)
from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator
from tests.browser.words import Words
from tests.support.authenticator import Authenticator
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.stack import OPERATORS_PASSWORD, Stack, find_code, find_link_token, has_code

STATIC = Path(__file__).resolve().parents[2] / "regsvc" / "web" / "static"
MANY = ("reject", "approve", "ban", "unban")


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name or e-mail address").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    press_until_answered(page, "login", page.get_by_role("button", name="Log in").click)


def opened(page: Page, title: str) -> Locator:
    part = page.locator(f"#{title}")
    part.locator("summary").first.click()
    return part


def invitations(stack: Stack) -> int:
    return len(stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"])


def without_events(page: Page) -> None:
    """Let answers alone tell."""
    page.route("**/events*", lambda route: route.abort())


def test_alices_account(stack: Stack, open_page: OpenPage) -> None:
    """Her address, second factor and password, a link because she forgot it, and the end of all."""
    alice = stack.approved("alice")
    elsewhere = stack.user_token(alice)
    page = open_page("/account", may_complain=True)
    log_in(page, alice.name, alice.password)
    part = opened(page, "sessions_title")
    end = part.get_by_role("button", name="Log out there").last  # the older one
    press_until_answered(page, "user/sessions/end", end.click)
    expect(page.get_by_role("status")).to_have_text("The session was ended.")
    assert stack.get("/api/user/sessions", token=elsewhere).status == 401

    part, new = opened(page, "email_title"), f"new.{alice.email}"
    part.get_by_label("New e-mail address").fill(new)
    press_until_answered(page, "verify/send", part.get_by_role("button").click)
    part.get_by_label("Verification code").fill(find_code(stack.smtp.wait_for(new, 1, counts=has_code).text))
    part.get_by_label("Current password").fill(alice.password)
    press_until_answered(page, "user/update", part.get_by_role("button").click)
    expect(page.locator("dd", has_text=new)).to_be_visible()
    assert len([letter for letter in stack.smtp.letters_to(new) if has_code(letter)]) == 1

    part = opened(page, "totp_title")
    part.get_by_label("Current password").fill(alice.password)
    press_until_answered(page, "user/totp/begin", part.get_by_role("button").click)
    app = Authenticator(part.locator(".secret").inner_text().replace(" ", ""))
    part.get_by_label("Authenticator code").fill(app.code())
    press_and_reload(page, "user/totp/confirm", part.get_by_role("button").click)
    part = opened(page, "totp_title")
    expect(part.locator(".recovery-codes li")).not_to_have_count(0)  # they are shown once, and now
    part.get_by_role("button", name="I’ve saved them").click()
    for path, title in (("user/totp/recovery-codes", "New recovery codes"), ("user/totp/off", "Turn off")):
        typed = app.code(1)
        if path == "user/totp/off":
            typed = part.locator(".recovery-codes code").first.inner_text()
            part.get_by_role("button", name="I’ve saved them").click()
        part.locator("summary", has_text=title).click()
        form = part.locator("details", has_text=title).last
        form.get_by_label("Current password").fill(alice.password)
        form.locator("input").last.fill(typed)

        def send(form: Locator = form, title: str = title) -> None:
            form.get_by_role("button", name=title).click()
            if title == "Turn off":
                page.get_by_role("dialog").get_by_role("button", name=title).click()

        press_until_answered(page, path, send)
    expect(page.get_by_role("status")).to_have_text("Two-step verification is off.")

    part = opened(page, "password_title")
    part.get_by_label("Current password").fill(alice.password)
    part.get_by_label("New password").fill("alices-next-secret")
    press_until_answered(page, "user/password", part.get_by_role("button", name="Change password").click)
    expect(page.get_by_role("status")).to_have_text("Your password was changed. Please log in again.")

    log_in(page, alice.name, "alices-next-secret")
    leave = page.get_by_role("button", name="Log out", exact=True)
    press_and_reload(page, "logout", leave.click)
    expect(page.get_by_role("status")).to_have_text("You are logged out.")


def test_bobs_forgotten_password_and_his_leave(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.approved("bob")
    page = open_page("/forgot-password", may_complain=True)
    page.get_by_label("E-mail address").fill(bob.email)
    press_until_answered(page, "password/forgot", page.get_by_role("button", name="Send link").click)
    expect(page.get_by_role("button", name="Send link")).to_have_count(0)
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "set-password#token=" in letter.text)

    page.goto(f"{stack.daemon.base_url}/set-password#token={find_link_token(letter.text)}")
    page.get_by_label("New password").fill("bobs-next-secret")
    press_and_reload(page, "password/reset", page.get_by_role("button", name="Set password").click)
    expect(page.get_by_role("status")).to_contain_text("Your password is set. You can join the server now.")

    page.goto(f"{stack.daemon.base_url}/account")
    log_in(page, bob.name, "bobs-next-secret")

    part = opened(page, "password_title")
    part.get_by_label("Current password").fill("bobs-next-secret")
    part.get_by_label("New password").fill("bobs-third-secret")
    press_and_reload(page, "user/password", part.get_by_role("button", name="Change password").click)
    assert "third-secret" not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    expect(page.get_by_role("status")).to_have_text("Your password was changed. Please log in again.")
    log_in(page, bob.name, "bobs-third-secret")

    part = opened(page, "delete_title")
    part.get_by_label("Current password").fill("bobs-third-secret")

    def leave() -> None:
        part.get_by_role("button", name="Delete permanently").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()

    press_and_reload(page, "user/delete", leave)
    expect(page.get_by_role("status")).to_have_text(f"Your account {bob.name} was deleted.")
    assert stack.status(bob) is None


def test_carols_answer_to_the_team(stack: Stack, open_page: OpenPage) -> None:
    carol = stack.pending("carol")
    path = path_in_receipt(stack, carol)
    assert stack.decide("ask", carol, question="Which Bob?").status == 200
    page = open_page(path, may_complain=True, prepare=without_events)
    page.get_by_label("Your answer").fill("The one with the hat.")
    send = page.get_by_role("button", name="Send the answer")
    press_until_answered(page, "application/answer", send.click)
    expect(page.get_by_text("The one with the hat.")).to_be_visible()
    expect(send).to_have_count(0)


def test_erin_whose_registration_used_her_invitation_up(stack: Stack, open_page: OpenPage) -> None:
    made = stack.post("/api/admin/invitation", {"uses": 1, "days": 1, "grants": ["no_review"]}, token=stack.olivia())
    page = open_page(f"/register#{made.json['link'].partition('#')[2]}", may_complain=True)
    erin = Applicant(page, stack, stack.newcomer("erin"))
    page.get_by_label("E-mail address").fill(erin.person.email)
    press_until_answered(page, "verify/send", page.get_by_role("button", name="Next").click)
    erin.give_code()
    assert len([letter for letter in stack.smtp.letters_to(erin.person.email) if has_code(letter)]) == 1
    erin.fill_name()
    press_register(page)
    assert erin.person.password not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    page.reload()
    expect(page.get_by_role("main")).to_contain_text("You’re in")


def test_olivias_desk(stack: Stack, open_page: OpenPage) -> None:
    """What she makes is made once, and its secret shown; what she decides is decided once."""
    dan = stack.pending("dan")
    page = open_page(
        f"/admin#queue?name={dan.name}",
        may_complain=True,
        is_olivias=True,
        prepare=without_events,
    )
    olivia = Operator(page)
    say = olivia.say
    note = olivia.card.get_by_label(say("note_label"))
    note.fill("Knows Rick.")
    press_until_answered(page, "admin/user/note", olivia.card.get_by_role("button", name=say("note_add")).click)
    expect(note).to_have_value("")
    notes = our_database(stack).query("SELECT * FROM regsvc_note WHERE text = 'Knows Rick.'")
    assert len(notes) == 1

    olivia.go("#invitations")
    before = invitations(stack)
    invite = page.get_by_role("button", name=say("invite"))
    press_until_answered(page, "admin/invitation", invite.click)
    expect(page.locator(".copyable code")).to_contain_text("#invite=")
    assert invitations(stack) == before + 1
    press_and_reload(page, "admin/invitation", invite.click)
    invite.click()
    expect(page.locator(".copyable code")).to_contain_text("#invite=")
    assert invitations(stack) == before + 2

    olivia.go("#team")
    form = page.locator("form", has_text=say("token_make"))
    form.locator("input[type=text]").fill("dans-bot")
    form.locator("input[type=checkbox]").first.check()

    def make_token() -> None:
        form.get_by_role("button", name=say("token_make")).click()
        olivia.confirm(OPERATORS_PASSWORD)

    press_until_answered(page, "admin/token/create", make_token)
    expect(page.locator(".copyable code")).not_to_be_empty()
    expect(page.locator(".team li", has_text="dans-bot")).to_have_count(1)

    olivia.go(f"#queue?name={dan.name}")
    expect(olivia.card.get_by_role("heading", name=dan.name)).to_be_visible()
    olivia.approve()
    lose_answers(page, "admin/user/approve", 1)
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_contain_text("we don’t know whether it arrived")
    expect(olivia.pending_bar).not_to_contain_text("Not sent")
    expect(olivia.pending_bar).to_be_hidden()  # it was sent again by itself
    assert stack.user(dan)["status"] == "approved"


def send_until_answered(olivia: Operator, decision: str) -> None:
    """Send what she has decided, while answers get lost; it is sent again by itself, at once when a network is back."""
    page, path = olivia.page, f"admin/user/{decision}"
    for number in range(LOSSES):
        lose_answers(page, path, 1)
        with page.expect_event("requestfailed", lambda request: request.url.endswith(f"/api/{path}")):
            if number == 0:
                olivia.pending_bar.get_by_role("button", name="Send now").click()
            else:
                page.evaluate("dispatchEvent(new Event('online'))")
        expect_unsure(page, olivia.pending_bar)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(olivia.pending_bar).to_be_hidden()


def test_olivia_decides_about_many_on_a_phone(stack: Stack, open_page: OpenPage) -> None:
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
        send_until_answered(olivia, decision)
        assert [stack.user(it)["status"] for it in people] == [status] * 2
        made = our_database(stack).query("SELECT * FROM regsvc_review WHERE transition = ?", (decision,))
        assert [sum(it["username"] == person.name for it in made) for person in people] == [1, 1]


def test_olivia_on_bobs_page(stack: Stack, open_page: OpenPage) -> None:
    bob, dan = stack.approved("bob"), stack.pending("dan")
    session = stack.user_token(bob)
    page = open_page(f"/admin#user?name={bob.name}", may_complain=True, is_olivias=True, prepare=without_events)
    olivia = Operator(page)
    say = olivia.say
    end = page.get_by_role("button", name=say("session_end"), exact=True)
    press_until_answered(page, "admin/user/sessions/end", end.click)
    expect(olivia.notice).to_contain_text("was ended")
    assert stack.get("/api/user/sessions", token=session).status == 401

    page.locator("summary", has_text=say("password_part")).click()

    def mail_link() -> None:
        page.get_by_role("button", name=say("password_mail"), exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=say("password_mail")).click()

    press_until_answered(page, "admin/user/password", mail_link)
    expect(olivia.notice).not_to_contain_text("we don’t know")
    assert len([it for it in stack.smtp.letters_to(bob.email) if "set-password#token=" in it.text]) <= 1

    for decision in ("reopen", "delete"):
        if decision == "delete":
            page.locator(".row-actions summary").click()
        page.get_by_role("button", name=say("opens", what=say(f"do_{decision}")), exact=True).click()
        page.get_by_role("dialog").locator("form .buttons button").first.click()
        send_until_answered(olivia, decision)
    assert stack.status(bob) is None

    olivia.go(f"#queue?name={dan.name}")
    expect(olivia.card.get_by_role("heading", name=dan.name)).to_be_visible()
    page.keyboard.press("q")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("Which Bob?")
    ask = dialog.get_by_role("button", name=say("ask_send"))
    press_until_answered(page, "admin/user/ask", ask.click, dialog)
    expect(dialog).to_have_count(0)
    asked = our_database(stack).query("SELECT * FROM regsvc_question WHERE username_key = ?", (dan.key,))
    assert len(asked) == 1

    stack.post("/api/admin/invitation", {"uses": 1, "days": 1, "grants": []}, token=stack.olivia())
    olivia.go("#invitations")
    revoke = page.get_by_role("button", name=say("token_revoke"), exact=True)
    expect(revoke.first).to_be_visible()
    before = revoke.count()

    def revoke_newest() -> None:
        revoke.first.click()
        page.get_by_role("dialog").get_by_role("button", name=say("token_revoke")).click()

    press_until_answered(page, "admin/invitation/revoke", revoke_newest)
    expect(revoke).to_have_count(before - 1)


def test_oscar_comes_and_goes(stack: Stack, open_page: OpenPage) -> None:
    oscar = Operators(stack).new("oscar")
    page = open_page("/admin", size="phone", may_complain=True, prepare=without_events)
    page.get_by_label("Name or e-mail address").fill(oscar.name)
    page.get_by_label("Password", exact=True).fill(oscar.password)
    press_until_answered(page, "admin/login", page.get_by_role("button", name="Log in").click)
    leave = page.get_by_role("button", name="Log out", exact=True)
    lose_answers(page, "logout", 1)
    leave.click()
    expect(page.locator("#notice")).to_contain_text(re.compile("we don’t know|logged out"))
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
            "test_register_slowly.test_a_registration_whose_answer_was_lost_comes_before_its_questions",
        ),
        "register": "applicant.press_register",
    },
    "account": {
        **dict.fromkeys(
            (
                "logout",
                "verify/send",
                "user/update",
                "user/password",
                "user/sessions/end",
                "user/totp/begin",
                "user/totp/confirm",
                "user/totp/recovery-codes",
                "user/totp/off",
            ),
            f"{HERE}.test_alices_account",
        ),
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
        "admin/user/membership": "test_membership_pages.test_olivia_sets_ends_and_puts_them_off",
        "admin/user/password": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/password-link": "test_team.test_oscar_hands_rita_of_the_team_a_link_with_his_second_factor",
        "admin/user/sessions/end": f"{HERE}.test_olivia_on_bobs_page",
        "admin/user/role": "test_team.test_olivia_makes_rita_a_reviewer_and_a_token_for_a_bot",
        "admin/token/create": f"{HERE}.test_olivias_desk",
        "admin/token/revoke": "test_team.test_olivia_makes_rita_a_reviewer_and_a_token_for_a_bot",
        "admin/invitation": f"{HERE}.test_olivias_desk",
        "admin/invitation/revoke": f"{HERE}.test_olivia_on_bobs_page",
        "admin/team-chat/code": "test_team.test_olivia_links_her_account_on_discord",
        "admin/team-chat/unlink": "test_team.test_olivia_links_her_account_on_discord",
        "admin/mails/resend": "test_admin_pages.test_olivia_sends_a_failed_mail_again",
        "admin/sync": "test_admin_pages.test_olivia_syncs_and_sees_held_back_changes",
        "admin/undo": "test_admin_pages.test_olivia_undoes_what_mallory_decided",
        "admin/server/registration": "test_team.test_olivia_closes_registration_from_a_phone",
        "admin/server/announcement": "test_team.test_olivia_closes_registration_from_a_phone",
    },
}
"""By page and what it sends, the story in which its answers get lost."""


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
                named = path.removeprefix("admin/user/") if path.removeprefix("admin/user/") in TRANSITIONS else path
                assert f'"{named}"' in body[0], (page, path, story)
                assert re.search("answered|_and_reload|lose_answers|lost", body[0]), (page, path, story)
