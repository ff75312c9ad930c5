"""`/application` in a browser: applicants follow their applications by a private link, without a password."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import lose_answers, path_in_receipt
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator
from tests.support.questions import BUILD, TALK, WORDS, applies, asking, token_for
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until

ADDRESS = "play.willow.example"
HOLD_EVENTS_BACK = """
  window.arrived = "";
  window.hold = () => {
    window.arrived = "";
    window.gate = new Promise((resolve) => { window.release = resolve });
  };
  const deliver = async (body, controller) => {
    const decoder = new TextDecoder();
    let delivered = Promise.resolve();
    for await (const chunk of body) {
      window.arrived += decoder.decode(chunk, { stream: true });
      delivered = delivered.then(() => window.gate).then(() => controller.enqueue(chunk));
    }
    await delivered;
    controller.close();
  };
  const send = window.fetch;
  window.fetch = async (...request) => {
    const response = await send(...request);
    if (!response.url.endsWith("/events")) {
      return response;
    }
    const start = (controller) => {
      deliver(response.body, controller).catch((error) => controller.error(error));
    };
    return new Response(new ReadableStream({ start }), response);
  };
"""
"""From `hold()` to `release()` events arrive at the browser but not at the page; `arrived` is the text of those."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("stack")
    config = {
        **asking(directory, retry_after="0 seconds"),
        "game": {"address": ADDRESS},
        "registration": {"reapply_after": "0 seconds"},
    }
    with Stack("sqlite", directory / "stack", config=config) as stack:
        yield stack


def apply(stack: Stack, name: str) -> tuple[Person, str]:
    """Return a new applicant and the path of their application's page, out of the receipt."""
    person = stack.newcomer(name)
    reply = applies(stack, person, token_for(stack, TALK | BUILD | WORDS))
    assert reply.status == 201, reply.text
    path = path_in_receipt(stack, person)
    assert path.endswith(reply.json["applicationToken"])
    return person, path


def refuse_stream(route: Route) -> None:
    """Answer as if there were too many streams already; the page then asks instead."""
    refusal = {"success": False, "code": "too_many_streams", "message": "Too many.", "remainingSeconds": 1}
    route.fulfill(status=429, headers={"Retry-After": "1"}, json=refusal)


def without_events(page: Page) -> None:
    page.route("**/api/application/events*", refuse_stream)


def change_answers(stack: Stack, path: str, text: str) -> None:
    """Change the text in the answers of an application, whose page has this path."""
    answers = TALK | BUILD | {"9": {"type": "text", "textAnswer": text}}
    headers = {"X-Application-Token": path.partition("token=")[2]}
    assert stack.post("/api/application/answers", {"answers": answers}, headers=headers).status == 200


def expect_usable(page: Page) -> None:
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)


def test_alice_follows_her_application_until_she_is_in(stack: Stack, open_page: OpenPage) -> None:
    """The link in the mail opens it in any browser, and the open page turns with the decision."""
    bob, _ = apply(stack, "bob")
    alice, path = apply(stack, "alice")
    page = open_page(path, size="phone", dark=True)
    status = page.get_by_role("status")
    expect(status).to_contain_text("received your application")
    expect(page.get_by_text("number 2 of 2")).to_be_visible()
    page.get_by_text("Your answers").click()
    expect_usable(page)
    page.reload()
    expect(status).to_contain_text("received your application")
    expect(page.get_by_text("Up to date at")).to_be_visible()
    icon = page.locator("link[rel=icon]")
    before = icon.get_attribute("href")
    stack.decides("reject", bob)
    expect(page.get_by_text("You’re next in line.")).to_be_visible()
    stack.decides("approve", alice)
    expect(status).to_contain_text("You’re in")
    assert icon.get_attribute("href") != before
    expect(page.get_by_role("heading", name="How to join")).to_be_visible()
    expect(page.get_by_text("The game server is not running at the moment.")).to_be_visible()
    expect(page.locator(".confetti")).to_be_attached()
    expect_usable(page)
    page.reload()
    expect(page.locator(".welcome")).to_be_visible()
    expect(page.locator(".confetti")).to_have_count(0)
    stack.post("/api/user/delete", {"password": alice.password}, token=stack.user_token(alice))


