"""Values as CSV that a spreadsheet may open: what it would take for a formula is written with a leading '."""

from typing import Final

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARK: Final = "'"


def to_cell(value: object) -> str:
    """None is an empty cell; a truth value is yes or no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # what begins with the mark is marked as well, so that taking one away always gives back what was there
    return f"{_MARK}{text}" if text.startswith((*_FORMULAS, _MARK)) else text


def from_cell(cell: str) -> str:
    """The inverse of `to_cell` for text. A ' that marks nothing stays."""
    return cell[1:] if cell[:1] == _MARK and cell[1:2] in (*_FORMULAS, _MARK) and len(cell) > 1 else cell
