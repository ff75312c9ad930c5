"""Templates for the body of a request: JSON or form fields with placeholders.

The template is parsed first, and placeholders are replaced in its texts only. So a value never changes the structure,
whatever is in it.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlencode

_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")

K = TypeVar("K")

Json = str | int | float | bool | list["Json"] | dict[str, "Json"] | None
Values = Mapping[str, str | None]


class _Absent(Exception):
    """A text is only a placeholder whose value is None."""


@dataclass(frozen=True)
class BodyTemplate:
    """A parsed template. `names` are the placeholders in it."""

    content_type: str
    names: frozenset[str]
    _content: Json = field(repr=False)

    def fill(self, values: Values) -> bytes:
        """Return the body. Fields that are only a placeholder whose value is None are left out."""
        filled = _fill(self._content, values)
        if self.content_type == "application/json":
            return json.dumps(filled).encode("ascii")
        return urlencode(filled if isinstance(filled, dict) else {}).encode("ascii")


def parse_body_template(text: str) -> BodyTemplate:
    """Parse a JSON object or list, or form fields such as "to={to}&text={text}". Raises ValueError with a sentence."""
    stripped = text.strip()
    content: Json
    if stripped.startswith(("{", "[")):
        try:
            content = json.loads(stripped)
        except ValueError as error:
            place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"this is no JSON{place}") from None
        return BodyTemplate("application/json", frozenset(_names(content)), content)
    try:
        fields = parse_qsl(stripped, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise ValueError('this must be a JSON object, or form fields such as "to={to}&subject={subject}"') from None
    content = dict(fields)
    if len(content) < len(fields):
        raise ValueError("this has a form field twice")
    return BodyTemplate("application/x-www-form-urlencoded", frozenset(_names(content)), content)


def _names(content: Json) -> set[str]:
    if isinstance(content, str):
        return set(_PLACEHOLDER.findall(content))
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return {name for part in parts for name in _names(part)}


def _fill(content: Json, values: Values) -> Json:
    """Return the content with its placeholders replaced. Raises `_Absent` for a text that has to be left out."""
    if isinstance(content, str):
        whole = _PLACEHOLDER.fullmatch(content)
        if whole and values[whole[1]] is None:
            raise _Absent
        return _PLACEHOLDER.sub(lambda found: values[found[1]] or "", content)
    if isinstance(content, list):
        return [filled for _index, filled in _fill_parts(enumerate(content), values)]
    if isinstance(content, dict):
        return dict(_fill_parts(content.items(), values))
    return content


def _fill_parts(parts: Iterable[tuple[K, Json]], values: Values) -> Iterator[tuple[K, Json]]:
    for key, part in parts:
        with contextlib.suppress(_Absent):
            yield key, _fill(part, values)
