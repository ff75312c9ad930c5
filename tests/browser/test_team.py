"""The team in the browser: what its members see and may press, and how Olivia gives and takes roles and tokens."""

import re
from pathlib import Path

from playwright.sync_api import Route, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import LOSSES, Applicant, press_through
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator
from tests.support.authenticator import Authenticator
from tests.support.operators import Operators
from tests.support.peers.discord import Discord
from tests.support.stack import Stack
from tests.support.team_chat import OLIVIA_ON_DISCORD, TeamChatStack, team_chat_config
from tests.support.watching import ask_until

VIEWS = {
    "reviewer": ["queue", "users", "bans", "invitations", "team"],
    "moderator": ["queue", "users", "bans", "invitations", "audits", "team"],
}
ALL_VIEWS = ["queue", "users", "bans", "invitations", "audits", "sync", "mails", "server", "doctor", "team"]

ASKED_EVERY = 10_001  # milliseconds; who else reads is asked for anew after ten seconds


def menu_of(operator: Operator) -> list[str]:
    hrefs = operator.page.locator(".nav-bar nav a").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    return [href.lstrip("#").partition("?")[0] for href in hrefs]


def test_members_see_what_they_may_do(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.approved("bob")
    for role, views in VIEWS.items():
        rita = stack.approved("rita")
        stack.post("/api/admin/user/role", {"username": rita.name, "role": role}, token=stack.olivia())
        desk = Operator(open_page("/admin"), rita.name, rita.password).log_in()
        assert menu_of(desk) == views
        desk.go(f"#user?name={bob.name}")
        expect(desk.page.locator(".view h2")).to_have_text(bob.name)
        ban = desk.page.locator(".row-actions button", has_text=desk.say("do_ban"))
        expect(ban).to_have_count(1 if role == "moderator" else 0)
        expect(desk.page.locator(".row-actions button", has_text=desk.say("do_delete"))).to_have_count(0)
        expect(desk.page.locator(".password-part")).to_be_hidden()
        desk.go("#team")
        expect(desk.page.get_by_text(desk.say("chat_accounts_off"))).to_be_visible()
        expect(desk.page.locator("form", has_text=desk.say("role_give"))).to_have_count(0)


def test_olivia_makes_rita_a_reviewer_and_a_token_for_a_bot(stack: Stack, open_page: OpenPage) -> None:
    rita = stack.approved("rita")
    olivia = Operator(open_page("/admin", is_olivias=True, may_complain=True)).expect_logged_in()
    assert menu_of(olivia) == ALL_VIEWS
    olivia.go("#team")
    page, say = olivia.page, olivia.say
    form = page.locator("form", has_text=say("role_give"))
    form.locator("input").fill(rita.name)
    form.locator("select").select_option("reviewer")
    form.locator("button").click()
    expect(page.locator("ul.team li", has_text=rita.name)).to_contain_text(say("role_reviewer"))

    ritas = Operator(open_page("/admin", may_complain=True), rita.name, rita.password).log_in()
    tokens = page.locator("form", has_text=say("token_make"))
    tokens.locator("input[type=text]").fill("discord-bot")
    tokens.locator("input[value='users.read']").check()
    tokens.locator("button").click()
    olivia.confirm()
    shown = page.locator(".copyable code")
    expect(shown).to_have_text(re.compile("^cmp_"))
    assert stack.get("/api/admin/users", token=shown.inner_text()).status == 200
    tokens_left = stack.get("/api/admin/team", token=stack.olivia()).json["tokens"]
    [made] = [it for it in tokens_left if it["name"] == "discord-bot"]
    assert made["expiresAt"] - made["createdAt"] == 90 * 86_400_000

    page.locator("ul.team li", has_text=rita.name).locator("button").click()
    expect(page.locator("ul.team li", has_text=rita.name)).to_have_count(0)
    ritas.go("#users")
    expect(ritas.page.locator("[autocomplete=current-password]")).to_be_visible()

    def revoke() -> None:
        page.locator("ul.team li", has_text="discord-bot").locator("button").click()
        page.locator("dialog button", has_text=say("token_revoke")).click()

    revoke()
    expect(page.locator("ul.team li", has_text="discord-bot")).to_have_count(0)
    assert stack.get("/api/admin/users", token=shown.inner_text()).status == 401


def test_a_token_takes_olivias_own_password(stack: Stack, open_page: OpenPage) -> None:
    olivia = Operator(open_page("/admin", may_complain=True, is_olivias=True)).expect_logged_in()
    olivia.go("#team")
    page, say = olivia.page, olivia.say
    tokens = page.locator("form", has_text=say("token_make"))
    tokens.locator("input[type=text]").fill("night-bot")
    tokens.locator("input[value='users.read']").check()
    tokens.locator("select").select_option(label=say("token_unlimited"))
    tokens.locator("button").click()
    dialog, shown = page.get_by_role("dialog"), page.locator(".copyable code")
    expect(dialog.get_by_label(say("own_password"))).to_be_focused()
    assert find_serious_faults(page, ["dialog"]) == []
    page.keyboard.press("Enter")
    expect(dialog.get_by_text(say("page.common.missing"))).to_be_visible()
    olivia.confirm("not-olivias-secret")
    expect(dialog.get_by_text(say("refusal.wrong_password"))).to_be_visible()
    expect(dialog.get_by_label(say("own_password"))).to_be_focused()
    dialog.get_by_role("button", name=say("page.common.cancel")).click()
    expect(dialog).to_have_count(0)
    expect(olivia.notice).to_be_empty()
    expect(shown).to_have_count(0)

    # who cancels while the request is under way is shown the token all the same
    def escape(route: Route) -> None:
        page.keyboard.press("Escape")
        route.continue_()

    page.route("**/token/create", escape, times=1)
    tokens.locator("button").click()
    olivia.confirm()
    expect(shown).to_have_text(re.compile("^cmp_"))
    assert stack.get("/api/admin/users", token=shown.inner_text()).status == 200
    expect(page.locator("ul.team li", has_text="night-bot")).to_contain_text(say("token_unlimited"))

    # what is refused for another reason is not told in the dialog
    expect(tokens.locator("input[type=text]")).to_have_value("")
    tokens.locator("input[type=text]").fill("night-bot")
    tokens.locator("input[value='users.read']").check()
    tokens.locator("button").click()
    olivia.confirm()
    expect(olivia.notice).to_have_text(say("refusal.token_name_taken"))
    expect(dialog).to_have_count(0)


def test_oscar_hands_rita_of_the_team_a_link_with_his_second_factor(stack: Stack, open_page: OpenPage) -> None:
    oscar, rita, bob = Operators(stack).new("oscar"), stack.approved("rita"), stack.approved("bob")
    stack.post("/api/admin/user/role", {"username": rita.name, "role": "reviewer"}, token=stack.olivia())
    oscars = Operator(open_page("/admin", size="phone", may_complain=True), oscar.name, oscar.password).log_in()
    page, say = oscars.page, oscars.say
    link = page.get_by_role("button", name=say("password_link"), exact=True)

    oscars.go(f"#user?name={bob.name}")
    page.locator("summary", has_text=say("password_part")).click()
    link.click()
    expect(page.get_by_label(say("password_link_label", name=bob.name))).to_have_value(re.compile("#token="))
    expect(page.get_by_role("dialog")).to_have_count(0)

    app = Authenticator()
    assert stack.authme.set_totp(oscar.name, app.secret)
    oscars.go(f"#user?name={rita.name}")
    expect(page.locator(".view h2")).to_have_text(rita.name)
    page.locator("summary", has_text=say("password_part")).click()
    link.click()
    dialog = page.get_by_role("dialog")
    code = dialog.get_by_label("Authenticator code")
    expect(code).to_be_hidden()
    oscars.confirm()
    expect(code).to_be_focused()
    expect(dialog.get_by_text(say("refusal.totp_required"))).to_be_visible()
    assert find_serious_faults(page, ["dialog"]) == []
    assert not is_wider_than_the_screen(page)
    with page.expect_response("**/password-link"):
        oscars.confirm(code=app.wrong_code())
    expect(dialog.locator("form")).to_have_attribute("aria-busy", "false")
    expect(code).to_be_focused()
    oscars.confirm(code=app.code())
    expect(page.get_by_label(say("password_link_label", name=rita.name))).to_have_value(re.compile("#token="))
    expect(dialog).to_have_count(0)
    stack.smtp.wait_for(oscar.email, 1, counts=lambda letter: "password of a member of the team" in letter.text)

    # until codes of the app are compared no more, which is told where they are typed
    guess = {"username": oscar.name, "password": oscar.password, "totp": app.wrong_code()}
    ask_until(lambda: stack.post("/api/login", guess).json["code"], lambda code: code == "rate_limited")
    link.click()
    oscars.confirm()
    expect(code).to_be_focused()
    oscars.confirm(code=app.code(1))
    expect(dialog.get_by_text("Too many wrong codes were entered for this account.")).to_be_visible()
    expect(dialog.get_by_role("button", name=say("password_link"))).to_have_attribute("aria-disabled", "true")


def test_olivia_links_her_account_on_discord(open_page: OpenPage, tmp_path: Path) -> None:
    with Discord() as discord, Stack("sqlite", tmp_path, config=team_chat_config(discord)) as stack:
        olivia = Operator(open_page("/admin", at=stack.daemon.base_url, may_complain=True)).log_in()
        page, say = olivia.page, olivia.say
        olivia.go("#team")
        linked = page.locator("ul.team li", has_text="Discord: ")

        def make_code() -> None:
            page.get_by_role("button", name=say("chat_code_make")).click()
            olivia.confirm()

        for loss in LOSSES:
            press_through(page, "admin/team-chat/code", loss, make_code)
            code = page.locator(".copyable code").inner_text()
            TeamChatStack(stack, discord).enter(code, OLIVIA_ON_DISCORD)
            page.reload()
            expect(linked).to_contain_text("Olivia")
            unlink = linked.get_by_role("button").click
            press_through(page, "admin/team-chat/unlink", loss, unlink, is_found_out=True)
            expect(linked).to_have_count(0)


def test_olivia_invites_alice_who_plays_at_once(stack: Stack, open_page: OpenPage) -> None:
    alice = stack.newcomer("alice")
    olivia = Operator(open_page("/admin", is_olivias=True)).expect_logged_in()
    olivia.go("#invitations")
    form = olivia.page.locator("form", has_text=olivia.say("invite"))
    form.locator("input[value=no_review]").check()
    form.locator("button").click()
    link = olivia.page.locator(".copyable code").inner_text()
    expect(olivia.page.get_by_role("button", name=olivia.say("page.common.copy"))).to_be_visible()
    expect(form.locator("input[value=no_review]")).not_to_be_checked()  # the next one begins anew

    applicant = Applicant(open_page(f"/register#{link.partition('#')[2]}", size="phone"), stack, alice)
    expect(applicant.page.get_by_text("Olivia has invited you")).to_be_visible()
    applicant.give_email()
    applicant.give_code()
    applicant.give_name()
    expect(applicant.page.get_by_role("main")).to_contain_text(f"You’re in!{alice.name}")

    late = open_page(f"/register#{link.partition('#')[2]}", may_complain=True)
    expect(late.get_by_text("This invitation has been used up")).to_be_visible()
    expect(late.get_by_label("E-mail address")).to_be_visible()


def test_olivia_closes_registration_from_a_phone(stack: Stack, open_page: OpenPage) -> None:
    olivia = Operator(open_page("/admin", size="phone", is_olivias=True, may_complain=True)).expect_logged_in()
    olivia.go("#server")
    page, say = olivia.page, olivia.say
    german, english = (page.locator(f"textarea[data-language={language}]") for language in ("de", "en"))
    english.fill("We move on Sunday.")
    page.locator(".tabs label", has_text="Deutsch").click()
    expect(english).to_be_hidden()
    assert not is_wider_than_the_screen(page)
    german.fill("Wir ziehen am Sonntag um.")
    close = page.get_by_role("button", name=say("registration_close"))
    close.click()
    expect(page.locator(".badge", has_text=say("registration_is_closed"))).to_be_visible()
    expect(open_page("/register").get_by_text("Registration is currently closed.")).to_be_visible()

    page.get_by_role("button", name=say("registration_open")).click()
    expect(page.locator(".badge", has_text=say("registration_is_open"))).to_be_visible()
    save = page.get_by_role("button", name=say("announcement_save"))
    save.click()
    expect(olivia.notice).to_have_attribute("data-kind", "good")
    expect(open_page("/").locator(".announcement")).to_contain_text("We move on Sunday.")
    expect(open_page("/?language=de").locator(".announcement")).to_contain_text("Wir ziehen am Sonntag um.")
    stack.post("/api/admin/server/announcement", {"texts": {}}, token=stack.olivia())


def test_two_reviewers_of_one_application_see_each_other(stack: Stack, open_page: OpenPage) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    rita = stack.approved("rita")
    stack.post("/api/admin/user/role", {"username": rita.name, "role": "reviewer"}, token=stack.olivia())
    olivia = Operator(open_page("/admin", is_olivias=True)).expect_logged_in()
    ritas = Operator(open_page("/admin"), rita.name, rita.password).log_in()
    for desk in (olivia, ritas):
        desk.page.clock.install()
        with desk.page.expect_response("**/user/reading"):
            desk.person(alice.name).click()
    expect(ritas.page.locator(".readers")).to_have_text(ritas.say("readers", names="Olivia"))
    olivia.page.clock.run_for(ASKED_EVERY)
    expect(olivia.page.locator(".readers")).to_have_text(olivia.say("readers", names=rita.name))
    with ritas.page.expect_response("**/user/reading"):
        ritas.person(bob.name).click()
    olivia.page.clock.run_for(ASKED_EVERY)
    expect(olivia.page.locator(".readers")).to_have_text("")


def test_the_queue_is_filtered_and_sorted(stack: Stack, open_page: OpenPage) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    olivia = Operator(open_page("/admin", is_olivias=True)).expect_logged_in()
    page = olivia.page
    expect(olivia.person(bob.name)).to_be_visible()
    fold, sort = page.get_by_role("button", name="Filter", exact=True), page.get_by_label("Order", exact=True)
    expect(sort).to_be_hidden()
    fold.click()
    sort.select_option("newest")
    expect(page.locator(".applicants .line .name").first).to_have_text(bob.name)
    page.locator(".filters select", has=page.locator("[value=bedrock]")).select_option("bedrock")
    expect(olivia.person(alice.name)).to_have_count(0)
    assert "platform=bedrock" in page.url
    page.reload()
    chips = page.locator(".filters .chip")
    expect(chips).to_have_text(["Order: Newest first ×", "Edition: Bedrock ×"])
    expect(sort).to_be_hidden()
    assert find_serious_faults(page, [".filters"]) == []
    page.get_by_role("button", name="Remove the filter Edition: Bedrock").click()
    expect(chips).to_have_text(["Order: Newest first ×"])
    expect(fold).to_be_focused()
    expect(olivia.person(alice.name)).to_be_visible()
    page.get_by_role("button", name=olivia.say("filters_clear")).click()
    expect(chips).to_have_count(0)
    expect(page).not_to_have_url(re.compile("sort="))
