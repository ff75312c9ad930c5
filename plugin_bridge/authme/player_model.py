"""Peewee model of AuthMe's table: the columns we read and write, under the names this host gave them."""

from collections.abc import Mapping
from typing import Any, Final

from peewee import BigIntegerField, Database, Model, TextField

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.lenient_sqlite import as_number, as_text

# Field of PlayerRow or NewPlayer → field of `ColumnNames` that holds the column's name.
TEXTS: Final = {
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
NUMBERS: Final = {
    "regdate": "register_date",
    "last_login": "last_login",
    "has_session": "has_session",
    "is_logged": "is_logged",
}


class AnyText(TextField):
    """Text field that also reads columns with bytes or numbers in place of texts."""

    def adapt(self, value: Any) -> str:
        return as_text(value) if isinstance(value, bytes) else str(value)


class AnyNumber(BigIntegerField):
    """Number field that also reads columns of any other type; None for values that are not numbers."""

    def adapt(self, value: Any) -> int | None:
        return as_number(value)


def player_model(
    database: Database, table: str, columns: ColumnNames, present: Mapping[str, bool], schema: str | None = None
) -> type[Model]:
    """Return AuthMe's table as a model whose fields are named as in `PlayerRow` and `NewPlayer`.

    `present` maps the columns that the table really has to whether they may be NULL; a field whose column is not among
    them does not exist.
    """
    # none of the databases distinguishes column names by case
    has = {name.lower(): may_be_null for name, may_be_null in present.items()}
    attributes: dict[str, object] = {}
    kinds: list[tuple[Any, dict[str, str]]] = [(AnyText, TEXTS), (AnyNumber, NUMBERS)]
    for kind, names in kinds:
        for name, key in names.items():
            column = getattr(columns, key)
            if column and column.lower() in has:
                null, is_key = has[column.lower()], name == "username"
                attributes[name] = kind(column_name=column, null=null, primary_key=is_key, default=None)
    meta = {"database": database, "table_name": table, "schema": schema, "legacy_table_names": False}
    attributes["Meta"] = type("Meta", (), meta)
    return type("Player", (Model,), attributes)
