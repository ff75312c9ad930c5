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

ALL: Final = "all"
MAX_SIZE: Final = 500
_MAX_ID: Final = 2**63 - 1
_START_OF_ADDRESS: Final = re.compile(r"(\d{1,3}\.){1,3}|([0-9a-f]{0,4}:){1,7}")


@dataclass(frozen=True)
class UserQuery:
    """Filters, order and page of a user list. `page` starts at 1; `after` is a cursor. None: the default."""

    page: int | None = None
    size: int | None = None
    search: str = ""
    status: str = ALL
    plugin: str = ALL
    sort: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class Sort:
    """A sort order served by a unique index."""

    name: str
    column: Any
    is_descending: bool

    def order(self, *, is_reversed: bool = False) -> Any:
        return self.column.desc() if self.is_descending != is_reversed else self.column.asc()

    def is_past(self, value: int | str) -> Any:
        """Return the condition that a row comes after the one with this value."""
        return self.column < value if self.is_descending else self.column > value


# Ids count up and are never reused: they order users by when they were created or adopted here.
SORTS: Final = {
    sort.name: sort
    for sort in (
        Sort("newest", User.id, is_descending=True),
        Sort("oldest", User.id, is_descending=False),
        Sort("name", User.username_key, is_descending=False),
    )
}


def search_condition(text: str) -> Any:
    """Return the condition that the name or e-mail has the text, or that it is the client's address or its start."""
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
        "status": query.status in (ALL, *STATUSES),
        "plugin": query.plugin in (ALL, *PLUGIN_STATES),
        "sort": query.sort is None or query.sort in SORTS,
        "after": query.after is None or query.page is None,
    }
    for field, is_fine in is_valid.items():
        if not is_fine:
            raise InvalidField(field)


def make_cursor(row: Any, sort: Sort) -> str:
    """Return the cursor for the rows after this one."""
    return _encode_cursor(sort.name, row.username_key if sort.name == "name" else row.id)


def _encode_cursor(sort: str, value: int | str) -> str:
    return base64.urlsafe_b64encode(f"{sort}:{value}".encode()).decode().rstrip("=")


def parse_cursor(cursor: str, sort: Sort) -> int | str:
    """Return the sort value at which the page before ended. Raises `InvalidField` for a cursor of another order."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        name, written = text.split(":", maxsplit=1)
        value = written if sort.name == "name" else int(written)
    except ValueError as error:
        raise InvalidField("after") from error
    is_ours = name == sort.name and _encode_cursor(name, value) == cursor
    if not is_ours or (isinstance(value, int) and not 0 <= value <= _MAX_ID):
        raise InvalidField("after")
    return value
