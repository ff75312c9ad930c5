"""Query for the list of users: filters, orders and cursors."""

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final, Literal, get_args

from peewee import SQL, MySQLDatabase, Value, fn

from regsvc.core.errors import InvalidField
from regsvc.database.models import APPROVED, PENDING, STATUSES, StoredQuestionnaire, User
from regsvc.users.gates import ENDING

PLUGIN_STATES: Final = ("synced", "absent", "locked", "conflict", "returned", "pending", "off")
"""Values of `plugin`: the state of the user's player in AuthMe's table; "off" without AuthMe."""

LISTED_STATES: Final = ("listed", "waiting", "removed", "conflict", "absent", "off")
"""Values of `allowlist`: `Gates.listed_state`."""

WaitingFor = Literal["review", "applicant"]
"""For whom a pending user waits: for the team, or the team for the user's answer."""

MembershipFilter = Literal["ending", "ended", "asked"]
"""Approved users whose membership ends within a week, has ended, or who asked to stay."""

Place = tuple[int, int | str]
"""Where a user is in an order: the part of the list, and the position in it."""

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
    waiting_for: WaitingFor | None = None
    membership: MembershipFilter | None = None

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
            "waiting_for": self.waiting_for is not None,
            "sort": self.sort == "score",
        }


@dataclass(frozen=True)
class Sort:
    """A sort order: by name, by id, or by score and then by id. The queue begins with who waits for the team."""

    name: str
    is_descending: bool = False
    is_queue: bool = False

    @property
    def part(self) -> Any:
        """Return the part of the list that a user is in, as a value."""
        return User.is_asked if self.is_queue else Value(0)

    def order(self, part: Any, position: Any) -> list[Any]:
        """Return what to sort rows by, whose columns these are."""
        by = position.desc() if self.is_descending else position.asc()
        return [part.asc(), by] if self.is_queue else [by]

    def is_past(self, part: Any, position: Any, place: Place) -> Any:
        """Return the condition that a row comes after the one at this place."""
        before, value = place
        is_past = position < value if self.is_descending else position > value
        return (part > before) | ((part == before) & is_past) if self.is_queue else is_past

    def arrange(self, rows: Iterable[Any]) -> list[Any]:
        """Return loaded rows in this order."""
        by_position = sorted(rows, key=lambda row: row.position, reverse=self.is_descending)
        return sorted(by_position, key=lambda row: int(row.part))


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
    return (fn.COALESCE(_of_result(StoredQuestionnaire.score, users), -1) + 2) * _ID_RANGE - users.id


def search_condition(text: str, match: str, *, in_answers: bool = False) -> Any:
    """Return the condition that the name or e-mail is or has the text, or that the client's address is or starts so.

    `in_answers`: or that an answer has it.
    """
    if match == "whole":
        return (User.username_key == text) | (User.email_key == text)
    # INSTR has no wildcards, so there is nothing to escape.
    condition = (fn.INSTR(User.username_key, text) > 0) | (fn.INSTR(User.email_key, text) > 0)
    if in_answers:
        condition |= _of_result(fn.INSTR(fn.LOWER(_answers()), _as_in_json(text))) > 0
    address = _parse_address(text)
    if address is not None:
        return condition | (User.registration_ip == address)
    if _START_OF_ADDRESS.fullmatch(text):
        return condition | (fn.INSTR(User.registration_ip, text) == 1)
    return condition


def is_below_pass() -> Any:
    """Return the condition that the user's answers have fewer points so far than are needed."""
    return _of_result(StoredQuestionnaire.score - StoredQuestionnaire.pass_score) < 0


def has_membership(state: MembershipFilter, now: datetime) -> Any:
    """Return the condition that the membership ends within a week, has ended, or is asked to go on."""
    if state == "ended":
        return User.ended_at.is_null(False) & (User.status == APPROVED)
    if state == "asked":
        return User.stay_asked_at.is_null(False) & (User.status == APPROVED)
    return (User.due_at <= now + ENDING) & (User.status == APPROVED)


def _of_result(value: Any, users: Any = User) -> Any:
    """Return this value of the user's result: looked up for each user, while a condition may be met in all results."""
    return StoredQuestionnaire.select(value).where(StoredQuestionnaire.user == users.id)


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
        "waiting_for": query.waiting_for in (None, *get_args(WaitingFor)),
        "membership": query.membership in (None, *get_args(MembershipFilter)),
    }
    if query.status != PENDING:
        is_valid |= {name: not is_set and is_valid.get(name, True) for name, is_set in query.queue_filters.items()}
    for field, is_fine in is_valid.items():
        if not is_fine:
            raise InvalidField(field)


def make_cursor(sort: Sort, place: Place) -> str:
    """Return the cursor for the rows after the one that this order has at this place."""
    part, value = place
    name = f"queue:{part}:{sort.name}" if sort.is_queue else sort.name
    return base64.urlsafe_b64encode(f"{name}:{value}".encode()).decode().rstrip("=")


def parse_cursor(cursor: str, sort: Sort) -> Place:
    """Return the place at which the page before ended. Raises `InvalidField` for a cursor of another order."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        _name, written = text.removeprefix("queue:0:").removeprefix("queue:1:").split(":", maxsplit=1)
        value = written if sort.name == "name" else int(written)
    except ValueError as error:
        raise InvalidField("after") from error
    place = int(text.startswith("queue:1:")), value
    if make_cursor(sort, place) != cursor or (isinstance(value, int) and not 0 <= value <= _MAX_ID):
        raise InvalidField("after")
    return place
