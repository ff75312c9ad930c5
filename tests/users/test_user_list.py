"""The list of users that Olivia sees: what is in a line, what is on a page, and how she gets to the next."""

import base64
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from peewee import Database

from regsvc.core.errors import InvalidField
from regsvc.database import bulk
from regsvc.database.models import ADD, APPROVED, BANNED, LISTED, PENDING, REMOVE, TAKEN_OFF, Allowed, SyncRecord, User
from regsvc.http.messages import Pagination, make_pagination
from regsvc.users import user_list
from regsvc.users.gates import HELD_BACK, UUID_IN_DOUBT, Gates
from regsvc.users.user_list import UserList, UserPage
from regsvc.users.user_query import UsersQuery
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock

NAMES = ("Alice", "Bob", "Carol", "Dave", "Eve", "Frank", "Grace")


@pytest.fixture
def users(our_database: Database, clock: ManualClock) -> UserList:
    return UserList(lambda name: name == "Bob", Gates(True, lambda: False))


@pytest.fixture
def everybody(make_user: MakeUser) -> list[User]:
    return [make_user(name, status=APPROVED) for name in NAMES]


@pytest.fixture
def make_player(our_database: Database, clock: ManualClock) -> Callable[..., None]:
    def make(name: str, plugin_state: str) -> None:
        SyncRecord.insert(
            username_key=name.lower(),
            user_id=User.get(User.username == name).id,
            presence="present",
            plugin_state=plugin_state,
            plugin_since=clock(),
        ).execute()

    return make


def names(page: UserPage) -> list[str]:
    return [entry.username for entry in page.entries]


def walk(users: UserList, **query: Any) -> Iterator[UserPage]:
    """The first page, and all that its cursors lead to."""
    page = users.list_users(UsersQuery(**query))
    yield page
    while page.next_cursor is not None:
        page = users.list_users(UsersQuery(**query, after=page.next_cursor))
        yield page


def test_nobody_is_an_empty_list(users: UserList) -> None:
    page = users.list_users(UsersQuery())
    assert (page.entries, page.next_cursor) == ((), None)
    assert page.pagination == make_pagination(1, 20, 0, has_next=False)
    assert (page.pagination.total_pages, page.pagination.has_prev) == (0, False)


def test_the_newest_come_first_twenty_at_a_time(users: UserList, make_user: MakeUser) -> None:
    for number in range(21):
        make_user(f"Player{number}")
    page = users.list_users(UsersQuery())
    assert len(page.entries) == page.pagination.page_size == 20
    assert names(page)[0] == "Player20"


