"""Records out of a JSON file that may be larger than memory: one at a time, with the line each begins in."""

import json
from collections.abc import Iterator
from typing import Any, Final, TextIO

from regsvc.cli.transfer.tables import TransferProblem

_PIECE: Final = 1 << 16
_LONGEST: Final = 1 << 24  # characters of one record
_SPACE: Final = " \t\r\n"


def read_json_records(file: TextIO, name: str) -> Iterator[tuple[int, Any]]:
    """Line and record: of a list, or of the list that is called `name` in an object.

    Raises `TransferProblem` with the line where it is no such JSON, also after records that were good.
    """
    reader = _Reader(file)
    first = reader.peek()
    if first == "[":
        yield from reader.items()
        return
    if first != "{":
        raise reader.broken("a list of users, or an object with one, is expected")
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
        raise reader.broken(f'there is no list called "{name}" in it')


class _Reader:
    """A place in the text, of which only a piece is in memory."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """The next character that is not blank, which stays; raises at the end."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self._line += character == "\n"
                self._at += 1
            if not self._read_on():
                raise self.broken("it ends too early")

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.broken(f"{expected!r} is expected")
        self._at += 1

    def items(self) -> Iterator[tuple[int, Any]]:
        """Of the list that begins here."""
        self.take("[")
        while self.peek() != "]":
            line = self._line
            yield line, self.value()
            if self.peek() == ",":
                self.take(",")
            elif self.peek() != "]":
                raise self.broken("',' or ']' is expected")
        self.take("]")

    def value(self) -> Any:
        """The whole value that begins here."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at > _LONGEST or not self._read_on():
                    raise self.broken("this is not JSON") from error
                continue
            # a number at the end of the piece may go on in the next
            if end == len(self._text) and self._read_on():
                continue
            self._line += self._text.count("\n", self._at, end)
            self._at = end
            return found

    def broken(self, why: str) -> TransferProblem:
        return TransferProblem(f"Line {self._line}: {why}.")

    def _read_on(self) -> bool:
        """Whether there was more."""
        piece = self._file.read(max(_PIECE, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)
