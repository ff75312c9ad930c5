"""Database URLs, as in the config and on the command line."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

_HINT: Final = (
    "a database URL is sqlite:///path or mysql://user:password@host:port/name "
    "(percent-encode special characters in the password, such as %23 for #)"
)


_ONE_SERVER: Final = (
    "a database URL names one server: for several, put a proxy such as HAProxy in front of them and name that"
)


def split_database_url(url: str) -> SplitResult:
    """Split a database URL. Raises ValueError with a sentence that repeats nothing of it: it may hold a password."""
    has_several = False
    try:
        parts = urlsplit(url)
        has_several = "," in parts.netloc.rpartition("@")[2]
        is_file = parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1
        is_server = parts.scheme in ("mysql", "mariadb") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        raise ValueError(_ONE_SERVER if has_several else _HINT) from None
    if has_several:
        raise ValueError(_ONE_SERVER)
    # an unencoded "/" in the password makes the rest of the password part of the name
    if is_file or (is_server and re.fullmatch(r"/[^/@]+/?", parts.path)):
        return parts
    raise ValueError(_HINT)


def with_absolute_path(url: str, folder: Path | None) -> str:
    """Return the URL of an SQLite database with its path counted from `folder`; any other text unchanged.

    `folder` None: the current folder.
    """
    prefix = "sqlite:///"
    path = url.removeprefix(prefix)
    if path in (url, "") or path.startswith("/"):
        return url
    return f"{prefix}{quote(str((folder or Path()).absolute()))}/{path}"
