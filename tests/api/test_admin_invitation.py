"""POST /api/admin/invitation: links with which members of the team let players in."""

from collections import Counter
from functools import partial

from tests.api.test_admin_user_role import with_role
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.together import at_once
from tests.support.watching import ask_until


def invite(stack: Stack, uses: int = 1, *grants: str, by: str | None = None) -> tuple[int, str]:
    """Return the id and the token of a new invitation."""
    body = {"uses": uses, "days": 7, "grants": list(grants)}
    reply = stack.post("/api/admin/invitation", body, token=by or stack.olivia())
    assert reply.status == 200, reply.json
    address, _, token = reply.json["link"].partition("#invite=")
    assert address.endswith("/register")
    stored = our_database(stack).query("SELECT * FROM regsvc_invitation")
    assert token.partition(".")[2] not in str(stored)
    return reply.json["record"]["id"], token


def test_three_friends_come_in_without_a_review(stack: Stack) -> None:
    friends = [stack.newcomer("friend") for _friend in range(4)]
    rita, ritas_token = with_role(stack, "reviewer")
    row_id, token = invite(stack, 3, "no_review", by=ritas_token)
    shown = stack.post("/api/invitation/check", {"invitation": token})
    assert (shown.json["madeBy"], shown.json["grants"], shown.json["remainingUses"]) == (rita.name, ["no_review"], 3)

    taken = stack.register(friends[0], username=rita.name, invitation=token)
    assert_refused(taken, 409, "username_taken", field="username")
    first = [stack.register(friend, invitation=token) for friend in friends[:3]]
    fourth = stack.register(friends[3], invitation=token)

    assert [(reply.status, reply.json["status"]) for reply in first] == [(201, "approved")] * 3
    assert_refused(fourth, 409, "invitation_used_up", field="invitation")
    details = stack.get("/api/admin/user", {"username": friends[0].name}, token=stack.olivia())
    assert details.json["user"]["invitedBy"] == rita.name
    [entry] = stack.audits(friends[0], "user.registered")
    assert entry["detail"] == {"invitedBy": rita.name}
    listed = stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"]
    assert [(it["used"], it["uses"]) for it in listed if it["id"] == row_id] == [(3, 3)]
    assert stack.register(friends[3]).json["status"] == "pending", "without it they wait like everybody"


def test_revoked_expired_and_foreign_ones_each_say_so(stack: Stack) -> None:
    alice, olivia = stack.newcomer("alice"), stack.olivia()
    revoked, revoked_token = invite(stack)
    assert stack.post("/api/admin/invitation/revoke", {"id": revoked}, token=olivia).status == 200
    again = stack.post("/api/admin/invitation/revoke", {"id": revoked}, token=olivia)
    assert_refused(again, 404, "no_such_invitation", field="id")
    expired, expired_token = invite(stack)
    our_database(stack).execute("UPDATE regsvc_invitation SET expires_at = created_at WHERE id = ?", (expired,))
    _id, good = invite(stack)

    for token, status, code in [
        (revoked_token, 409, "invitation_revoked"),
        (expired_token, 409, "invitation_expired"),
        (f"{good}x", 422, "invalid_invitation"),
        ("nonsense", 422, "invalid_invitation"),
    ]:
        assert_refused(stack.post("/api/invitation/check", {"invitation": token}), status, code, field="invitation")
        assert_refused(stack.register(alice, invitation=token), status, code, field="invitation")
    body = {"grants": ["everything"]}
    assert_refused(stack.post("/api/admin/invitation", body, token=olivia), 422, "invalid_field", field="grants")
    assert stack.register(alice, invitation=good).json["status"] == "pending", "it grants nothing but says who"


def test_it_ends_with_its_makers_right(stack: Stack, operators: Operators) -> None:
    oscar, alice = operators.new("oscar"), stack.newcomer("alice")
    row_id, token = invite(stack, by=stack.admin_token(oscar.name, oscar.password))

    operators.dismiss(oscar)

    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
    find = partial(our_database(stack).query, "SELECT revoked_at FROM regsvc_invitation WHERE id = ?", (row_id,))
    ask_until(lambda: find()[0]["revoked_at"], bool)  # the daemon notices within seconds
    operators.appoint(oscar)
    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")


def test_forty_at_once_use_three_places(stack: Stack) -> None:
    _id, token = invite(stack, 3, "no_review")
    people = [stack.newcomer("rival") for _person in range(40)]
    codes = at_once([partial(stack.code_for, person.email) for person in people])
    calls = [
        partial(stack.register, person, code=code, invitation=token) for person, code in zip(people, codes, strict=True)
    ]
    found = Counter((reply.status, reply.code) for reply in at_once(calls))
    overloaded = found.pop((503, "overloaded"), 0)  # more at once than may wait for a hash
    assert found == {(201, None): 3, (409, "invitation_used_up"): 37 - overloaded}


def test_a_lost_reply_is_given_again(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    _id, token = invite(stack, 1, "no_review")
    code = stack.code_for(alice.email)
    first, again = (stack.register(alice, code=code, invitation=token) for _time in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.json["applicationToken"] == again.json["applicationToken"]


def test_the_host_invites_lists_and_revokes(stack: Stack) -> None:
    config = stack.daemon.config_file
    made = companion("users", "invite", "--uses", "2", "--for", "3 days", "--without", "review", config=config)
    token = made.output.strip().partition("#invite=")[2]
    alice = stack.newcomer("alice")
    assert stack.register(alice, invitation=token).json["status"] == "approved"
    row_id = token.partition(".")[0]
    listed = companion("users", "invite", "--list", config=config).output
    assert any(line.startswith(row_id) and "used 1 of 2; no_review" in line for line in listed.splitlines())
    assert "revoked" in companion("users", "invite", "--revoke", row_id, config=config).output
    refused = stack.register(stack.newcomer("bob"), invitation=token)
    assert_refused(refused, 409, "invitation_revoked", field="invitation")
