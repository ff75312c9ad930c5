"""Plain English, as far as a program can tell: how docstrings begin, and words that may not come back."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

from tests.house_rules.sources import PRODUCT, SCRIPTS, TESTS, name_of, nodes_of, text_of

# What hosts see and depend on keeps its words: the SQL of the migrations, and published codes.
PUBLISHED = {"regsvc/database/migrations"}

# A first line names the thing or says what to do; these open a clause that has no subject of its own.
BAD_OPENERS = re.compile(
    r"(What|Whom|Whose|Who|Which|Those|These|How|Where|Whatever|Whoever|Somebody|Someone|Nobody|Everybody"
    r"|The same|So many|As the|Of |For whom|It |They |He |She )\b"
)
THIRD_PERSON = re.compile(
    r"(Returns|Raises|Yields|Gets|Sets|Makes|Creates|Builds|Deletes|Removes|Reads|Writes|Loads|Stores|Sends|Serves|Runs"
    r"|Handles|Implements|Provides|Renders|Parses|Verifies|Validates|Opens|Closes|Applies|Looks|Brings|Lets|Puts|Does)\b"
)
# Private words of an earlier vocabulary (part of a name counts too), and the term that is used instead.
PRIVATE_WORDS = {
    "errand": "outbox message",
    "carrier": "transport",
    "village": "stack",
    "clinic": "doctor case",
    "burial": "tombstone",
    "bury": "record a tombstone",
    "decree": "decision details",
    "lay_aside": "stage",
    "laid_aside": "staged",
    "pass_point": "reach",
    "farewell": "shutdown timeout",
    "in_house": "cached",
    "office": "view context",
    "captcha_room": "captcha parts",
    "chat_room": "chat parts",
    "hash_room": "password parts",
    "mail_room": "mail parts",
    "server_room": "game parts",
    "take_over": "apply",
    "patience": "timeout",
    "lay_ground": "open context",
}
# The same for words that are also the beginning of harmless ones (desktop): they count as whole words only.
PRIVATE_WHOLE_WORDS = {
    "desk": "session, admin page",
    "hall": "event harness",
    "town": "adopted players",
    "keeper": "root",
    "streets": "groups",
    "telling": "run log",
    "letterbox": "queue",
}
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


def test_private_words_stay_away() -> None:
    words = PRIVATE_WORDS | PRIVATE_WHOLE_WORDS
    patterns = {word: pattern_of(word) for word in words}
    any_of_them = re.compile("|".join(words).replace("_", "_?"), re.IGNORECASE)
    used = [
        f"{name_of(file)}:{number}: say {words[word]!r}: {line.strip()[:100]}"
        for file in [*PRODUCT, *TESTS, *SCRIPTS]
        if file != Path(__file__) and not name_of(file).startswith(tuple(PUBLISHED))
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if any_of_them.search(line)
        for word, pattern in patterns.items()
        if pattern.search(line)
    ]
    assert not used, "\n".join(used)


def pattern_of(word: str) -> re.Pattern[str]:
    if word in PRIVATE_WORDS:
        return re.compile(rf"(?<![A-Za-z]){word}|{word.title().replace('_', '')}(?![a-z])", re.IGNORECASE)
    return re.compile(rf"(?i:(?<![a-z]){word}(?![a-z]))|{word.title()}(?![a-z])")


def test_actors_have_names() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(VAGUE_WORDS)})\b", re.IGNORECASE)
    used = [
        f"{name_of(file)}:{line}: {text.strip()[:100]}"
        for file in PRODUCT
        if not name_of(file).startswith(tuple(PUBLISHED))
        for line, text in prose(file)
        if pattern.search(text)
    ]
    assert not used, "\n".join(used)
