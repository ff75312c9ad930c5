"""Query for the list of users: filters, orders and cursors."""

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from msgspec import Meta
from peewee import SQL, MySQLDatabase, Select, Tuple, Value, fn

from regsvc.core.errors import InvalidField
from regsvc.core.shapes import Username
from regsvc.database.bulk import MAX_COUNT
from regsvc.database.models import (
    APPROVED,
    ASKS_TO_STAY,
    ENDED,
    PENDING,
    STATUSES,
    PluginState,
    StoredQuestionnaire,
    User,
)
from regsvc.http.messages import Language, PageNumber, PageSize, Request
from regsvc.users.gates import ENDING, ListedState

PLUGIN_STATES: Final = get_args(PluginState)
"""Values of `plugin`: the state of the user's player in AuthMe's table; "off" without AuthMe."""

LISTED_STATES: Final = get_args(ListedState)
"""Values of `allowlist`: `Gates.listed_state`."""

WaitingFor = Literal["review", "applicant"]
"""For whom a pending user waits: for the team, or the team for the user's answer."""

WaitingForText = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": list(get_args(WaitingFor))},
        description="`applicant`: the team asked something and waits for the answer.",
        examples=["review"],
    ),
]

MembershipFilter = Literal["ending", "ended", "asked"]
"""Approved users whose membership ends within a week, has ended, or who asked to stay."""

Place = tuple[int | str, ...]
"""Where a user is in an order: what this sorts by, from the first to the last."""

ALL: Final = "all"
MAX_SIZE: Final = 500
_MAX_ID: Final = 2**63 - 1
_ZERO_DATE: Final = re.compile(r"\d{4}-(00-\d\d|\d\d-00) 00:00:00\.000")
_START_OF_ADDRESS: Final = re.compile(r"(\d{1,3}\.){1,3}|([0-9a-f]{0,4}:){1,7}")


class UsersQuery(Request, frozen=True, kw_only=True):
    """A filter, with either a page number or a cursor."""

    page: PageNumber | None = None
    size: Annotated[PageSize, Meta(description="Users per page; 20, for `pending` 100.")] | None = None
    search: Annotated[
        Username,
        Meta(
            description="A part of the name or e-mail address, or the client address of the registration: whole, "
            "or its beginning up to a dot or colon. For `pending` also a part of an answer.",
            examples=["ali"],
        ),
    ] = ""
    match: Annotated[
        Literal["part", "whole"],
        Meta(description="`whole`: `search` is the whole name or e-mail address, which an index finds."),
    ] = "part"
    status: Annotated[
        Literal["all", "pending", "approved", "rejected", "banned"], Meta(description="`pending` is the review queue.")
    ] = "all"
    plugin: Annotated[PluginState, Meta(description="The state of the player in AuthMe's table.")] | None = None
    allowlist: Annotated[ListedState, Meta(description="The state on the game's allowlist.")] | None = None
    sort: (
        Annotated[
            Literal["newest", "oldest", "name", "score"],
            Meta(
                description="`newest`, for `pending` `oldest`. `score`, the highest first, is for `pending`. There, in "
                "every order, who waits for the team comes before who has to answer a question."
            ),
        ]
        | None
    ) = None
    platform: Annotated[Literal["java", "bedrock"], Meta(description="For `pending`.")] | None = None
    user_language: Annotated[Language, Meta(description="The applicants' language; for `pending`.")] | None = None
    below_pass: Annotated[bool, Meta(description="Fewer points so far than are needed; for `pending`.")] = False
    has_signal: Annotated[bool, Meta(description="With a signal; for `pending`. The total is not counted.")] = False
    waiting_for: (
        Annotated[
            WaitingFor,
            Meta(description="Who waits for the team, or has to answer its question; for `pending`."),
        ]
        | None
    ) = None
    membership: (
        Annotated[
            MembershipFilter,
            Meta(description="Whose ends within a week, has ended, or who asked to stay."),
        ]
        | None
    ) = None
    after: Annotated[str, Meta(description="`nextCursor` of the previous page; excludes `page`.")] | None = None

    @property
    def queue_filters(self) -> dict[str, bool]:
        """The filters and orders of the review queue alone, by name, and whether they are set.

        They read every applicant, of whom there are few; every user would be too many.
        """
        return {
            "platform": self.platform is not None,
            "language": self.user_language is not None,
            "below_pass": self.below_pass,
            "has_signal": self.has_signal,
            "waiting_for": self.waiting_for is not None,
            "sort": self.sort == "score",
        }


class _Key(NamedTuple):
    """Sort key of users: as a value, and by its name in a loaded row."""

    value: Any
    name: str
    is_descending: bool = False


