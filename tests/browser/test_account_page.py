"""`/account` in a browser: logging in, seeing what became of a registration, and changing what is one's own."""

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import THRICE, expect_received, path_in_receipt, press_through
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator
from tests.browser.words import Words
from tests.support.authenticator import Authenticator
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack, find_code, has_code

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'


def log_in(page: Page, person: Person, password: str | None = None) -> None:
    page.get_by_label("Name or e-mail address").fill(person.name)
    page.get_by_label("Password").fill(password or person.password)
    page.get_by_role("button", name="Log in").click()


def logged_in(open_page: OpenPage, person: Person, **options: object) -> Page:
    page = open_page("/account", **options)
    log_in(page, person)
    expect(page.get_by_role("heading", name=person.name)).to_be_visible()
    return page


def opened(page: Page, section: str) -> None:
    page.locator("summary", has_text=section).click()


def test_who_was_rejected_is_told_why_in_words_alone(stack: Stack, open_page: OpenPage) -> None:
    alice = stack.pending("alice")
    stack.decides("reject", alice, reason=MARKUP)
    page = logged_in(open_page, alice, size="phone")
    expect(page.get_by_text("Rejected", exact=True)).to_be_visible()
    expect(page.get_by_text(MARKUP, exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile(r"apply again from .*20\d\d.*\.$"))).to_be_visible()
    expect(page.get_by_role("link", name="Apply again")).to_have_count(0)
    assert page.locator("#main img, #main b").count() == 0
    assert page.title().startswith("My account")
    assert not is_wider_than_the_screen(page)


def test_applying_again_is_one_page(stack: Stack, open_page: OpenPage) -> None:
    """The link of the application proves the address, and the account knows it; the name is filled in."""
    rick = stack.pending("rick")
    path = path_in_receipt(stack, rick)
    stack.decides("reject", rick, mayReapply=True)
    page = open_page(path, size="phone")
    page.get_by_role("link", name="Apply again").click()
    expect_one_page(page, rick)
    assert find_serious_faults(page, ["main"]) == []
    page.goto(f"{stack.daemon.base_url}/account")
    log_in(page, rick)
    page.get_by_role("link", name="Apply again").click()
    expect_one_page(page, rick)
    page.get_by_label("Password (optional)", exact=True).fill(rick.password)
    page.get_by_role("button", name="Register").click()
    expect_received(page)
    assert stack.user(rick)["status"] == "pending"


def expect_one_page(page: Page, person: Person) -> None:
    expect(page.get_by_role("heading", name="Apply again", exact=True)).to_be_visible()
    expect(page.get_by_text(f"{person.email} is verified.")).to_be_visible()
    expect(page.get_by_label("Minecraft username")).to_have_value(person.name)


def test_who_came_in_the_game_is_promised_a_mail_once_it_can_be_sent(stack: Stack, open_page: OpenPage) -> None:
    """Adopted without an address; on this page it can be added."""
    greta = stack.newcomer("greta")
    stack.authme.register(greta.name, greta.password)
    page = logged_in(open_page, greta, size="phone")
    if stack.user(greta)["status"] != "pending":
        our_database(stack).execute("UPDATE regsvc_user SET status = 'pending' WHERE username = ?", (greta.name,))
        page.reload()
    expect(page.get_by_text("Add your e-mail address below")).to_be_visible()
    page.get_by_label("New e-mail address").fill(greta.email)
    page.get_by_role("button", name="Send code").click()
    page.get_by_label("Verification code").fill(find_code(stack.smtp.wait_for(greta.email, 1).text))
    page.get_by_label("Current password").fill(greta.password)
    page.get_by_role("button", name="Change e-mail address").click()
    expect(page.get_by_text(f"we’ll e-mail the decision to {greta.email}")).to_be_visible()


