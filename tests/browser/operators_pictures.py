"""The scenes of `make pictures` that show the operators' page."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.operator import Operator, standing_clock
from tests.support.questions import applies, token_for
from tests.support.stack import NO_LIMIT, Person, Stack

Take = Callable[..., None]

A_MOMENT = 1000  # milliseconds; what is shown after a key is loaded then
READ = 2000  # milliseconds, after which a text for screen readers alone is gone

QUESTIONS = """
[[question]]
id = 1
type = "single_choice"
text = "Another player has built right beside your house. What do you do?"
[[question.option]]
text = "I talk to them"
score = 40
[[question.option]]
text = "I tear it down"
score = -20

[[question]]
id = 2
type = "multiple_choice"
required = false
text = "What is allowed here?"
max_selections = 3
[[question.option]]
text = "Building together"
score = 20
[[question.option]]
text = "X-ray texture packs"
score = -40
[[question.option]]
text = "Trading"
score = 20

[[question]]
id = 3
type = "text"
text = "Why do you want to play here?"
min_length = 5
max_length = 400
multiline = true
max_score = 20
"""

BUILDER = "A friend of mine plays here, and I liked the harbour she showed me.\nI mostly build: bridges, if I may."


def operators_page(page: Page, stack: Stack, address: str = "") -> Operator:
    page.goto(f"{stack.daemon.base_url}/admin{address}")
    return Operator(page).log_in()


def operators_login(page: Page, stack: Stack, take: Take) -> None:
    page.goto(f"{stack.daemon.base_url}/admin")
    expect(page.get_by_label("Password")).to_be_visible()
    take("admin-login")


def review_queue(page: Page, stack: Stack, take: Take) -> None:
    page.clock.install()
    olivia = operators_page(page, stack)
    expect(olivia.card).to_be_visible()  # keys do nothing before the queue is there
    page.keyboard.press("j")
    expect(olivia.card.get_by_text("bridges, if I may")).to_be_visible()
    expect(olivia.card.locator(".history")).to_be_visible()
    take("admin-queue", is_whole=False)
    standing_clock(page)  # nothing is sent meanwhile
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.clock.run_for(A_MOMENT)
    page.keyboard.press("r")
    expect(page.get_by_role("dialog")).to_be_visible()
    take("admin-queue-reject", is_whole=False)
    page.keyboard.press("Enter")
    page.clock.run_for(A_MOMENT)
    expect(olivia.pending_bar).to_contain_text("Pending: 2")
    take("admin-queue-undo", is_whole=False)
    page.keyboard.press("u")
    page.keyboard.press("u")
    page.clock.run_for(READ)
    if page.locator(".card-pager").is_visible():
        page.locator(".card-pager button").nth(1).click()
    page.locator(".applicants input").nth(3).check()
    page.locator(".applicants input").nth(4).check()
    take("admin-queue-many", is_whole=False)


OPERATORS_SCENES = (operators_login, review_queue)


@contextmanager
def operators_stack() -> Iterator[Stack]:
    """Open a stack with several applicants, one of whom was rejected before."""
    with ExitStack() as exit_stack:
        directory = Path(exit_stack.enter_context(tempfile.TemporaryDirectory()))
        file = directory / "questions.toml"
        file.write_text(QUESTIONS, encoding="utf-8")
        config: dict[str, dict[str, Any]] = {
            "questionnaire": {"file": str(file), "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT},
            "server": {"name": "Willow Valley"},
        }
        stack = exit_stack.enter_context(Stack("sqlite", directory / "stack", config=config))
        fill_queue(stack)
        yield stack


def fill_queue(stack: Stack) -> None:
    apply(stack, stack.newcomer("alice"), "I want to build a farm.")
    bob = apply(stack, stack.newcomer("bob"), "dunno lol")
    stack.decides("reject", bob, reason="Please tell us a little more about you.")
    apply(stack, replace(stack.newcomer("bobby"), email=bob.email), BUILDER)
    for name in ("carla", "dmitri", "emma", "farid", "greta", "hugo", "ines", "jonas"):
        apply(stack, stack.newcomer(name), f"I am {name.capitalize()}, and I like mines.")


def apply(stack: Stack, person: Person, words: str) -> Person:
    answers = {
        "1": {"selectedOptionIds": [0]},
        "2": {"selectedOptionIds": [0, 2]},
        "3": {"textAnswer": words},
    }
    reply = applies(stack, person, token_for(stack, answers))
    assert reply.status == 201, reply.text
    return person