@dataclass(frozen=True)
class Sort:
    """A sort order: by name, by the time of the registration, or by score and then by time.

    The queue begins with who waits for the team. Ids decide between users of one moment, as imported ones may be.
    """

    name: str
    is_descending: bool = False
    is_queue: bool = False

    @property
    def keys(self) -> tuple[_Key, ...]:
        """Return what users are sorted by. The highest score comes first; those without one come last."""
        part = [_Key(User.is_asked, "is_asked")] if self.is_queue else []
        if self.name == "name":
            return (*part, _Key(User.username_key, "username_key"))
        score = _Key(fn.COALESCE(_of_result(StoredQuestionnaire.score), -1), "score", is_descending=True)
        moment = [_Key(User.created_at, "created_text", self.is_descending), _Key(User.id, "id", self.is_descending)]
        return (*part, *([score] if self.name == "score" else []), *moment)

    def place_of(self, row: Any) -> Place:
        """Return the place of a loaded row, `created_text` of which is its time as it is stored."""
        values = (getattr(row, key.name) for key in self.keys)
        return tuple(-1 if value is None else int(value) if isinstance(value, bool) else value for value in values)

    def order(self, values: Sequence[Any]) -> list[Any]:
        """Return what to sort rows by, whose keys are these values."""
        return [
            value.desc() if key.is_descending else value.asc() for key, value in zip(self.keys, values, strict=True)
        ]

    def is_past(self, values: Sequence[Any], place: Place) -> Any:
        """Return the condition that a row, whose keys are these values, comes after the one at this place.

        To find it in an index, MariaDB has to compare each key, and SQLite rows, where it looks for the moment alone.
        """
        ways = [key.is_descending for key in self.keys]
        stored = [Value(value, converter=False) for value in place]
        if len({*ways}) == 1 and not isinstance(User._meta.database, MySQLDatabase):
            row, other = Tuple(*values), Tuple(*stored)
            return row < other if self.is_descending else row > other
        condition: Any = None
        for value, at, is_descending in reversed([*zip(values, stored, ways, strict=True)]):
            is_past = value < at if is_descending else value > at
            condition = is_past if condition is None else is_past | ((value == at) & condition)
        return condition

    def arrange(self, rows: Iterable[Any]) -> list[Any]:
        """Return loaded rows in this order."""
        arranged = [(self.place_of(row), row) for row in rows]
        for number, key in reversed([*enumerate(self.keys)]):
            arranged.sort(key=lambda it: it[0][number], reverse=key.is_descending)
        return [row for _place, row in arranged]


SORTS: Final = {
    sort.name: sort
    for sort in (
        Sort("newest", is_descending=True),
        Sort("oldest"),
        Sort("name"),
        Sort("score"),
    )
}


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
        return User.ended_at.is_null(False) & (User.access == ENDED)
    if state == "asked":
        return ASKS_TO_STAY
    return (User.due_at <= now + ENDING) & (User.status == APPROVED)


def count_users(*conditions: Any, most: int | None = MAX_COUNT) -> list[int | None]:
    """Return how many users meet each condition, with one statement; None: more than `most`."""
    some = [User.select(User.id).where(condition).limit(most and most + 1) for condition in conditions]
    counts = [User.select(fn.COUNT(1)).from_(each.alias(f"some{number}")) for number, each in enumerate(some)]
    [found] = Select(columns=counts).bind(User._meta.database).tuples()
    return [count if most is None or count <= most else None for count in found]


def _of_result(value: Any) -> Any:
    """Return this value of the user's result: looked up for each user, while a condition may be met in all results."""
    return StoredQuestionnaire.select(value).where(StoredQuestionnaire.user == User.id)


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


def validate(query: UsersQuery) -> None:
    """Check the query. Raises `InvalidField`."""
    is_valid = {
        "page": query.page is None or query.page >= 1,
        "size": query.size is None or 1 <= query.size <= MAX_SIZE,
        "match": query.match in ("part", "whole"),
        "status": query.status in (ALL, *STATUSES),
        "plugin": query.plugin in (None, ALL, *PLUGIN_STATES),
        "allowlist": query.allowlist in (None, ALL, *LISTED_STATES),
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
    written = json.dumps([sort.name, sort.is_queue, *place], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def parse_cursor(cursor: str, sort: Sort) -> Place:
    """Return the place at which the page before ended. Raises `InvalidField` for a cursor of another order."""
    try:
        _name, _is_queue, *values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = tuple(_convert_key(key.name, value) for key, value in zip(sort.keys, values, strict=True))
        is_own = make_cursor(sort, place) == cursor
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidField("after") from error
    if not is_own:
        raise InvalidField("after")
    return place


def _convert_key(name: str, value: object) -> int | str:
    """Return a key of a cursor; raises ValueError for what is none."""
    is_text = name in ("username_key", "created_text")
    if is_text and isinstance(value, str):
        if name == "username_key" or not isinstance(User._meta.database, MySQLDatabase):
            return value  # on SQLite a date may be any text, which SQL users have typed
        if _ZERO_DATE.fullmatch(value) or datetime.fromisoformat(value).isoformat(" ", "milliseconds") == value:
            return value
    elif not is_text and type(value) is int and -1 <= value <= _MAX_ID:
        return value
    raise ValueError(value)