def test_who_was_asked_is_led_to_the_question(stack: Stack, open_page: OpenPage) -> None:
    """Alice, whose mail got lost; who reads her status otherwise is given no way to answer for her."""
    alice = stack.pending("alice")
    assert stack.decide("ask", alice, question="Which Bob?").status == 200
    seen = stack.get("/api/user/status", {"username": alice.name}, token=stack.olivia()).json["data"]
    assert "applicationToken" not in seen
    page = logged_in(open_page, alice, size="phone")
    expect(page.get_by_text("The team has a question about your application.")).to_be_visible()
    assert find_serious_faults(page, ["main"]) == []
    page.get_by_role("link", name="Answer the question").click()
    page.get_by_label("Your answer").fill("The builder.")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_text("The builder.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name=alice.name)).to_be_visible()
    expect(page.get_by_role("link", name="Answer the question")).to_have_count(0)


def test_who_waits_can_look_without_logging_in(stack: Stack, open_page: OpenPage) -> None:
    say = Words("zh", "page.account")
    nobody = say("refusal.user_not_found")
    alice = stack.pending("alice")
    page = open_page("/account", may_complain=True, size="phone", language="zh")
    opened(page, say("look_up_title"))
    page.get_by_label(say("login_name_only")).fill("nobody_here")
    page.get_by_role("button", name=say("look_up")).click()
    expect(page.get_by_text(nobody)).to_be_visible()
    page.get_by_label(say("login_name_only")).fill(alice.name.lower())
    page.get_by_role("button", name=say("look_up")).click()
    looked_up = page.get_by_text(say("looked_up", name=alice.name, status=say("page.common.status_pending")))
    expect(looked_up).to_be_visible()
    expect(page.get_by_role("status")).to_be_empty()

    # nothing that was said of another name stays
    page.get_by_label(say("login_name_only")).fill("nobody_here")
    page.get_by_role("button", name=say("look_up")).click()
    expect(page.get_by_text(nobody)).to_be_visible()
    expect(looked_up).to_have_count(0)
    page.get_by_label(say("login_name_only")).fill("")
    page.get_by_role("button", name=say("look_up")).click()
    expect(page.get_by_text(say("page.common.missing"))).to_be_visible()
    expect(page.get_by_text(nobody)).to_have_count(0)


def test_a_wrong_password_keeps_the_name_and_logging_out_forgets_it(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.approved("bob")
    page = open_page("/account", may_complain=True)
    log_in(page, bob, "not-bobs-secret")
    expect(page.get_by_role("status")).to_have_text("Wrong name or password.")
    expect(page.get_by_label("Name or e-mail address")).to_have_value(bob.name)
    log_in(page, bob)
    expect(page.get_by_text("The game server is not running at the moment.")).to_be_visible()
    expect(page.get_by_text("You can join the server.")).not_to_be_visible()
    tab = page.context.new_page()
    tab.goto(page.url)
    expect(tab.get_by_role("button", name="Log in")).to_be_visible()  # to stay logged in has to be chosen
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("status")).to_have_text("You are logged out.")
    assert page.evaluate("sessionStorage.length") == 0

    # nor does he remember the password
    page.get_by_role("link", name="Forgot password?").click()
    page.get_by_label("E-mail address").fill(bob.email)
    page.get_by_role("button", name="Send link").click()
    expect(page.get_by_role("status")).to_contain_text("a link to set a password")
    stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "#token=" in letter.text)


def test_bob_stays_signed_in_until_he_logs_out(stack: Stack, open_page: OpenPage) -> None:
    """He opens his account from a mail, in another tab."""
    bob = stack.approved("bob")
    page = open_page("/account", size="phone", may_complain=True)
    page.get_by_label("Stay logged in on this device").check()
    assert find_serious_faults(page, ["main"]) == []
    log_in(page, bob)
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()
    tab = page.context.new_page()
    tab.goto(page.url)
    expect(tab.get_by_role("heading", name=bob.name)).to_be_visible()
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_role("status")).to_have_text("You are logged out.")
    page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_what_a_login_may_say(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, reason="Griefing", expiresAt=4_102_444_800_000)
    page = open_page("/account", may_complain=True)
    log_in(page, bob)
    expect(page.get_by_role("status")).to_contain_text("This account is banned: Griefing")
    expect(page.get_by_role("status")).to_contain_text(re.compile("Until .*(2099|2100)"))

    # who has a second factor is asked for it
    carol = stack.approved("carol")
    app = Authenticator()
    assert stack.authme.set_totp(carol.name, app.secret)
    code = page.get_by_label("Authenticator code")
    expect(code).to_be_hidden()
    log_in(page, carol)
    expect(code).to_be_focused()
    expect(code).to_have_attribute("aria-required", "true")
    code.fill(app.code())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=carol.name)).to_be_visible()


