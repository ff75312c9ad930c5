"""Questions on a terminal, each with a default where there is one."""

import getpass
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Terminal:
    """The host's terminal: questions and answers."""

    def ask(self, question: str, default: object, parse: Callable[[str], T], *, is_optional: bool = False) -> T | None:
        """Ask until `parse` accepts the answer; an empty answer is the default.

        Returns None for an empty answer to an optional question. `parse` raises ValueError with a sentence.
        """
        hint = f" [{default}]" if default else ""
        while True:
            answer = input(f"{question}{hint}: ").strip()
            if not answer and is_optional and not default:
                return None
            try:
                return parse(answer or str(default or ""))
            except ValueError as error:
                print(f"  {error}")

    def ask_secret(self, question: str) -> str:
        """Ask for a secret, which is not shown."""
        return getpass.getpass(f"{question} (not shown): ")

    def confirm(self, question: str, *, default: bool) -> bool:
        """Ask a question that is answered with yes or no."""
        answer = input(f"{question} [{'Y/n' if default else 'y/N'}]: ").strip().lower()
        return answer.startswith("y") if answer else default
