"""Incremental reader for a JSON file larger than memory: one record at a time, with its line number."""

import json
from collections.abc import Iterator
from typing import Any, Final, TextIO

from regsvc.cli.transfer.tables import TransferProblem

_READ_SIZE: Final = 1 << 16
_MAX_RECORD: Final = 1 << 24  # characters of one record
_SPACE: Final = " \t\r\n"


def read_json_records(file: TextIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield (line, record) from a top-level list, or from the list under the key `name` of a top-level object.

    Raises `TransferProblem` with the line of the first mistake, possibly after valid records.
    """
    reader = _Reader(file)
    first = reader.peek()
    if first == "[":
        yield from reader.items()
        return
    if first != "{":
        raise reader.broken("expected a list of users, or an object that contains one")
    reader.take("{")
    is_found = False
    while reader.peek() != "}":
        key = reader.value()
        reader.take(":")
        is_list = reader.peek() == "["
        if key == name and is_list:
            is_found = True
            yield from reader.items()
        elif is_list:
            for _item in reader.items():
                pass
        else:
            reader.value()
        if reader.peek() == ",":
            reader.take(",")
    if not is_found:
        raise reader.broken(f'the file has no list called "{name}"')


class _Reader:
    """A position in the text, of which only a part is in memory."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """Return the next non-blank character without consuming it; raises at the end of the file."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self._line += character == "\n"
                self._at += 1
            if not self._read_on():
                raise self.broken("the file ends too early")

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.broken(f"expected {expected!r}")
        self._at += 1

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield (line, item) of the list that begins here."""
        self.take("[")
        while self.peek() != "]":
            line = self._line
            yield line, self.value()
            if self.peek() == ",":
                self.take(",")
            elif self.peek() != "]":
                raise self.broken("expected ',' or ']'")
        self.take("]")

    def value(self) -> Any:
        """Return the whole value that begins here."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at > _MAX_RECORD or not self._read_on():
                    raise self.broken("this is not JSON") from error
                continue
            # a number at the end of the buffer may continue in the next read
            if end == len(self._text) and self._read_on():
                continue
            self._line += self._text.count("\n", self._at, end)
            self._at = end
            return found

    def broken(self, why: str) -> TransferProblem:
        return TransferProblem(f"Line {self._line}: {why}.")

    def _read_on(self) -> bool:
        """Read more text; return whether there was any."""
        text = self._file.read(max(_READ_SIZE, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :] + text, 0
        return bool(text)