def test_bob_changes_what_is_his_takes_it_along_and_leaves(stack: Stack, open_page: OpenPage, tmp_path: Path) -> None:
    bob = stack.approved("bob")
    page = logged_in(open_page, bob, may_complain=True)
    page.reload()
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()  # the tab remembers
    change_address_and_password(stack, page, bob)
    assert stack.login(bob, "bobs-next-secret").status == 200
    log_in(page, bob, "bobs-next-secret")

    # a session that ended elsewhere is told
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()
    stack.decides("password", bob, password="olivias-choice")
    opened(page, "My data")
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("status")).to_have_text("You’ve been logged out. Please log in again.")
    expect(page.get_by_label("Name or e-mail address")).to_have_value(bob.name)
    log_in(page, bob, "olivias-choice")
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()

    opened(page, "My data")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == f"{bob.name}.json"
    download.value.save_as(tmp_path / "bob.json")
    assert json.loads((tmp_path / "bob.json").read_text(encoding="utf-8"))["user"]["username"] == bob.name
    opened(page, "Delete account")
    page.get_by_label("Current password").fill("olivias-choice")
    page.get_by_role("button", name="Delete permanently").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert stack.status(bob) == "approved"
    page.get_by_role("button", name="Delete permanently").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("status")).to_have_text(f"Your account {bob.name} was deleted.")
    assert stack.status(bob) is None


def change_address_and_password(stack: Stack, page: Page, bob: Person) -> None:
    new = f"new.{bob.email}"
    opened(page, "E-mail address")
    page.get_by_label("New e-mail address").fill(new)
    page.get_by_role("button", name="Send code").click()
    page.get_by_label("Verification code").fill(find_code(stack.smtp.wait_for(new, 1, counts=has_code).text))
    page.get_by_label("Current password").fill(bob.password)
    page.get_by_role("button", name="Change e-mail address").click()
    expect(page.locator("dd", has_text=new)).to_be_visible()
    assert stack.user(bob)["email"] == new

    opened(page, "Password")
    page.get_by_label("New password").fill("bobs-next-secret")
    page.get_by_label("Current password").fill("wrong")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("The current password is wrong.")).to_be_visible()
    page.get_by_label("Current password").fill(bob.password)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status")).to_have_text("Your password was changed. Please log in again.")


def test_oscar_ends_what_his_old_password_made(stack: Stack, open_page: OpenPage) -> None:
    """Somebody else may have known it. The new one ends no token, link or invitation by itself."""
    oscar, bob = Operators(stack).new("oscar"), stack.approved("bob")
    admin = stack.admin_token(oscar.name, oscar.password)
    made = stack.confirmed(admin, name="oscars-bot", permissions=["users.read"])
    bot = stack.post("/api/admin/token/create", made, token=admin).json["token"]
    assert stack.post("/api/admin/user/password-link", {"username": bob.name}, token=admin).status == 200
    invitation = stack.post("/api/admin/invitation", {"uses": 1, "days": 7, "grants": []}, token=admin)
    invited = invitation.json["record"]["id"]

    page = logged_in(open_page, oscar, size="phone", may_complain=True)
    part = page.locator("#made_title")
    opened(page, "Admin area: sessions, tokens, links")
    expect(part.locator("dd")).to_have_text(
        [re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d$"), "oscars-bot", bob.name, f"#{invited}"]
    )
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)

    opened(page, "Password")
    change = page.locator("#password_title")
    change.get_by_label("Current password").fill(oscar.password)
    change.get_by_label("New password").fill("oscars-next-secret")
    change.get_by_role("button", name="Change password").click()
    told = page.get_by_role("status")
    expect(told).to_contain_text("Your password was changed. Please log in again.")
    expect(told).to_contain_text(f"API tokens: oscars-bot\nPassword links for: {bob.name}\nInvitations: #{invited}")
    expect(told).not_to_contain_text("127.0.0.1")  # the session has ended
    log_in(page, oscar, "oscars-next-secret")
    expect(part.locator("dd")).to_have_text(["oscars-bot", bob.name, f"#{invited}"])
    assert stack.get("/api/admin/users", token=bot).status == 200

    part.get_by_label("Current password").fill(oscar.password)
    part.get_by_role("button", name="End all of it").click()
    expect(part.get_by_text("The current password is wrong.")).to_be_visible()
    part.get_by_label("Current password").fill("oscars-next-secret")
    press_through(page, "user/made/end", THRICE, part.get_by_role("button", name="End all of it").click)
    expect(told).to_have_text("All of it has ended.")
    expect(part.get_by_text("There is nothing of yours in force.")).to_be_visible()
    assert stack.get("/api/admin/users", token=bot).status == 401

    olivia = Operator(open_page("/admin", is_olivias=True)).expect_logged_in()
    olivia.go(f"#audits?action=user.rights_ended&target={oscar.name}")
    ended = f"because: ended by its maker · password links for: {bob.name} · API tokens: oscars-bot"
    expect(olivia.page.locator(".rows tbody tr")).to_contain_text(ended)

    # who is not in the team has no such part, and changes a password as ever
    bobs = logged_in(open_page, bob)
    expect(bobs.locator("#password_title")).to_be_visible()
    expect(bobs.locator("#made_title")).to_have_count(0)