def test_rick_edits_his_answers_and_applies_again(stack: Stack, open_page: OpenPage) -> None:
    rick, path = apply(stack, "rick")
    page = open_page(path, may_complain=True, prepare=without_events)
    page.get_by_text("Your answers").click()
    page.get_by_role("button", name="Edit answers").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Edit answers")).to_be_focused()
    page.get_by_role("button", name="Edit answers").click()
    expect(page.get_by_label("Talk")).to_be_checked()
    expect(page.get_by_label("Building")).to_be_checked()
    expect(page.get_by_label("Why here?")).to_have_value("I like it.")
    expect_usable(page)
    page.get_by_role("button", name="Save answers").click()  # the same ones
    expect(page.get_by_role("status")).to_contain_text("Your answers were saved.")
    page.get_by_role("button", name="Edit answers").click()
    page.get_by_label("Why here?").fill("Hm.")
    page.get_by_role("button", name="Save answers").click()
    expect(page.get_by_text("Please write at least 5 characters.")).to_be_visible()
    page.get_by_label("Why here?").fill("I want to build.")
    page.get_by_label("Fight").check()
    page.get_by_role("button", name="Save answers").click()
    expect(page.get_by_role("status")).to_contain_text("0 points; you need 60")
    page.get_by_label("Talk").check()
    lose_answers(page, "application/answers", 1)
    page.get_by_role("button", name="Save answers").click()
    expect(page.locator("dd", has_text="I want to build.")).to_be_visible()  # the page looks by itself
    expect(page.get_by_role("button", name="Edit answers")).to_be_visible()

    page.reload()
    expect(page.get_by_text("I want to build.")).to_be_attached()
    stack.decides("reject", rick, reason="Too short.")
    expect(page.get_by_role("status")).to_contain_text("can’t accept your application")
    rejection = page.locator(".panel")
    expect(rejection).to_contain_text("Too short.")
    expect(rejection.get_by_role("link", name="Apply again")).to_be_visible()
    expect_usable(page)
    page.get_by_role("link", name="Apply again").click()
    expect(page.get_by_label("Minecraft username")).to_have_value(rick.name)
    expect(page.get_by_label("Building")).to_be_checked()
    page.get_by_label("Why here?").fill("I will build walls.")
    expect_usable(page)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("status")).to_contain_text("received your application")
    page.goto(f"{stack.daemon.base_url}{path}")  # that of the first application
    expect(page.get_by_role("status")).to_contain_text("This link no longer works")
    expect_usable(page)


def test_nobody_is_approved_with_answers_that_were_not_read(stack: Stack, open_page: OpenPage) -> None:
    alice, path = apply(stack, "alice")

    def prepare(page: Page) -> None:
        page.clock.install()
        page.add_init_script(HOLD_EVENTS_BACK)

    page = open_page(f"/admin#queue?name={alice.name}", may_complain=True, prepare=prepare)
    olivia = Operator(page).log_in()
    expect(olivia.card.get_by_role("heading", name=alice.name)).to_be_visible()
    expect(olivia.card).to_contain_text("Building")

    # Olivia has decided, but it is not sent yet
    page.keyboard.press("a")
    expect(olivia.pending_bar).to_contain_text(f"Approve {alice.name}")
    change_answers(stack, path, "Cheats for all")
    expect(olivia.notice).to_contain_text(f"{alice.name} has changed the answers. Your decision was not sent")
    expect(olivia.pending_bar).to_be_hidden()
    page.clock.run_for(15_000)
    assert stack.user(alice)["status"] == "pending"

    # Olivia reads them
    olivia.person(alice.name).click()
    expect(olivia.card).to_contain_text("Cheats for all")
    change_answers(stack, path, "Cheats for me")
    expect(olivia.notice).to_have_text(f"{alice.name} has just changed these answers.")
    expect(olivia.card).to_contain_text("Cheats for me")
    olivia.go(f"#user?name={alice.name}")
    expect(page.get_by_text("Cheats for me")).to_be_visible()
    change_answers(stack, path, "Cheats for us")
    expect(olivia.notice).to_have_text(f"{alice.name} has just changed these answers.")
    expect(page.get_by_text("Cheats for us")).to_be_visible()
    olivia.go(f"#queue?name={alice.name}")
    expect(olivia.card.get_by_role("heading", name=alice.name)).to_be_visible()

    # the network was away, and the decision arrives before what has happened meanwhile
    page.context.set_offline(True)
    page.keyboard.press("a")
    page.clock.run_for(11_000)
    expect(olivia.pending_bar).to_contain_text("could not be reached")
    change_answers(stack, path, "Cheats for you")
    page.context.set_offline(False)
    expect(olivia.notice).to_contain_text(f"{alice.name} changed the answers just before the decision")

    # the event was sent before the decision, and arrives after it
    bob, path = apply(stack, "bob")
    ask_until(lambda: page.evaluate("arrived"), lambda text: f'"username":"{bob.name}"' in text)
    olivia.go(f"#queue?name={bob.name}")
    expect(olivia.card.get_by_role("heading", name=bob.name)).to_be_visible()
    page.keyboard.press("a")
    expect(olivia.pending_bar).to_contain_text(f"Approve {bob.name}")
    page.evaluate("hold()")
    change_answers(stack, path, "Cheats for them")
    ask_until(lambda: page.evaluate("arrived"), lambda text: "user_answers_changed" in text)
    olivia.pending_bar.get_by_role("button", name="Send now").click()
    expect(olivia.pending_bar).to_be_hidden()
    assert stack.user(bob)["status"] == "approved"
    page.evaluate("release()")
    expect(olivia.notice).to_contain_text(f"{bob.name} changed the answers just before the decision")
