"""Olivia starts the sync: the reply waits for a run that began after the request, and reports what it did."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.support.authme.authme_tables import dump_table
from tests.support.crash.brief_outage import table_missing
from tests.support.operators import create_olivia
from tests.support.our_tables import TABLES, ago, count_rows, our_database
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("mariadb")
COUNTS = {"scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed"}
NOTHING = dict.fromkeys(COUNTS - {"scanned"}, 0)


def ask(stack: Stack, **fields: object) -> dict[str, Any]:
    reply = stack.post("/api/admin/sync", fields, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def effects(report: dict[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in NOTHING}


def test_the_report_has_its_shape(stack: Stack) -> None:
    before = time.time() * 1000
    for language in ("en", "zh"):
        payload = ask(stack, language=language)
        assert set(payload) == {"success", "message", "enabled", "report"}
        assert (payload["success"], payload["enabled"]) == (True, True)
        assert payload["message"] == TRANSLATIONS.text("message.sync_done", language)
    report = payload["report"]
    assert set(report) == {"startedAt", "durationMs", *COUNTS, "conflicts", "errors", "braked", "allowlist"}
    assert all(type(report[name]) is int for name in (*COUNTS, "startedAt", "durationMs"))
    assert before - 1000 <= report["startedAt"] <= time.time() * 1000
    assert (report["conflicts"], report["errors"], report["braked"]) == ([], [], None)


def test_no_body_is_an_empty_one(stack: Stack) -> None:
    reply = stack.post("/api/admin/sync", token=stack.olivia())
    assert (reply.status, reply.json["success"]) == (200, True)


def test_it_tells_what_it_did(stack: Stack) -> None:
    stack.sync()
    bob, carol, dave = stack.approved("bob"), stack.approved("carol"), stack.approved("dave")
    steve = stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    stack.authme.set_password(bob.name, "changed-in-the-game")
    stack.authme.unregister_from_console(carol.name)
    stack.authme.set_email(dave.name, "elsewhere@example.org")

    report = stack.sync()

    assert effects(report) == NOTHING | {"adopted": 1, "updated": 2, "locked": 1, "removed": 1}
    assert [conflict | {"username": conflict["username"].lower()} for conflict in report["conflicts"]] == [
        {"username": dave.key, "field": "email", "kept": "both", "why": "unproven"}
    ]
    assert effects(stack.sync()) == NOTHING


def test_a_plan_changes_nothing_and_tells_the_same(stack: Stack) -> None:
    stack.sync()
    bob, steve = stack.approved("bob"), stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    stack.authme.set_password(bob.name, "changed-in-the-game")
    token = stack.olivia()
    before = dump_table(stack.table), count_rows(stack), stored(stack)

    payload = stack.post("/api/admin/sync", {"plan": True}, token=token).json

    assert payload["message"] == TRANSLATIONS.text("message.sync_planned", "en")
    assert (dump_table(stack.table), count_rows(stack), stored(stack)) == before
    planned = effects(payload["report"])
    assert planned == NOTHING | {"adopted": 1, "updated": 1, "locked": 1}
    assert effects(stack.sync()) == planned


def stored(stack: Stack) -> dict[str, list[dict[str, Any]]]:
    """Return all our rows, except those that change independently: session activity and mails."""
    tables = set(TABLES) - {"regsvc_session", "regsvc_outbox", "regsvc_verification"}
    return {table: our_database(stack).query(f"SELECT * FROM {table}") for table in tables}


@pytest.mark.parametrize("plan", ["yes", 1, None, []])
def test_plan_is_yes_or_no(stack: Stack, plan: object) -> None:
    reply = stack.post("/api/admin/sync", {"plan": plan, "language": "zh"}, token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="plan", language="zh")


def test_a_run_sees_what_the_caller_changed_just_before(stack: Stack) -> None:
    """However many are under way already: theirs may have begun too early."""
    token = stack.olivia()
    for _round in range(5):
        bob = stack.approved("bob")

        def change_and_sync(name: str = bob.name) -> bool:
            stack.authme.set_password(name, "changed-in-the-game")
            stack.post("/api/admin/sync", {}, token=token)
            return stack.post("/api/login", {"username": name, "password": "changed-in-the-game"}).status == 200

        others = [partial(stack.post, "/api/admin/sync", {}, token=token)] * 5
        outcomes = at_once([change_and_sync, *(lambda call=call: call().status == 200 for call in others)])
        assert outcomes == [True] * 6


def test_a_table_that_is_away_is_an_error_in_the_report(stack: Stack) -> None:
    stack.sync()  # a name that something is due for has an error of its own
    with table_missing(stack):
        for plan in (False, True):
            payload = ask(stack, plan=plan)
            [error] = payload["report"]["errors"]
            assert error["username"] is None
            assert stack.table.name in error["error"]
            assert effects(payload["report"]) == NOTHING
    assert ask(stack)["report"]["errors"] == []


def test_one_bad_row_does_not_keep_the_rest(stack: Stack) -> None:
    stack.sync()
    bob = stack.approved("bob")
    stack.table.database.execute(
        f"INSERT INTO {stack.table.name} (username, realname, password, regdate) VALUES (?, ?, ?, ?)",
        ("odd name \u00e9", "another name", "", 5),
    )
    stack.authme.set_password(bob.name, "changed-in-the-game")
    report = stack.sync()
    assert report["updated"] == 1
    stack.table.database.execute(f"DELETE FROM {stack.table.name} WHERE realname = ?", ("another name",))
    assert stack.login(bob, "changed-in-the-game").status == 200


# --- Stacks of their own ---


def test_with_the_bridge_off_there_is_nothing_to_do(make_stack: MakeStack) -> None:
    stack = make_stack(config={"authme": {"enabled": False}})
    create_olivia(stack)
    stack.approved("alice")
    for language, plan in (("en", False), ("zh", False), ("en", True)):
        payload = ask(stack, language=language, plan=plan)
        assert (payload["success"], payload["enabled"]) == (True, False)
        assert payload["message"] == TRANSLATIONS.text("message.sync_off", language)
        report = payload["report"]
        assert (effects(report), report["scanned"]) == (NOTHING, 0)
        assert (report["errors"], report["conflicts"], report["braked"]) == ([], [], None)


def test_too_much_at_once_is_left_out_and_told(make_stack: MakeStack) -> None:
    stack = make_stack(config={"sync": {"max_changes": "2 and 5%"}})
    players = [stack.approved("bob") for _number in range(5)]
    for person in players:
        stack.authme.unregister_from_console(person.name)

    payload = ask(stack)

    assert payload["message"] == TRANSLATIONS.text("message.sync_braked", "en")
    braked = payload["report"]["braked"]
    assert (braked["removed"], braked["locked"]) == (5, 0)
    assert braked["limit"]
    assert payload["report"]["removed"] == 0
    assert {stack.user(person)["plugin"] for person in players} == {"synced"}
    newcomer = stack.approved("alice")
    assert stack.authme.login(newcomer.name, newcomer.password)


def test_another_processs_run_is_waited_for(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.sync()
    ours = our_database(stack)
    ours.execute(
        "UPDATE regsvc_lease SET holder = 'elsewhere:1', expires_at = ? WHERE name = 'sync'", (ago(seconds=-25),)
    )
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, stack)
        assert ask(stack, plan=True)["success"] is True  # a look needs no lease
        assert not waiting.done()
        released_at = time.time() * 1000
        ours.execute("UPDATE regsvc_lease SET expires_at = '2020-01-01 00:00:00.000'")
        assert waiting.result()["report"]["startedAt"] >= released_at - 1