@pytest.mark.parametrize(
    ("sort", "expected"), [("newest", [*reversed(NAMES)]), ("oldest", [*NAMES]), ("name", [*NAMES])]
)
def test_numbered_pages_show_everybody_once(
    users: UserList, everybody: list[User], sort: Any, expected: list[str]
) -> None:
    for size in (1, 2, 3, 7, 100):
        pages = []
        for number in range(1, 9):
            page = users.list_users(UsersQuery(page=number, size=size, sort=sort))
            assert page.pagination == Pagination(
                current_page=number,
                page_size=size,
                total_count=7,
                total_pages=-(-7 // size),
                has_next=number * size < 7,
                has_prev=number > 1,
            )
            pages += names(page)
        assert pages == expected


@pytest.mark.parametrize("sort", ["newest", "oldest", "name"])
def test_cursors_lead_to_everybody_once(users: UserList, everybody: list[User], sort: Any) -> None:
    pages = list(walk(users, sort=sort, size=3))

    assert [len(page.entries) for page in pages] == [3, 3, 1]
    assert [name for page in pages for name in names(page)] == names(users.list_users(UsersQuery(sort=sort, size=100)))
    assert [(page.pagination.current_page, page.pagination.has_prev, page.pagination.has_next) for page in pages] == [
        (1, False, True),
        (None, True, True),
        (None, True, False),
    ]


@pytest.mark.every_database
@pytest.mark.parametrize("status", ["all", APPROVED, PENDING])
@pytest.mark.parametrize("plugin", ["all", "pending"])
def test_who_registered_first_is_the_oldest_whenever_they_came_here(
    users: UserList, everybody: list[User], clock: ManualClock, status: Any, plugin: Any
) -> None:
    """Grace and Frank have played for years; Bob to Dave were imported at one moment."""
    if status == PENDING:
        User.update(status=PENDING).execute()
    for years, who in ((9, "Grace"), (8, "Frank"), (1, "Bob"), (1, "Carol"), (1, "Dave")):
        User.update(created_at=clock() - timedelta(days=365 * years)).where(User.username == who).execute()
    expected = ["Grace", "Frank", "Bob", "Carol", "Dave", "Alice", "Eve"]
    for sort, names_in_order in (("oldest", expected), ("newest", expected[::-1])):
        for size in (1, 2, 100):
            pages = walk(users, status=status, plugin=plugin, sort=sort, size=size)
            assert [name for page in pages for name in names(page)] == names_in_order
            numbered = [UsersQuery(status=status, plugin=plugin, sort=sort, size=size, page=it) for it in range(1, 8)]  # type: ignore[arg-type]
            assert [name for query in numbered for name in names(users.list_users(query))] == names_in_order


def test_names_are_sorted_without_regard_to_case(users: UserList, make_user: MakeUser) -> None:
    for name in ("bob", "Alice", "_x", "Carol"):
        make_user(name)
    assert names(users.list_users(UsersQuery(sort="name"))) == ["_x", "Alice", "bob", "Carol"]


def test_a_cursor_outlives_the_row_it_came_from(users: UserList, everybody: list[User]) -> None:
    first = users.list_users(UsersQuery(sort="name", size=3))
    User.delete().where(User.username == "Carol").execute()
    assert names(users.list_users(UsersQuery(sort="name", size=2, after=first.next_cursor))) == ["Dave", "Eve"]


def test_a_page_past_the_end_is_empty(users: UserList, everybody: list[User]) -> None:
    for number in (8, 10**30):
        page = users.list_users(UsersQuery(page=number, size=1))
        assert (page.entries, page.pagination) == ((), make_pagination(number, 1, 7, has_next=False))


# --- Filters ---


def test_the_review_queue_is_oldest_first_and_whole(users: UserList, make_user: MakeUser) -> None:
    for number in range(25):
        make_user(f"Player{number}", status=APPROVED if number % 5 == 0 else PENDING)

    queue = users.list_users(UsersQuery(status="pending"))

    assert (queue.pagination.page_size, queue.pagination.total_count) == (100, 20)
    assert names(queue)[:2] == ["Player1", "Player2"]
    assert names(users.list_users(UsersQuery(status="pending", sort="newest", size=1))) == ["Player24"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("ALI", ["Alice", "alien"]),
        ("ice", ["Alice"]),
        ("@b.example", ["Bob"]),
        ("B.EXAMPLE", ["Bob"]),
        ("_", ["a_b", "under"]),
        ("%", ["percent"]),
        ("\\", ["back"]),
        ("a_", ["a_b"]),
        ("axb", ["axb"]),
        ("'", []),
        ("zoë", ["Zoë"]),
        ("ZOË", ["Zoë"]),
        ("zoe", []),
        ("\x00", []),
    ],
)
def test_the_search_is_literal_and_knows_no_case(
    users: UserList, make_user: MakeUser, search: str, found: list[str]
) -> None:
    make_user("Alice", email=None)
    make_user("alien", email="x@c.example")
    make_user("Bob", email="Bob@B.example")
    make_user("a_b", email=None)
    make_user("axb", email=None)
    make_user("under", email="un_der@c.example")
    make_user("percent", email="per%cent@c.example")
    make_user("back", email='"b\\s"@c.example')
    make_user("Zoë", email=None)

    page = users.list_users(UsersQuery(search=search, sort="oldest"))

    assert sorted(names(page)) == sorted(found)
    assert page.pagination.total_count == len(found)


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("10.9.9.9", ["Alice", "Bob"]),
        ("10.9.9.", ["Alice", "Bob", "Carol"]),
        ("10.", ["Alice", "Bob", "Carol"]),
        ("9.9.9", []),
        ("10", ["v10"]),  # a number may be part of a name, too
        ("2001:DB8:0::1", ["Dave"]),
        ("2001:db8:", ["Dave"]),
    ],
)
def test_applicants_are_found_by_the_address_they_registered_from(
    users: UserList, make_user: MakeUser, search: str, found: list[str]
) -> None:
    addresses = {"Alice": "10.9.9.9", "Bob": "10.9.9.9", "Carol": "10.9.9.99", "Dave": "2001:db8::1", "v10": None}
    for name, address in addresses.items():
        make_user(name, email=None, registration_ip=address)
    assert names(users.list_users(UsersQuery(search=search, sort="name"))) == found


