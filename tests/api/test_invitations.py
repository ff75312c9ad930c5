"""Invitations: links with which members of the team let players in, until they end."""

import time
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tests.api.test_membership import end_of, is_in_days
from tests.api.test_team import give, with_role
from tests.api.test_team_credentials import make_token
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack, find_link_token
from tests.support.together import at_once
from tests.support.watching import ask_until

# POST /api/admin/invitation: links with which members of the team let players in.


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


def test_an_invitation_says_how_long_from_the_approval(stack: Stack) -> None:
    """Alice is approved at once, Bob by Olivia days later, Carol for as long as Olivia says."""
    body = {"uses": 3, "memberFor": "720 hours"}
    made = stack.post("/api/admin/invitation", body | {"uses": 1, "grants": ["no_review"]}, token=stack.olivia())
    assert made.json["record"]["memberFor"] == "30 days"
    alice, bob, carol = stack.newcomer("alice"), stack.newcomer("bob"), stack.newcomer("carol")
    stack.register(alice, invitation=made.json["link"].partition("#invite=")[2])
    token = stack.post("/api/admin/invitation", body, token=stack.olivia()).json["link"].partition("#invite=")[2]
    assert stack.post("/api/invitation/check", {"invitation": token}).json["memberFor"] == "30 days"
    for person in (bob, carol):
        assert stack.register(person, invitation=token).json["status"] == "pending"
    stack.decides("reject", bob)
    assert end_of(stack, bob) is None
    stack.decides("approve", bob)
    stack.decides("approve", carol, **{"for": "1 day"})
    for person, days in ((alice, 30), (bob, 30), (carol, 1)):
        assert is_in_days(end_of(stack, person), days), person.name


def test_a_length_that_is_none_is_refused(stack: Stack) -> None:
    for written, fault in (
        ("", "no_duration"),
        ("soon", "no_duration"),
        ("-1 day", "no_duration"),
        ("0s", "in_the_past"),
    ):
        refused = stack.post("/api/admin/invitation", {"memberFor": written}, token=stack.olivia())
        assert assert_refused(refused, 422, "invalid_membership", field="memberFor")["fault"] == fault


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


# GET /api/admin/invitations, and `companion users invite --list`.


LONG = ("--member-for", "2 weeks")


def test_the_host_invites_lists_and_revokes(stack: Stack) -> None:
    config = stack.daemon.config_file
    made = companion("users", "invite", "--uses", "2", "--for", "3 days", "--without", "review", *LONG, config=config)
    token = made.output.strip().partition("#invite=")[2]
    alice = stack.newcomer("alice")
    assert stack.register(alice, invitation=token).json["status"] == "approved"
    assert is_in_days(end_of(stack, alice), 14)
    row_id = token.partition(".")[0]
    listed = companion("users", "invite", "--list", config=config).output
    assert any(line.startswith(row_id) and "used 1 of 2; no_review" in line for line in listed.splitlines())
    assert "revoked" in companion("users", "invite", "--revoke", row_id, config=config).output
    refused = stack.register(stack.newcomer("bob"), invitation=token)
    assert_refused(refused, 409, "invitation_revoked", field="invitation")


# POST /api/invitation/check: what an invitation grants, or why it cannot be used.


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


# POST /api/admin/invitation/revoke: an invitation ends when it is revoked, and with its maker's right.


def test_it_ends_with_its_makers_right(stack: Stack, operators: Operators) -> None:
    oscar, alice = operators.new("oscar"), stack.newcomer("alice")
    row_id, token = invite(stack, by=stack.admin_token(oscar.name, oscar.password))

    operators.dismiss(oscar)

    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
    find = partial(our_database(stack).query, "SELECT revoked_at FROM regsvc_invitation WHERE id = ?", (row_id,))
    ask_until(lambda: find()[0]["revoked_at"], bool)  # the daemon notices within seconds
    operators.appoint(oscar)
    assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")


def test_it_does_not_come_back_when_a_ban_of_its_maker_is_lifted(stack: Stack, operators: Operators) -> None:
    rita, ritas_token = with_role(stack, "reviewer")
    oscar, alice = operators.new("oscar", level=2), stack.newcomer("alice")
    tokens = [invite(stack, by=token)[1] for token in (ritas_token, stack.admin_token(oscar.name, oscar.password))]
    for maker in (rita, oscar):
        stack.decides("ban", maker)
        stack.decides("unban", maker)
    give(stack, rita, "reviewer")
    for token in tokens:
        assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")


def make_bots(stack: Stack, *more: str) -> dict[str, str]:
    """Return the API tokens of a bot of Olivia's and of one of the host's, which may review and make links."""
    may = ("users.review", "users.manage")
    given = [word for name in may for word in ("--may", name)]
    made = companion("token", "create", "hosts-bot", *given, *more, config=stack.daemon.config_file)
    return {"olivias-bot": make_token(stack, "olivias-bot", *may), "hosts-bot": made.output.split()[0]}


def make_link(stack: Stack, person: Person, by: str) -> tuple[str, float]:
    """Return the token of a link that sets a password, and the seconds until it ends."""
    made = stack.post("/api/admin/user/password-link", {"username": person.name}, token=by)
    assert made.status == 200, made.text
    return find_link_token(made.json["link"]), made.json["expiresAt"] / 1000 - time.time()


def test_links_end_with_the_api_token_that_made_them(stack: Stack) -> None:
    alice, bob, carla = stack.newcomer("alice"), stack.approved("bob"), stack.approved("carla")
    for name, bot in make_bots(stack).items():
        _id, kept = invite(stack, by=stack.olivia())
        _id, token = invite(stack, by=bot)
        (password_link, _seconds), (other, _seconds) = (
            make_link(stack, bob, bot),
            make_link(stack, carla, stack.olivia()),
        )
        shown = stack.post("/api/invitation/check", {"invitation": token})
        assert (shown.status, "cli:" in shown.json["madeBy"]) == (200, False)
        stack.post("/api/admin/token/revoke", {"name": name}, token=stack.olivia())
        assert_refused(stack.register(alice, invitation=token), 409, "invitation_revoked", field="invitation")
        assert stack.post("/api/invitation/check", {"invitation": kept}).status == 200
        refused = stack.post("/api/password/reset", {"token": password_link, "newPassword": "the-bots-password"})
        assert_refused(refused, 422, "invalid_token", field="token")
        assert stack.post("/api/password/reset", {"token": other, "newPassword": "carlas-new-one"}).status == 200


def test_what_an_api_token_makes_does_not_outlive_it(stack: Stack) -> None:
    """Its end is known from the beginning."""
    bot, bob = make_bots(stack, "--expires", "10 minutes")["hosts-bot"], stack.approved("bob")
    row_id, _token = invite(stack, by=bot)
    listed = stack.get("/api/admin/invitations", token=stack.olivia()).json["invitations"]
    [ends_at] = [it["expiresAt"] / 1000 for it in listed if it["id"] == row_id]
    assert 0 < ends_at - time.time() <= 600
    assert 0 < make_link(stack, bob, bot)[1] <= 600
