"""Query for the list of users: filters, orders and cursors."""

import base64
import json
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from peewee import SQL, MySQLDatabase, fn

from regsvc.core.errors import InvalidField
from regsvc.database.models import PENDING, STATUSES, StoredQuestionnaire, User

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
    """Filters, order and page of a user list. `page` starts at 1; `after` is a cursor. None: the default, or all.

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
    platform: str | None = None
    language: str | None = None
    below_pass: bool = False
    has_signal: bool = False

    @property
    def queue_filters(self) -> dict[str, bool]:
        """The filters and orders of the review queue alone, by name, and whether they are set.

        They read every applicant, of whom there are few; every user would be too many.
        """
        return {
            "platform": self.platform is not None,
            "language": self.language is not None,
            "below_pass": self.below_pass,
            "has_signal": self.has_signal,
            "sort": self.sort == "score",
        }


@dataclass(frozen=True)
class Sort:
    """A sort order: by name, by id, or by score and then by id."""

    name: str
    is_descending: bool = False

    def order(self, column: Any, *, is_reversed: bool = False) -> Any:
        return column.desc() if self.is_descending != is_reversed else column.asc()

    def is_past(self, column: Any, value: int | str) -> Any:
        """Return the condition that a row comes after the one with this value."""
        return column < value if self.is_descending else column > value


# Ids count up and are never reused: they order users by when they were created or adopted here.
SORTS: Final = {
    sort.name: sort
    for sort in (
        Sort("newest", is_descending=True),
        Sort("oldest"),
        Sort("name"),
        Sort("score", is_descending=True),
    )
}
_ID_RANGE: Final = 10**12


def position_of(users: Any, sort: Sort) -> Any:
    """Return the value by which the sort orders these users, of whom it needs `id` and `username_key`.

    The highest score comes first, then who waits longest; those without a score come last.
    """
    if sort.name == "name":
        return users.username_key
    if sort.name != "score":
        return users.id
    score = StoredQuestionnaire.select(StoredQuestionnaire.score).where(StoredQuestionnaire.user == users.id)
    return (fn.COALESCE(score, -1) + 2) * _ID_RANGE - users.id


def search_condition(text: str, match: str, *, in_answers: bool = False) -> Any:
    """Return the condition that the name or e-mail is or has the text, or that the client's address is or starts so.

    `in_answers`: or that an answer has it.
    """
    if match == "whole":
        return (User.username_key == text) | (User.email_key == text)
    # INSTR has no wildcards, so there is nothing to escape.
    condition = (fn.INSTR(User.username_key, text) > 0) | (fn.INSTR(User.email_key, text) > 0)
    if in_answers:
        condition |= fn.EXISTS(_results().where(fn.INSTR(fn.LOWER(_answers()), _as_in_json(text)) > 0))
    address = _parse_address(text)
    if address is not None:
        return condition | (User.registration_ip == address)
    if _START_OF_ADDRESS.fullmatch(text):
        return condition | (fn.INSTR(User.registration_ip, text) == 1)
    return condition


def is_below_pass() -> Any:
    """Return the condition that the user's answers have fewer points so far than are needed."""
    return fn.EXISTS(_results().where(StoredQuestionnaire.score < StoredQuestionnaire.pass_score))


def _results() -> Any:
    return StoredQuestionnaire.select(StoredQuestionnaire.id).where(StoredQuestionnaire.user == User.id)


def _answers() -> Any:
    """Return the answers of a result alone, as JSON: the questions would match in all of them."""
    if isinstance(User._meta.database, MySQLDatabase):
        return fn.JSON_EXTRACT(StoredQuestionnaire.answers, "$[*].answers").cast("CHAR")
    return SQL("(SELECT GROUP_CONCAT(json_extract(value, '$.answers')) FROM json_each(answers))")


def _as_in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


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
    if query.status != PENDING:
        is_valid |= {name: not is_set and is_valid.get(name, True) for name, is_set in query.queue_filters.items()}
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
