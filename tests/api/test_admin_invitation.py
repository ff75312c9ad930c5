"""POST /api/admin/invitation: links with which members of the team let players in."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tests.api.test_admin_user_role import with_role
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.together import at_once


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
    token = stack.user_token(friends[0])
    assert rita.name not in stack.get("/api/user/export", token=token).text, "an export names nobody of the team"
    listed = stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"]
    assert [(it["used"], it["uses"]) for it in listed if it["id"] == row_id] == [(3, 3)]
    assert stack.register(friends[3]).json["status"] == "pending", "without it they wait like everybody"


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


def test_a_member_makes_so_many_and_no_more(stack: Stack) -> None:
    _rita, token = with_role(stack, "reviewer")
    made = [stack.post("/api/admin/invitation", {"uses": 1}, token=token).status for _time in range(31)]
    assert made == [200] * 30 + [429]
    assert invite(stack), "another member's"


@pytest.mark.every_database
def test_who_is_banned_does_not_come_back_by_another_spelling_of_the_address(stack: Stack) -> None:
    griefer = stack.approved("griefer")
    local_part, _, domain = griefer.email.partition("@")
    stack.decides("ban", griefer)
    _id, token = invite(stack, 3, "no_review")
    for spelling in (f"{local_part}+x@{domain}", f"{local_part[0]}.{local_part[1:]}+y@{domain}"):
        again = replace(stack.newcomer("again"), email=spelling)
        refused = stack.register(again, invitation=token)
        assert assert_refused(refused, 409, "email_taken", field="email")["fault"] == "banned"
        assert stack.status(again) is None
    sister = replace(stack.newcomer("sister"), email=f"{local_part}+sister@{domain}")
    body = {"username": sister.name, "email": sister.email}
    assert stack.post("/api/admin/user/create", body, token=stack.olivia()).status == 200, "an operator may"
    stack.decides("unban", griefer)
    assert stack.register(replace(stack.newcomer("second"), email=f"{local_part}+z@{domain}")).status == 201
