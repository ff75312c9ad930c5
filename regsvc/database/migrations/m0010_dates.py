"""SQLite refuses a date that is not written as our tables write dates, as MySQL and MariaDB do by themselves.

Rows that have such a date already, on MySQL a zero date, are marked as changed, so that the next sync run reports them.
"""

# ruff: noqa: S608 - names of our own columns alone

_DATES = ("created_at", "password_set_at", "reviewed_at", "ban_expires_at", "last_login_at", "changed_at")
_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"


def _is_no_date(column: str) -> str:
    """Return SQLite's condition: not `2031-06-01 12:00:00.000`, with or without fractions, seconds and time.

    The modifier makes 30 February another day.
    """
    return (
        f"({column} IS NOT NULL AND ({column} < '0001' OR length({column}) NOT IN (10, 16, 19, 23) "
        f"OR substr(strftime('%Y-%m-%d %H:%M:%f', {column}, '+0 days'), 1, length({column})) IS NOT {column}))"
    )


def _is_zero(column: str) -> str:
    return f"(YEAR({column}) = 0 OR MONTH({column}) = 0 OR DAYOFMONTH({column}) = 0)"


def _refuse(column: str, condition: str) -> str:
    return (
        f"WHEN {condition} AND {_is_no_date(f'NEW.{column}')} THEN RAISE(ABORT, "
        f"'{column} takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')"
    )


_REFUSE_NEW = "\n".join(_refuse(column, "TRUE") for column in _DATES)
_REFUSE_CHANGED = "\n".join(_refuse(column, f"NEW.{column} IS NOT OLD.{column}") for column in _DATES)

TRIGGERS = {
    "sqlite": [
        f"UPDATE regsvc_user SET changed_at = {_NOW} WHERE {' OR '.join(map(_is_no_date, _DATES))}",
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_has_dates BEFORE INSERT ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_NEW} END; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_gets_dates BEFORE UPDATE OF {", ".join(_DATES)} ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_CHANGED} END; END
        """,
    ],
    "mysql": [
        f"UPDATE regsvc_user SET changed_at = UTC_TIMESTAMP(3) WHERE {' OR '.join(map(_is_zero, _DATES))}",
    ],
}
