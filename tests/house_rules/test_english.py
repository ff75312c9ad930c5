"""Plain English, as far as a program can tell: how docstrings begin, and who acts."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

from tests.house_rules.sources import PRODUCT, name_of, nodes_of, text_of

# A first line names the thing or says what to do; these open a clause that has no subject of its own.
BAD_OPENERS = re.compile(
    r"(What|Whom|Whose|Who|Which|Those|These|How|Where|Whatever|Whoever|Somebody|Someone|Nobody|Everybody"
    r"|The same|So many|As the|Of |For whom|It |They |He |She )\b"
)
THIRD_PERSON = re.compile(
    r"(Returns|Raises|Yields|Gets|Sets|Makes|Creates|Builds|Deletes|Removes|Reads|Writes|Loads|Stores|Sends|Serves|Runs"
    r"|Handles|Implements|Provides|Renders|Parses|Verifies|Validates|Opens|Closes|Applies|Looks|Brings|Lets|Puts|Does)\b"
)
# Words of comments, docstrings and messages: the actor has a name, and people are "they".
VAGUE_WORDS = ["somebody", "whoever", "himself", "herself", "his", "him", "told of", "tells of", "what becomes of"]


def first_lines(file: Path) -> Iterator[tuple[int, str, str]]:
    """Line, name and first line of the docstring, for the module and everything public in it."""
    for node in nodes_of(file):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = getattr(node, "name", file.stem)
            docstring = ast.get_docstring(node)
            if docstring and not name.startswith("_"):
                yield getattr(node, "lineno", 1), name, docstring.split("\n\n")[0]


@cache
def prose(file: Path) -> list[tuple[int, str]]:
    """Line and text of each comment and string of a Python file."""
    tokens = tokenize.generate_tokens(StringIO(text_of(file)).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]


def test_docstrings_begin_with_a_summary() -> None:
    """An imperative or a noun phrase, in one sentence that ends with a period."""
    bad = []
    for file in PRODUCT:
        for line, name, summary in first_lines(file):
            text = " ".join(summary.split())
            if BAD_OPENERS.match(text) or THIRD_PERSON.match(text) or not text.endswith((".", ":", "?", "`", ")")):
                bad.append(f"{name_of(file)}:{line} {name}: {text[:100]}")
    assert not bad, f"{len(bad)} docstrings:\n" + "\n".join(bad)


def test_actors_have_names() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(VAGUE_WORDS)})\b", re.IGNORECASE)
    used = [
        f"{name_of(file)}:{line}: {text.strip()[:100]}"
        for file in PRODUCT
        if not name_of(file).startswith("regsvc/database/migrations")  # published SQL
        for line, text in prose(file)
        if pattern.search(text)
    ]
    assert not used, "\n".join(used)
