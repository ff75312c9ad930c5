"""Query for the list of users: filters, orders and cursors."""

import base64
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from peewee import fn

from regsvc.core.errors import InvalidField
from regsvc.database.models import STATUSES, User

PLUGIN_STATES: Final = ("synced", "absent", "locked", "conflict", "returned", "pending", "off")
"""Values of `plugin`: the state of the user's player in AuthMe's table; "off" without AuthMe."""

LISTED_STATES: Final = ("listed", "waiting", "removed", "conflict", "absent", "off")
"""Values of `allowlist`: `Gates.listed_state`."""

ALL: Final = "all"
MAX_SIZE: Final = 500
_MAX_ID: Final = 2**63 - 1
_START_OF_ADDRESS: Final = re.compile(r"(\d{1,3}\.){1,3}|([0-9a-f]{0,4}:){1,7}")


@dataclass(frozen=True)
class UserQuery:
    """Filters, order and page of a user list. `page` starts at 1; `after` is a cursor. None: the default.

    `match`: whether `search` is "part" of a name or address, or "whole".
    """

    page: int | None = None
    size: int | None = None
    search: str = ""
    match: str = "part"
    status: str = ALL
    plugin: str = ALL
    allowlist: str = ALL
    sort: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class Sort:
    """A sort order: by name, or by id."""

    name: str
    is_descending: bool = False

    def order(self, column: Any, *, is_reversed: bool = False) -> Any:
        return column.desc() if self.is_descending != is_reversed else column.asc()

    def is_past(self, column: Any, value: int | str) -> Any:
        """Return the condition that a row comes after the one with this value."""
        return column < value if self.is_descending else column > value


# Ids count up and are never reused: they order users by when they were created or adopted here.
SORTS: Final = {sort.name: sort for sort in (Sort("newest", is_descending=True), Sort("oldest"), Sort("name"))}


def search_condition(text: str, match: str) -> Any:
    """Return the condition that the name or e-mail is or has the text, or that the client's address is or starts so."""
    if match == "whole":
        return (User.username_key == text) | (User.email_key == text)
    # INSTR has no wildcards, so there is nothing to escape.
    condition = (fn.INSTR(User.username_key, text) > 0) | (fn.INSTR(User.email_key, text) > 0)
    address = _parse_address(text)
    if address is not None:
        return condition | (User.registration_ip == address)
    if _START_OF_ADDRESS.fullmatch(text):
        return condition | (fn.INSTR(User.registration_ip, text) == 1)
    return condition


def _parse_address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def validate(query: UserQuery) -> None:
    """Check the query. Raises `InvalidField`."""
    is_valid = {
        "page": query.page is None or query.page >= 1,
        "size": query.size is None or 1 <= query.size <= MAX_SIZE,
        "match": query.match in ("part", "whole"),
        "status": query.status in (ALL, *STATUSES),
        "plugin": query.plugin in (ALL, *PLUGIN_STATES),
        "allowlist": query.allowlist in (ALL, *LISTED_STATES),
        "sort": query.sort is None or query.sort in SORTS,
        "after": query.after is None or query.page is None,
    }
    for field, is_fine in is_valid.items():
        if not is_fine:
            raise InvalidField(field)


def make_cursor(sort: str, value: int | str) -> str:
    """Return the cursor for the rows after the one that this order has at this value."""
    return base64.urlsafe_b64encode(f"{sort}:{value}".encode()).decode().rstrip("=")


def parse_cursor(cursor: str, sort: Sort) -> int | str:
    """Return the sort value at which the page before ended. Raises `InvalidField` for a cursor of another order."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        name, written = text.split(":", maxsplit=1)
        value = written if sort.name == "name" else int(written)
    except ValueError as error:
        raise InvalidField("after") from error
    is_ours = name == sort.name and make_cursor(name, value) == cursor
    if not is_ours or (isinstance(value, int) and not 0 <= value <= _MAX_ID):
        raise InvalidField("after")
    return value
