"""Rules for every page in a browser: it is accessible, and runs no scripts but ours."""

from playwright.sync_api import Page, expect

from regsvc.web.pages import PAGE_TABLE
from tests.browser.accessibility import find_serious_faults
from tests.browser.applicant import Applicant, expect_received
from tests.browser.conftest import OpenPage, is_wider_than_the_screen
from tests.support.stack import Stack
from tests.support.watching import ask_until

PATHS = [*(page.path for page in PAGE_TABLE), "/chat-linked"]
FOR_FINGERS = ("/", "/register", "/account", "/server", "/forgot-password")


def test_everybody_can_use_every_page(stack: Stack, open_page: OpenPage) -> None:
    """By day, and in the dark, which changes nothing but the colours."""
    page = open_page("/chat-linked", size="phone", may_complain=True)  # of a token that opens nothing
    for path in PATHS:
        page.goto(f"{stack.daemon.base_url}{path}#token=1.sesame")
        expect(page.get_by_text("This page needs JavaScript")).to_have_count(0)
        expect(page.locator("#notice", has_text="One moment")).to_have_count(0)
        assert find_serious_faults(page) == [], path
        assert not is_wider_than_the_screen(page), path
        if path in FOR_FINGERS:
            expect_room_for_fingers(page, path)
        page.emulate_media(color_scheme="dark")
        assert find_serious_faults(page, rules=["color-contrast"]) == [], f"{path} in the dark"
        page.emulate_media(color_scheme="light")


def expect_room_for_fingers(page: Page, path: str) -> None:
    """What one touches is as large as a finger."""
    expect(page.locator("#inside > *").first).to_be_visible()
    sizes = page.eval_on_selector_all(
        "main input, main button, main .button, summary, header a, #language button",
        "all => all.filter(e => e.checkVisibility()).map(e => e.closest('label.option') ?? e)"
        ".map(e => [e.outerHTML, e.getBoundingClientRect().height])",
    )
    assert sizes
    assert not [size for size in sizes if size[1] < 44], path


def test_everybody_can_use_the_steps_of_a_registration_and_an_account(stack: Stack, open_page: OpenPage) -> None:
    page = open_page("/register", size="phone")
    alice = Applicant(page, stack, stack.newcomer("alice"))
    alice.give_email()
    alice.expect_step("Check your e-mail")
    assert find_serious_faults(page, ["main"]) == []
    alice.give_code()
    alice.give_name(name="a b")
    assert find_serious_faults(page, ["main"]) == []
    alice.give_name()
    expect_received(page)
    assert find_serious_faults(page, ["main"]) == []

    page.get_by_role("link", name="My account").last.click()
    page.get_by_label("Name or e-mail address").fill(alice.person.name)
    page.get_by_label("Password").fill(alice.person.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=alice.person.name)).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.get_by_role("button", name="Delete permanently")).to_be_visible()
    assert find_serious_faults(page, ["main"]) == []
    assert not is_wider_than_the_screen(page)


def test_a_script_in_the_page_does_not_run(open_page: OpenPage) -> None:
    page = open_page("/register", may_complain="Content Security Policy")
    page.evaluate(
        """() => {
          window.told = [];
          document.addEventListener("securitypolicyviolation", (event) => told.push(event.effectiveDirective));
          document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.isIn = 1'>");
          const script = document.createElement("script");
          script.textContent = "window.isIn = 1";
          document.body.append(script);
        }"""
    )
    ask_until(lambda: set(page.evaluate("told")), {"img-src", "script-src-attr", "script-src-elem"}.issubset)
    assert page.evaluate("window.isIn ?? 0") == 0


def test_without_javascript_it_says_so(open_page: OpenPage) -> None:
    page = open_page("/register", language="zh", java_script_enabled=False)
    expect(page.get_by_text("需要 JavaScript")).to_be_visible()
