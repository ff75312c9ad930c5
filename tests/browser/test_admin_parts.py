"""The admin page in parts: what comes later may be slow, may be lost on the way, and may be gone after an update."""

import gzip
import json
from collections.abc import Callable
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Stack

INSIDE, REST, LATER = "**/web/admin-1-inside.*", "**/web/admin-2-rest.*", "**/web/admin-3-later.*"
VIEWS = {
    "users": "#users",
    "bans": "#bans",
    "invitations": "#invitations",
    "audits": "#audits",
    "sync": "#sync",
    "mails": "#mails",
    "server": "#server",
    "doctor": "#doctor",
    "team": "#team",
    "user": "#user?name=Olivia",
}
"""The views that come later, and the link to each."""


@pytest.fixture(scope="module", autouse=True)
def _applicants(stack: Stack) -> None:
    for name in ("una", "ugo"):
        assert stack.register(stack.newcomer(name)).status == 201


def losing(pattern: str, status: int | None = None) -> Callable[[Page], None]:
    """Lose the files on the way, or answer with a `status`."""

    def lose(page: Page) -> None:
        page.route(pattern, lambda route: route.fulfill(status=status) if status else route.abort())

    return lose


def open_losing(open_page: OpenPage, prepare: Callable[[Page], None]) -> Operator:
    """Open the queue, whose applicant is shown."""
    page = open_page("/admin", is_olivias=True, may_complain=True, prepare=prepare)
    olivia = Operator(page).expect_logged_in()
    expect(olivia.card.locator("h3")).to_be_visible()
    return olivia


def expect_view(olivia: Operator, view: str) -> None:
    heading = "Olivia" if view == "user" else olivia.say(f"view_{view}")
    expect(olivia.page.locator(".view > h2")).to_have_text(heading)
    expect(olivia.page.locator(".view > .quiet-text:nth-child(2):last-child")).to_have_count(0)  # one moment…
    expect(olivia.page.locator(".view > :nth-child(2)")).to_be_attached()
    expect(olivia.page.locator(".view > [role=alert]")).to_have_count(0)


def test_each_view_by_its_link_while_its_part_is_slow(open_page: OpenPage) -> None:
    held: list[Route] = []
    page = open_page(
        "/admin#users", is_olivias=True, prepare=lambda page: page.route(f"{LATER}js", lambda route: held.append(route))
    )
    olivia = Operator(page).expect_logged_in()
    expect(page.locator(".view > h2")).to_have_text(olivia.say("view_users"))
    expect(page.locator(".view > .quiet-text")).to_have_text(olivia.say("page.common.loading"))
    page.get_by_role("link", name=olivia.say("view_queue")).click()  # it is there already
    expect(olivia.card.locator("h3")).to_be_visible()
    page.keyboard.press("r")
    page.keyboard.press("r")  # the dialog is slow, too, and opens once
    for route in held:
        route.continue_()
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.unroute(f"{LATER}js")
    for view, link in VIEWS.items():
        if view != "user":
            page.get_by_role("navigation").locator(f"a[href='{link}']").click()
            expect_view(olivia, view)
    for view in ("users", "sync", "doctor", "user"):
        olivia.go(VIEWS[view])
        page.reload()
        expect_view(olivia.expect_logged_in(), view)


def test_what_is_lost_on_the_way_is_offered_again(open_page: OpenPage) -> None:
    """Each of the three files, for a view and for a dialog; no decision is lost."""
    olivia = open_losing(open_page, losing(LATER))
    page, unreachable = olivia.page, olivia.say("page.common.unreachable")
    olivia.opener("do_reject", olivia.card).click()
    expect(olivia.notice).to_have_text(unreachable)
    for kind in ("js", "css", "json"):
        page.unroute_all()
        losing(f"{LATER}{kind}*")(page)
        olivia.go("#queue")
        expect(olivia.card).to_be_visible()
        olivia.go("#users")
        expect(page.get_by_role("alert")).to_have_text(unreachable)
        expect(page.get_by_role("button", name=olivia.say("page.common.try_again"))).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name=olivia.say("page.common.try_again")).click()
    expect_view(olivia, "users")
    expect(page.locator(".rows tbody tr").first).to_be_visible()
    olivia.go("#queue")
    expect(olivia.card).to_be_visible()
    olivia.reject()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_the_queue_is_read_and_decided_about_while_the_rest_is_on_its_way(stack: Stack, open_page: OpenPage) -> None:
    """What happens before events are received is not missed."""
    held: list[Route] = []
    people = [stack.newcomer(name) for name in ("zvera", "zvito", "zviola")]
    for person in people:
        assert stack.register(person).status == 201
    vera, vito, viola = (person.name for person in people)
    page = open_page(
        "/admin#queue?search=zv",
        is_olivias=True,
        prepare=lambda page: page.route(f"{REST}js", lambda route: held.append(route)),
    )
    olivia = Operator(page)
    heading = olivia.card.locator("h3")
    expect(heading).to_have_text(vera)
    olivia.card.get_by_role("button", name=olivia.say("do_approve"), exact=True).click()
    expect(heading).to_have_text(vito)
    olivia.show_list()
    olivia.person(viola).click()
    expect(heading).to_have_text(viola)
    expect(olivia.pending_bar).to_have_count(0)
    rejected = {"usernames": [vito], "silent": True}
    assert stack.post("/api/admin/user/reject", rejected, token=stack.admin_token(OPERATOR, OPERATORS_PASSWORD)).json
    for route in held:
        route.continue_()
    olivia.expect_logged_in()
    expect(olivia.pending_bar).to_contain_text(vera)
    expect(olivia.person(vito)).to_have_count(0)
    expect(heading).to_have_text(viola)
    expect(olivia.card.locator(".details")).not_to_contain_text(olivia.say("page.common.loading"))
    olivia.pending_bar.get_by_role("button", name=olivia.say("undo")).first.click()
    expect(heading).to_have_text(vera)


