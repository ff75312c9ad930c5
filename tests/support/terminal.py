"""A program on a terminal, with a person who reads its questions and types answers."""

import os
import pty
import select
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType

TIMEOUT = 30.0  # seconds


class Terminal:
    """A context manager: the program runs on a pseudo-terminal; `shown` is all it has printed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._person, its_end = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=its_end, stdout=its_end, stderr=its_end, env=dict(environment)
        )
        os.close(its_end)
        self._read = 0
        self.shown = ""

    def answer(self, question: str, typed: str) -> None:
        """Wait until the question was asked, and type the answer."""
        while question not in self.shown[self._read :]:
            assert self._read_more(), f"no question {question!r} in:\n{self.shown}"
        self._read = len(self.shown)
        os.write(self._person, f"{typed}\n".encode())

    def wait(self) -> int:
        """Return the exit status once the program has ended."""
        while self._read_more():
            pass
        return self._process.wait(TIMEOUT)

    def _read_more(self) -> bool:
        """Read what was printed; return False at its end."""
        assert select.select([self._person], [], [], TIMEOUT)[0], f"nothing happens after:\n{self.shown}"
        try:
            text = os.read(self._person, 4096).decode(errors="replace")
        except OSError:  # Linux reports a closed terminal so
            return False
        self.shown += text.replace("\r\n", "\n")
        return bool(text)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._person)
