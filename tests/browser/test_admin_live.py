"""`/admin` while others work beside Olivia: what happens elsewhere is seen, and who was faster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.conftest import OpenPage
from tests.browser.operator import Operator, box_of, open_queue
from tests.support.applicants import insert_applicants
from tests.support.operators import Operators
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory: Path = tmp_path_factory.mktemp("live")
    with Stack("sqlite", directory) as stack:
        yield stack


def away(route: Route) -> None:
    refusal = {"success": False, "code": "database_away", "message": "Away."}
    route.fulfill(status=503, headers={"Retry-After": "1"}, json=refusal)


def lose_the_answer(route: Route) -> None:
    """Answer as a proxy whose connection broke; the next try is after the story."""
    route.fulfill(status=502, headers={"Retry-After": "900"}, body="")


def test_what_others_do_is_seen_at_once(stack: Stack, open_page: OpenPage) -> None:
    oscar = Operators(stack).new("oscar")
    oscars = stack.admin_token(oscar.name, oscar.password)

    def oscar_decides(transition: str, person: Person, **fields: object) -> None:
        body = {"username": person.name, **fields}
        assert stack.post(f"/api/admin/user/{transition}", body, token=oscars).status == 200

    alice, bob, carla = (stack.pending(name) for name in ("alice", "bob", "carla"))
    page = open_page("/admin", may_complain=True)
    page.route("**/events", lambda route: route.abort())
    olivia = Operator(page).log_in(is_live=False)
    expect(olivia.card.get_by_role("heading", name=alice.name)).to_be_visible()
    # without a stream, new applicants appear when the list can be loaded again; the newest is last
    expect(page.locator(".count")).to_have_text("3")
    dora = stack.pending("dora")
    page.route("**/api/admin/users?*", away, times=1)
    page.unroute("**/events")
    expect(olivia.notice).to_have_text("Away.")
    expect(page.locator(".applicants li").last).to_contain_text(dora.name)
    expect(olivia.notice).to_be_empty()
    expect(page.locator(".count")).to_have_text("4")

    # an applicant about whom another operator decided leaves the list, with a notice that moves nothing
    place = box_of(olivia.person(alice.name))
    oscar_decides("approve", carla)
    expect(olivia.notice).to_have_text(f"{oscar.name} already decided: {carla.name} is approved.")
    expect(olivia.person(carla.name)).to_have_count(0)
    assert box_of(olivia.person(alice.name)) == place
    oscar_decides("ban", alice, reason="Griefing")
    expect(olivia.notice).to_have_text(f"{oscar.name} already decided: {alice.name} is banned.")
    expect(olivia.card.get_by_role("heading", name=bob.name)).to_be_visible()

    # faster than Olivia, whose decision still waits
    page.keyboard.press("a")
    expect(olivia.pending_bar).to_contain_text(f"Approve {bob.name}")
    oscar_decides("reject", bob, reason="No")
    expect(olivia.notice).to_contain_text(f"{oscar.name} already decided: {bob.name} is rejected.")
    expect(olivia.pending_bar).to_be_hidden()

    # a decision of her own whose answer was lost is known by its event
    expect(olivia.card.get_by_role("heading", name=dora.name)).to_be_visible()
    page.route("**/api/admin/user/approve", lose_the_answer, times=1)
    page.keyboard.press("a")
    page.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_contain_text("we don’t know whether it arrived")
    expect(olivia.pending_bar).to_contain_text("Next try")
    assert find_serious_faults(page, [".pending-bar"]) == []
    stack.decides("approve", dora)
    expect(olivia.pending_bar).to_be_hidden()
    expect(olivia.notice).to_have_text(f"{olivia.name} already decided: {dora.name} is approved.")

    # the stream breaks, and what happened meanwhile is seen all the same
    stack.daemon.stop()
    expect(page.locator(".live")).to_have_text("Not live")
    stack.daemon.start()
    erin = stack.pending("erin")
    expect(olivia.person(erin.name)).to_be_visible()
    expect(page.locator(".live")).to_have_text("Live")
    assert stack.status(bob) == "rejected"


def test_a_lost_network_is_noticed_at_once(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/admin", may_complain=True, size="desktop", language="en")
    olivia = Operator(page, language="en").log_in()
    page.context.set_offline(True)
    expect(page.locator(".live")).to_have_text(olivia.say("not_live"))
    frank = stack.pending("frank")
    olivia.go("#bans")
    olivia.go("#queue")  # which cannot be loaded, until the network is back
    expect(page.get_by_role("button", name=olivia.say("page.common.try_again"))).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator(".live")).to_have_text(olivia.say("live"))
    olivia.show_list()
    expect(olivia.person(frank.name)).to_be_visible()


def test_a_ban_arrives_in_another_window_and_a_right_may_be_lost(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.approved("bob")
    operators = Operators(stack)
    oscar = operators.new("oscar")
    first_page = open_page("/admin#bans", may_complain=True, is_olivias=True)  # it may be loading while she logs out
    first = Operator(first_page).expect_logged_in()
    second_page = open_page("/admin#bans", size="phone", may_complain=True)
    second = Operator(second_page, oscar.name, oscar.password).log_in()
    first.go(f"#user?name={bob.name}")
    expect(first.page.get_by_role("heading", name=bob.name)).to_be_visible()
    stack.decides("ban", bob, reason="<b>Griefing</b>")
    expect(second.page.get_by_text(bob.name).first).to_be_visible()
    expect(second.page.get_by_text("<b>Griefing</b>").first).to_be_visible()
    first.page.get_by_role("button", name="Log out").click()
    expect(first.notice).to_have_text("You are logged out.")

    # a former operator is logged out, and may log in again once they are an operator again
    other_session = stack.admin_token(oscar.name, oscar.password)
    operators.dismiss(oscar)
    ask_until(lambda: stack.get("/api/admin/verify", token=other_session).status, lambda status: status == 401)
    second.go("#queue")
    expect(second.notice).to_have_text("You’ve been logged out. Please log in again.")
    operators.appoint(oscar)
    second.log_in()
    expect(second.page.locator(".queue")).to_be_visible()


def test_an_operators_name_is_marked_before_it_is_approved(stack: Stack, open_page: OpenPage) -> None:
    """Another player may have registered it in the game, and would be an admin."""
    [bob] = insert_applicants(stack, 1)
    otto = stack.newcomer("otto")
    Operators(stack).appoint(otto)
    stack.authme.register(otto.name, otto.password)
    stack.sync()
    olivia = open_queue(open_page)
    expect(olivia.person(otto.name).locator(".badge").first).to_have_text("Operator")
    expect(olivia.person(bob).locator(".badge", has_text="Operator")).to_have_count(0)
    olivia.person(otto.name).click()
    expect(olivia.card).to_contain_text("the player who registered it can use the admin area")
    assert find_serious_faults(olivia.page, [".applicants", ".applicant"]) == []
    olivia.go(f"#users?search={otto.name}")
    expect(olivia.page.locator("table .badge", has_text="Operator")).to_be_visible()


def test_olivia_says_which_password_counts(stack: Stack, open_page: OpenPage) -> None:
    """Bob and Carol were unregistered in the game and registered there again; Carol had never been approved."""
    bob, carol = stack.approved("bob"), stack.newcomer("carol")
    stack.authme.register(carol.name, carol.password)
    stack.sync()
    for person in (bob, carol):
        stack.authme.unregister_from_console(person.name)
        stack.authme.register(person.name, "the-new-one")
    stack.sync()
    olivia = open_queue(open_page, may_complain=True)
    page, dialog = olivia.page, olivia.page.get_by_role("dialog")
    olivia.go(f"#user?name={bob.name}")
    expect(page.locator(".badges")).to_contain_text("Reappeared")
    page.keyboard.press("a")
    expect(dialog.get_by_role("heading")).to_have_text(f"Which password counts for {bob.name}?")
    assert find_serious_faults(page, ["dialog"]) == []
    page.keyboard.press("Escape")
    expect(olivia.pending_bar).to_be_hidden()
    page.keyboard.press("a")
    button = dialog.get_by_role("button", name="Keep the old one")
    button.focus()
    page.keyboard.press("Enter")
    expect(olivia.pending_bar).to_contain_text(f"Approve {bob.name}")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(page.locator(".badges")).to_contain_text("Linked")
    assert stack.authme.login(bob.name, bob.password)

    olivia.go(f"#queue?name={carol.name}")
    expect(olivia.card).to_contain_text(carol.name)
    olivia.approve()
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    olivia.pending_bar.get_by_role("button", name="Choose the password…").click()
    dialog.get_by_role("button", name="Take the new one").click()
    expect(olivia.pending_bar).to_contain_text("Take the new one")
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_be_hidden()
    assert stack.authme.login(carol.name, "the-new-one")
