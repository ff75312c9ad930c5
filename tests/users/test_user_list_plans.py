"""Which tables a list of users reads whole, as the database tells, whatever is filtered and however it is sorted."""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, product
from typing import Any

import pytest
from peewee import Database, SqliteDatabase

from regsvc.database.models import Allowed, StoredQuestionnaire, SyncRecord, User
from regsvc.users import user_list
from regsvc.users.gates import Gates
from regsvc.users.user_list import UserList
from regsvc.users.user_query import UsersQuery
from tests.support.database_fixtures import insert_whole
from tests.support.each import assert_each
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.every_database

Statements = list[tuple[str, Any]]

COUNT = 2_000
ANALYZED = ("regsvc_user", "regsvc_sync_record", "regsvc_allowlist", "regsvc_questionnaire_result")
QUEUES: list[dict[str, Any]] = [
    *[{"sort": sort} for sort in ("newest", "oldest", "name", "score")],
    {"waiting_for": "review"},
    {"waiting_for": "applicant", "sort": "newest"},
    {"has_signal": True},
    {"has_signal": True, "sort": "score"},
    {"below_pass": True},
    {"platform": "java", "user_language": "en"},
    {"search": "castle"},
    {"search": "castle", "sort": "score"},
    {"search": "castle", "waiting_for": "review", "platform": "java", "sort": "name"},
]
LISTS = list(
    product(
        [("", "part"), ("player_1", "part"), ("player_1", "whole")],
        ["all", "approved", "pending"],
        [
            *[(plugin, "all") for plugin in ("all", "synced", "locked", "conflict", "pending")],
            *[("all", allowlist) for allowlist in ("listed", "waiting", "removed", "conflict", "absent")],
            ("locked", "listed"),
            ("synced", "removed"),
        ],
        ["newest", "oldest", "name"],
    )
)


def may_scan(search: str, match: str, status: str, plugin: str, allowlist: str) -> bool:
    """Return whether this list may read all users: in their order up to the end of the page, or for a text in any."""
    is_common = plugin in ("all", "synced") and allowlist in ("all", "listed")
    is_search = search != "" and match == "part" and status != "pending" and is_common
    is_by_index = plugin == "synced" or allowlist == "listed"
    is_in_order = search == "" and (status == "all" or (status == "approved" and is_by_index)) and is_common
    return is_search or is_in_order


