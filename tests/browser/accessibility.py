"""Accessibility faults that axe-core finds in a page."""

from __future__ import annotations

from collections.abc import Collection

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SERIOUS = {"serious", "critical"}


def find_serious_faults(page: Page, parts: list[str] | None = None, *, also: Collection[str] = ()) -> list[str]:
    """One line for each, with where it is; empty for a page that everybody can use. `parts`: selectors, else all.

    `also`: rules whose faults count although axe calls them moderate.
    """
    context = None if parts is None else {"include": [[part] for part in parts]}
    found = Axe().run(page, context=context, options={"runOnly": RULES}).response["violations"]
    return [
        f"{fault['id']}: {fault['help']}: {node['target']}"
        for fault in found
        if fault["impact"] in SERIOUS or fault["id"] in also
        for node in fault["nodes"]
    ]
