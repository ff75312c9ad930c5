"""The statements that the MariaDB driver sends."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymysql.connections import Connection

NOT_COUNTED = re.compile(r"BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET (SESSION|AUTOCOMMIT)", re.IGNORECASE)
"""Transactions, and what a new connection sends first."""


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """Record the statements sent meanwhile on any thread."""
    statements: list[str] = []
    query: Any = Connection.query

    def record(connection: Any, sql: str | bytes, *args: Any) -> Any:
        text = sql if isinstance(sql, str) else sql.decode(errors="replace")
        if not NOT_COUNTED.match(text):
            statements.append(text)
        return query(connection, sql, *args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "query", record)
        yield statements
