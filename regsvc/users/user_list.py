"""The list of users that admins see: filtered, sorted and paged, with the last rejections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta, structs
from peewee import JOIN, Case, Join, MySQLDatabase, Value, fn

from regsvc.core import clock
from regsvc.core.clock import Clock
from regsvc.core.rights import ROLES, Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import MAX_REASON, name_key
from regsvc.database.bulk import MAX_COUNT
from regsvc.database.dates import UnreadableDate, list_unreadable_dates
from regsvc.database.models import (
    APPROVED,
    OPEN,
    PENDING,
    PROVISION,
    STATUSES,
    Allowed,
    ChatLink,
    KnownClient,
    PlayerAddress,
    PluginState,
    StoredQuestionnaire,
    SyncRecord,
    User,
)
from regsvc.http.messages import Email, Language, Pagination, Platform, Reply, Status, make_pagination
from regsvc.http.route import Routes
from regsvc.users.gates import Gates, ListedState
from regsvc.users.membership import MembershipFields, membership_fields
from regsvc.users.signals import (
    FindAccounts,
    Findings,
    RejectionFields,
    SignalFields,
    find_nothing,
    find_out,
    is_warning,
)
from regsvc.users.transitions import (
    BUILT_IN_REASONS,
    DecisionName,
    is_kept_off_list,
    list_decisions,
    may_be_approved_again,
)
from regsvc.users.user_query import (
    ALL,
    SORTS,
    Place,
    Sort,
    UsersQuery,
    WaitingFor,
    WaitingForText,
    has_membership,
    is_below_pass,
    make_cursor,
    parse_cursor,
    search_condition,
    validate,
)

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


WordReason = Callable[[str | None], str | None]


def waiting_for(user: Any) -> WaitingFor | None:
    """Return for whom this user waits; None unless pending."""
    if user.status != PENDING:
        return None
    return "review" if user.asked_at is None else "applicant"


_DEFAULT_SIZE: Final = 20
_REVIEW_QUEUE_SIZE: Final = 100
_MAX_OFFSET: Final = 2**53
_MAX_OF_TWO: Final = 10_000
"""Counting stops here where each user is looked up in a state in which more than `MAX_COUNT` are."""
_MAX_EXAMINED: Final = 1_000
_FEWEST_AT_ONCE: Final = 20  # to be examined
_MOST_AT_ONCE: Final = 126


class LinkedChatFields(Output, frozen=True, kw_only=True):
    """The chat account linked to a user."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])] | None


class UserFields(Output, frozen=True, kw_only=True):
    """A user as shown to admins. Never contains a hash, salt, code or token."""

    username: Username
    email: Email | None
    status: Status
    registered_at: Moment = msgspec.field(name="regTime")
    language: Language | None
    platform: Platform
    reason: str | None
    reviewed_by: str | None
    reviewed_at: Moment | None
    ban_expires_at: Moment | None
    chat: LinkedChatFields | None
    discord_id: str | None
    questionnaire_score: int | None
    questionnaire_passed: bool | None
    questionnaire_review_summary: str | None
    questionnaire_requires_review: Annotated[
        bool | None, Meta(description="Whether an operator has to read answers; null without a questionnaire.")
    ]
    questionnaire_unread: Annotated[
        int | None, Meta(description="How many answers an operator has to read; null without a questionnaire.")
    ]
    rejections: Annotated[RejectionFields | None, Meta(description="For pending users; else null.")]
    waiting_for: Annotated[WaitingForText | None, Meta(description="For pending users; else null.")]
    membership: Annotated[MembershipFields | None, Meta(description="For approved users; else null.")]
    answered_at: Annotated[Moment | None, Meta(description="When a pending user answered the team's last question.")]
    signals: Annotated[list[SignalFields], Meta(description="What to know before deciding; for pending users.")]
    plugin: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(PluginState))}, examples=["synced"])]
    plugin_since: Moment | None
    allowlist: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": list(get_args(ListedState))},
            description="The state on the game's allowlist. `waiting`: about to be added or removed; `removed`: taken "
            "off in the game, until an approval puts the user back; `conflict`: known players contradict the UUID.",
            examples=["listed"],
        ),
    ]
    decisions: Annotated[
        list[DecisionName],
        Meta(
            description="Which apply to the user. `approve` of an approved one puts them back into the game; a ban is "
            "changed by `ban`.",
            examples=[["approve", "reject", "ban", "delete"]],
        ),
    ]
    last_login_at: Moment | None = msgspec.field(name="lastLogin")
    is_operator: Annotated[
        bool, Meta(description="Whether the name is an operator's: approved, the user is an admin.", examples=[False])
    ]
    role: Annotated[
        str | None,
        Meta(extra_json_schema={"enum": [*ROLES, None]}, description="The role in the team.", examples=["reviewer"]),
    ]


