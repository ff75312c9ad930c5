"""The list of users that admins see: filtered, sorted and paged, with the last rejections."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import JOIN, fn

from regsvc.core.clock import Clock, is_over
from regsvc.core.text import name_key
from regsvc.database.dates import UnreadableDate, list_unreadable_dates
from regsvc.database.models import PENDING, ChatLink, Review, StoredQuestionnaire, SyncRecord, User
from regsvc.users.chat_links import ChatAccount
from regsvc.users.user_query import ALL, SORTS, Sort, UserQuery, make_cursor, parse_cursor, search_condition, validate

_MAX_REVIEWS: Final = 10_000  # for the names and addresses of one page together


@dataclass(frozen=True)
class Rejections:
    """Earlier rejections of a name or its e-mail address. `last_at` and `last_reason` None: never."""

    count: int = 0
    last_at: datetime | None = None
    last_reason: str | None = None


def find_rejections(users: Sequence[Any]) -> dict[int, Rejections]:
    """Return rejections by user id, with one query, for rows with `id`, `username_key` and `email_key`."""
    if not users:
        return {}
    names = {user.username_key for user in users}
    addresses = {user.email_key for user in users if user.email_key is not None}
    newest_first = list(
        Review.select(Review.id, Review.username_key, Review.email_key, Review.reason, Review.reviewed_at)
        .where(Review.transition == "reject", Review.username_key.in_(names) | Review.email_key.in_(addresses))
        .order_by(Review.id.desc())
        .limit(_MAX_REVIEWS)
    )
    by_name: dict[str, list[Review]] = {}
    by_address: dict[str | None, list[Review]] = {}
    for review in newest_first:
        by_name.setdefault(review.username_key, []).append(review)
        by_address.setdefault(review.email_key, []).append(review)
    by_address.pop(None, None)  # reviews without an address are not each other's
    return {
        user.id: _summarize([*by_name.get(user.username_key, ()), *by_address.get(user.email_key, ())])
        for user in users
    }


def _summarize(reviews: Sequence[Review]) -> Rejections:
    """Summarize reviews that may be listed twice, by name and by address."""
    distinct = {review.id: review for review in reviews}
    if not distinct:
        return Rejections()
    last = distinct[max(distinct)]
    return Rejections(len(distinct), last.reviewed_at, last.reason)


_DEFAULT_SIZE: Final = 20
_REVIEW_QUEUE_SIZE: Final = 100
_FAR: Final = 10_000
"""From this row on it pays to count first, and to read pages past the middle from the far end."""

_CACHED_FROM: Final = 100_000
_CACHED_FOR: Final = timedelta(seconds=30)
_MAX_CACHED: Final = 64


@dataclass(frozen=True)
class UserListItem:
    """A user as shown to admins, without secrets. Times are UTC; None is "not known" or "never"."""

    username: str
    email: str | None
    status: str
    registered_at: datetime
    language: str | None
    platform: str
    reason: str | None
    reviewed_by: str | None
    reviewed_at: datetime | None
    ban_expires_at: datetime | None
    plugin: str
    plugin_since: datetime | None
    last_login_at: datetime | None
    is_operator: bool
    """Whether an approval makes this user an admin."""
    chat: ChatAccount | None = None
    discord_id: str | None = None
    questionnaire_score: int | None = None
    questionnaire_passed: bool | None = None
    questionnaire_review_summary: str | None = None
    questionnaire_requires_review: bool | None = None
    rejections: Rejections | None = None  # earlier ones; for pending users only


@dataclass(frozen=True)
class UserPage:
    """One page. `page` is None when reached by a cursor; `next_cursor` is None on the last page."""

    entries: tuple[UserListItem, ...]
    page: int | None
    size: int
    total: int
    has_next: bool
    has_prev: bool
    next_cursor: str | None

    @property
    def total_pages(self) -> int:
        return math.ceil(self.total / self.size)


class UserList:
    """List of users. Blocking: for a worker thread. With the bridge off, every user's `plugin` is "off"."""

    def __init__(self, now: Clock, is_operator: Callable[[str], bool], *, is_bridge_on: bool) -> None:
        self._is_operator = is_operator
        self._is_bridge_on = is_bridge_on
        self._counts = CountCache(now)

    def list_users(self, query: UserQuery) -> UserPage:
        """Return a page; one past the end is empty. Raises `InvalidField` with the name of the query parameter."""
        validate(query)
        is_queue = query.status == PENDING
        sort = SORTS[query.sort or ("oldest" if is_queue else "newest")]
        size = query.size or (_REVIEW_QUEUE_SIZE if is_queue else _DEFAULT_SIZE)
        if query.after is not None:
            return self._page_after(query, sort, size, query.after)
        return self._numbered_page(query, sort, size, query.page or 1)

    def find_user(self, username: str) -> UserListItem | None:
        """Return the user with this name, compared case-insensitively, or None."""
        row = _full_rows().where(User.username_key == name_key(username)).first()
        return None if row is None else self._entries([row])[0]

    def list_unreadable_dates(self, username: str) -> list[UnreadableDate]:
        """Return the dates of this user that cannot be read, as they were typed in SQL."""
        database = User._meta.database
        return list_unreadable_dates(database, f"username_key = {database.param}", name_key(username))

    def _numbered_page(self, query: UserQuery, sort: Sort, size: int, page: int) -> UserPage:
        total, offset = self._counts.find(_filters(query)), (page - 1) * size
        if total is None and offset > _FAR:
            total = self._count(query)
        matching, rows = self._matching(query, User.id), list[Any]()
        if total is not None and offset >= total:
            pass  # past the end
        elif total is None or offset <= total // 2:
            rows, total = self._load(query, sort, matching.order_by(sort.order()).limit(size).offset(offset), total)
        else:  # from the far end, to skip fewer rows
            length = min(size, total - offset)
            backwards = matching.order_by(sort.order(is_reversed=True)).limit(length).offset(total - offset - length)
            rows, total = self._load(query, sort, backwards, total)
        return self._page(rows, sort, size, total, has_next=offset + size < total, page=page)

    def _page_after(self, query: UserQuery, sort: Sort, size: int, after: str) -> UserPage:
        past = sort.is_past(parse_cursor(after, sort))
        matching = self._matching(query, User.id).where(past).order_by(sort.order()).limit(size + 1)
        rows, total = self._load(query, sort, matching, self._counts.find(_filters(query)))
        return self._page(rows[:size], sort, size, total, has_next=len(rows) > size)

    def _load(self, query: UserQuery, sort: Sort, ids: Any, total: int | None) -> tuple[list[Any], int]:
        """Load the users that `ids` selects, and their total: in the same statement if it is not known.

        Skipping rows is cheap in an index and expensive in the table, hence the separate ids.
        """
        if total is not None:
            return list(_full_rows(ids=ids).order_by(sort.order())), total
        counted = self._matching(query, fn.COUNT(User.id)).alias("total")
        rows = list(_full_rows(counted, ids=ids).order_by(sort.order()))
        if not rows:
            return [], self._count(query)
        self._counts.store(_filters(query), int(rows[0].total))
        return rows, int(rows[0].total)

    def _page(
        self,
        found: Sequence[Any],
        sort: Sort,
        size: int,
        total: int,
        *,
        has_next: bool,
        page: int | None = None,
    ) -> UserPage:
        return UserPage(
            entries=self._entries(found),
            page=page,
            size=size,
            total=total,
            has_next=has_next,
            has_prev=page != 1,
            next_cursor=make_cursor(found[-1], sort) if has_next and found else None,
        )

    def _entries(self, rows: Sequence[Any]) -> tuple[UserListItem, ...]:
        rejections = find_rejections([row for row in rows if row.status == PENDING])
        return tuple(self._entry(row, rejections.get(row.id)) for row in rows)

    def _entry(self, row: Any, rejections: Rejections | None) -> UserListItem:
        has_chat = row.chat_id is not None
        account = ChatAccount(row.chat_platform, row.chat_id, row.chat_username) if has_chat else None
        return UserListItem(
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
            plugin=(row.plugin_state or "pending") if self._is_bridge_on else "off",
            plugin_since=row.plugin_since if self._is_bridge_on else None,
            last_login_at=row.last_login_at,
            is_operator=self._is_operator(row.username),
            chat=account,
            discord_id=account.id if account is not None and account.platform == "discord" else None,
            questionnaire_score=row.score,
            questionnaire_passed=row.is_passed,
            questionnaire_review_summary=row.summary,
            questionnaire_requires_review=row.requires_review,
            rejections=rejections,
        )

    def _matching(self, query: UserQuery, selected: Any) -> Any:
        """Return a query for `selected` of the users that match the filters."""
        users = User.select(selected)
        if query.status != ALL:
            users = users.where(User.status == query.status)
        if query.search:
            users = users.where(search_condition(query.search.lower()))
        if query.plugin == ALL:
            return users
        if (query.plugin == "off") == self._is_bridge_on:
            return users.where(User.id < 0)  # matches no user
        return users if query.plugin == "off" else _in_plugin_state(users, query.plugin)

    def _count(self, query: UserQuery) -> int:
        total = int(self._matching(query, fn.COUNT(User.id)).scalar())
        self._counts.store(_filters(query), total)
        return total


