"""The scenes of `make pictures` that show the views of the operators' page beside the queue."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.browser.operator import Operator
from tests.support.stack import Village

Take = Callable[..., None]

PLAYERS = ("Wanda", "Xaver", "Yusuf", "Zoe", "Pavel", "Quirin", "Rosa", "Samir", "Tilda", "Ulrich")


def at_desk(page: Page, place: Village, address: str) -> Operator:
    page.goto(f"{place.daemon.base_url}/admin{address}")
    return Operator(page).come_in()


def users(page: Page, place: Village, take: Take) -> None:
    at_desk(page, place, "#users")
    page.locator(".rows tbody input").nth(1).check()
    page.locator(".rows tbody input").nth(2).check()
    expect(page.locator(".choice-bar")).to_contain_text("Chosen: 2")
    take("admin-users", is_whole=False)


def one_user(page: Page, place: Village, take: Take) -> None:
    at_desk(page, place, "#user?name=Bob_1")
    expect(page.locator(".history")).to_contain_text("Griefing")
    page.locator("summary", has_text="Password").click()
    take("admin-user")
    page.get_by_role("button", name="Change the ban").click()
    take("admin-ban", is_whole=False)


def bans_and_audits(page: Page, place: Village, take: Take) -> None:
    desk = at_desk(page, place, "#bans")
    expect(page.get_by_text("Banned: 2")).to_be_visible()
    take("admin-bans")
    desk.go("#audits")
    expect(page.get_by_text("Entries: ")).to_be_visible()
    take("admin-audits")


def sync(page: Page, place: Village, take: Take) -> None:
    at_desk(page, place, "#sync")
    page.get_by_role("button", name="Sync now").click()
    expect(page.locator(".brake")).to_be_visible()
    take("admin-sync")


def mails_and_doctor(page: Page, place: Village, take: Take) -> None:
    desk = at_desk(page, place, "#mails")
    expect(page.get_by_text("No such mailbox")).to_be_visible()
    take("admin-mails")
    page.route("**/api/admin/doctor*", lambda route: show_where_servers_live(route, place))
    desk.go("#doctor")
    expect(page.get_by_text("DataSource.caching is true.")).to_be_visible()
    take("admin-doctor")


def show_where_servers_live(route: Route, place: Village) -> None:
    """The folder that the picture was taken in is nobody's business."""
    reply = route.fetch()
    route.fulfill(response=reply, body=reply.text().replace(str(place.game.directory.parent), "/srv/willow-valley"))


ADMIN_SCENES = (users, one_user, bans_and_audits, sync, mails_and_doctor)


@contextmanager
def admin_village() -> Iterator[Village]:
    """One where something has happened of everything there is."""
    server = {"name": "Willow Valley", "base_url": "https://play.example.org"}
    config = {"server": server, "sync": {"max_changes": "2 and 1%", "new_players": "approved"}}
    with (
        tempfile.TemporaryDirectory() as directory,
        Village("sqlite", Path(directory), config=config) as village,
    ):
        for name in PLAYERS:
            village.authme.register(name, "players-secret", f"{name.lower()}@example.org")
        village.sync()
        bob, carol = village.approved("bob"), village.approved("carol")
        in_a_week = datetime.now(UTC) + timedelta(days=7)
        village.decides("ban", bob, reason="Griefing at spawn", expiresAt=round(in_a_week.timestamp() * 1000))
        village.decides("ban", carol, reason="X-ray, for the third time.\nWe have warned her twice.")
        alice = village.pending("alice")
        village.smtp.refuse(alice.email)
        village.decides("reject", alice, reason="Please tell us a little more about you.")
        village.smtp.wait_for_refusal(alice.email)
        village.pending("dmitri")
        for name in PLAYERS[:4]:
            village.authme.unregister_from_console(name)
        village.game.change_authme({"DataSource.caching": True})
        yield village
