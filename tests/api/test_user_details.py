"""GET /api/admin/user: all details of one user, as shown to admins."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("mariadb")
PATH = "/api/admin/user"
QUESTION = """
[[question]]
id = 7
type = "text"
text = "Why do you want to play here?"
max_score = 10
scoring_rule = "kindness"
"""


def ask(stack: Stack, username: str, token: str | None, **query: str) -> Reply:
    return stack.get(PATH, {"username": username, **query}, token=token)


def whole(stack: Stack, person: Person) -> dict[str, Any]:
    reply = ask(stack, person.name, stack.olivia())
    assert reply.status == 200, reply.text
    user: dict[str, Any] = reply.json["user"]
    return user


# --- What is in it ---


def test_everything_of_the_list_and_more(stack: Stack) -> None:
    alice = stack.approved("alice", language="zh")
    user = whole(stack, alice)
    assert user.items() >= stack.user(alice).items()
    assert (user["username"], user["email"], user["status"], user["plugin"]) == (
        alice.name,
        alice.email,
        "approved",
        "synced",
    )
    assert (user["isEmailVerified"], user["origin"], user["registrationIp"]) == (True, "registered", "127.0.0.1")
    assert user["passwordSetAt"] == user["regTime"]
    assert (user["bannedFrom"], user["questionnaire"]) == (None, None)


def test_the_history_of_a_user(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.decides("ban", alice, reason="Griefing")
    history = whole(stack, alice)["history"]
    assert [(review["transition"], review["statusBefore"], review["statusAfter"]) for review in history] == [
        ("ban", "approved", "banned"),
        ("approve", "pending", "approved"),
    ]
    assert (history[0]["reason"], history[0]["operator"]) == ("Griefing", "Olivia")
    assert all(review["isSameUser"] and review["isSameName"] and review["isSameEmail"] for review in history)
    assert whole(stack, alice)["bannedFrom"] == "approved"


def test_the_history_of_the_name_and_of_the_address(stack: Stack) -> None:
    """Rick was rejected and deleted. The name returned with another address, the address under another name."""
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="Rude")
    stack.decides("delete", rick)
    namesake = Person(rick.name, f"other.{rick.email}", "namesakes-secret")
    assert stack.register(namesake).status == 201
    again = stack.newcomer("again")
    assert stack.register(again, email=rick.email, code=stack.code_for(rick.email)).status == 201

    by_name, by_email = whole(stack, namesake)["history"], whole(stack, again)["history"]
    for history in (by_name, by_email):
        assert [(review["transition"], review["username"]) for review in history] == [
            ("delete", rick.name),
            ("reject", rick.name),
        ]
        assert history[1]["reason"] == "Rude"
        assert not any(review["isSameUser"] for review in history)
    assert {(review["isSameName"], review["isSameEmail"]) for review in by_name} == {(True, False)}
    assert {(review["isSameName"], review["isSameEmail"]) for review in by_email} == {(False, True)}


def test_who_left_by_himself_takes_his_address_out_of_the_history(stack: Stack) -> None:
    alice = stack.approved("alice")
    body = {"currentPassword": alice.password}
    assert stack.post("/api/user/delete", body, token=stack.user_token(alice)).status == 200
    again = stack.newcomer("again")
    assert stack.register(again, email=alice.email, code=stack.code_for(alice.email)).status == 201
    assert whole(stack, again)["history"] == []


def test_mails_and_their_fate(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.smtp.wait_for(alice.email, 2)
    mails = whole(stack, alice)["mails"]
    assert [mail["template"] for mail in mails] == ["approved", "received", "verification_code"]
    assert mails[2] | {"id": 0, "createdAt": 0, "doneAt": 0} == {
        "id": 0,
        "template": "verification_code",
        "to": alice.email,
        "username": None,
        "language": "en",
        "createdAt": 0,
        "attempts": 1,
        "state": "sent",
        "nextAttemptAt": None,
        "doneAt": 0,
        "lastError": None,
    }


def test_sessions_and_known_clients(stack: Stack) -> None:
    alice = stack.approved("alice")
    body = {"username": alice.name, "password": alice.password}
    stack.post("/api/login", body, headers={"X-Forwarded-For": "2001:db8::7"})
    token = stack.user_token(alice)
    user = whole(stack, alice)
    assert [(session["audience"], session["ip"]) for session in user["sessions"]] == [
        ("user", "127.0.0.1"),
        ("user", "2001:db8::7"),
    ]
    assert all(session["startedAt"] <= session["lastSeenAt"] < session["expiresAt"] for session in user["sessions"])
    assert not any(session["isCurrent"] for session in user["sessions"])
    assert {client["client"] for client in user["clients"]} == {"127.0.0.1", "2001:db8::/64"}
    stack.post("/api/logout", {}, token=token)
    assert [session["ip"] for session in whole(stack, alice)["sessions"]] == ["2001:db8::7"]
    stack.decides("ban", alice)
    assert whole(stack, alice)["sessions"] == []


def test_the_player_and_how_the_two_sides_agree(stack: Stack) -> None:
    alice = stack.approved("alice")
    player = whole(stack, alice)["player"]
    assert (player["presence"], player["plugin"], player["realname"], player["email"]) == (
        "present",
        "synced",
        alice.name,
        alice.email,
    )
    assert abs(player["registeredAt"] / 1000 - time.time()) < 60
    stack.decides("ban", alice)
    player = whole(stack, alice)["player"]
    assert (player["plugin"], player["lockReason"]) == ("locked", "banned")
    assert player["lockedAt"] >= player["registeredAt"]


def test_a_disagreement_is_named(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.authme.set_email(alice.name, f"game.{alice.email}")
    stack.sync()
    player = whole(stack, alice)["player"]
    assert (player["plugin"], player["conflicts"]) == ("conflict", ["email"])


def test_an_adopted_player(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    assert whole(stack, bob)["gameAddresses"] == []
    our_database(stack).execute(
        "INSERT INTO regsvc_player_address (user_id, source, address, seen_at)"
        " SELECT id, 'regip', '203.0.113.8', created_at FROM regsvc_user WHERE username = ?",
        (bob.name,),
    )
    user = whole(stack, bob)
    assert (user["origin"], user["isEmailVerified"], user["registrationIp"]) == ("adopted", False, None)
    [there] = user["gameAddresses"]
    assert (there["source"], there["address"]) == ("regip", "203.0.113.8")
    assert (user["mails"], user["sessions"], user["history"]) == ([], [], [])


def test_no_secret_is_in_it(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    [row] = our_database(stack).query(
        "SELECT u.password_hash, p.base_hash, s.jti FROM regsvc_user u"
        " JOIN regsvc_sync_record p ON p.user_id = u.id JOIN regsvc_session s ON s.user_id = u.id WHERE u.username = ?",
        (alice.name,),
    )
    stack.decides("ban", alice)
    text = json.dumps(whole(stack, alice))
    for secret in (alice.password, token, stack.authme.get(alice.name)["password"], *row.values()):
        assert secret not in text
    for word in ("hash", "salt", "jti", "nonce", "token"):
        assert f'{word}"' not in text.lower()


def test_the_answers_to_the_questionnaire(make_stack: MakeStack, tmp_path: Path) -> None:
    file = tmp_path / "questionnaire.toml"
    file.write_text(QUESTION, encoding="utf-8")
    asking = make_stack(config={"questionnaire": {"file": str(file), "pass_score": 5}})
    given = {"answers": {"7": {"textAnswer": "To build bridges."}}}
    submitted = asking.post("/api/questionnaire/submit", given)
    assert submitted.status == 200, submitted.text
    alice = asking.pending("alice", questionnaire={"token": submitted.json["token"]})
    seen = whole(asking, alice)["questionnaire"]
    [answer] = seen["answers"]
    assert (answer["question"], answer["answers"], answer["points"], answer["maxPoints"]) == (
        "Why do you want to play here?",
        ["To build bridges."],
        None,
        10,
    )
    assert (seen["maxScore"], seen["passScore"], seen["requiresReview"]) == (10, 5, True)

    mine = asking.get("/api/user/export", token=asking.user_token(alice)).json["questionnaire"]
    assert mine["answers"] == [{"question": "Why do you want to play here?", "answers": ["To build bridges."]}]
    assert "summary" not in mine, "what is meant for the reviewers stays with them"


# --- Who may not, and who is not there ---


def test_it_refuses_a_name_nobody_has(stack: Stack) -> None:
    nobody = stack.newcomer("nobody")
    reply = ask(stack, nobody.name, stack.olivia(), language="zh")
    assert_refused(reply, 404, "user_not_found", field="username", language="zh")


def test_a_name_that_is_only_a_player_yet_is_unknown_and_stays_so(stack: Stack) -> None:
    """Viewing changes nothing; a decision about the player adopts it."""
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    assert_refused(ask(stack, bob.name, stack.olivia()), 404, "user_not_found", field="username")
    assert stack.status(bob) is None