@pytest.fixture
def crowd(our_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Nearly all are approved, synced and listed; ten wait, twenty are locked, five are in conflict.

    Twenty wait for the allowlist, five were removed from it. Two who wait have to answer a question; those who wait
    have given answers, as have some of the others.
    """
    monkeypatch.setattr(user_list, "MAX_COUNT", 100)
    users, records, allowed, results = [], [], [], []
    for number in range(1, COUNT + 1):
        key, status = f"player_{number}", "pending" if number % 200 == 0 else "approved"
        state = "locked" if number % 100 == 1 else "conflict" if number % 400 == 2 else "synced"
        same = {"username_key": key, "changed_at": None}
        asked_at = clock() if number % 1000 == 0 else None
        user = {"id": number, "username": key, "email_key": f"{key}@example.org", "status": status}
        at = clock() - timedelta(hours=number // 3)
        users.append(
            same | user | {"applied_status": status, "origin": "adopted", "created_at": at, "asked_at": asked_at}
        )
        record = {"user_id": number, "presence": "present", "plugin_state": state, "plugin_since": clock()}
        records.append(same | record)
        if number % 50 == 0:
            texts = {"nonce": "", "answers": '[{"answers": ["A castle."]}]', "summary": "", "submitted_at": clock()}
            points = {"score": number % 7, "max_score": 9, "pass_score": 3, "is_passed": True, "requires_review": False}
            results.append({"user": number} | texts | points)
        if status == "approved":
            state = "add" if number % 100 == 1 else "taken_off" if number % 400 == 2 else "listed"
            reason = "uuid_in_doubt" if number == 301 else None
            of = {"username_key": key, "username": key, "user_id": number, "state": state, "reason": reason}
            allowed.append(of | {"since": clock()})
    marked: tuple[type[User | SyncRecord], ...] = User, SyncRecord
    for model, rows in ((User, users), (SyncRecord, records), (Allowed, allowed), (StoredQuestionnaire, results)):
        insert_whole(model, rows)
    for model in marked:
        model.update(changed_at=None).execute()
    if not isinstance(our_database, SqliteDatabase):
        our_database.execute_sql(f"ANALYZE TABLE {', '.join(ANALYZED)}").fetchall()
    return our_database


def scans(database: Database, sql: str, parameters: Any) -> Iterator[str]:
    """Yield what a statement reads whole of users, sync records and the allowlist, each as the database puts it."""
    tables = r"\bregsvc_(?:user|sync_record|allowlist|questionnaire_result)"
    aliases = set(re.findall(rf"{tables}[`\"] AS [`\"](\w+)|{tables} (\w+)", sql))
    aliases = {alias for pair in aliases for alias in pair if alias}
    if isinstance(database, SqliteDatabase):
        for row in database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall():
            found = re.match(r"SCAN (\w+)", row[3])
            if found and found[1] in aliases:
                yield row[3]
        return
    cursor = database.execute_sql(f"EXPLAIN FORMAT=TRADITIONAL {sql}", parameters)
    names = [column[0] for column in cursor.description]
    for values in cursor.fetchall():
        row = dict(zip(names, values, strict=True))
        if row["type"] in ("ALL", "index") and row["table"] in aliases:
            yield str(row)


def statements_of(crowd: Database, patch: pytest.MonkeyPatch, query: dict[str, Any]) -> list[Statements]:
    """Return what the list runs for the page that is asked for; or for the first one, and the next if there is one."""
    users = UserList(lambda name: False, Gates(True, lambda: True))
    statements: Statements = []
    execute: Any = crowd.execute_sql

    def record(sql: str, parameters: Any = None, *rest: Any) -> Any:
        statements.append((sql, parameters))
        return execute(sql, parameters, *rest)

    with patch.context() as patched:
        patched.setattr(crowd, "execute_sql", record)
        cursor = users.list_users(UsersQuery(**query, size=3)).next_cursor
        pages = [[*statements]]
        if cursor is not None and not {"page", "after"} & query.keys():
            users.list_users(UsersQuery(**query, size=3, after=cursor))
            pages.append(statements[len(pages[0]) :])
    assert all(pages)
    return pages


def test_no_list_reads_all_users_without_need(crowd: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: tuple[tuple[str, str], str, tuple[str, str], str]) -> None:
        (search, match), status, (plugin, allowlist), sort = case
        query = {"search": search, "match": match, "status": status, "plugin": plugin, "sort": sort}
        pages = statements_of(crowd, monkeypatch, query | {"allowlist": allowlist})
        read = [found for sql, parameters in chain(*pages) for found in scans(crowd, sql, parameters)]
        assert not read or may_scan(search, match, status, plugin, allowlist), "\n".join(read)

    assert_each(LISTS, check)


def test_the_queue_never_reads_all_users(crowd: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is filtered by, answers and signals included, it reads those who wait."""

    def check(query: dict[str, Any]) -> None:
        for sql, parameters in chain(*statements_of(crowd, monkeypatch, query | {"status": "pending"})):
            assert list(scans(crowd, sql, parameters)) == [], sql

    assert_each(QUEUES, check)


def test_the_queue_is_read_in_order(crowd: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its usual order is that of an index, so that a page of a long queue costs no more than one of a short one."""
    explain = "EXPLAIN QUERY PLAN" if isinstance(crowd, SqliteDatabase) else "EXPLAIN FORMAT=TRADITIONAL"
    pages = statements_of(crowd, monkeypatch, {"status": "pending"})
    assert len(pages) == 2
    for [(sql, parameters), *_signals] in pages:
        plan = str(crowd.execute_sql(f"{explain} {sql}", parameters).fetchall())
        assert "regsvc_user_queue" in plan
        assert not re.search("filesort|TEMP B-TREE", plan), plan


def test_a_cursor_is_found_in_the_index(crowd: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a page at any depth costs what the first one does."""
    explain = "EXPLAIN QUERY PLAN" if isinstance(crowd, SqliteDatabase) else "EXPLAIN FORMAT=TRADITIONAL"
    users = UserList(lambda name: False, Gates(True, lambda: True))

    def check(query: dict[str, Any]) -> None:
        cursor = users.list_users(UsersQuery(**query, size=3, page=550)).next_cursor
        [*_counts, (sql, parameters)] = statements_of(crowd, monkeypatch, query | {"after": cursor})[0]
        plan = str(crowd.execute_sql(f"{explain} {sql}", parameters).fetchall())
        assert re.search(r"created_at[<>]\?|'range', '[^']*', 'regsvc_user_(status_)?time'", plan), plan
        assert not re.search("filesort|TEMP B-TREE", plan), plan

    assert_each([{"sort": sort} | by for sort in ("newest", "oldest") for by in ({}, {"status": "approved"})], check)


def test_what_comes_before_a_far_page_is_read_in_an_index_alone(
    crowd: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = "EXPLAIN QUERY PLAN" if isinstance(crowd, SqliteDatabase) else "EXPLAIN FORMAT=TRADITIONAL"

    def check(case: tuple[dict[str, Any], int]) -> None:
        query, page = case
        *_counts, (sql, parameters) = statements_of(crowd, monkeypatch, query | {"page": page})[0]
        plan = [str(step) for step in crowd.execute_sql(f"{explain} {sql}", parameters).fetchall()]
        [step] = [step for step in plan if re.search(r"'DERIVED'|(SCAN|SEARCH) t\d USING COVERING", step)][:1]
        assert re.search("Using index|COVERING INDEX", step), plan
        assert not re.search("filesort|TEMP B-TREE", str(plan)), plan

    queries: list[dict[str, Any]] = [{}, {"sort": "name"}, {"status": "approved"}]
    assert_each(list(product([*queries, {"plugin": "synced"}, {"allowlist": "listed"}], [200, 600])), check)
