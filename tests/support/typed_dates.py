"""Dates that were typed in SQL and are none, in a database that took them."""

from typing import Final

from tests.support.authme.authme_database import AuthMeDatabase

BAD_DATES: Final[dict[str, object]] = {
    "dotted": "01.06.2031",
    "no such month": "2031-13-01 00:00:00",
    "no such day": "2031-02-30",
    "words": "1 June",
    "blob": b"\xff\x00\x01",
    "number": 20310601,
    "with an offset": "2031-06-01 12:00:00+02:00",
    "empty": "",
}
"""By what is wrong with them."""
_TRIGGERS: Final = ("regsvc_user_has_dates", "regsvc_user_gets_dates")


def type_date(ours: AuthMeDatabase, column: str, value: object, username: str) -> None:
    """Store the value as a database of an older version did, or MariaDB under UPDATE IGNORE: as a zero date."""
    where = "WHERE username_key = ?"
    if ours.kind == "mariadb":
        ours.execute(f"UPDATE IGNORE regsvc_user SET {column} = ? {where}", (value, username.lower()))
        return
    made = ours.query(f"SELECT sql FROM sqlite_master WHERE name IN {_TRIGGERS}")
    for name in _TRIGGERS:
        ours.execute(f"DROP TRIGGER {name}")
    ours.execute(f"UPDATE regsvc_user SET {column} = ? {where}", (value, username.lower()))
    for row in made:
        ours.execute(str(row["sql"]))
