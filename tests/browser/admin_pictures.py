"""The scenes of `make pictures` that show the views of the operators' page beside the queue."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.browser.applicant import path_in_receipt
from tests.browser.operator import Operator
from tests.support.stack import Person, Stack

Take = Callable[..., None]

PLAYERS = ("Wanda", "Xaver", "Yusuf", "Zoe", "Pavel", "Quirin", "Rosa", "Samir", "Tilda", "Ulrich")


def open_admin_page(page: Page, stack: Stack, address: str) -> Operator:
    page.goto(f"{stack.daemon.base_url}/admin{address}")
    return Operator(page).log_in()


def users(page: Page, stack: Stack, take: Take) -> None:
    open_admin_page(page, stack, "#users")
    page.locator(".rows tbody input").nth(1).check()
    page.locator(".rows tbody input").nth(2).check()
    expect(page.locator(".selection-bar")).to_contain_text("2 selected")
    take("admin-users", is_whole=False)


def one_user(page: Page, stack: Stack, take: Take) -> None:
    open_admin_page(page, stack, "#user?name=Bob_001")
    expect(page.locator(".history")).to_contain_text("Griefing")
    page.locator("summary", has_text="Password").click()
    take("admin-user")
    page.get_by_role("button", name="Change ban").click()
    take("admin-ban", is_whole=False)


def bans_and_audits(page: Page, stack: Stack, take: Take) -> None:
    olivia = open_admin_page(page, stack, "#bans")
    expect(page.get_by_text("Banned: 2")).to_be_visible()
    take("admin-bans")
    olivia.go("#audits")
    expect(page.get_by_text("Entries: ")).to_be_visible()
    take("admin-audits")


def sync(page: Page, stack: Stack, take: Take) -> None:
    open_admin_page(page, stack, "#sync")
    page.get_by_role("button", name="Sync now").click()
    expect(page.locator(".held-back")).to_be_visible()
    take("admin-sync")


def mails_and_doctor(page: Page, stack: Stack, take: Take) -> None:
    olivia = open_admin_page(page, stack, "#mails")
    expect(page.get_by_text("No such mailbox").first).to_be_visible()
    take("admin-mails")
    page.route("**/api/admin/doctor*", lambda route: show_where_servers_live(route, stack))
    olivia.go("#doctor")
    page.get_by_role("button", name="Check again").click()  # what was found a minute ago is shown else
    expect(page.get_by_text("DataSource.caching is true.")).to_be_visible()
    take("admin-doctor")


def team_and_invitations(page: Page, stack: Stack, take: Take) -> None:
    olivia = open_admin_page(page, stack, "#invitations")
    page.get_by_role("button", name=olivia.say("invite")).click()
    expect(page.locator(".copyable code")).to_contain_text("#invite=")
    take("admin-invitations")
    olivia.go("#team")
    expect(page.get_by_role("button", name=olivia.say("token_make"))).to_be_visible()
    take("admin-team")
    olivia.go("#server")
    expect(page.get_by_role("button", name="Save").first).to_be_visible()
    take("admin-server")


def applications(page: Page, stack: Stack, take: Take) -> None:
    """What applicants read who were asked something, let in, or rejected."""
    for name, decision, fields in (
        ("asked", "ask", {"question": "Which Bob told you about us?"}),
        ("approved", "approve", {}),
        ("rejected", "reject", {"reason": "Please tell us a little more about you."}),
    ):
        person = stack.pending(name)
        path = path_in_receipt(stack, person)
        stack.decides(decision, person, **fields)
        page.goto("about:blank")
        page.goto(stack.daemon.base_url + path)
        expect(page.locator("#inside ol.stages")).to_be_visible()
        take(f"application-{name}")


def show_where_servers_live(route: Route, stack: Stack) -> None:
    """Replace the temporary folder in the report by a typical one."""
    reply = route.fetch()
    route.fulfill(response=reply, body=reply.text().replace(str(stack.game.directory.parent), "/srv/willow-valley"))


ADMIN_SCENES = (users, one_user, bans_and_audits, sync, mails_and_doctor, team_and_invitations, applications)


def let_in(stack: Stack, name: str) -> Person:
    """Approve a new person whose mails have all arrived: none is dropped because of what happens next."""
    person = stack.pending(name)
    stack.smtp.wait_for_receipt(person.email)
    stack.decides("approve", person)
    stack.smtp.wait_for(person.email, 2)
    return person


@contextmanager
def admin_stack() -> Iterator[Stack]:
    """One where something has happened of everything there is."""
    server = {"name": "Willow Valley", "base_url": "https://play.example.org"}
    config = {"server": server, "sync": {"max_changes": "2 and 1%", "new_players": "approved"}}
    with (
        tempfile.TemporaryDirectory() as directory,
        Stack("sqlite", Path(directory), config=config) as stack,
    ):
        for name in PLAYERS:
            stack.authme.register(name, "players-secret", f"{name.lower()}@example.org")
        stack.sync()
        bob, carol = let_in(stack, "bob"), let_in(stack, "carol")
        in_a_week = datetime.now(UTC) + timedelta(days=7)
        stack.decides("ban", bob, reason="Griefing at spawn", expiresAt=round(in_a_week.timestamp() * 1000))
        stack.decides("ban", carol, reason="X-ray, for the third time.\nWe have warned her twice.")
        alice = stack.pending("alice")
        stack.smtp.refuse(alice.email)
        stack.decides("reject", alice, reason="Please tell us a little more about you.")
        stack.smtp.wait_for_refusal(alice.email)
        stack.pending("dmitri")
        for name in PLAYERS[:4]:
            stack.authme.unregister_from_console(name)
        stack.game.change_authme({"DataSource.caching": True})
        yield stack
