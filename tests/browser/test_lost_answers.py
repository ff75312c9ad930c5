"""Answers that get lost on the way: every form says what it knows, and the next press gets the answer, done once."""

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.applicant import Applicant, expect_unsure, lose_answers, path_in_receipt, press_register
from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator
from tests.support.authenticator import Authenticator
from tests.support.our_tables import our_database
from tests.support.stack import OPERATORS_PASSWORD, Stack, find_code, find_link_token, has_code

TIMES = 3


def press_until_answered(page: Page, path: str, press: Callable[[], object]) -> None:
    """Press while answers of this path get lost, and once more."""
    for _time in range(TIMES):
        lose_answers(page, path, 1)
        with page.expect_event("requestfailed", lambda request: request.url.endswith(f"/api/{path}")):
            press()
        expect_unsure(page)
    press()


def press_and_reload(page: Page, path: str, press: Callable[[], object]) -> None:
    """Press, lose the answer, and reload the page as a phone does."""
    lose_answers(page, path, 1)
    press()
    expect_unsure(page)
    page.reload()


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
    page = open_page("/account", may_complain=True)
    log_in(page, alice.name, alice.password)
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

    part = opened(page, "password_title")
    part.get_by_label("Current password").fill(alice.password)
    part.get_by_label("New password").fill("alices-next-secret")
    press_until_answered(page, "user/password", part.get_by_role("button", name="Change password").click)
    expect(page.get_by_role("status")).to_have_text("Your password was changed. Please log in again.")


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
    erin.give_email()
    erin.give_code()
    erin.fill_name()
    press_register(page)
    assert erin.person.password not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("You’re in")


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
