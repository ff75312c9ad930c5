"""Captchas in a browser. The process is this one, because only here the right answer can be looked up."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from regsvc.core.email_address import parse_email
from regsvc.database.models import User
from regsvc.web.pages import OWN_PAGES, PAGES
from tests.browser.applicant import expect_received, expect_unsure, lose_answers, press_register
from tests.browser.conftest import OpenPage
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.captchas import answer_to
from tests.support.live_api import LiveApi
from tests.support.manual_clock import ManualClock
from tests.support.services import CALLER, PASSWORD, ServiceHarness, open_services
from tests.support.watching import ask_until


@pytest.fixture
def settings() -> Mapping[str, object]:
    return {"registration__methods": ["email", "captcha"], "captcha__also_for": ["verify_send", "login", "forgot"]}


class Reader:
    """A player who always reads the pictures of a page correctly."""

    def __init__(self, page: Page, services: ServiceHarness) -> None:
        self.page = page
        self.pictures = 0
        self._services = services
        self._token = ""

    @contextmanager
    def sees_another(self) -> Iterator[None]:
        """Wait for the new picture that the block causes."""
        with self.page.expect_response("**/captcha/generate*") as response:
            yield
        captcha = response.value.json()
        self._token = captcha["token"]
        self.pictures += 1
        # once it is there, the timer of its successor runs and what was typed is gone
        expect(self.page.get_by_role("img", name="Captcha picture")).to_have_attribute("src", captcha["image"])
        expect(self.page.get_by_label("Result of the sum")).to_have_value("")

    def answers(self, *, wrong: bool = False) -> None:
        text = "wrong" if wrong else answer_to(self._services.app, self._token)
        self.page.get_by_label("Result of the sum").fill(text)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name).click()


@pytest.fixture
def reader(open_page: OpenPage, services: ServiceHarness, address: str) -> Reader:
    return Reader(open_page("/server", at=address, may_complain=True), services)


def test_every_door_asks_and_a_right_answer_opens_it(reader: Reader, services: ServiceHarness, address: str) -> None:
    page = reader.page
    with reader.sees_another():
        page.goto(f"{address}/register")
    page.get_by_label("E-mail address").fill("alice@example.org")
    reader.answers(wrong=True)
    with reader.sees_another():
        reader.press("Next")
    expect(page.get_by_text("The captcha answer is wrong")).to_be_visible()
    with reader.sees_another():
        reader.press("New picture")
    reader.answers()
    reader.press("Next")

    with reader.sees_another():
        page.get_by_label("Verification code").fill(code_for(services, "alice@example.org"))
    services.authme.register("mallory", PASSWORD)  # whom only the game knows
    page.get_by_label("Minecraft username").fill("Mallory")
    reader.answers()
    reader.press("Register")
    expect(page.get_by_text("This name is already taken.")).to_be_visible()
    page.get_by_label("Minecraft username").fill("Alice")
    reader.press("Register")  # the answer is still good
    expect_received(page)
    assert reader.pictures == 4


def test_lost_answers_cost_neither_a_picture_nor_an_application(
    reader: Reader, services: ServiceHarness, address: str
) -> None:
    """The request for the code, which has spent its captcha, and then the registration, three times."""
    page = reader.page
    with reader.sees_another():
        page.goto(f"{address}/register")
    page.get_by_label("E-mail address").fill("alice@example.org")
    reader.answers()
    lose_answers(page, "verify/send", 1)
    reader.press("Next")
    expect_unsure(page)
    with reader.sees_another():
        reader.press("Next")
        expect(page.get_by_text("We’ve sent an e-mail to alice@example.org")).to_be_visible()
        page.get_by_label("Verification code").fill(code_for(services, "alice@example.org"))
    page.get_by_label("Minecraft username").fill("Alice")
    reader.answers()
    press_register(page)
    reader.press("Register")
    expect_received(page)
    assert reader.pictures == 2
    assert [user.username for user in User.select()] == ["Alice"]


def test_a_picture_is_replaced_before_it_expires(reader: Reader, address: str) -> None:
    page = reader.page
    page.clock.install()
    with reader.sees_another():
        page.goto(f"{address}/register")
    with reader.sees_another():
        page.clock.fast_forward(291_000)
    with reader.sees_another():
        page.clock.fast_forward(291_000)


def test_the_login_asks_too(reader: Reader, services: ServiceHarness, address: str) -> None:
    services.authme.register("bob", PASSWORD)
    page = reader.page
    with reader.sees_another():
        page.goto(f"{address}/account")
    page.get_by_label("Name or e-mail address").fill("bob")
    for password, wrong in (("no", False), (PASSWORD, True)):
        page.get_by_label("Password").fill(password)
        reader.answers(wrong=wrong)
        with reader.sees_another():
            reader.press("Log in")
    reader.answers()
    reader.press("Log in")
    expect(page.get_by_role("heading", name="bob")).to_be_visible()


def test_a_forgotten_password_asks_too(reader: Reader, services: ServiceHarness, address: str) -> None:
    services.authme.register("Alice", PASSWORD, email="alice@example.org")
    services.sync()
    page = reader.page
    with reader.sees_another():
        page.goto(f"{address}/forgot-password")
    page.get_by_label("E-mail address").fill("alice@example.org")
    reader.answers(wrong=True)
    with reader.sees_another():
        reader.press("Send link")
    expect(page.get_by_text("The captcha answer is wrong")).to_be_visible()
    reader.answers()
    reader.press("Send link")
    ask_until(lambda: services.mails("Alice"), lambda mails: mails == ["reset_password"])


# R63
def test_a_captcha_saves_the_wait_while_others_guess(
    game_server: GameServer, authme_table: AuthMeTable, tmp_path: Path, open_page: OpenPage
) -> None:
    given = {"auth__login_limits": ["100 per minute"]}
    services = open_services(game_server, authme_table, ManualClock(), tmp_path / "state", **given)
    services.authme.register("bob", PASSWORD)
    with LiveApi(services.app.features, pages=[*PAGES, *OWN_PAGES]) as api:
        for _guess in range(6):
            api.request("POST", "/api/login", {"username": "bob", "password": "a guess"})
        page = open_page("/account", at=f"http://127.0.0.1:{api.port}", may_complain=True)
        reader = Reader(page, services)
        page.get_by_label("Name or e-mail address").fill("bob")
        page.get_by_label("Password").fill(PASSWORD)
        expect(page.get_by_label("Result of the sum")).to_be_hidden()
        with reader.sees_another():
            reader.press("Log in")
        expect(page.get_by_text("Solve the captcha to log in without waiting")).to_be_visible()
        reader.answers()
        reader.press("Log in")
        expect(page.get_by_role("heading", name="bob")).to_be_visible()
    services.close()


def code_for(services: ServiceHarness, email: str) -> str:
    """The digits on their way to this address."""
    codes = services.app.codes
    issued = codes.find_sendable(codes.issue(parse_email(email).key, "register", CALLER))
    assert issued is not None
    return codes.code_of(issued)
