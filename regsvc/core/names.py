"""Names of players as people type them, and the key by which they are stored and found."""


def clean_name(written: str) -> str:
    """Return the name without white space at its ends.

    No player has any there. Some collations ignore it when they compare, so that a row is found under another key than
    its own; others do not.
    """
    return written.strip()


def name_key(name: str) -> str:
    """Return the key of a name: clean, and in lower case as in AuthMe's table."""
    return clean_name(name).lower()
