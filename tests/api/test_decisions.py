"""Decisions about applications: approved, rejected, reopened, or asked about."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from plugin_bridge.hashers import HASHERS, HashedPassword
from tests.api.test_team import with_role
from tests.api.test_team_credentials import make_token
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_like import offline_uuid
from tests.support.authme.authme_tables import TableShape
from tests.support.command_line import companion
from tests.support.crash.brief_outage import Outage, assert_synced, file_busy, table_missing
from tests.support.daemon import Reply
from tests.support.decisions import decide_as, decide_on_many
from tests.support.event_listener import EventListener
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_link_token
from tests.support.together import at_once

# Olivia approves: the applicant may play, hears of it, and AuthMe has the row it would have made itself.


MINUTE = 60_000
UNTOUCHED = {
    "ip": None,
    "lastlogin": None,
    "x": 0.0,
    "y": 0.0,
    "z": 0.0,
    "world": "world",
    "yaw": None,
    "pitch": None,
    "isLogged": 0,
    "hasSession": 0,
    "totp": None,
    "premiumUUID": None,
}
"""Columns that AuthMe leaves to their defaults when a player registers."""


def assert_row_is_as_authme_makes_it(stack: Stack, person: Person) -> None:
    """But for the two columns of the password."""
    row = stack.authme.get(person.name)
    assert abs(row["regdate"] - time.time() * 1000) < MINUTE
    payload = {name: row[name] for name in ("username", "realname", "email", "regip")}
    expected = {"username": person.key, "realname": person.name, "email": person.email, "regip": "127.0.0.1"}
    assert payload == expected
    assert {name: row[name] for name in UNTOUCHED} == UNTOUCHED


@pytest.mark.every_database
def test_the_row_is_as_authme_makes_it(stack: Stack) -> None:
    alice = stack.approved("alice")
    assert_row_is_as_authme_makes_it(stack, alice)
    row = stack.authme.get(alice.name)
    assert "salt" not in row
    assert HASHERS["SHA256"].verify(alice.password, HashedPassword(row["password"]), alice.name)
    assert stack.authme.login(alice.name, alice.password)
    assert stack.user(alice)["plugin"] == "synced"


@pytest.mark.every_database
@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_the_row_has_salt_and_uuid_where_the_table_has_them(make_stack: MakeStack, kind: DatabaseKind) -> None:
    authme = {"settings.security.passwordHash": "SALTEDSHA512"}
    stack = make_stack(kind, shape=TableShape.FULL, authme=authme)
    alice = stack.approved("alice")

    assert_row_is_as_authme_makes_it(stack, alice)
    row = stack.authme.get(alice.name)
    assert row["uuid"] == offline_uuid(alice.name)
    assert len(row["salt"]) >= 8
    assert HASHERS["SALTEDSHA512"].verify(alice.password, HashedPassword(row["password"], row["salt"]), alice.name)
    assert stack.authme.login(alice.name, alice.password)
    assert not stack.authme.login(alice.name, "a wrong one")
    assert stack.sync()["updated"] == 0


@pytest.mark.one_database("mariadb")
def test_the_applicant_hears_of_it_with_the_reason(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.decides("approve", alice, reason="welcome back, <b>friend</b>")

    letter = stack.smtp.wait_for(alice.email, 2)
    assert letter.subject.startswith("Welcome")
    assert "welcome back, <b>friend</b>" in letter.text
    assert letter.html is not None
    assert "&lt;b&gt;friend" in letter.html
    assert stack.user(alice)["reason"] == "welcome back, <b>friend</b>"
    token = stack.user_token(alice)
    payload = stack.get("/api/user/status", {"username": alice.name}, token=token).json["data"]
    assert (payload["reason"], payload["email"]) == ("welcome back, <b>friend</b>", alice.email)
    assert payload["reviewedAt"] == stack.user(alice)["reviewedAt"]


@pytest.mark.one_database("mariadb")
def test_the_mail_is_in_the_applicants_language_the_reply_in_olivias(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    reply = stack.decides("approve", alice, language="en")
    assert reply.json["message"] == f"{alice.name} was approved."
    assert "欢迎" in stack.smtp.wait_for(alice.email, 2).subject

    bob = stack.pending("bob")
    assert "已通过" in stack.decides("approve", bob, language="zh").json["message"]
    assert stack.smtp.wait_for(bob.email, 2).subject.startswith("Welcome")


# --- Approved again ---


@pytest.mark.every_database
def test_a_player_who_left_the_table_is_provisioned_again(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    assert stack.user(bob)["plugin"] == "absent"
    assert stack.authme.find(bob.name) is None

    stack.decides("approve", bob)

    assert stack.authme.login(bob.name, bob.password)
    assert stack.user(bob)["plugin"] == "synced"
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")


@pytest.mark.every_database
def test_it_goes_by_what_the_list_says(stack: Stack) -> None:
    """One row that is not there may be a table that is wrong: that is for a run of the sync to find."""
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    assert stack.user(bob)["plugin"] == "synced"
    assert_refused(stack.decide("approve", bob), 409, "wrong_status")
    assert stack.authme.find(bob.name) is None


NEW = "the-new-password"


def registered_anew(stack: Stack, name: str = "bob") -> Person:
    """Return an approved player who was unregistered in the game, and registered there again."""
    bob = stack.approved(name)
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    stack.authme.register(bob.name, NEW, email="another@example.org")
    stack.sync()
    assert stack.user(bob)["plugin"] == "returned"
    assert not stack.authme.login(bob.name, NEW)
    return bob


@pytest.mark.every_database
def test_a_row_registered_anew_is_given_back_with_the_password_that_olivia_chooses(stack: Stack) -> None:
    bob, carol = registered_anew(stack), registered_anew(stack, "carol")
    for language in ("en", "zh"):
        reply = stack.decide("approve", bob, language=language)
        assert_refused(reply, 409, "password_choice_needed", field="passwordChoice", language=language)
    assert stack.user(bob)["plugin"] == "returned"
    assert_refused(stack.decide("approve", bob, passwordChoice="both"), 422, "invalid_field", field="passwordChoice")

    stack.decides("approve", bob, passwordChoice="keep")
    stack.decides("approve", carol, passwordChoice="take")

    for person, right, wrong in ((bob, bob.password, NEW), (carol, NEW, carol.password)):
        assert stack.user(person)["plugin"] == "synced"
        assert stack.authme.login(person.name, right)
        assert stack.login(person, right).status == 200
        assert not stack.authme.login(person.name, wrong)
        assert stack.login(person, wrong).status == 401
        assert stack.authme.get(person.name)["email"] == person.email
    assert stack.audits(carol, "user.approved")[0]["detail"] == {"statusBefore": "approved", "returned": "take"}


@pytest.mark.every_database
def test_among_many_each_row_registered_anew_is_asked_about(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), registered_anew(stack)
    approved, refused = decide_on_many(stack, "approve", [alice.name, bob.name])
    assert approved["success"]
    assert (refused["code"], refused["field"]) == ("password_choice_needed", "passwordChoice")
    assert not refused["success"]
    carol = stack.pending("carol")
    assert all(
        result["success"] for result in decide_on_many(stack, "approve", [carol.name, bob.name], passwordChoice="take")
    )
    assert stack.authme.login(carol.name, carol.password)
    assert stack.authme.login(bob.name, NEW)


# --- Many ---


@pytest.mark.one_database("mariadb")
def test_the_words_of_each_result_are_in_olivias_language(stack: Stack) -> None:
    alice, nobody = stack.pending("alice"), stack.newcomer("nobody")
    approved, unknown = decide_on_many(stack, "approve", [alice.name, nobody.name], language="zh")
    assert "已通过" in approved["message"]
    assert "用户" in unknown["message"]


# --- Two at once ---


@pytest.mark.every_database
def test_opposite_decisions_at_once_leave_one_of_them(stack: Stack) -> None:
    for _round in range(5):
        alice = stack.pending("alice")
        decisions = ["approve", "reject"] * 5
        replies = at_once([partial(stack.decide, name, alice) for name in decisions])
        statuses = [reply.status for reply in replies]
        assert set(statuses) <= {200, 409}
        # a rejected applicant may still be approved, so two may be right one after the other
        taken = [name for name, status in zip(decisions, statuses, strict=True) if status == 200]
        assert sorted(taken) in (["approve"], ["reject"], ["approve", "reject"])
        assert len(stack.audits(alice, "user.approved")) == taken.count("approve")
        assert len(stack.audits(alice, "user.rejected")) == taken.count("reject")


@pytest.mark.every_database
def test_a_name_that_is_many_times_among_many_is_decided_once(stack: Stack) -> None:
    people = [stack.pending("crowd") for _number in range(5)]
    names = [person.name for person in people]
    batches = at_once([lambda: decide_on_many(stack, "approve", names, silent=True)] * 8)
    assert sum(result["success"] for batch in batches for result in batch) == 5
    assert {result["code"] for batch in batches for result in batch if not result["success"]} == {"wrong_status"}
    for person in people:
        assert len(stack.audits(person, "user.approved")) == 1


# --- AuthMe's table is away ---


@pytest.mark.every_database
def test_an_approval_of_somebody_missed_waits_for_the_table_too(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    with table_missing(stack):
        assert stack.decides("approve", bob).json["warnings"] == ["player_pending"]
    assert_synced(stack, provisioned=1)
    assert stack.authme.login(bob.name, bob.password)


@pytest.mark.every_database
@pytest.mark.parametrize("transition", ["approve", "unban"])
def test_an_operator_of_a_lower_level_gives_nobody_more_rights_than_he_has(stack: Stack, transition: str) -> None:
    """Otherwise a moderator could register the name of an absent owner in the game, and be owner on the web."""
    operators = Operators(stack)
    oscar, paula, late = operators.new("oscar", 1), operators.new("paula", 4), stack.newcomer("late")
    operators.appoint(late)
    stack.authme.register(late.name, late.password)
    stack.sync()
    if transition == "unban":
        assert companion("users", "ban", late.name, config=stack.daemon.config_file).status == 0
    before = stack.status(late)
    token = stack.admin_token(oscar.name, oscar.password)
    assert_refused(decide_as(stack, token, transition, late.name), 409, "protected_operator", field="username")
    assert stack.status(late) == before
    token = stack.admin_token(paula.name, paula.password)
    assert decide_as(stack, token, transition, late.name).status == 200
    assert stack.status(late) == "approved"


# Olivia approves while the name is registered in the game: it is the applicant's in the end, or the reply says not.


FOREIGN = "a foreign password"


def assert_is_the_owners(stack: Stack, person: Person) -> None:
    assert stack.authme.login(person.name, person.password)
    assert not stack.authme.login(person.name, FOREIGN)
    assert stack.login(person, FOREIGN).status == 401
    assert stack.user(person)["plugin"] == "synced"


def approved_while_away(stack: Stack, outage: Outage) -> Person:
    """Return a person who was approved during the outage, and whose name was registered in the game after it."""
    alice = stack.pending("alice")
    stack.olivia()  # logs in while her own row can be read
    with outage(stack):
        assert stack.decides("approve", alice).json["warnings"] == ["player_pending"]
    assert stack.authme.register(alice.name, FOREIGN)
    return alice


@pytest.mark.every_database
def test_a_registration_that_came_before_the_row_is_the_owners_after_a_sync(stack: Stack) -> None:
    alice = approved_while_away(stack, table_missing)
    assert stack.sync()["errors"] == []
    assert_is_the_owners(stack, alice)


@pytest.mark.every_database
def test_a_registration_after_a_busy_file_is_the_owners_after_a_sync(impatient: Stack) -> None:
    alice = approved_while_away(impatient, file_busy)
    assert impatient.sync()["errors"] == []
    assert_is_the_owners(impatient, alice)


@pytest.mark.every_database
def test_a_second_approval_gives_the_row_to_its_owner_as_well(stack: Stack) -> None:
    alice = approved_while_away(stack, table_missing)
    assert "warnings" not in stack.decides("approve", alice).json
    assert_is_the_owners(stack, alice)
    assert_refused(stack.decide("approve", alice), 409, "wrong_status")


@pytest.mark.every_database
def test_approvals_that_race_registrations_in_the_game_win(make_stack: MakeStack) -> None:
    stack = make_stack("mariadb")
    for _person in range(30):
        alice = stack.pending("alice")
        stack.olivia()  # logged in, so that both begin at the same moment
        calls: list[Callable[[], object]] = [
            partial(warnings_of_approval, stack, alice),
            partial(stack.authme.register, alice.name, FOREIGN),
        ]
        assert at_once(calls)[0] is None, alice
        assert_is_the_owners(stack, alice)


def warnings_of_approval(stack: Stack, person: Person) -> object:
    return stack.decides("approve", person).json.get("warnings")


@pytest.mark.every_database
def test_without_a_password_the_reply_says_that_the_row_stays_locked(stack: Stack) -> None:
    bob = stack.pending("bob", password=None)
    stack.authme.register(bob.name, FOREIGN)
    stack.sync()
    reply = stack.decides("approve", bob)
    assert (reply.json["status"], reply.json["warnings"]) == ("approved", ["player_locked"])
    assert not stack.authme.login(bob.name, FOREIGN)

    token = find_link_token(stack.smtp.wait_for(bob.email, 2).text)
    assert stack.post("/api/password/reset", {"token": token, "newPassword": bob.password}).status == 200
    assert_is_the_owners(stack, bob)


# Olivia rejects a registration: the applicant learns why, and the name cannot be used to play.


def test_the_reason_is_stored_mailed_and_shown_to_its_owner(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = stack.decides("reject", alice, reason="  an impolite name  ")
    assert reply.json == {
        "success": True,
        "kind": "one",
        "message": f"{alice.name} was rejected.",
        "username": alice.name,
        "status": "rejected",
    }

    assert stack.user(alice)["reason"] == "an impolite name"
    assert stack.user(alice)["reviewedBy"] == "Olivia"
    letter = stack.smtp.wait_for(alice.email, 2)
    assert "can’t accept your application" in letter.text
    assert "an impolite name" in letter.text

    login = stack.login(alice)
    assert (login.status, login.json["status"]) == (200, "rejected")
    own = stack.get("/api/user/status", {"username": alice.name}, token=login.json["token"])
    assert own.json["data"]["reason"] == "an impolite name"
    assert "reason" not in stack.get("/api/user/status", {"username": alice.name}).json["data"]


def test_a_built_in_reason_is_in_the_language_of_whoever_reads_it(stack: Stack) -> None:
    """Olivia decides in English about applicants who read German, Chinese and French."""
    words = {"de": "Du hast hier schon ein Konto.", "zh": "你在这里已有账号。", "fr": "Tu as déjà un compte ici."}
    people = {language: stack.pending(language, language=language) for language in words}
    body = {
        "usernames": [person.name for person in people.values()],
        "reason": " reject.has_account ",
        "language": "en",
    }
    assert all(
        result["success"] for result in stack.post("/api/admin/user/reject", body, token=stack.olivia()).json["results"]
    )

    for language, person in people.items():
        letter = stack.smtp.wait_for(person.email, 2)
        assert words[language] in letter.text
        assert letter.html is not None
        assert words[language] in letter.html
        own = stack.get("/api/user/status", {"username": person.name}, token=stack.user_token(person))
        assert own.json["data"]["reason"] == words[language]
        assert stack.user(person)["reason"] == "You already have an account here."
        assert stack.audits(person, "user.rejected")[0]["detail"]["reason"] == "You already have an account here."
    query = {"search": people["de"].name, "language": "zh"}
    assert stack.get("/api/admin/users", query, token=stack.olivia()).json["users"][0]["reason"] == words["zh"]
    for table in ("regsvc_user", "regsvc_review"):
        stored = our_database(stack).query(f"SELECT reason FROM {table} WHERE username_key = ?", (people["de"].key,))
        assert stored == [{"reason": "reject.has_account"}]


def test_what_is_no_code_is_an_operators_own_words(stack: Stack) -> None:
    for written in ("You already have an account here. And two more.", "reject.no_such_code", "reject", "Griefing"):
        alice = stack.pending("alice", language="de")
        stack.decides("reject", alice, reason=written)
        assert written in stack.smtp.wait_for(alice.email, 2).text
        own = stack.get("/api/user/status", {"username": alice.name}, token=stack.user_token(alice))
        assert own.json["data"]["reason"] == written


def test_without_a_reason_there_is_none(stack: Stack) -> None:
    for nothing in (None, "", "   "):
        alice = stack.pending("alice")
        stack.decides("reject", alice, reason=nothing)
        assert stack.user(alice)["reason"] is None
        assert "$reason" not in stack.smtp.wait_for(alice.email, 2).text


def test_an_operator_may_allow_another_application_at_once(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    assert decide_on_many(stack, "reject", [alice.name], mayReapply=True)[0]["success"] is True
    stack.decides("reject", bob)
    said = f"You can apply again right away, also under the name {alice.name}."
    assert said in stack.smtp.wait_for(alice.email, 2).text
    assert "right away" not in stack.smtp.wait_for(bob.email, 2).text
    [entry] = stack.audits(alice, "user.rejected")
    assert entry["detail"]["mayReapply"] is True
    own = stack.get("/api/user/status", {"username": alice.name}, token=stack.login(alice).json["token"])
    assert "reapplyAt" not in own.json["data"]

    assert_refused(stack.register(bob), 409, "reapply_later", field="username")
    assert stack.register(alice).status == 201

    # a later rejection without it holds the name again
    stack.decides("reject", alice)
    assert_refused(stack.register(alice), 409, "reapply_later", field="username")


# POST /api/admin/user/reopen: an approval noticed too late needs neither a ban nor a deletion.


def test_bob_waits_again_and_comes_back(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert stack.authme.login(bob.name, bob.password)
    stack.authme.quit(bob.name)
    session = stack.user_token(bob)
    stack.smtp.wait_for(bob.email, 2)  # the code and the approval

    reply = stack.decide("reopen", bob, reason="Which Bob are you?")

    assert (reply.status, stack.status(bob)) == (200, "pending")
    assert not stack.authme.login(bob.name, bob.password)
    assert_refused(stack.get("/api/user/totp", token=session), 401, "unauthorized")
    [entry] = stack.audits(bob, "user.reopened")
    assert "until" not in entry["detail"].pop("membershipBefore")
    assert entry["detail"] == {"statusBefore": "approved", "reason": "Which Bob are you?"}
    queue = stack.get("/api/admin/users", {"status": "pending", "search": bob.name}, token=stack.olivia()).json
    assert [user["username"] for user in queue["users"]] == [bob.name]
    stack.sync()
    assert stack.status(bob) == "pending"
    assert len(stack.smtp.letters_to(bob.email)) == 2

    stack.decides("approve", bob)

    assert stack.authme.login(bob.name, bob.password)


def test_rick_is_mailed_if_rita_asks_for_it(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick)
    _rita, token = with_role(stack, "reviewer")
    body = {"username": rick.name, "silent": False, "reason": "We read it again"}
    assert stack.post("/api/admin/user/reopen", body, token=token).status == 200
    letter = stack.smtp.wait_for(rick.email, 3)  # after the code and the rejection
    assert "being reviewed again" in letter.subject
    assert "We read it again" in letter.text


@pytest.mark.parametrize("who", ["reviewer", "token"])
def test_who_may_not_ban_takes_nobody_out_of_the_game(stack: Stack, who: str) -> None:
    bob, rick = stack.approved("bob"), stack.pending("rick")
    stack.decides("reject", rick)
    if who == "reviewer":
        _rita, token = with_role(stack, "reviewer")
    else:
        token = make_token(stack, "review-bot", "users.read", "users.review")

    refused = stack.post("/api/admin/user/reopen", {"username": bob.name}, token=token)
    assert assert_refused(refused, 403, "forbidden")["permission"] == "users.ban"
    reply = stack.post("/api/admin/user/reopen", {"usernames": [bob.name, "Nobody", rick.name]}, token=token)

    told = [(it["success"], it.get("code"), it.get("permission")) for it in reply.json["results"]]
    assert told == [(False, "forbidden", "users.ban"), (False, "user_not_found", None), (True, None, None)]
    assert (stack.status(bob), stack.status(rick)) == ("approved", "pending")
    assert_refused(stack.post("/api/admin/user/reject", {"username": bob.name}, token=token), 409, "wrong_status")
    assert stack.authme.login(bob.name, bob.password)
    assert stack.audits(bob, "user.reopened") == []


def test_kurt_who_may_ban_reopens_bob(stack: Stack) -> None:
    bob = stack.approved("bob")
    _kurt, token = with_role(stack, "moderator", "kurt")
    assert stack.post("/api/admin/user/reopen", {"username": bob.name}, token=token).status == 200
    assert stack.status(bob) == "pending"


def test_forty_who_reopen_and_ban_end_in_one_of_both(stack: Stack) -> None:
    bob, olivia = stack.approved("bob"), stack.olivia()
    calls = [
        lambda name=name: stack.post(f"/api/admin/user/{name}", {"username": bob.name}, token=olivia)
        for name in ("reopen", "ban")
    ]
    replies = at_once(calls * 20)
    assert {reply.status for reply in replies} <= {200, 409}
    assert len([reply for reply in replies[::2] if reply.status == 200]) <= 1
    assert stack.status(bob) == "banned"


def test_the_command_line_reopens(stack: Stack) -> None:
    bob = stack.approved("bob")
    done = companion("users", "reopen", bob.name, "--reason", "twice", config=stack.daemon.config_file)
    assert (done.status, stack.status(bob)) == (0, "pending")


# POST /api/admin/user/ask and POST /api/application/answer: the team asks, and the applicant answers.


ANSWER = "/api/application/answer"


def applied(stack: Stack, name: str) -> tuple[Person, str]:
    """Register a new person; return them and the token of the application."""
    person = stack.newcomer(name)
    reply = stack.register(person)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def ask(stack: Stack, person: Person, question: str = "Which Bob?", token: str | None = None) -> Reply:
    body = {"username": person.name, "question": question}
    return stack.post("/api/admin/user/ask", body, token=token or stack.olivia())


def answer(stack: Stack, token: str, text: str = "The builder.") -> Reply:
    return stack.post(ANSWER, {"text": text}, headers={"X-Application-Token": token})


def application(stack: Stack, token: str) -> dict[str, object]:
    reply: dict[str, object] = stack.get("/api/application", headers={"X-Application-Token": token}).json
    return reply


def questions_of(stack: Stack, person: Person) -> list[tuple[str, str | None]]:
    """Return what the person was asked and answered, oldest first."""
    user = stack.get("/api/admin/user", {"username": person.name}, token=stack.olivia()).json["user"]
    return [(asked["question"], asked["answer"]) for asked in user["questions"]][::-1]


@pytest.mark.every_database
def test_alice_is_asked_answers_and_is_approved(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    with EventListener(stack.daemon, stack.olivia()) as queue:
        reply = ask(stack, alice, " Which Bob?\u202e ")
        assert (reply.status, reply.json["status"], "warnings" in reply.json) == (200, "pending", False)
        letter = stack.smtp.wait_for(alice.email, 2)  # after the code
        assert "Which Bob?" in letter.text
        assert f"/application#token={token}" in letter.text
        assert (user := stack.user(alice))["waitingFor"] == "applicant"
        assert user["answeredAt"] is None
        seen = application(stack, token)
        assert (seen["waitingFor"], seen["place"]) == ("applicant", None)
        assert [asked["question"] for asked in seen["questions"]] == ["Which Bob?"]  # type: ignore[attr-defined]

        reply = answer(stack, token, " The builder. ")

        assert (reply.status, reply.json["waitingFor"]) == (200, "review")
        assert reply.json["questions"][0]["answer"] == "The builder."
        names = [event.name for event in queue.expect_events("user_asked", "user_question_answered")]
        assert names == ["user_asked", "user_question_answered"]
    assert (user := stack.user(alice))["waitingFor"] == "review"
    assert user["answeredAt"] is not None
    assert questions_of(stack, alice) == [("Which Bob?", "The builder.")]
    assert [entry["operator"] for entry in stack.audits(alice, "user.question_answered")] == [alice.name]
    stack.decides("approve", alice)
    assert (stack.user(alice)["waitingFor"], application(stack, token)["waitingFor"]) == (None, None)
    export = stack.get("/api/user/export", token=stack.user_token(alice)).json
    [asked] = export["questions"]
    assert asked.keys() == {"question", "askedAt", "answer", "answeredAt"}


def test_what_is_refused_in_a_question_or_answer(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    bob = stack.approved("bob")
    assert_refused(answer(stack, token), 409, "nothing_asked")
    assert_refused(ask(stack, bob), 409, "wrong_status")
    assert_refused(ask(stack, alice, " \u202e"), 422, "invalid_field", field="question")
    assert_refused(ask(stack, alice, "x" * 2001), 422, "invalid_field", field="question")
    _rita, rita = with_role(stack, "reviewer")
    assert ask(stack, alice, token=rita).status == 200
    assert_refused(answer(stack, token, "x" * 4001), 422, "answer_too_long", field="text")
    assert_refused(answer(stack, token, "\n"), 422, "invalid_field", field="text")
    assert answer(stack, token).status == 200
    assert_refused(answer(stack, token), 409, "nothing_asked")
    assert_refused(answer(stack, "7.x"), 404, "application_not_found")


def test_another_question_stands_beside_the_first_up_to_twenty(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    for number in range(20):
        assert ask(stack, alice, f"Question {number}").status == 200
    assert_refused(ask(stack, alice, "One more"), 409, "too_many_questions", field="username")
    assert ask(stack, alice, "Question 19").status == 200, "asked already"
    assert answer(stack, token).status == 200
    assert questions_of(stack, alice)[18:] == [("Question 18", None), ("Question 19", "The builder.")]


@pytest.mark.every_database
def test_forty_who_ask_answer_and_decide_lose_nothing(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    olivia = stack.olivia()
    assert {reply.status for reply in at_once([lambda: ask(stack, alice, token=olivia)] * 40)} == {200}
    assert questions_of(stack, alice) == [("Which Bob?", None)]
    assert len(stack.audits(alice, "user.asked")) == 1

    replies = at_once([lambda n=n: answer(stack, token, f"Answer {n}") for n in range(40)])  # type: ignore[misc]
    [kept] = [number for number, reply in enumerate(replies) if reply.status == 200]
    assert {reply.json["code"] for reply in replies if reply.status != 200} <= {"nothing_asked", "rate_limited"}
    assert questions_of(stack, alice) == [("Which Bob?", f"Answer {kept}")]

    ask(stack, alice, "And Carla?")
    calls = [lambda: stack.decide("approve", alice), lambda: answer(stack, token), lambda: ask(stack, alice, "Dave?")]
    replies = at_once([calls[number % 3] for number in range(39)])
    assert [reply.status for reply in replies[::3]].count(200) == 1, "one approval"
    assert stack.status(alice) == "approved"
    assert stack.user(alice)["waitingFor"] is None
    accepted = sum(reply.status == 200 or reply.json["code"] == "answer_too_late" for reply in replies[1::3])
    assert sum(told is not None for _asked, told in questions_of(stack, alice)) == 1 + accepted


def test_the_command_line_asks_and_shows(stack: Stack) -> None:
    alice, config = stack.pending("alice"), stack.daemon.config_file
    run = companion("users", "ask", alice.name, "Which Bob?", config=config)
    assert (run.status, stack.user(alice)["waitingFor"]) == (0, "applicant")
    assert "Which Bob?" in companion("users", "show", alice.name, config=config).output