@pytest.mark.every_database
def test_who_waits_for_the_team_comes_before_who_has_to_answer(
    users: UserList, make_user: MakeUser, clock: ManualClock
) -> None:
    """In every order, on numbered pages and along the cursors."""
    for name in NAMES:
        make_user(name)
    User.update(status=PENDING).execute()
    User.update(asked_at=clock()).where(User.username.in_(["Alice", "Dave", "Grace"])).execute()
    ours, theirs = ["Bob", "Carol", "Eve", "Frank"], ["Alice", "Dave", "Grace"]
    for sort in ("oldest", "newest", "name", "score"):
        expected = [*reversed(ours), *reversed(theirs)] if sort == "newest" else ours + theirs
        for size in (1, 3, 5):
            cursors = list(walk(users, status="pending", sort=sort, size=size))
            assert [name for page in cursors for name in names(page)] == expected, sort
            numbers = range(1, -(-7 // size) + 1)
            pages = [users.list_users(UsersQuery(status="pending", sort=sort, size=size, page=it)) for it in numbers]
            assert [name for page in pages for name in names(page)] == expected, sort
        searched = walk(users, status="pending", sort=sort, search="example", size=2)
        assert [name for page in searched for name in names(page)] == expected, sort
    for waiting_for, waiting in (("review", ours), ("applicant", theirs)):
        page = users.list_users(UsersQuery(status="pending", waiting_for=waiting_for))  # type: ignore[arg-type]
        assert (names(page), page.pagination.total_count) == (waiting, len(waiting))
        assert {entry.waiting_for for entry in page.entries} == {waiting_for}


def test_filters_hold_along_the_cursors(users: UserList, make_user: MakeUser) -> None:
    for number in range(12):
        make_user(f"{'even' if number % 2 == 0 else 'odd'}{number}", status=APPROVED if number % 3 else BANNED)

    pages = list(walk(users, search="even", status="approved", sort="oldest", size=2))

    assert [name for page in pages for name in names(page)] == ["even2", "even4", "even8", "even10"]
    assert {page.pagination.total_count for page in pages} == {4}


def test_it_filters_by_the_state_of_the_player(
    users: UserList, everybody: list[User], make_player: Callable[..., None]
) -> None:
    make_player("Alice", "synced")
    make_player("Bob", "conflict")
    make_player("Carol", "pending")

    def found(plugin: Any) -> list[str]:
        page = users.list_users(UsersQuery(plugin=plugin, sort="name"))
        assert page.pagination.total_count == len(page.entries)
        assert {entry.plugin for entry in page.entries} <= {plugin}
        return names(page)

    assert found("synced") == ["Alice"]
    assert found("conflict") == ["Bob"]
    assert found("pending") == ["Carol", "Dave", "Eve", "Frank", "Grace"]
    assert found("locked") == []
    assert found("off") == []


def test_it_filters_by_the_state_on_the_allowlist(
    everybody: list[User], make_user: MakeUser, clock: ManualClock
) -> None:
    """As `Gates.listed_state` tells it, whatever the record of a name is."""
    gates = Gates(False, lambda: True)
    states, reasons = (ADD, LISTED, TAKEN_OFF, REMOVE), (None, UUID_IN_DOUBT, HELD_BACK)
    for number, (state, reason) in enumerate(product(states, reasons), 1):
        name = f"player_{number}"
        user = make_user(name, status=BANNED)
        record = {"username": name, "username_key": name, "user_id": user.id, "since": clock()}
        Allowed.insert(**record, state=state, reason=reason).execute()
    User.update(status=PENDING).where(User.username == "Alice").execute()
    User.update(status=BANNED).where(User.username_key == "bob").execute()
    users = UserList(lambda name: False, gates)
    shown = {entry.username: entry.allowlist for entry in users.list_users(UsersQuery(size=50)).entries}
    assert {shown[name] for name in ("Alice", "Bob")} == {"absent"}
    for state in ("listed", "removed", "conflict", "absent"):
        expected = sorted(name for name, is_so in shown.items() if is_so == state)
        assert sorted(names(users.list_users(UsersQuery(allowlist=state, size=50)))) == expected  # type: ignore[arg-type]
    with_record = sorted(name for name, is_so in shown.items() if is_so == "waiting" and name not in NAMES)
    assert names(users.list_users(UsersQuery(allowlist="waiting", size=50, sort="name"))) == with_record
    assert names(users.list_users(UsersQuery(allowlist="absent", status=BANNED))) == ["Bob"]
    assert users.list_users(UsersQuery(allowlist="off")).pagination.total_count == 0
    without_list = UserList(lambda name: False, Gates(True, lambda: False))
    assert without_list.list_users(UsersQuery(allowlist="off")).pagination.total_count == 19


def test_with_the_bridge_off_every_player_is_off(
    everybody: list[User], make_player: Callable[..., None], clock: ManualClock
) -> None:
    make_player("Alice", "synced")
    users = UserList(lambda name: False, Gates(False, lambda: False))

    entries = users.list_users(UsersQuery(plugin="off")).entries

    assert len(entries) == 7
    assert {(entry.plugin, entry.plugin_since) for entry in entries} == {("off", None)}
    assert users.list_users(UsersQuery(plugin="synced")).pagination.total_count == 0


# --- What is asked for wrongly ---


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("page", 0),
        ("page", -1),
        ("size", 0),
        ("size", 501),
        ("status", "deleted"),
        ("status", ""),
        ("match", "start"),
        ("plugin", "on"),
        ("sort", "random"),
        ("after", ""),
        ("after", "garbage"),
        ("after", "é"),
        ("after", "\ud800"),
        ("after", "x" * 100_000),
        *[
            ("after", base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("="))
            for cursor in (
                "newest:1",
                "{}",
                "[]",
                "5",
                "[" * 5_000,
                '["newest",false]',
                '["newest",false,"2026-11-28 09:00:00.000"]',
                '["newest",false,"2026-11-28 09:00:00.000",-2]',
                '["newest",false,"2026-11-28 09:00:00.000",true]',
                '["newest",false,"2026-11-28 09:00:00.000","1"]',
                '["newest",false,"2026-11-28 09:00:00.000",1.0]',
                '["newest",false,"2026-11-28 09:00:00.000", 1]',
                '["newest",false,"2026-11-28 09:00:00.000",9223372036854775808]',
                '["newest",false,5,1]',
                '["newest",false,"\\ud800",1]',
                '["newest",true,"2026-11-28 09:00:00.000",1]',
                '["oldest",false,"2026-11-28 09:00:00.000",1]',
                '["name",false,"alice"]',
            )
        ],
        ("after", base64.urlsafe_b64encode(b"\xff").decode().rstrip("=")),
    ],
)
def test_it_names_the_parameter_that_is_wrong(clock: ManualClock, field: str, value: object) -> None:
    users = UserList(lambda name: False, Gates(True, lambda: False))
    with pytest.raises(InvalidField) as refused:
        users.list_users(UsersQuery(**{field: value}))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_cursor_and_a_number_exclude_each_other(users: UserList, everybody: list[User]) -> None:
    cursor = users.list_users(UsersQuery(size=2)).next_cursor
    with pytest.raises(InvalidField) as refused:
        users.list_users(UsersQuery(after=cursor, page=1))
    assert refused.value.field == "after"


