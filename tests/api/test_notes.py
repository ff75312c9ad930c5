"""What members of the team tell each other about a user, and who else has an applicant open."""

from dataclasses import replace

import pytest

from tests.api.test_team import with_role
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack
from tests.support.together import at_once

# POST /api/admin/user/note: what the team tells each other about a user.


NOTE = "/api/admin/user/note"


def notes_of(stack: Stack, person: Person) -> list[tuple[str, str, bool]]:
    user = stack.get("/api/admin/user", {"username": person.name}, token=stack.olivia()).json["user"]
    return [(note["author"], note["text"], note["isSameUser"]) for note in user["notes"]]


def test_rita_notes_what_olivia_reads(stack: Stack) -> None:
    alice = stack.pending("alice")
    rita, token = with_role(stack, "reviewer")
    assert stack.post(NOTE, {"username": alice.name, "text": " Plays with Bob.\u202e "}, token=token).status == 200
    assert stack.decide("note", alice, text="Bob vouches\nfor her.").status == 200
    assert notes_of(stack, alice) == [
        ("Olivia", "Bob vouches\nfor her.", True),
        (rita.name, "Plays with Bob.", True),
    ]
    assert [entry["detail"] for entry in stack.audits(alice, "user.note_added")] == [None, None]


def test_alice_gets_it_in_her_export_without_its_author(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.decides("note", alice, text="Knows redstone.")
    export = stack.get("/api/user/export", token=stack.user_token(alice))
    [note] = export.json["notes"]
    assert note.keys() == {"text", "createdAt"}
    assert note["text"] == "Knows redstone."


def test_a_note_stays_with_the_name(stack: Stack) -> None:
    """But it is not in the export of another user who bears the name later."""
    rick = stack.pending("rick")
    stack.decides("note", rick, text="Griefed elsewhere.")
    stack.decides("delete", rick)
    assert_refused(stack.decide("note", rick, text="Gone."), 404, "user_not_found", field="username")
    assert stack.register(replace(rick, email=f"new.{rick.email}")).status == 201
    assert notes_of(stack, rick) == [("Olivia", "Griefed elsewhere.", False)]
    stack.decides("approve", rick)
    assert stack.get("/api/user/export", token=stack.user_token(rick)).json["notes"] == []


def told_of(stack: Stack, person: Person) -> dict[str, list[str]]:
    """Return what the team is told of earlier users, and what the queue marks."""
    user = stack.get("/api/admin/user", {"username": person.name}, token=stack.olivia()).json["user"]
    listed = stack.get("/api/admin/users", {"search": person.name}, token=stack.olivia()).json["users"]
    told = {kind: [str(it) for it in user[kind]] for kind in ("notes", "questions", "history")}
    return told | {"signals": [it["kind"] for entry in listed for it in entry["signals"]]}


def test_it_stays_with_a_proven_address_alone(stack: Stack) -> None:
    """One that was typed in the game may be somebody else's: neither is charged with what the other has done."""
    alice, mallory, carla = (stack.newcomer(name) for name in ("alice", "mallory", "carla"))
    stack.authme.register(mallory.name, mallory.password, alice.email)
    stack.sync()
    stack.decides("note", mallory, text="Stole from Bob.")
    stack.decides("ask", mallory, question="Where is Bob's gold?")
    stack.decides("ban", mallory, reason="theft")
    assert stack.register(alice).status == 201
    assert told_of(stack, alice) == {"notes": [], "questions": [], "history": [], "signals": []}

    stack.decides("note", alice, text="Builds well.")
    stack.decides("ask", alice, question="Who invited you?")
    stack.decides("reject", alice)
    stack.decides("delete", alice)
    again = replace(stack.newcomer("alice"), email=alice.email)
    stack.authme.register(carla.name, carla.password, alice.email)
    stack.sync()
    of_carla = told_of(stack, carla)
    assert of_carla | {"signals": []} == {"notes": [], "questions": [], "history": [], "signals": []}
    assert set(of_carla["signals"]) == {"game_first", "unproven_email"}
    assert stack.register(again).status == 201
    of_again = told_of(stack, again)
    assert [len(of_again[kind]) for kind in ("notes", "questions")] == [1, 1]
    assert set(of_again["signals"]) == {"earlier_rejection", "same_email"}


def test_what_is_refused(stack: Stack) -> None:
    alice = stack.pending("alice")
    for text in ("", " \u202e\n", "x" * 2001):
        assert_refused(stack.decide("note", alice, text=text), 422, "invalid_field", field="text")
    assert_refused(stack.post(NOTE, {"username": alice.name, "text": "x"}), 401, "unauthorized")
    assert notes_of(stack, alice) == []


def test_forty_notes_at_once_are_forty(stack: Stack) -> None:
    alice, olivia = stack.pending("alice"), stack.olivia()
    calls = [
        lambda number=number: stack.post(NOTE, {"username": alice.name, "text": str(number)}, token=olivia)
        for number in range(40)
    ]
    assert {reply.status for reply in at_once(calls)} == {200}
    assert {int(text) for _author, text, _ in notes_of(stack, alice)} == set(range(40))


def test_the_command_line_notes_and_shows(stack: Stack) -> None:
    alice, config = stack.pending("alice"), stack.daemon.config_file
    assert companion("users", "note", alice.name, "Knows Bob", config=config).status == 0
    assert "Knows Bob" in companion("users", "show", alice.name, config=config).output


def test_notes_about_one_user_and_of_one_member_come_to_an_end(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    rita, token = with_role(stack, "reviewer")

    def note(person: Person) -> Reply:
        return stack.post(NOTE, {"username": person.name, "text": "x" * 2000}, token=token)

    assert [note(alice).status for _ in range(100)] == [200] * 100
    assert_refused(note(alice), 409, "too_many_notes", field="username")
    assert_refused(stack.decide("note", alice, text="Mine."), 409, "too_many_notes", field="username")
    our_database(stack).execute(
        "UPDATE regsvc_rate_limit SET hits = 600 WHERE scope = 'team.writes' AND subject = ? AND period_seconds = 3600",
        (rita.name.lower(),),
    )
    assert_refused(note(bob), 429, "rate_limited")
    asked = stack.post("/api/admin/user/ask", {"username": bob.name, "question": "Who?"}, token=token)
    assert_refused(asked, 429, "rate_limited")
    assert stack.decide("note", bob, text="Olivia still may.").status == 200
    assert notes_of(stack, bob) == [("Olivia", "Olivia still may.", True)]


def test_no_user_is_decided_about_in_circles(stack: Stack) -> None:
    rick = stack.pending("rick")
    for _time in range(20):
        stack.decides("reject", rick, reason="x" * 4000)
        stack.decides("reopen", rick)
    stack.decides("reject", rick)
    assert_refused(stack.decide("reopen", rick), 429, "rate_limited")
    _kurt, token = with_role(stack, "moderator", "kurt")
    assert stack.post("/api/admin/user/reopen", {"username": rick.name}, token=token).status == 200


# POST /api/admin/user/reading: who else has an applicant open.


READING = "/api/admin/user/reading"


def test_two_read_one_application(stack: Stack) -> None:
    alice, bob = stack.pending("alice"), stack.pending("bob")
    rita, token = with_role(stack, "reviewer")
    assert stack.post(READING, {"username": alice.name}, token=stack.olivia()).json["readers"] == []
    assert stack.post(READING, {"username": alice.name}, token=token).json["readers"] == ["Olivia"]
    assert stack.post(READING, {"username": alice.name}, token=stack.olivia()).json["readers"] == [rita.name]
    assert stack.post(READING, {"username": bob.name}, token=token).json["readers"] == []
    assert stack.post(READING, {"username": alice.name}, token=stack.olivia()).json["readers"] == []
    stack.post(READING, {"username": ""}, token=stack.olivia())


@pytest.mark.every_database
def test_a_name_that_nobody_can_have(stack: Stack) -> None:
    """In lower case it is longer."""
    assert stack.post(READING, {"username": "\u0130" * 255}, token=stack.olivia()).json["readers"] == []


def test_players_are_not_told(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = stack.post(READING, {"username": alice.name}, token=stack.user_token(alice))
    assert_refused(reply, 403, "forbidden")
