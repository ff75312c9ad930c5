"""The columns that AuthMe's table really has, under the names this host gave them, and rows of them as records."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.lenient_sqlite import as_number, as_text, is_storable
from plugin_bridge.authme.players import PlayerRow

# Field of PlayerRow or NewPlayer → field of `ColumnNames` that holds the column's name.
_TEXTS: Final = {
    "username": "username",
    "realname": "realname",
    "hash": "password",
    "salt": "salt",
    "email": "email",
    "premium_uuid": "premium_uuid",
    "totp": "totp",
    "regip": "register_ip",
    "uuid": "uuid",
}
_NUMBERS: Final = {
    "regdate": "register_date",
    "last_login": "last_login",
    "has_session": "has_session",
    "is_logged": "is_logged",
    "group": "group",
}
NUMBERS: Final = frozenset(_NUMBERS)
"""Fields that are numbers; all others are texts."""
_ROW_FIELDS: Final = tuple(field.name for field in fields(PlayerRow) if field.name != "lock_group")


@dataclass(frozen=True)
class TableLayout:
    """A table as SQL names it. A field of `PlayerRow` or `NewPlayer` whose column the table lacks is not in `names`."""

    table: str
    """The table, quoted, with its schema."""
    names: Mapping[str, str]
    """The real column of each field."""
    nullable: Collection[str]
    """Fields whose column may be NULL."""
    columns: Mapping[str, str]
    """The real column of each field, quoted."""
    select: str
    """SELECT of all rows, for `player_rows`; conditions can be appended."""
    lock_group: int | None = None
    """`PlayerRow.lock_group` of all rows."""


def find_layout(
    table: str, columns: ColumnNames, present: Mapping[str, bool], lock_group: int | None = None
) -> TableLayout:
    """Return the layout of a table; `present` maps the columns it really has to whether they may be NULL."""
    # SQLite takes a name in double quotes for a text where there is no such column, one in backticks never
    # none of the databases distinguishes column names by case
    has = {name.lower(): may_be_null for name, may_be_null in present.items()}
    configured = {field: getattr(columns, key) for field, key in (_TEXTS | _NUMBERS).items()}
    names = {field: column for field, column in configured.items() if column and column.lower() in has}
    quoted = {field: f"`{column}`" for field, column in names.items()}
    selected = ", ".join(quoted.get(field, "NULL") for field in _ROW_FIELDS)
    return TableLayout(
        table,
        names,
        {field for field, column in names.items() if has[column.lower()]},
        quoted,
        f"SELECT {selected} FROM {table}",  # noqa: S608 - names are checked when AuthMe's config is read
        lock_group if "group" in names else None,
    )


def column_of(columns: ColumnNames, field: str) -> str:
    """Return the configured column of a field."""
    name: str = getattr(columns, (_TEXTS | _NUMBERS)[field])
    return name


def player_rows(rows: Iterable[Sequence[Any]], lock_group: int | None = None) -> list[PlayerRow]:
    """Return the records of rows as `TableLayout.select` yields them. Columns may hold values of any type."""
    return [
        PlayerRow(
            username if type(username) is str else text_of(username) or "",
            realname if type(realname) is str else text_of(realname) or "",
            hash_ if type(hash_) is str else text_of(hash_) or "",
            salt if salt is None or type(salt) is str else text_of(salt),
            email if email is None or type(email) is str else text_of(email),
            regdate if is_storable(regdate) else as_number(regdate),
            last_login if is_storable(last_login) else as_number(last_login),
            has_session if is_storable(has_session) else as_number(has_session),
            premium_uuid if premium_uuid is None or type(premium_uuid) is str else text_of(premium_uuid),
            totp if totp is None or type(totp) is str else text_of(totp),
            is_logged if is_storable(is_logged) else as_number(is_logged),
            group if is_storable(group) else as_number(group),
            lock_group,
        )
        for (
            username,
            realname,
            hash_,
            salt,
            email,
            regdate,
            last_login,
            has_session,
            premium_uuid,
            totp,
            is_logged,
            group,
        ) in rows
    ]


def text_of(value: Any) -> str | None:
    """Return the value of a text column, which may also hold bytes or numbers."""
    if value is None:
        return None
    return as_text(value) if isinstance(value, bytes) else str(value)