def _filters(query: UserQuery) -> tuple[str, ...]:
    """Return the filters that a count belongs to."""
    return query.search.lower(), query.status, query.plugin


class CountCache:
    """Cache of large counts for half a minute: counting a million rows costs more than showing twenty."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, ...], tuple[int, datetime]] = OrderedDict()

    def find(self, filters: tuple[str, ...]) -> int | None:
        """Return the count, or None if it is missing or too old."""
        with self._lock:
            total, counted_at = self._cached.get(filters, (0, None))
        if counted_at is None or is_over(counted_at, _CACHED_FOR, self._now()):
            return None
        return total

    def store(self, filters: tuple[str, ...], total: int) -> None:
        with self._lock:
            self._cached.pop(filters, None)
            if total > _CACHED_FROM:
                self._cached[filters] = (total, self._now())
            while len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)


def _full_rows(*columns: Any, ids: Any = None) -> Any:
    """Return a query for list rows, with further columns; a user without a player row has `plugin_state` None.

    `ids`: a query for the ids of the users; None: all users.
    """
    rows = (
        _join_player(
            User.select(
                *columns,
                User.id,
                User.username,
                User.username_key,
                User.email,
                User.email_key,
                User.status,
                User.created_at,
                User.language,
                User.platform,
                User.reason,
                User.reviewed_by,
                User.reviewed_at,
                User.ban_expires_at,
                User.last_login_at,
                SyncRecord.plugin_state,
                SyncRecord.plugin_since,
                StoredQuestionnaire.score,
                StoredQuestionnaire.is_passed,
                StoredQuestionnaire.summary,
                StoredQuestionnaire.requires_review,
                ChatLink.platform.alias("chat_platform"),
                ChatLink.account_id.alias("chat_id"),
                ChatLink.username.alias("chat_username"),
            )
        )
        .switch(User)
        .join(StoredQuestionnaire, JOIN.LEFT_OUTER, on=(StoredQuestionnaire.user == User.id))
        .switch(User)
        .join(ChatLink, JOIN.LEFT_OUTER, on=(ChatLink.user == User.id))
        .objects()
    )
    if ids is None:
        return rows
    selected = ids.alias("selected")
    return rows.switch(User).join(selected, on=(selected.c.id == User.id))


def _join_player(users: Any) -> Any:
    return users.join(SyncRecord, JOIN.LEFT_OUTER, on=(SyncRecord.username_key == User.username_key))


def _in_plugin_state(users: Any, state: str) -> Any:
    """Filter by the player's state; a user not synced yet counts as pending."""
    is_in_state = SyncRecord.plugin_state == state
    if state == "pending":
        is_in_state = is_in_state | SyncRecord.plugin_state.is_null()
    return _join_player(users).where(is_in_state)
