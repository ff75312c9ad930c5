"""What names a database in the config and on the command line."""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_WANTED: Final = (
    "a database URL is sqlite:///path or mysql://user:password@host:port/name "
    "(percent-encode what is special in the password, such as %23 for #)"
)


def split_database_url(url: str) -> SplitResult:
    """Its parts. Raises ValueError with a sentence that repeats nothing of it: what is misplaced may be a password."""
    try:
        parts = urlsplit(url)
        is_file = parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1
        is_server = parts.scheme in ("mysql", "mariadb") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        raise ValueError(_WANTED) from None
    # a "/" in the password that is not encoded makes the rest of it a piece of the name
    if is_file or (is_server and re.fullmatch(r"/[^/@]+/?", parts.path)):
        return parts
    raise ValueError(_WANTED)
