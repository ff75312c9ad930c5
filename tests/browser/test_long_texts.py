"""Pages in a language whose words are long, on the narrowest phone: no text is cut, or overlaps another."""

from playwright.sync_api import Page, expect

from regsvc.web.pages import PAGE_TABLE
from tests.browser.conftest import PHONE, OpenPage, is_wider_than_the_screen
from tests.browser.operator import Operator, box_of
from tests.support.pseudo_locale import PSEUDO_LANGUAGE
from tests.support.stack import Person, Stack

NARROWEST = {"width": 320, "height": 640}
HALF_A_PHONE = {"width": 180, "height": 370}
A_THIRD = 370 / 3
PLAYERS_PAGES = [page.path for page in PAGE_TABLE if page.is_for_players]

FIND_CUT_TEXTS = """() => {
  const found = [];
  const isShownOtherwise = (box) => {  // it is scrolled, or for screen readers only
    const { overflowX, clipPath } = getComputedStyle(box);
    const isSo = overflowX === "auto" || clipPath !== "none";
    return isSo || (box !== document.body && isShownOtherwise(box.parentElement));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.closest(".skip")) continue;
    if (isShownOtherwise(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    for (let box = element; box !== document.body; box = box.parentElement) {
      const { display, position, textOverflow } = getComputedStyle(box);
      if (textOverflow === "ellipsis") break; // shortened on purpose, such as the server's name beside its logo
      if (display === "contents" || display === "inline") continue;
      const room = box.getBoundingClientRect();
      if (text.left < room.left - 1 || text.right > room.right + 1 || text.bottom > room.bottom + 2) {
        found.push(`${node.data.trim()} (in ${box.tagName} ${box.className})`);
        break;
      }
      if (position === "fixed" || position === "sticky") break;
    }
  }
  return found;
}"""


FIND_BROKEN_NAMES = """(names) => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility()) continue;
    for (const name of names) {
      for (let at = node.data.indexOf(name); at >= 0; at = node.data.indexOf(name, at + 1)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + name.length);
        const lines = [...range.getClientRects()].filter(({ width }) => width > 0);
        let box = node.parentElement;
        while (/^inline/.test(getComputedStyle(box).display)) box = box.parentElement;
        const columns = getComputedStyle(box.parentElement).gridTemplateColumns; // of which the last has the values
        const room = parseFloat(columns.split(" ").at(-1)) || box.parentElement.clientWidth;
        const width = lines.reduce((sum, line) => sum + line.width, 0);
        if (lines.length > 1 && width <= room) found.push(`${name} (${width} of ${room} in ${box.tagName})`);
      }
    }
  }
  return [...new Set(found)];
}"""
"""Returns the names that stand on several lines where one would have room for them."""


def list_cut_texts(page: Page) -> list[str]:
    """Return the texts that reach beyond a box around them."""
    found: list[str] = page.evaluate(FIND_CUT_TEXTS)
    return found


def open_narrow(open_page: OpenPage, path: str) -> Page:
    page = open_page(f"{path}?language={PSEUDO_LANGUAGE}", may_complain=True)
    page.set_viewport_size(NARROWEST)  # type: ignore[arg-type]
    expect(page.locator("html")).to_have_attribute("lang", PSEUDO_LANGUAGE)
    return page


def expect_whole_texts(page: Page, what: str) -> None:
    assert list_cut_texts(page) == [], what
    assert not is_wider_than_the_screen(page), what


def test_players_pages_have_room_for_long_words(stack: Stack, open_page: OpenPage) -> None:
    alice, bob = stack.approved("alice"), stack.newcomer("bob")
    application = {"username": bob.name, "email": bob.email, "password": bob.password}
    token = stack.post("/api/register", application | {"code": stack.code_for(bob.email)}).json["applicationToken"]
    page = open_narrow(open_page, "/register")
    for path in PLAYERS_PAGES:
        page.goto(f"{stack.daemon.base_url}{path}#token={token}")
        expect(page.locator("#inside > *:not(.needs-script, :empty)").first).to_be_visible()
        expect_whole_texts(page, path)
    page.goto(f"{stack.daemon.base_url}/account")
    page.locator("[autocomplete=username]").first.fill(alice.name)
    page.locator("[autocomplete=current-password]").fill(alice.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=alice.name)).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.locator("button.danger")).to_be_visible()
    expect_whole_texts(page, "the sections of an account")