# --- Large tables ---


@pytest.mark.parametrize("search", ["", "example"])
@pytest.mark.parametrize("plugin", ["all", "synced", "pending"])
@pytest.mark.parametrize("sort", ["newest", "oldest", "name"])
def test_counting_ends_but_pages_do_not(
    users: UserList,
    everybody: list[User],
    make_player: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    search: str,
    plugin: Any,
    sort: Any,
) -> None:
    if plugin == "synced":
        for name in NAMES:
            make_player(name, "synced")
    query: dict[str, Any] = {"search": search, "plugin": plugin, "sort": sort, "size": 2}
    expected = [*NAMES] if sort != "newest" else [*reversed(NAMES)]
    assert {page.pagination.total_count for page in walk(users, **query)} == {7}

    for module in (user_list, bulk):
        monkeypatch.setattr(module, "MAX_COUNT", 3)

    cursors = list(walk(users, **query))
    assert [name for page in cursors for name in names(page)] == expected
    assert {(page.pagination.total_count, page.pagination.total_pages) for page in cursors} == {(None, None)}
    pages = [users.list_users(UsersQuery(**query, page=number)) for number in range(1, 6)]
    assert [name for page in pages for name in names(page)] == expected
    assert [page.pagination.has_next for page in pages] == [True, True, True, False, False]
    assert {page.pagination.total_count for page in pages} == {None}


