"""`/docs` in a browser: every route can be found and read, without a script."""

import re

from playwright.sync_api import expect

from regsvc.app.routes import ROUTES
from tests.browser.accessibility import find_serious_faults
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.stack import Stack


def test_every_route_is_there_and_can_be_read(open_page: OpenPage) -> None:
    page = open_page("/docs#postAdminUserBan", size="phone", dark=True, may_complain=True)  # the document has no icon
    expect(page.locator("#postAdminUserBan")).to_be_in_viewport()
    expect(page.get_by_role("article")).to_have_count(len(ROUTES))
    headings = page.get_by_role("article").get_by_role("heading", level=2).all_inner_texts()
    assert sorted(headings) == sorted(f"{route.method} {route.path}" for route in ROUTES)
    assert not is_wider_than_the_screen(page)
    page.get_by_role("navigation").get_by_role("link", name="POST /api/register", exact=True).click()
    register = page.locator("#postRegister")
    expect(register).to_be_in_viewport()
    expect(register.get_by_text('"username": "Alice"').first).to_be_visible()
    register.get_by_text("Errors").click()
    expect(register.get_by_role("row", name="409 username_taken")).to_be_visible()
    # three of the routes are enough to find faults: the others are made alike
    page.eval_on_selector_all("article:nth-of-type(n + 3):not(#postRegister)", "all => all.forEach(e => e.remove())")
    assert find_serious_faults(page) == []
    page.get_by_role("link", name="openapi.json", exact=True).click()
    expect(page).to_have_url(re.compile("/api/openapi.json$"))


def test_a_page_may_run_no_script(stack: Stack) -> None:
    reply = stack.get("/docs")
    assert reply.status == 200
    assert "<script" not in reply.text
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert stack.daemon.request("HEAD", "/docs").status == 200
    assert stack.daemon.request("POST", "/docs").status == 405
