"""Olivia lets memberships end and go on, through the API and at a shell."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeStack, Person, Stack, find_link_token

DAY = 86_400_000


def end_of(stack: Stack, person: Person) -> str | None:
    sql = "SELECT member_until FROM regsvc_user WHERE username_key = ?"
    [until] = [row["member_until"] for row in our_database(stack).query(sql, (person.key,))]
    return None if until is None else str(until)


def is_in_days(until: str | None, days: int) -> bool:
    assert until is not None
    moment = datetime.fromisoformat(until).replace(tzinfo=UTC)
    return abs(moment - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=5)


def test_an_approval_may_say_how_long(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    assert stack.decides("approve", alice, **{"for": "30 days"}).json["status"] == "approved"
    assert is_in_days(end_of(stack, alice), 30)
    stack.decides("approve", bob, until=None)
    assert end_of(stack, bob) is None


def test_more_time_is_added_and_an_end_is_a_date_or_none(stack: Stack) -> None:
    bob = stack.approved("bob")
    reply = stack.decides("membership", bob, **{"for": "7 days"})
    assert reply.json["message"] == f"{bob.name}’s membership was changed."
    stack.decides("membership", bob, **{"for": "1 week"})
    assert is_in_days(end_of(stack, bob), 14)
    stack.decides("membership", bob, until=round(time.time() * 1000) + 90 * DAY)
    assert is_in_days(end_of(stack, bob), 90)
    assert "It lasts until" in stack.smtp.wait_for(bob.email, 5).text
    stack.decides("membership", bob, until=None, silent=True)
    assert end_of(stack, bob) is None
    assert len(stack.audits(bob, "membership.set")) == 4


def test_several_at_once(stack: Stack) -> None:
    people = [stack.approved(f"player{number}") for number in range(2)]
    names = [person.name for person in people]
    body = {"usernames": [*names, "nobody_here"], "for": "30 days"}
    results = stack.post("/api/admin/user/membership", body, token=stack.olivia()).json["results"]
    assert [result.get("code") for result in results] == [None, None, "user_not_found"]
    assert all(is_in_days(end_of(stack, person), 30) for person in people)


REFUSED: Mapping[str, tuple[dict[str, object], str, str | None, str]] = {
    "past": ({"until": 1_000}, "invalid_membership", "in_the_past", "until"),
    "now": ({"for": "0 days"}, "invalid_membership", "in_the_past", "for"),
    "word": ({"for": "a while"}, "invalid_membership", "no_duration", "for"),
    "empty": ({"for": ""}, "invalid_membership", "no_duration", "for"),
    "negative": ({"for": "-30 days"}, "invalid_membership", "no_duration", "for"),
    "huge": ({"for": "400 years" + "0" * 20}, "invalid_membership", "no_duration", "for"),
    "both": ({"for": "30 days", "until": None}, "invalid_membership", "two_ends", "for"),
    "number": ({"for": 30}, "invalid_field", None, "for"),
    "text": ({"until": "tomorrow"}, "invalid_field", None, "until"),
    "nothing": ({}, "invalid_field", None, "until"),
}


def test_an_end_that_is_none_is_refused_and_changes_nothing(stack: Stack) -> None:
    bob, alice = stack.approved("bob"), stack.pending("alice")

    def check(case: str) -> None:
        fields, code, fault, field = REFUSED[case]
        payload = assert_refused(stack.decide("membership", bob, **fields), 422, code, field=field)
        assert payload.get("fault") == fault
        if fields:
            assert_refused(stack.decide("approve", alice, **fields), 422, code, field=field)

    assert_each(REFUSED, check)
    assert end_of(stack, bob) is None
    assert stack.status(alice) == "pending"


@pytest.mark.parametrize("transition", ["reject", "ban"])
def test_only_the_approved_are_members(stack: Stack, transition: str) -> None:
    alice = stack.pending("alice")
    assert_refused(stack.decide("membership", alice, **{"for": "1 day"}), 409, "wrong_status")
    stack.decides(transition, alice)
    assert_refused(stack.decide("membership", alice, until=None), 409, "wrong_status")


def test_members_of_the_team_have_no_end(stack: Stack) -> None:
    rita = stack.approved("rita")
    stack.decides("role", rita, role="reviewer")
    refused = stack.decide("membership", rita, **{"for": "1 day"})
    assert_refused(refused, 409, "membership_never_ends", field="username")
    assert stack.decides("membership", rita, until=None).json["status"] == "approved"


def test_ends_are_shown_and_found(stack: Stack) -> None:
    bob, carol = stack.approved("bob"), stack.approved("carol")
    stack.decides("membership", bob, **{"for": "3 days"})
    end_now = "UPDATE regsvc_user SET ended_because = 'role' WHERE username_key = ?"
    our_database(stack).execute(end_now, (carol.key,))
    stack.sync()

    def found(state: str) -> dict[str, str]:
        reply = stack.get("/api/admin/users", {"membership": state, "size": "100"}, token=stack.olivia())
        return {user["username"]: user["membership"]["because"] for user in reply.json["users"]}

    assert found("ending")[bob.name] == "date"
    assert found("ended")[carol.name] == "role"
    assert bob.name not in found("ended")
    assert carol.name not in found("asked")
    figures = stack.get("/api/admin/overview", token=stack.olivia()).json
    assert (figures["endingThisWeek"], figures["stayAsked"]) == (1, 0)
    public = stack.get("/api/user/status", {"username": carol.name}).json["data"]
    assert public == {"registered": True, "username": carol.name, "status": "approved", "hasEnded": True}
    assert "hasEnded" not in stack.get("/api/user/status", {"username": bob.name}).json["data"]
    own = stack.get("/api/user/status", {"username": carol.name}, token=stack.user_token(carol)).json["data"]
    assert (own["membership"]["state"], own["membership"]["endedAt"] is None) == ("ended", False)
    why = stack.get("/api/admin/user/why", {"username": carol.name}, token=stack.olivia()).json
    assert why["answer"]["code"] == "ended_role"
    link = stack.post("/api/admin/user/password-link", {"username": carol.name}, token=stack.olivia()).json["link"]
    reset = {"token": find_link_token(link), "newPassword": "carols-next-secret"}
    assert stack.post("/api/password/reset", reset).json["hasEnded"] is True


# POST /api/user/membership/ask: who is to go asks to stay, and the team decides.


@pytest.fixture(scope="module")
def asking(make_stack: MakeStack) -> Stack:
    return make_stack("sqlite", config={"membership": {"renew": "ask"}})


def ask_to_stay(stack: Stack, person: Person, text: str = "") -> Reply:
    return stack.post("/api/user/membership/ask", {"text": text}, token=stack.user_token(person))


def end_now(stack: Stack, person: Person) -> None:
    sql = "UPDATE regsvc_user SET ended_because = 'date' WHERE username_key = ?"
    our_database(stack).execute(sql, (person.key,))
    stack.sync()


def test_who_asks_to_stay_is_renewed_or_declined(asking: Stack) -> None:
    stack, alice, bob = asking, asking.approved("alice"), asking.approved("bob")
    refused = ask_to_stay(stack, alice)
    assert assert_refused(refused, 409, "cannot_ask_to_stay")["fault"] == "not_ending"
    for person in (alice, bob):
        end_now(stack, person)
        stack.smtp.wait_for(person.email, 3)
    told = ask_to_stay(stack, alice, "  I was away\nfor the exams. ")
    assert told.json["message"] == "The team has your request."
    again = ask_to_stay(stack, alice)
    assert assert_refused(again, 409, "cannot_ask_to_stay")["fault"] == "asked"
    assert_refused(ask_to_stay(stack, bob, "x" * 501), 422, "invalid_field", field="text")
    assert ask_to_stay(stack, bob).status == 200

    token = stack.olivia()
    asked = stack.get("/api/admin/users", {"membership": "asked", "size": "100"}, token=token).json["users"]
    assert {user["username"] for user in asked} == {alice.name, bob.name}
    assert stack.get("/api/admin/overview", token=token).json["stayAsked"] == 2
    details = stack.get("/api/admin/user", {"username": alice.name}, token=token).json
    assert [(note["author"], note["text"]) for note in details["user"]["notes"]] == [
        (alice.name, "I was away\nfor the exams.")
    ]
    assert [entry["operator"] for entry in stack.audits(alice, "membership.asked")] == [alice.name]

    stack.decides("membership", alice, **{"for": "30 days"})
    own = stack.get("/api/user/status", {"username": alice.name}, token=stack.user_token(alice)).json["data"]
    assert (own["membership"]["state"], own["membership"]["stayAskedAt"]) == ("current", None)
    reply = stack.decides("membership", bob, decline=True)
    assert reply.json["message"] == f"The request of {bob.name} was declined."
    mail = stack.smtp.wait_for(bob.email, 4)
    assert "has declined your request to stay" in mail.text
    assert [entry["operator"] for entry in stack.audits(bob, "membership.declined")] == [OPERATOR]
    assert_refused(stack.decide("membership", bob, decline=True), 409, "not_asked_to_stay", field="username")
    assert_refused(stack.decide("membership", bob, decline=True, until=None), 422, "invalid_field", field="decline")
    assert ask_to_stay(stack, bob).status == 200, "another time"
    declined = companion("users", "membership", bob.name, "--decline", "--silent", config=stack.daemon.config_file)
    assert declined.status == 0, declined
    assert stack.get("/api/admin/overview", token=token).json["stayAsked"] == 0


def test_where_nobody_may_ask_that_is_said(stack: Stack) -> None:
    bob = stack.approved("bob")
    end_now(stack, bob)
    refused = ask_to_stay(stack, bob)
    assert assert_refused(refused, 409, "cannot_ask_to_stay")["fault"] == "off"
    assert_refused(stack.post("/api/user/membership/ask", {}), 401, "unauthorized")
    body = {"username": bob.name, "decline": True}
    refused = stack.post("/api/admin/user/membership", body, token=stack.olivia())
    assert_refused(refused, 409, "not_asked_to_stay", field="username")