def test_views_of_operators_have_room_for_long_words(stack: Stack, open_page: OpenPage) -> None:
    bob = stack.pending("bob")
    stack.decides("ban", stack.approved("carol"))
    olivia = Operator(open_narrow(open_page, "/admin")).log_in()
    for view in ("queue", "users", f"user?name={bob.name}", "bans", "audits", "sync", "mails", "doctor"):
        olivia.go(f"#{view}")
        expect(olivia.page.locator(".view > *").nth(1)).to_be_visible()
        expect(olivia.page.locator(".view > .quiet-text:nth-child(2):last-child")).to_have_count(0)  # loading…
        expect_whole_texts(olivia.page, view)


def test_pages_fit_a_phone_whose_letters_are_twice_as_large(stack: Stack, open_page: OpenPage) -> None:
    """To a page, that is a screen half as wide; nothing covers the applicant who is decided about."""
    bob = stack.pending("bob")
    for language in ("de", "fr"):
        page = open_page(f"/?language={language}", may_complain=True)
        page.set_viewport_size(HALF_A_PHONE)  # type: ignore[arg-type]
        for path in ("/", "/server", "/register", "/account"):
            page.goto(f"{stack.daemon.base_url}{path}")
            expect(page.locator("main")).to_be_visible()
            assert not is_wider_than_the_screen(page), (language, path)
            assert box_of(page.locator("header"))["height"] < A_THIRD, (language, path)
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        tops = page.locator(".top nav a").evaluate_all("links => links.map((link) => link.getBoundingClientRect().top)")
        assert len(set(tops)) == 1, language  # with letters of the usual size, the menu is one line
    page = open_page("/admin", language="de", size="phone")
    page.set_viewport_size(HALF_A_PHONE)  # type: ignore[arg-type]
    olivia = Operator(page, language="de").log_in()
    olivia.go(f"#queue?name={bob.name}")
    expect(olivia.card.get_by_role("heading", name=bob.name)).to_be_visible()
    assert not is_wider_than_the_screen(page)
    actions, name = olivia.card.locator(".actions"), olivia.card.get_by_role("heading", name=bob.name)
    actions.get_by_text("Mehr").click()
    menu = olivia.card.locator(".more > .menu")
    expect(menu).to_be_visible()
    assert not is_wider_than_the_screen(page)
    assert box_of(menu)["x"] >= 0
    assert box_of(actions)["y"] >= box_of(name)["y"] + box_of(name)["height"]
    page.mouse.wheel(0, 2_000)
    expect(actions).not_to_be_in_viewport()
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    heights = actions.locator("button:visible, summary").evaluate_all("all => all.map((one) => one.offsetHeight)")
    tops = actions.locator("> *").evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    assert (len(set(tops)), set(heights)) == (1, {44})


def test_names_and_addresses_are_broken_only_where_they_are_longer_than_the_line(
    stack: Stack, open_page: OpenPage
) -> None:
    long = Person("Velvet_Smith_546", "velvet_smith.5469.of.the.north@example.org", "velvets-secret")
    other = Person("WWWWWWWWWWWWWWWW", "velvet_smith5469@example.org", "velvets-secret")
    for person in (long, other):
        assert stack.register(person).status == 201
        stack.smtp.wait_for_receipt(person.email)
    stack.decides("approve", other)
    names, broken = [long.name, long.email, other.name, other.email], list[object]()
    page = open_page("/admin#queue", is_olivias=True, may_complain=True)
    for view in (
        f"queue?name={long.name}",
        "users",
        f"user?name={long.name}",
        f"user?name={other.name}",
        "mails",
        f"audits?action=any&target={long.name}",
    ):
        Operator(page).go(f"#{view}")
        shown = page.locator(".view").get_by_text(other.name if other.name in view else long.name)
        for width in (320, 360, 768, 1024, 1280, 1700):
            page.set_viewport_size({"width": width, "height": 900})
            expect(shown.filter(visible=True).first).to_be_visible()
            broken += [(view, width, it) for it in page.evaluate(FIND_BROKEN_NAMES, names)]
    assert broken == [], "\n".join(map(str, broken))
    page = open_page("/account", size="phone")
    page.get_by_label("Name or e-mail address").fill(long.name)
    page.get_by_label("Password").fill(long.password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=long.name)).to_be_visible()
    assert page.evaluate(FIND_BROKEN_NAMES, names) == []
