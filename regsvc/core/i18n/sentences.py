"""English sentences that are translated when they are shown, as those of the doctor and of the sync's report.

Codes with texts in every language would put what a check says far from the check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Self


class Sentence(str):
    """English text, made of a template with `{names}` and facts, that `translate` can put into other languages.

    As in gettext, the template is the key of its translation. A fact that is a sentence is translated as well.
    """

    template: str
    facts: Mapping[str, object]

    def __new__(cls, template: str, /, **facts: object) -> Self:
        """Fill the facts in; a template without facts stays as it is, with its braces."""
        sentence = super().__new__(cls, template.format(**facts) if facts else template)
        sentence.template = template
        sentence.facts = facts
        return sentence


def plural(count: int, one: str, several: str, /, **facts: object) -> Sentence:
    """Return the sentence of the template for one or for several; both may contain `{count}`."""
    return Sentence(one if count == 1 else several, count=count, **facts)


def join(sentences: Sequence[Sentence], joint: str) -> Sentence:
    """Join at least one sentence; `joint` is the template for two of them, `first` and `next`."""
    return reduce(lambda first, following: Sentence(joint, first=first, next=following), sentences)


def translate(text: str, words: Mapping[str, str]) -> str:
    """Return the sentence with its template looked up in `words`, in English where they lack it; other text as it is.

    The result is an ordinary string.
    """
    if not isinstance(text, Sentence):
        return text
    template = words.get(text.template, text.template)
    if not text.facts:
        return template
    facts = {name: translate(fact, words) if isinstance(fact, str) else fact for name, fact in text.facts.items()}
    return template.format(**facts)