def test_the_rest_is_loaded_again_until_it_is_there(open_page: OpenPage) -> None:
    def prepare(page: Page) -> None:
        page.clock.install()
        losing(REST)(page)

    page = open_page("/admin", is_olivias=True, may_complain=True, prepare=prepare)
    olivia = Operator(page)
    expect(olivia.notice).to_have_text(olivia.say("page.common.unreachable"))
    expect(olivia.card.locator("h3")).to_be_visible()
    page.unroute_all()
    page.clock.run_for(5000)
    olivia.expect_logged_in()
    expect(olivia.notice).to_be_empty()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name=olivia.say("keys_title"))).to_be_visible()


def test_who_is_logged_in_waits_for_nothing_twice(open_page: OpenPage) -> None:
    """The inside is asked for before the page's script is there, and the queue before the inside is."""
    held: dict[str, Route] = {}
    asked: list[str] = []

    def answer(name: str, before: str) -> Callable[[Route], None]:
        def handle(route: Route) -> None:
            asked.append(name)
            if before in held:
                held.pop(before).continue_()
            if name == "queue":
                route.continue_()
            else:
                held[name] = route

        return handle

    def prepare(page: Page) -> None:
        page.route("**/web/admin.*.js", answer("script", ""))
        page.route(f"{INSIDE}js", answer("inside", "script"))
        page.route("**/api/admin/users?*", answer("queue", "inside"))

    olivia = Operator(open_page("/admin", is_olivias=True, prepare=prepare)).expect_logged_in()
    expect(olivia.card.locator("h3")).to_be_visible()
    assert asked[:3] == ["script", "inside", "queue"]
    assert set(asked[3:]) <= {"queue"}  # once more: it may have changed before events were received


def test_after_an_update_the_page_asks_to_be_reloaded(open_page: OpenPage) -> None:
    olivia = open_losing(open_page, losing(LATER, status=404))
    page = olivia.page
    olivia.reject()
    expect(olivia.notice).to_have_text(olivia.say("page.common.page_outdated"))
    olivia.go("#bans")
    expect(page.get_by_role("alert")).to_have_text(olivia.say("page.common.page_outdated"))
    page.unroute_all()  # the files of the page as it is now
    page.get_by_role("button", name=olivia.say("reload")).click()
    expect_view(olivia.expect_logged_in(), "bans")


def test_a_login_whose_inside_is_lost_can_be_sent_again(open_page: OpenPage) -> None:
    page = open_page("/admin", may_complain=True, prepare=losing(INSIDE))
    olivia = Operator(page)
    olivia.submit_login()
    expect(olivia.notice).to_have_text(olivia.say("page.common.unreachable"))
    page.unroute_all()
    page.get_by_role("button", name=olivia.say("page.common.log_in")).click()
    expect(olivia.expect_logged_in().card.locator("h3")).to_be_visible()
    losing(INSIDE)(page)
    page.reload()
    expect(olivia.notice).to_have_text(olivia.say("page.common.unreachable"))
    page.unroute_all()
    page.get_by_role("button", name=olivia.say("page.common.try_again")).click()
    expect(olivia.expect_logged_in().card.locator("h3")).to_be_visible()


def test_a_session_that_ended_meanwhile_leads_to_the_login(open_page: OpenPage) -> None:
    page = open_page("/admin", may_complain=True)
    olivia = Operator(page)
    login = {"token": "no.longer.valid", "username": OPERATOR, "isAdmin": True}
    page.evaluate("login => { sessionStorage['companion.admin'] = login }", json.dumps(login))
    page.reload()
    expect(olivia.notice).to_have_text(olivia.say("page.common.login_ended"))
    expect(olivia.log_in().card.locator("h3")).to_be_visible()


def test_long_replies_to_the_team_are_compressed_for_those_who_take_it(stack: Stack) -> None:
    token = stack.admin_token(OPERATOR, OPERATORS_PASSWORD)

    def get(path: str, **headers: str) -> tuple[str, bytes]:
        every = {"Authorization": f"Bearer {token}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        with urlopen(Request(f"{stack.daemon.base_url}/api/{path}", headers=every)) as reply:
            content: bytes = reply.read()
            assert int(reply.headers["Content-Length"]) == len(content)
            return reply.headers.get("Content-Encoding", ""), content

    kind, plain = get("admin/users?status=pending")
    assert (kind, json.loads(plain)["success"]) == ("", True)
    kind, packed = get("admin/users?status=pending", Accept_Encoding="gzip, br")
    assert (kind, gzip.decompress(packed)) == ("gzip", plain)
    assert len(packed) < len(plain) / 2
    assert get("admin/users?status=pending", Accept_Encoding="gzip;q=0") == ("", plain)
    assert get("admin/verify", Accept_Encoding="gzip")[0] == ""  # too short
    assert get("config", Accept_Encoding="gzip")[0] == ""  # asked by everybody, and ready
