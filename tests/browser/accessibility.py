"""Accessibility faults that axe-core finds in a page."""

from collections.abc import Collection

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SERIOUS = {"serious", "critical"}
# What was in order is not asked for: axe would describe every element of it.
FIND = """async ({ parts, rules }) => {
  const options = { runOnly: rules, resultTypes: ["violations"], preload: false };
  const { violations } = await axe.run(parts ?? document, options);
  return violations.map(({ id, help, impact, nodes }) => ({ id, help, impact, places: nodes.map((e) => e.target) }));
}"""


def find_serious_faults(
    page: Page, parts: list[str] | None = None, *, also: Collection[str] = (), rules: list[str] = RULES
) -> list[str]:
    """One line for each, with where it is; empty for a page that everybody can use. `parts`: selectors, else all.

    `also`: rules whose faults count although axe calls them moderate. `rules`: those to apply, or their tags.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    include = None if parts is None else {"include": [[part] for part in parts]}
    found = page.evaluate(FIND, {"parts": include, "rules": rules})
    return [
        f"{fault['id']}: {fault['help']}: {place}"
        for fault in found
        if fault["impact"] in SERIOUS or fault["id"] in also
        for place in fault["places"]
    ]
