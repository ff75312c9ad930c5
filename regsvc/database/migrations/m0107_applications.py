"""Tables and columns for applications as conversations."""

from typing import Final

TABLES: Final = ""
