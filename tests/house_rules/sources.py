"""The source files that the house rules read, each read and parsed once."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [ROOT / "companion.py", *sorted(ROOT.glob("regsvc/**/*.py")), *sorted(ROOT.glob("plugin_bridge/**/*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name_of(file: Path) -> str:
    """Return the path from the repository's root."""
    return file.relative_to(ROOT).as_posix()


@cache
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(text_of(file))


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Return all nodes of the file's syntax tree."""
    return list(ast.walk(tree_of(file)))
