"""Olivia rejects a registration: the applicant learns why, and the name cannot be used to play."""

from tests.support.decisions import decide_on_many
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


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