@dataclass(frozen=True)
class UserPage:
    """One page; `next_cursor` is None on the last one.

    The total is None where more than `MAX_COUNT` users match, or more than `_MAX_OF_TWO` are in so large a state.
    """

    entries: tuple[UserFields, ...]
    pagination: Pagination
    next_cursor: str | None


@dataclass(frozen=True)
class UserList:
    """List of users. Blocking: for a worker thread. Of a gate that is not in force, the state of all users is "off"."""

    is_operator: Callable[[str], bool]
    gates: Gates
    find_accounts: FindAccounts = find_nothing
    requires_code: Callable[[], bool] = lambda: True
    """Whether applicants have to prove an e-mail address."""
    is_accepted: Callable[[str], bool] = lambda algorithm: True
    """Whether AuthMe accepts hashes of an algorithm."""
    now: Clock = clock.now

    def list_users(self, query: UsersQuery) -> UserPage:
        """Return a page; one past the end is empty. Raises `InvalidField` with the name of the query parameter."""
        validate(query)
        is_queue = query.status == PENDING
        sort = replace(SORTS[query.sort or ("oldest" if is_queue else "newest")], is_queue=is_queue)
        size = query.size or (_REVIEW_QUEUE_SIZE if is_queue else _DEFAULT_SIZE)
        users = self._matching(query, sort)
        if query.has_signal:
            return self._with_signals(query, sort, size, users)
        if query.after is not None:
            return self._page(sort, size, *users.load(size + 1, after=parse_cursor(query.after, sort)), None)
        page = query.page or 1
        offset = min((page - 1) * size, _MAX_OFFSET)
        return self._page(sort, size, *users.load(size + 1, offset), page)

    def _with_signals(self, query: UsersQuery, sort: Sort, size: int, users: _Matching) -> UserPage:
        """Return a page of those who have a signal: no index tells, so that as many as are needed are looked at.

        Of very many without one, a page may have fewer users than `size` before its end; the cursor leads on.
        """
        after = None if query.after is None else parse_cursor(query.after, sort)
        start = ((query.page or 1) - 1) * size
        found, examined, is_end = list[tuple[Place, UserFields]](), 0, False
        while not is_end and len(found) <= start + size and examined < _MAX_EXAMINED:
            missing = start + size + 1 - len(found)
            count = max(_FEWEST_AT_ONCE, min(missing * 5 // 4, _MOST_AT_ONCE))  # most have one
            rows, _total = users.load(count, after=after)
            entries = zip(rows, self._entries(rows), strict=True)
            found += [(sort.place_of(row), it) for row, it in entries if any(map(is_warning, it.signals))]
            after, examined, is_end = sort.place_of(rows[-1]) if rows else after, examined + len(rows), not rows
        shown = found[start : start + size]
        has_more = len(found) > start + size
        place = shown[-1][0] if has_more else after
        has_next = (has_more or not is_end) and place is not None
        return UserPage(
            entries=tuple(entry for _place, entry in shown),
            pagination=make_pagination(
                None if query.after is not None else query.page or 1, size, None, has_next=has_next
            ),
            next_cursor=make_cursor(sort, place) if has_next and place is not None else None,
        )

    def find_user(self, username: str) -> UserFields | None:
        """Return the user with this name, compared case-insensitively, or None."""
        ids = User.select(User.id, Value(1).alias("total"))
        row = _full_rows(ids.where(User.username_key == name_key(username))).first()
        return None if row is None else self._entries([row])[0]

    def list_unreadable_dates(self, username: str) -> list[UnreadableDate]:
        """Return the dates of this user that cannot be read, as they were typed in SQL."""
        database = User._meta.database
        return list_unreadable_dates(database, f"username_key = {database.param}", name_key(username))

    def _page(self, sort: Sort, size: int, found: Sequence[Any], total: int | None, page: int | None) -> UserPage:
        """Return the page with the rows found, of which one beyond `size` is the next page's."""
        rows, has_next = found[:size], len(found) > size
        return UserPage(
            entries=self._entries(rows),
            pagination=make_pagination(page, size, total, has_next=has_next),
            next_cursor=make_cursor(sort, sort.place_of(rows[-1])) if has_next else None,
        )

    def _entries(self, rows: Sequence[Any]) -> tuple[UserFields, ...]:
        waiting = [row for row in rows if row.status == PENDING]
        found = find_out(waiting, self.find_accounts, tells_email=self.requires_code())
        return tuple(self._entry(row, found.get(row.id)) for row in rows)

    def _entry(self, row: Any, findings: Findings | None) -> UserFields:
        chat = None if row.chat_id is None else LinkedChatFields(id=row.chat_id, username=row.chat_username)
        return UserFields(
            username=row.username,
            email=row.email,
            status=row.status,
            registered_at=row.created_at,
            language=row.language,
            platform=row.platform,
            reason=row.reason,
            reviewed_by=row.reviewed_by,
            reviewed_at=row.reviewed_at,
            ban_expires_at=row.ban_expires_at,
            plugin=(row.plugin_state or "pending") if self.gates.has_authme else "off",
            plugin_since=row.plugin_since if self.gates.has_authme else None,
            allowlist=self.gates.listed_state(row.status, row.list_state, row.list_reason),
            decisions=list(self._decisions(row)),
            last_login_at=row.last_login_at,
            is_operator=self.is_operator(row.username),
            role=row.role,
            chat=chat,
            discord_id=row.chat_id if row.chat_platform == "discord" else None,
            questionnaire_score=row.score,
            questionnaire_passed=row.is_passed,
            questionnaire_review_summary=row.summary,
            questionnaire_requires_review=row.requires_review and row.status == PENDING,
            questionnaire_unread=None if row.score is None else _count_unread(row.answers_to_read),
            rejections=None if findings is None else findings.rejections,
            signals=[] if findings is None else list(findings.signals),
            waiting_for=waiting_for(row),
            membership=membership_fields(row, self.now()),
            answered_at=row.answered_at if row.status == PENDING else None,
        )

    def _decisions(self, row: Any) -> tuple[str, ...]:
        has_authme = self.gates.has_authme
        is_own = row.own_algorithm is not None and self.is_accepted(row.own_algorithm)
        may_again = may_be_approved_again(
            is_anew=has_authme and row.plugin_state == "returned",
            is_kept_off=self.gates.keeps_list() and is_kept_off_list(row.list_state, row.list_reason),
            is_absent=has_authme and row.plugin_state == "absent" and row.intent not in (PROVISION, OPEN),
            has_password=is_own or bool(row.has_game_password),
        )
        return list_decisions(row.status, may_be_approved_again=may_again)

    def _matching(self, query: UsersQuery, sort: Sort) -> _Matching:
        """Return the users that match the filters.

        Which table is read first is decided here: databases estimate that by averages, and few states are average.
        """
        conditions, text, is_scan = list[Any](), query.search.lower(), query.search != "" and query.match == "part"
        if query.status != ALL:
            conditions.append(User.status == query.status)
        if text:
            conditions.append(search_condition(text, query.match, in_answers=query.status == PENDING))
        if query.platform is not None:
            conditions.append(User.platform == query.platform)
        if query.user_language is not None:
            conditions.append(User.language == query.user_language)
        if query.below_pass:
            conditions.append(is_below_pass())
        if query.membership is not None:
            conditions.append(has_membership(query.membership, self.now()))
        if query.waiting_for is not None:
            conditions.append(User.is_asked == (query.waiting_for == "applicant"))
        filters = self._state_filters(query)
        if filters is None:
            conditions.append(User.id < 0)  # no user
        if not filters:
            is_narrow = is_scan or query.membership is not None
            if is_narrow and query.status == APPROVED:  # nearly all are, and by an index it takes thrice the time
                conditions[0] = fn.COALESCE(User.status, User.status) == APPROVED
            return _Matching(sort, User, conditions, is_scan)
        few = MAX_COUNT if query.status == ALL else _count(User.select(User.id).where(conditions[0]))
        counts = [_count(it.users) for it in filters]
        known = counts[0] if not conditions and len(filters) == 1 else None
        first = filters.pop(counts.index(min(counts)))
        if min(counts) > min(few, MAX_COUNT):
            most = _MAX_OF_TWO if (conditions or filters) and max(counts) > MAX_COUNT and not is_scan else MAX_COUNT
            conditions += [it.condition for it in (first, *filters)]
            return _Matching(sort, User, conditions, is_scan, most, known)
        states = first.users.alias("states")
        tables = _in_order(states, User, states.c.id == User.id)
        return _Matching(sort, tables, conditions + [it.condition for it in filters], is_scan, known=known)

    def _state_filters(self, query: UsersQuery) -> list[_StateFilter] | None:
        """Return the filters by gates' states that leave out anybody; None: they leave out all users."""
        if query.allowlist == "absent" and query.status == APPROVED:
            return None
        filters = []
        for asked, is_in_force, make in (
            (query.plugin, self.gates.has_authme, _in_plugin_state),
            (query.allowlist, self.gates.keeps_list(), _in_list_state),
        ):
            if asked not in (None, ALL) and (asked == "off") == is_in_force:
                return None
            if asked not in (None, ALL, "off"):
                filters.append(make(asked))
        return filters


class _Matching:
    """The users that match the filters, in the order of a list."""

    def __init__(
        self,
        sort: Sort,
        tables: Any,
        conditions: Sequence[Any],
        is_scan: bool,
        most: int | None = None,
        known: int | None = None,
    ) -> None:
        """`is_scan`: no index finds them; `most`: up to which they are counted, `MAX_COUNT` by default.

        `known`: how many match, where they have been counted.
        """
        self._sort = sort
        self._values = [key.value for key in sort.keys]
        self._keys = User.id.alias("id"), *(value.alias(f"key{n}") for n, value in enumerate(self._values))
        rows = User.select().from_(tables)
        self._rows = rows.where(*conditions) if conditions else rows
        self._is_scan = is_scan
        self._scan_order = (User.id,) if tables is User else ()  # MariaDB might read them in the order of addresses
        self._most = MAX_COUNT if most is None else most
        self._known = known

    def load(self, size: int, offset: int = 0, after: Place | None = None) -> tuple[list[Any], int | None]:
        """Return the users at `offset`, or past the place `after`, and how many match; None: more than are counted."""
        is_far = offset > MAX_COUNT
        many, is_one_scan = Value(self._most + 1), self._is_scan and not is_far
        if is_one_scan:  # for the page and the total
            hits = self._rows.select(*self._keys).order_by(*self._scan_order).limit(self._most + 1).alias("hits")
            columns = [getattr(hits.c, key.name) for key in self._keys]
            total = fn.COUNT(1).over().alias("total")
            found = User.select(*columns, total).from_(hits).alias("found")
            ids = User.select(found.c.id, found.c.total).from_(found)
            values = [getattr(found.c, key.name) for key in self._keys[1:]]
            rows = self._load(ids, values, size, offset, after)
        else:
            rows = self._load_by_index(many if is_far else self._counting(), size, offset, after)
        is_end = not rows and (offset > 0 or after is not None)
        count = rows[0].total if rows else int(self._counting().scalar()) if is_end else 0
        if is_one_scan and count > self._most:  # too many to sort, and not far between
            rows = self._load_by_index(many, size, offset, after)
        return rows, count if count <= self._most else None

    def _counting(self) -> Any:
        return _counting(self._rows.select(Value(1)), self._most)

    def _load_by_index(self, total: Any, *place: Any) -> list[Any]:
        total = total if self._known is None else Value(self._known)
        return self._load(self._rows.select(User.id, total.alias("total")), self._values, *place)

    def _load(self, ids: Any, values: Sequence[Any], size: int, offset: int, after: Place | None = None) -> list[Any]:
        """Load the users that `ids` selects. Skipping rows is cheap in an index and expensive in the table."""
        if after is not None:
            ids = ids.where(self._sort.is_past(values, after))
        ids = ids.order_by(*self._sort.order(values)).limit(size).offset(offset)
        return self._sort.arrange(_full_rows(ids))


def _counting(query: Any, most: int) -> Any:
    """Return a query for the number of rows of this one, counted up to `most` and one more."""
    return User.select(fn.COUNT(1)).from_(query.limit(most + 1).alias("counted"))


def _count(query: Any) -> int:
    """Return the number of rows, counted up to `MAX_COUNT` and one more; none of their columns is kept meanwhile."""
    return int(_counting(User.select(Value(1)).from_(query.alias("each")), MAX_COUNT).scalar())


def _in_order(first: Any, second: Any, on: Any) -> Any:
    """Return the join of two tables that is read in this order."""
    return Join(first, second, "STRAIGHT_JOIN" if isinstance(User._meta.database, MySQLDatabase) else JOIN.CROSS, on)


@dataclass(frozen=True)
class _StateFilter:
    """Filter by one state: `users` finds `id` and `username_key` by an index, `condition` is that of a single user."""

    users: Any
    condition: Any


def _in_plugin_state(state: str) -> _StateFilter:
    """Return the users whose players are in this state.

    A user without a sync record, whom SQL created, counts as pending: marked as changed until a sync run made one.
    """
    found = _of_records(SyncRecord.plugin_state, state)
    if state != "pending":
        return found
    new = _join_player(User.select(User.id, User.username_key))
    # not UNION ALL, which SQLite would take apart to read all users in the order asked for
    users = found.users.union(new.where(User.changed_at.is_null(False), SyncRecord.username_key.is_null()))
    return _StateFilter(users, fn.COALESCE(_own(SyncRecord, SyncRecord.plugin_state), "pending") == state)


def _in_list_state(state: str) -> _StateFilter:
    """Return the users who are in this state on the game's allowlist.

    A user without a record counts as absent; an approved one, as waiting, gets a record by the next run.
    """
    if state != "absent":
        return _of_records(Allowed.shown_as, state)
    is_so = fn.COALESCE(_own(Allowed, Allowed.shown_as), "absent") == state
    is_so &= User.status.in_([status for status in STATUSES if status != APPROVED])
    return _StateFilter(User.select(User.id, User.username_key).where(is_so), is_so)


def _of_records(column: Any, state: str) -> _StateFilter:
    """Return the users in whose record this column has the state.

    Both ways read an index alone. A single user's record is counted, as databases would take EXISTS apart.
    """
    model = column.model
    users = model.select(model.user_id.alias("id"), model.username_key)
    own = model.select(fn.COUNT(1)).where(column == state, model.user_id == User.id)
    return _StateFilter(users.where(column == state, model.user_id.is_null(False)), own > 0)


def _own(model: Any, column: Any) -> Any:
    """Return this column of the user's record, as a value: databases look it up by the name, in no other order."""
    return model.select(column).where(model.username_key == User.username_key)


def _full_rows(ids: Any) -> Any:
    """Return a query for the list rows of `ids`, a query for `id` and `total`.

    A user without a player row has `plugin_state` None.
    """
    selected = ids.alias("selected")
    return (
        _join_player(
            User.select(
                selected.c.total,
                User.id,
                User.username,
                User.username_key,
                User.email,
                User.email_key,
                User.status,
                User.created_at,
                User.created_at.cast("CHAR").alias("created_text"),
                User.is_asked,
                User.language,
                User.platform,
                User.reason,
                User.reviewed_by,
                User.reviewed_at,
                User.ban_expires_at,
                *(User.member_until, User.lapses_at, User.lapse, User.ended_because, User.ended_at, User.stay_asked_at),
                User.last_login_at,
                User.registration_ip,
                User.asked_at,
                User.answered_at,
                User.role,
                User.origin,
                User.look_key,
                User.is_email_verified,
                _all_of(PlayerAddress.address).alias("game_addresses"),
                _all_of(KnownClient.client).alias("clients"),
                SyncRecord.plugin_state,
                SyncRecord.plugin_since,
                SyncRecord.intent,
                SyncRecord.base_hash.is_null(False).alias("has_game_password"),
                Case(None, [(User.password_hash.is_null(False), User.password_algorithm)]).alias("own_algorithm"),
                Allowed.state.alias("list_state"),
                Allowed.reason.alias("list_reason"),
                *_questionnaire(),
                ChatLink.platform.alias("chat_platform"),
                ChatLink.account_id.alias("chat_id"),
                ChatLink.username.alias("chat_username"),
            ).from_(Join(selected, User, JOIN.LEFT_OUTER, on=(User.id == selected.c.id)))
        )
        .switch(User)
        .join(Allowed, JOIN.LEFT_OUTER, on=(Allowed.username_key == User.username_key))
        .switch(User)
        .join(StoredQuestionnaire, JOIN.LEFT_OUTER, on=(StoredQuestionnaire.user == User.id))
        .switch(User)
        .join(ChatLink, JOIN.LEFT_OUTER, on=(ChatLink.user == User.id))
        .objects()
    )


def _questionnaire() -> tuple[Any, ...]:
    """Return the columns of a questionnaire; its answers where one of them has to be read."""
    is_to_read = (User.status == PENDING) & StoredQuestionnaire.requires_review
    return (
        StoredQuestionnaire.score,
        StoredQuestionnaire.is_passed,
        StoredQuestionnaire.summary,
        StoredQuestionnaire.requires_review,
        StoredQuestionnaire.answer_seconds,
        Case(None, [(is_to_read, StoredQuestionnaire.answers)]).alias("answers_to_read"),
    )


def _count_unread(stored: str | None) -> int:
    """Return how many of these answers have no points yet; 0 for None."""
    return 0 if stored is None else sum(it.get("points", 0) is None for it in msgspec.json.decode(stored))


def _all_of(column: Any) -> Any:
    """Return the values of this column that belong to a user who waits for review, joined by commas, as a value."""
    joined = column.model.select(fn.GROUP_CONCAT(column)).where(column.model.user == User.id)
    return Case(None, [(User.status == PENDING, joined)])


def _join_player(users: Any) -> Any:
    return users.join(SyncRecord, JOIN.LEFT_OUTER, on=(SyncRecord.username_key == User.username_key))


Reason = Annotated[
    str,
    Meta(
        max_length=MAX_REASON,
        description="Mailed and shown to the user: a text, or the code of a built-in reason, which everyone reads in "
        f"their own language (replies have its words): {', '.join(f'`{code}`' for code in BUILT_IN_REASONS)}.",
        examples=["Too many alts"],
    ),
]


class UsersReply(Reply, frozen=True, kw_only=True):
    """A page of users; `nextCursor` is null on the last page."""

    users: list[UserFields]
    next_cursor: str | None
    pagination: Pagination


@ROUTES.add("GET", "/api/admin/users", Permission.USERS_READ)
async def list_users(call: Call, users: UserList, query: UsersQuery) -> UsersReply:
    """List users, by page or, for large tables, by cursor. `status=pending` is the review queue."""
    run = call.run if query.search and query.match == "whole" else call.run_list
    page = await run(users.list_users, query)
    return UsersReply(
        users=[word_reasons(entry, call.word_reason) for entry in page.entries],
        next_cursor=page.next_cursor,
        pagination=page.pagination,
    )


def word_reasons(user: UserFields, word_reason: WordReason) -> UserFields:
    """Return a user with the reasons of decisions in words."""
    rejections = user.rejections
    if rejections is not None:
        rejections = structs.replace(rejections, last_reason=word_reason(rejections.last_reason))
    return structs.replace(user, reason=word_reason(user.reason), rejections=rejections)
