"""What screen readers are told about a page, as text: roles, names and states in order, and what is read aloud."""

import re
from collections.abc import Iterator
from itertools import chain
from time import monotonic
from typing import Any

from playwright.sync_api import Page

REMEMBER_WHAT_IS_READ_ALOUD = """(() => {
  const REGIONS = "[role=status], [role=alert], [aria-live=polite], [aria-live=assertive]";
  window.readAloud = [];
  const elementOf = (node) => node instanceof Element ? node : node.parentElement;
  const isSilent = (node) => !elementOf(node) || elementOf(node).closest("[aria-live=off], [aria-hidden=true]");
  new MutationObserver((changes) => {
    const said = new Map();
    for (const { target, addedNodes } of changes) {
      const region = elementOf(target)?.closest(REGIONS);
      if (!region || [...addedNodes, target].every(isSilent)) continue;
      said.set(region, region.innerText.replace(/\\s+/g, " ").trim());
    }
    window.readAloud.push(...[...said.values()].filter(Boolean));
  }).observe(document, { subtree: true, childList: true, characterData: true });
})()"""
"""Live regions, which screen readers read whenever they change. One that is moved with its text is not read."""

STATES = ("required", "invalid", "checked", "pressed", "expanded", "selected", "disabled", "modal", "level", "current")
OWN_STATES = {"checked", "pressed", "expanded"}
"""States that are told also where they are false."""

WORDS = {"StaticText", "strong", "emphasis", "code", "time", "mark", "LineBreak"}
NAMED_BY_THEIR_WORDS = {"button", "link", "heading", "option", "DisclosureTriangle", "columnheader", "cell", "term"}
NOTHING = {"generic", "none", "InlineTextBox", "LineBreak", "ListMarker", "LabelText", "Legend", "sectionheader"}
"""Layout; labels and legends are the names of their fields."""
OF_THE_BROWSER = {"combobox", "Date", "DateTime", "image", "textbox", "spinbutton"}
"""What is within them is the browser's, or told by their name or value."""

# seconds without a change, after which a page is written down, or is not as it is known
SETTLED = 3
GIVEN_UP = 15

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*"
SOME_TIME = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d", "<time>"),
    (rf"\b\d{{1,2}} {_MONTH}, \d\d:\d\d \(UTC[^)]*\)", "<time>"),
    (rf"(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?\b{_MONTH} \d{{1,2}}\b(?:, \d{{4}})?", "<date>"),
    (r"\b\d{1,2}:\d\d(?::\d\d)?\s[AP]M\b", "<time>"),
    (r"\bjust now\b|\b\d+ (?:seconds?|minutes?|hours?) ago\b", "<when>"),
    (r"\b\d+ ms\b", "<duration>"),
    (r"\badopted \d+\b", "adopted <number>"),  # the first sync may have been before Olivia joined
    (r"http://127\.0\.0\.1:\d+", "http://localhost"),
    (r"(#invite=)[\w.-]+", r"\1<secret>"),
    (r"\b[A-Z2-7]{4}(?: [A-Z2-7]{4}){7}\b", "<secret>"),
)

Node = dict[str, Any]


