"""Under `http.legacy_status` an old front end gets the service's own refusals with 200, all others as ever."""

from typing import Any

import pytest

from tests.support.decisions import decide_on_many, somebody
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import NO_LIMIT, OPERATOR, MakeVillage, Person, Village

DECISIONS = ("approve", "reject", "ban", "unban", "delete", "password")


@pytest.fixture(scope="module")
def village(make_village: MakeVillage) -> Village:
    return make_village(config={"http": {"legacy_status": True}, "auth": {"login_limits": NO_LIMIT}})


def test_success_repeats_its_message(village: Village) -> None:
    alice = village.pending("alice")
    told = village.decides("approve", alice).json
    assert told["msg"] == told["message"] == f"{alice.name} was approved."
    told = village.post("/api/admin/sync", {}, token=village.olivia()).json
    assert told["msg"] == told["message"]


def log_in(village: Village, name: str, password: str, **fields: object) -> Any:
    return village.post("/api/admin/login", {"username": name, "password": password, **fields})


def test_every_refusal_of_the_login(village: Village) -> None:
    bob, banned = village.approved("bob"), somebody(village, "banned", "ben")
    assert_refused_as_200(log_in(village, OPERATOR, "a wrong one"), "bad_credentials")
    assert_refused_as_200(log_in(village, bob.name, bob.password, language="zh"), "not_operator", "zh")
    assert_refused_as_200(log_in(village, banned.name, banned.password), "banned")
    assert_refused_as_200(village.post("/api/admin/login", {"username": OPERATOR}), "invalid_field")


def test_waiting_as_well(make_village: MakeVillage) -> None:
    village = make_village(config={"http": {"legacy_status": True}, "auth": {"login_limits": ["1 per minute"]}})
    log_in(village, "nobody", "a wrong one")
    reply = log_in(village, "nobody", "a wrong one")
    told = assert_refused_as_200(reply, "rate_limited")
    assert told["remainingSeconds"] == int(reply.headers["Retry-After"])


@pytest.mark.parametrize("decision", DECISIONS)
def test_the_refusals_of_a_decision(village: Village, decision: str) -> None:
    assert_refused_as_200(village.decide(decision, village.newcomer("nobody")), "user_not_found")
    reply = village.post(f"/api/admin/user/{decision}", {}, token=village.olivia())
    assert assert_refused_as_200(reply, "invalid_field")["field"] == "username"


@pytest.mark.parametrize("decision", ["reject", "ban", "delete", "password"])
def test_an_equal_is_protected_with_200(village: Village, decision: str) -> None:
    olivia = Person(OPERATOR, "", "")
    assert_refused_as_200(village.decide(decision, olivia, language="zh"), "protected_operator", "zh")


def test_a_password_against_the_rules(village: Village) -> None:
    bob = village.approved("bob")
    told = assert_refused_as_200(village.decide("password", bob, password="abc"), "invalid_password")
    assert told["fault"] == "too_short"


def test_wrong_parameters_of_the_lists(village: Village) -> None:
    for path in ("/api/admin/users", "/api/admin/audits"):
        reply = village.get(path, {"size": "101"}, token=village.olivia())
        assert assert_refused_as_200(reply, "invalid_field")["field"] == "size"


def test_many_at_once_are_as_ever(village: Village) -> None:
    alice, nobody = village.pending("alice"), village.newcomer("nobody")
    results = decide_on_many(village, "approve", [alice.name, nobody.name])
    assert [result.get("code") for result in results] == [None, "user_not_found"]


# --- What stays ---


@pytest.mark.parametrize("decision", DECISIONS)
def test_broken_requests_and_missing_rights_keep_their_status(village: Village, decision: str) -> None:
    path = f"/api/admin/user/{decision}"
    bob = village.approved("bob")
    assert_refused(village.post(path, {}), 401, "unauthorized")
    assert_refused(village.post(path, {}, token=village.user_token(bob)), 403, "forbidden")
    assert_refused(village.post(path, ["not", "an", "object"], token=village.olivia()), 400, "malformed_body")
    assert_refused(village.get(path, token=village.olivia()), 405, "method_not_allowed")
    headers = {"Content-Type": "text/plain"}
    reply = village.daemon.request("POST", path, body=b"{}", headers=headers, token=village.olivia())
    assert_refused(reply, 415, "unsupported_media_type")
