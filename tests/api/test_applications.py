"""Applications, opened by their token alone: what they show, until the decision; and the queue of the team."""

import re
from typing import Any

import pytest

from tests.api.test_team import with_role
from tests.support.authme.authme_database import DatabaseKind
from tests.support.captchas import post_with_guesses
from tests.support.daemon import Reply
from tests.support.event_listener import EventListener
from tests.support.our_tables import everything_stored, our_database
from tests.support.questions import PASSING, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import NO_LIMIT, MakeStack, Person, Stack, find_code

# GET /api/application: the status of an application, opened by its token alone.


PATH = "/api/application"


def token_of(stack: Stack, person: Person, **fields: object) -> str:
    """Register the person and return the token of the application."""
    reply = stack.register(person, **fields)
    assert reply.status == 201, reply.text
    token: str = reply.json["applicationToken"]
    return token


def look(stack: Stack, token: str) -> Reply:
    return stack.get(PATH, headers={"X-Application-Token": token})


def mailed_token(stack: Stack, person: Person) -> str:
    """Return the token in the link of the receipt."""
    match = re.search(r"/application#token=(\S+)", stack.smtp.wait_for_receipt(person.email).text)
    assert match is not None
    return match[1]


# --- What the applicant sees ---


@pytest.mark.every_database
def test_alice_follows_her_application_from_the_receipt_to_the_approval(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    token = token_of(stack, alice)
    assert mailed_token(stack, alice) == token
    assert token not in everything_stored(stack)
    waiting = look(stack, token)
    assert waiting.status == 200
    facts = waiting.json
    assert facts["place"] == facts["waiting"] >= 1
    assert facts["receivedAt"] == stack.user(alice)["regTime"]
    assert {name: facts[name] for name in sorted(facts)} == {
        "answerBy": None,
        "answers": None,
        "banExpiresAt": None,
        "canCorrectEmail": False,
        "canEditAnswers": False,
        "email": alice.email,
        "gameAddress": None,
        "hasPassword": True,
        "place": facts["place"],
        "questions": [],
        "reapplyAt": None,
        "reason": None,
        "receivedAt": facts["receivedAt"],
        "reviewedAt": None,
        "status": "pending",
        "success": True,
        "username": alice.name,
        "usualSeconds": facts["usualSeconds"],
        "waiting": facts["waiting"],
        "waitingFor": "review",
    }
    stack.decides("approve", alice, reason="Welcome!")
    approved = look(stack, token).json
    assert (approved["status"], approved["place"], approved["reason"]) == ("approved", None, "Welcome!")
    assert approved["reviewedAt"] >= approved["receivedAt"]


@pytest.mark.every_database
def test_the_line_moves(stack: Stack) -> None:
    alice, bob = stack.newcomer("alice"), stack.newcomer("bob")
    alices, bobs = token_of(stack, alice), token_of(stack, bob)
    before = look(stack, bobs).json
    assert before["place"] == look(stack, alices).json["place"] + 1
    stack.decides("reject", alice)
    after = look(stack, bobs).json
    assert (after["place"], after["waiting"]) == (before["place"] - 1, before["waiting"] - 1)


def test_a_rejection_says_until_when_the_name_is_held_and_a_ban_when_it_ends(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    token = token_of(stack, alice)
    stack.decides("reject", alice, reason="Too short.")
    rejected = look(stack, token).json
    assert (rejected["status"], rejected["reason"]) == ("rejected", "Too short.")
    assert rejected["reapplyAt"] == rejected["reviewedAt"] + 24 * 3600 * 1000
    stack.decides("ban", alice, reason="Spam", expiresAt=4_000_000_000_000)
    banned = look(stack, token).json
    assert (banned["status"], banned["reason"], banned["banExpiresAt"]) == ("banned", "Spam", 4_000_000_000_000)


def test_answers_are_shown(make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> None:
    stack = make_stack("sqlite", config=asking(tmp_path_factory.mktemp("questions")))
    alice = stack.newcomer("alice")
    token = applies(stack, alice, token_for(stack, PASSING | WORDS)).json["applicationToken"]
    facts = look(stack, token).json
    assert facts["answers"] == [
        {"questionId": 1, "question": "What do you do?", "answer": "Talk", "selectedOptionIds": [0]},
        {"questionId": 7, "question": "Which are allowed?", "answer": "Building", "selectedOptionIds": [0]},
        {"questionId": 9, "question": "Why here?", "answer": "I like it.", "selectedOptionIds": []},
    ]
    assert facts["canEditAnswers"] is True
    stack.decides("approve", alice)
    assert look(stack, token).json["canEditAnswers"] is False


def test_where_no_code_is_required_there_is_no_receipt_and_the_address_can_be_corrected(make_stack: MakeStack) -> None:
    config = {
        "registration": {"methods": ["captcha"], "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT},
        "captcha": {"answers_per_client": NO_LIMIT, "pictures_per_client": NO_LIMIT},  # sums are guessed
    }
    stack = make_stack("sqlite", config=config)
    alice = stack.newcomer("alice")
    body = {"username": alice.name, "password": alice.password, "email": alice.email}
    reply = post_with_guesses(stack, "/api/register", body)
    facts = look(stack, reply.json["applicationToken"]).json
    assert (facts["email"], facts["canCorrectEmail"]) == (alice.email, True)
    stack.decides("approve", alice)
    assert look(stack, reply.json["applicationToken"]).json["canCorrectEmail"] is False
    assert stack.smtp.receipts == []


# --- The token ---


def test_the_token_in_the_query_opens_it_and_is_not_logged(stack: Stack) -> None:
    stack.restart_with({})  # whose log is that of this story
    alice = stack.newcomer("alice")
    token = token_of(stack, alice)
    assert stack.get(PATH, {"token": token}).json["username"] == alice.name
    assert stack.get(PATH, {"token": token, "language": "a" * 300, "x": "%00"}).status == 200
    assert stack.get(PATH, {"token": f"{token}x"}).status == 404
    assert stack.post(f"{PATH}?token={token}", {}).status == 405
    assert stack.daemon.wait_for_log("POST /api/application 405")
    log = "\n".join(stack.daemon.log)
    assert "GET /api/application 200" in log
    assert token.partition(".")[2] not in log


def test_a_token_that_is_wrong_opens_nothing(stack: Stack) -> None:
    token = token_of(stack, stack.newcomer("alice"))
    row, _dot, mac = token.partition(".")
    other = f"{int(row) + 1}.{mac}"
    huge = f"{2**63}.{mac}"
    for wrong in ("", "x", other, huge, f"{row}.", f".{mac}", f"{row}.{mac[:-1]}", f"{row}.{mac}=", "9" * 5000, "1.é"):
        reply = stack.get(PATH, {"token": wrong, "language": "zh"} if wrong else {"language": "zh"})
        assert_refused(reply, 404, "application_not_found", language="zh")


def test_the_token_opens_nothing_else(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    token = token_of(stack, bob)
    stack.decides("approve", bob)
    assert_refused(stack.get("/api/user/export", token=token), 401, "unauthorized")
    reset = stack.post("/api/password/reset", {"token": token, "newPassword": "a-new-secret"})
    assert_refused(reset, 422, "invalid_token", field="token")
    assert_refused(applies(stack, stack.newcomer(), token, proof=token, code="0"), 422, "invalid_code", field="proof")


def test_it_ends_with_the_application(stack: Stack) -> None:
    alice, bob = stack.newcomer("alice"), stack.newcomer("bob")
    alices, bobs = token_of(stack, alice), token_of(stack, bob)
    stack.decides("delete", alice)
    assert_refused(look(stack, alices), 404, "application_not_found")
    stack.decides("reject", bob)
    our_database(stack).execute(
        "UPDATE regsvc_user SET reviewed_at = '2020-01-01 00:00:00' WHERE username_key = ?", (bob.key,)
    )
    newer = token_of(stack, bob)
    assert_refused(look(stack, bobs), 404, "application_not_found")
    assert look(stack, newer).json["status"] == "pending"


def test_it_ends_when_the_address_changes(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    token = token_of(stack, bob)
    stack.decides("approve", bob)
    new = f"new.{bob.email}"
    assert stack.post("/api/verify/send", {"email": new, "purpose": "change_email"}).status == 200
    code = find_code(stack.smtp.wait_for(new).text)
    body = {"email": new, "code": code, "currentPassword": bob.password}
    assert stack.post("/api/user/update", body, token=stack.user_token(bob)).status == 200
    assert_refused(look(stack, token), 404, "application_not_found")


def test_look_ups_and_guesses_are_limited(make_stack: MakeStack) -> None:
    stack = make_stack("sqlite", config={"http": {"status_limit": ["3 per hour"]}})
    token = token_of(stack, stack.newcomer("alice"))
    assert [look(stack, token).status for _ in range(4)] == [200, 200, 200, 429]
    for route, body in (("answers", {"answers": {}}), ("email", {"email": "a@example.org"})):
        guess = {"X-Application-Token": f"1.{'x' * 43}", "X-Forwarded-For": f"192.0.2.{len(route)}"}
        replies = [stack.post(f"/api/application/{route}", body, headers=guess) for _ in range(4)]
        assert [reply.status for reply in replies] == [404, 404, 404, 429], route


# --- The receipt ---


def test_the_receipt_is_in_the_applicants_language(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    token_of(stack, alice, language="zh")
    assert "收到你加入" in stack.smtp.wait_for_receipt(alice.email).subject


def test_automatic_approvals_have_a_token_and_no_receipt(make_stack: MakeStack) -> None:
    stack = make_stack("sqlite", config={"registration": {"approval": False}})
    bob = stack.newcomer("bob")
    token = token_of(stack, bob)
    facts = look(stack, token).json
    assert (facts["status"], facts["place"]) == ("approved", None)
    assert stack.smtp.wait_for(bob.email, 2).subject.startswith("Welcome")
    assert stack.smtp.receipts == []


# GET /api/application/why: what keeps an applicant out of the game, opened by the application's token alone.


WHY = "/api/application/why"


def test_the_token_tells_what_the_applicant_waits_for(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    headers = {"X-Application-Token": stack.register(alice).json["applicationToken"]}
    reply = stack.get(WHY, {"language": "fr"}, headers=headers)
    assert (reply.status, reply.json["canJoin"]) == (200, False)
    assert reply.json["why"] == "Ta candidature attend l’équipe ; tu n’as rien à faire."
    stack.decides("approve", alice)
    assert stack.get(WHY, headers=headers).json["why"].startswith("The game server is not running")
    assert_refused(stack.get(WHY, headers={"X-Application-Token": "7.nonsense"}), 404, "application_not_found")


# GET /api/application/events: an open page follows its application, whoever decides.


EVENTS = "/api/application/events"


def apply(stack: Stack, name: str) -> tuple[Person, str]:
    """Register a new person; return them and the token of the application."""
    person = stack.newcomer(name)
    reply = stack.register(person)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def listen(stack: Stack, token: str) -> EventListener:
    return EventListener(stack.daemon, None, {"X-Application-Token": token}, path=EVENTS)


@pytest.mark.every_database
def test_alice_sees_the_approval_on_her_open_page(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        first = page.wait_for(username=alice.name)
        looked_up = stack.get("/api/application", headers={"X-Application-Token": token}).json
        assert first.data | {"usualSeconds": 0} == looked_up | {"usualSeconds": 0}
        stack.decides("approve", alice, reason="Welcome!")
        assert page.wait_for(status="approved").data["reason"] == "Welcome!"
    assert token.partition(".")[2] not in "\n".join(stack.daemon.log)


def test_a_page_shows_the_line_moving(stack: Stack) -> None:
    first, _token = apply(stack, "first")
    _second, token = apply(stack, "second")
    with listen(stack, token) as page:
        before = page.wait_for(status="pending")
        stack.decides("reject", first)
        page.wait_for(place=before.data["place"] - 1)


def test_a_status_typed_in_sql_reaches_the_page(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        page.wait_for(status="pending")
        our_database(stack).execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = ?", (alice.key,))
        page.wait_for(status="approved")
    stack.sync()


def test_the_stream_ends_with_the_application(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        page.wait_for(status="pending")
        stack.decides("delete", alice)
        page.wait_for_end()
    assert_refused(stack.get(EVENTS, {"token": token}), 404, "application_not_found")


def test_the_token_in_the_query_is_taken_and_not_logged(stack: Stack) -> None:
    _alice, token = apply(stack, "alice")
    with EventListener(stack.daemon, None, path=f"{EVENTS}?token={token}") as page:
        page.wait_for(status="pending")
    assert_refused(stack.get(EVENTS, {"token": f"{token}x"}), 404, "application_not_found")
    assert token.partition(".")[2] not in "\n".join(stack.daemon.log)


def test_head_and_other_methods(stack: Stack) -> None:
    _alice, token = apply(stack, "alice")
    reply = stack.daemon.request("HEAD", f"{EVENTS}?token={token}")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/event-stream")
    assert stack.daemon.request("HEAD", EVENTS).status == 404
    assert_refused(stack.post(EVENTS, {}), 405, "method_not_allowed")


# GET /api/admin/overview: the review queue in figures.


OVERVIEW = "/api/admin/overview"


def overview(stack: Stack, token: str | None = None) -> dict[str, Any]:
    reply = stack.get(OVERVIEW, token=token or stack.olivia())
    assert reply.status == 200, reply.text
    found: dict[str, Any] = reply.json
    return found


def decided(found: dict[str, Any]) -> list[tuple[int, int]]:
    return [(day["approved"], day["rejected"]) for day in found["decided"]]


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_a_morning_at_the_queue(make_stack: MakeStack, kind: DatabaseKind) -> None:
    stack = make_stack(kind)
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"], found["oldestSince"]) == (0, 0, None, None)
    assert found["usualSeconds"] is None
    assert decided(found) == [(0, 0)] * 7
    assert [day["day"] for day in found["decided"]] == sorted({day["day"] for day in found["decided"]})

    alice, bob, carol, dora = (stack.pending(name) for name in ("alice", "bob", "carol", "dora"))
    found = overview(stack)
    assert (found["waiting"], found["oldest"]) == (4, alice.name)
    assert found["oldestSince"] == stack.user(alice)["regTime"]

    stack.decides("ask", alice, question="Which Bob?")
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"]) == (3, 1, bob.name)

    stack.decides("approve", bob)
    stack.decides("reject", carol)
    stack.decides("ban", dora)
    found = overview(stack)
    assert (found["waiting"], found["asked"], found["oldest"]) == (0, 1, None)
    assert decided(found) == [*[(0, 0)] * 6, (1, 1)], "a ban is neither"

    long_ago = "UPDATE regsvc_review SET reviewed_at = '2020-01-01 12:00:00.000' WHERE transition = 'approve'"
    our_database(stack).execute(long_ago)
    assert decided(overview(stack))[-1] == (0, 1)

    stack.decides("approve", carol)
    assert decided(overview(stack))[-1] == (1, 1), "who was rejected before, too"
    _rita, token = with_role(stack, "reviewer")
    assert overview(stack, token)["asked"] == 1


def test_it_is_for_the_team(stack: Stack) -> None:
    assert_refused(stack.get(OVERVIEW), 401, "unauthorized")
    token = stack.user_token(stack.approved("paul"))
    assert_refused(stack.get(OVERVIEW, token=token), 403, "forbidden")
