"""Linking a chat account in a browser: our cookie, the platform's page, and `/chat-linked` at the end of the way."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.browser.conftest import SIZES, is_wider_than_the_screen
from tests.support.chat_stack import ChatStack
from tests.support.peers.oauth_platform import ChatPerson
from tests.support.peers.oauth_server import OAuthServer
from tests.support.stack import Stack

ALICE = ChatPerson("80351110224678912", "alice.chat")


@pytest.fixture(scope="module")
def chat_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatStack]:
    with OAuthServer() as provider:
        provider.join(ALICE)
        with Stack("sqlite", tmp_path_factory.mktemp("stack"), config={"chat": provider.config()}) as stack:
            yield ChatStack(stack, provider)


def open_context(browser: Browser, chat_stack: ChatStack, *, agrees: bool = True, **options: object) -> BrowserContext:
    """A fresh browser; `agrees`: it is logged in on the platform as Alice."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    if agrees:
        context.add_cookies([{"name": "account", "value": ALICE.id, "url": chat_stack.provider.address}])
    return context


def begin(page: Page, chat_stack: ChatStack) -> str:
    """The platform's address, asked for by the browser itself."""
    page.goto(f"{chat_stack.stack.daemon.base_url}/api/chat/auth")
    auth_url: str = json.loads(page.inner_text("body"))["authUrl"]
    return auth_url


def test_alice_goes_to_the_platform_and_comes_back(browser: Browser, chat_stack: ChatStack) -> None:
    with open_context(browser, chat_stack, viewport=SIZES["phone"], locale="zh-CN") as context:
        page = context.new_page()
        complaints: list[ConsoleMessage] = []
        page.on("console", lambda payload: complaints.append(payload))  # playwright takes no built-in
        page.goto(begin(page, chat_stack))
        expect(page).to_have_url(re.compile(r"/chat-linked\?outcome=waiting$"))
        expect(page.get_by_role("heading")).to_have_text("聊天账号已确认")
        assert not is_wider_than_the_screen(page)
        assert not [payload.text for payload in complaints if not payload.location["url"].endswith("/favicon.ico")]
        page.goto(f"{chat_stack.stack.daemon.base_url}/api/chat/status?username=Alice")
        assert json.loads(page.inner_text("body"))["user"]["username"] == "alice.chat"


def test_another_browser_cannot_finish_it(browser: Browser, chat_stack: ChatStack) -> None:
    with open_context(browser, chat_stack) as mallorys, open_context(browser, chat_stack) as alices:
        trap = begin(mallorys.new_page(), chat_stack)
        page = alices.new_page()
        page.goto(trap)
        expect(page.get_by_role("heading")).to_have_text("Your chat account was not linked")
        expect(page.get_by_text("was started in another browser")).to_be_visible()


def test_who_does_not_agree_is_told_so(browser: Browser, chat_stack: ChatStack) -> None:
    with open_context(browser, chat_stack, agrees=False) as context:
        page = context.new_page()
        page.goto(begin(page, chat_stack))
        expect(page.get_by_text("you did not allow it")).to_be_visible()
