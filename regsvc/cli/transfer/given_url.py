"""Database URLs given to a command."""

import getpass
import sys
from typing import Final

STANDARD_INPUT: Final = "-"


def read_url(value: str, title: str) -> str:
    """Return the value, or for "-" the next line of standard input: other users can see a command line.

    `title` is the prompt on a terminal.
    """
    if value != STANDARD_INPUT:
        return value
    if sys.stdin.isatty():
        return getpass.getpass(f"{title} (not shown): ").strip()
    return sys.stdin.readline().strip()