class Listener:
    """Listens to a window before it opens a page, and describes what is there, and what was said until then."""

    def __init__(self, page: Page, known: str = "") -> None:
        """`known`: what is expected to be told, for which a page that still loads is given time; "" if nothing is."""
        page.context.add_init_script(REMEMBER_WHAT_IS_READ_ALOUD)
        self._page = page
        self._is_known = known != ""
        self._known = set(re.split(r"\n\n(?==== )", known.rstrip("\n")))  # whole pages: one may lack its end yet
        self._devtools = page.context.new_cdp_session(page)
        self._before: dict[str, list[str]] = {}
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """All descriptions. What is the same as in the last one is shortened."""
        return "\n".join(self._lines) + "\n"

    def describe(self, name: str) -> None:
        """Describe the page under a name, as soon as it is as expected or does not change any more."""
        last: list[str] = []
        changed_at = monotonic()
        while True:
            parts = self._parts()
            title = f"=== {name}: {plain(self._page.title())}"
            aloud = [f"read aloud: {plain(text)}" for text in self._page.evaluate("readAloud")]
            told = [title, *aloud, *chain.from_iterable(map(self._shortened, parts))]
            if told != last:
                last, changed_at = told, monotonic()
            is_as_known = "\n".join(told) in self._known
            if is_as_known or monotonic() - changed_at > (GIVEN_UP if self._is_known else SETTLED):
                break
            self._page.wait_for_timeout(50)
        self._page.evaluate("readAloud.length = 0")
        self._before = {lines[0]: lines for lines in parts}
        self._lines += ["", *told] if self._lines else told

    def _parts(self) -> list[list[str]]:
        """Describe the parts of the page, such as its header, its main part, and a dialog."""
        nodes = {node["nodeId"]: node for node in self._devtools.send("Accessibility.getFullAXTree")["nodes"]}
        tree = _Tree(nodes, dict(self._current()))
        return [list(tree.describe(part)) for part in tree.children(next(iter(nodes.values())))]

    def _shortened(self, lines: list[str]) -> list[str]:
        is_known = len(lines) > 1 and self._before.get(lines[0]) == lines
        return [f"{lines[0]} (as before)"] if is_known else lines

    def _current(self) -> Iterator[tuple[int, str]]:
        """Find elements with `aria-current`, which is not in Chromium's tree."""
        places = [self._devtools.send("DOM.getDocument", {"depth": -1})["root"]]
        while places:
            place = places.pop()
            places += place.get("children", [])
            given = place.get("attributes", [])
            attributes = dict(zip(given[::2], given[1::2], strict=True))
            if "aria-current" in attributes:
                yield place["backendNodeId"], attributes["aria-current"]


class _Tree:
    def __init__(self, nodes: dict[str, Node], current: dict[int, str]) -> None:
        self._nodes = nodes
        self._current = current

    def children(self, node: Node) -> list[Node]:
        """Return what is told within a node, through layout."""
        found: list[Node] = []
        within = [self._nodes[each] for each in node.get("childIds", []) if each in self._nodes]
        for child in within:
            role = _value(child, "role")
            if role in ("LabelText", "Legend"):
                found += [each for each in self.children(child) if _value(each, "role") not in WORDS]
            elif child.get("ignored") or role in NOTHING:
                found += self.children(child)
            else:
                found.append(child)
        return found

    def describe(self, node: Node, depth: int = 0) -> Iterator[str]:
        role, children = _value(node, "role"), self.children(node)
        line = "  " * depth + self._line(node, role)
        if role in OF_THE_BROWSER:
            yield line
            return
        is_words = all(_value(child, "role") in WORDS for child in children)
        if role in NAMED_BY_THEIR_WORDS or role in WORDS:
            yield line
            children = [] if is_words else [child for child in children if _value(child, "role") not in WORDS]
        elif children and is_words:
            yield f"{line}: {plain(' '.join(self._words(node)))}"
            return
        else:
            yield line
        for child in children:
            yield from self.describe(child, depth + 1)

    def _words(self, node: Node) -> Iterator[str]:
        for child in self.children(node):
            if _value(child, "role") == "StaticText":
                yield _value(child, "name")
            else:
                yield from self._words(child)

    def _line(self, node: Node, role: str) -> str:
        """Name one node: role, name, value, states, description, and whether it has the focus."""
        name, value, description = (plain(_value(node, key)) for key in ("name", "value", "description"))
        if role == "StaticText":
            return name
        if role in WORDS:
            return plain(" ".join(self._words(node)))
        given = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
        given["current"] = self._current.get(node.get("backendDOMNodeId", 0))
        if role == "listitem":
            given.pop("level", None)
        states = [_state(each, given[each]) for each in STATES if each in given]
        told = ", ".join(filter(None, states))
        parts = [role, name and f"“{name}”", value and f"= {value}", told and f"({told})"]
        parts += [description and f"— {description}", "← focus" if given.get("focused") else ""]
        return " ".join(filter(None, parts))


def _state(name: str, value: object) -> str:
    if value in (None, "", "false", False):
        return f"not {name}" if name in OWN_STATES and value is not None else ""
    return name if value is True or value == "true" else f"{name} {value}"


def _value(node: Node, name: str) -> str:
    return str(node.get(name, {}).get("value", ""))


def plain(text: str) -> str:
    """Return the text in one line, with other words for what differs from one time to the next."""
    text = re.sub(r"\s+", " ", text).strip()
    for pattern, instead in SOME_TIME:
        text = re.sub(pattern, instead, text)
    return text