def test_fewer_are_counted_where_each_is_looked_up(
    users: UserList, everybody: list[User], make_player: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        make_player(name, "synced")
    both = UsersQuery(plugin="synced", status="approved")
    monkeypatch.setattr(user_list, "MAX_COUNT", 3)
    assert users.list_users(both).pagination.total_count == 7

    monkeypatch.setattr(user_list, "_MAX_OF_TWO", 6)
    page = users.list_users(both)
    assert (names(page), page.pagination.total_count) == ([*reversed(NAMES)], None)


@pytest.mark.parametrize("sort", ["newest", "oldest", "name"])
def test_a_search_for_few_tells_how_many(users: UserList, everybody: list[User], sort: Any) -> None:
    def found(number: int) -> tuple[int, int | None, bool]:
        page = users.list_users(UsersQuery(search="a", status="approved", sort=sort, size=2, page=number))
        return len(page.entries), page.pagination.total_count, page.pagination.has_next

    assert [found(number) for number in range(1, 5)] == [(2, 7, True), (2, 7, True), (2, 7, True), (1, 7, False)]


@pytest.mark.parametrize("plugin", ["all", "synced"])
def test_a_whole_name_or_address_is_found_without_those_that_contain_it(
    users: UserList, make_user: MakeUser, make_player: Callable[..., None], plugin: Any
) -> None:
    for name in ("Alice", "Alice2", "Malice"):
        make_user(name)
        make_player(name, "synced")

    def found(search: str) -> list[str]:
        page = users.list_users(UsersQuery(search=search, match="whole", plugin=plugin))
        assert page.pagination.total_count == len(page.entries)
        return names(page)

    assert found("ALICE") == ["Alice"]
    assert found("malice@example.org") == ["Malice"]
    assert found("lice") == []


def test_a_player_whose_user_sql_deleted_is_not_listed(
    users: UserList, everybody: list[User], make_player: Callable[..., None]
) -> None:
    for name in NAMES:
        make_player(name, "synced")
    User.delete().where(User.username.in_(("Eve", "Frank", "Grace"))).execute()

    pages = list(walk(users, plugin="synced", size=3))

    assert [names(page) for page in pages] == [["Dave", "Carol", "Bob"], ["Alice"]]
