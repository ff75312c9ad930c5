"""docs/architecture.md lists every module, and CONTRIBUTING.md names files that exist."""

import re
from collections.abc import Iterator

from tests.house_rules.sources import ROOT

PAGE = ROOT / "docs" / "architecture.md"
PLACEHOLDER = re.compile(r"[<*]")


def listed_modules() -> Iterator[str]:
    """Paths from the rows below `### package` headings."""
    package = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            package = line.removeprefix("### ") if line.startswith("### ") else ""
        elif package and (row := re.match(r"\| `([\w/]+\.py)` \| \S", line)):
            yield f"{package}/{row[1]}"


def test_every_module_is_listed() -> None:
    """A new or moved module needs its row in docs/architecture.md."""
    modules = {
        file.relative_to(ROOT).as_posix()
        for package in ("regsvc", "plugin_bridge")
        for file in (ROOT / package).rglob("*.py")
        if file.name != "__init__.py" and "migrations" not in file.parts
    }
    listed = list(listed_modules())
    assert sorted(modules - set(listed)) == [], "add these to docs/architecture.md"
    assert sorted(set(listed) - modules) == [], "remove these from docs/architecture.md"
    assert len(listed) == len(set(listed))


def test_the_walk_throughs_name_files_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## What is where")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert named
    assert not [name for name in named if not any((ROOT / top / name).exists() for top in (".", "regsvc"))]


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:regsvc|plugin_bridge|tests|docs|conf|systemd)/[^\s`]*)`", text))
    assert named
    names = [name for name in named if not PLACEHOLDER.search(name) and "node_modules" not in name]
    assert not [name for name in names if not (ROOT / name).exists()]
