"""`/server` in a browser: how the game server is, and what the host offers, in a language the host added."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import find_serious_faults
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.peers.minecraft_server import MinecraftServer
from tests.support.ports import free_port
from tests.support.stack import Stack
from tests.support.watching import ask_until

MARKUP = "<b onclick=alert(1)>Client</b>"
DUTCH = """
[page.server]
title = "De server"
online = "De server staat aan"
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("stack")
    words = directory / "words"
    words.mkdir()
    for language in ("nl", "sv"):
        (words / f"{language}.toml").write_text(DUTCH, encoding="utf-8")
    download = {"name": MARKUP, "size": "12 MB", "url": "https://example.org/client.zip"}
    with MinecraftServer() as game:
        config: dict[str, dict[str, Any]] = {
            "game": {"address": game.address},
            "server": {"translations": str(words)},
            "downloads": {"client": download},
        }
        with Stack("sqlite", directory / "stack", config=config) as stack:
            yield stack


def test_it_tells_how_the_game_is_and_what_there_is_to_download(open_page: OpenPage) -> None:
    page = open_page("/server", size="phone")
    expect(page.get_by_text("Server online")).to_be_visible()
    expect(page.get_by_text("Oakvale – open to all")).to_be_visible()
    expect(page.get_by_text("2 of 20")).to_be_visible()
    expect(page.get_by_text("Online now")).to_have_count(0)
    download = page.get_by_role("link", name=MARKUP)
    expect(download).to_have_attribute("href", "https://example.org/client.zip")
    assert page.locator("main b").count() == 0
    assert not is_wider_than_the_screen(page)


def test_who_is_logged_in_sees_who_plays(stack: Stack, open_page: OpenPage) -> None:
    """A login that has ended does not keep the page from showing the rest."""
    bob = stack.approved("bob")
    page = open_page("/account", may_complain=True)
    page.get_by_label("Name or e-mail address").fill(bob.name)
    page.get_by_label("Password").fill(bob.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=bob.name)).to_be_visible()
    page.get_by_role("link", name="Server", exact=True).click()
    expect(page.get_by_text("Alice, Bob")).to_be_visible()
    page.goto(f"{stack.daemon.base_url}/forgot-password")
    page.evaluate("""sessionStorage.setItem("companion.user", '{"token": "stale", "username": "bob"}')""")
    page.get_by_role("link", name="Server", exact=True).click()
    expect(page.get_by_text("Server online")).to_be_visible()


def test_the_hosts_own_language(open_page: OpenPage) -> None:
    """From four languages on they are in a menu, which opens without leaving the page. Other pages are in English."""
    page = open_page("/server", language="nl-BE")
    expect(page.get_by_role("heading", name="De server")).to_be_visible()
    expect(page.get_by_text("De server staat aan")).to_be_visible()
    menu = page.locator("#language summary")
    expect(menu).to_contain_text("Nederlands")
    expect(page.get_by_role("button", name="Nederlands")).to_be_hidden()
    menu.press("Enter")
    expect(page.get_by_role("button", name="Nederlands")).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("button", name="中文")).to_have_attribute("lang", "zh")
    assert find_serious_faults(page) == []
    menu.press("Enter")
    page.get_by_role("link", name="Register").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.go_back()
    expect(page.get_by_role("heading", name="De server")).to_be_visible()
    menu.click()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", name="Server")).to_be_visible()


def test_each_server_of_a_network_has_its_heading(stack: Stack, open_page: OpenPage) -> None:
    """The last test of this file: it restarts the companion."""
    survival = {"name": "survival", "directory": "/srv/survival", "address": f"127.0.0.1:{free_port()}"}
    stack.restart_with({"game": {"name": "lobby", "server": [survival]}})
    ask_until(lambda: stack.get("/api/server/status").json["data"]["online"], bool)  # on a busy machine not at once
    page = open_page("/server", size="phone")
    expect(page.get_by_role("heading", level=2)).to_have_text(["lobby", "survival", "Downloads"])
    expect(page.locator(".state")).to_have_text(["Server online", "Server offline"])
    expect(page.get_by_text("2 of 20")).to_have_count(1)
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)
