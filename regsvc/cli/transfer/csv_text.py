"""CSV cells that are safe in a spreadsheet: text that looks like a formula gets a leading '."""

from typing import Final

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARK: Final = "'"


def to_cell(value: object) -> str:
    """Convert a value: None becomes an empty cell, a boolean yes or no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # text that already begins with the mark is marked, too, so that removing one mark always restores it
    return f"{_MARK}{text}" if text.startswith((*_FORMULAS, _MARK)) else text


def from_cell(cell: str) -> str:
    """Reverse `to_cell` for text. A leading ' that marks nothing is kept."""
    return cell[1:] if cell[:1] == _MARK and cell[1:2] in (*_FORMULAS, _MARK) and len(cell) > 1 else cell
