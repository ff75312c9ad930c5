"""docs/architecture.md and docs/decisions.md name parts that exist."""

import ast
import re

import pytest

from tests.house_rules.sources import PRODUCT, ROOT, name_of, nodes_of, text_of


def defined_names() -> set[str]:
    """Return all classes, functions and constants of the program, methods also as `Class.method`."""
    names: set[str] = set()
    for node in (node for file in PRODUCT for node in nodes_of(file)):
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", ["architecture", "decisions"])
def test_the_pages_name_parts_that_exist(page: str) -> None:
    """Classes and their methods, such as `Worker.run`; functions only where the text calls them by a class."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]?\w*(?:\.\w+)?)`", text))
    assert named
    assert sorted(named - defined_names() - {"EventSource"}) == []


def test_every_module_says_what_it_is() -> None:
    """`make modules` prints the first lines."""
    files = [file for file in PRODUCT if file.parent.name != "migrations"]
    assert not [name_of(file) for file in files if not text_of(file).startswith('"""')]
