"""What members of the team make: tokens for bots, links for passwords; and its end."""

import re
import time
from functools import partial

import pytest

from regsvc.app.routes import ROUTES
from regsvc.core.rights import NOT_FOR_TOKENS, Permission
from regsvc.http.route import Access
from tests.api.test_team import with_role
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import everything_stored, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack, find_link_token, has_code
from tests.support.together import at_once
from tests.support.watching import ask_until, scrape

# POST /api/admin/token/create: bots with tokens of their own, which may do what they name and their maker may.


def make_token(stack: Stack, name: str, *permissions: str, by: str | None = None) -> str:
    """Return a new token of Olivia's, or of the member of the team with this session."""
    maker = by or stack.olivia()
    body = stack.confirmed(maker, name=name, permissions=list(permissions))
    reply = stack.post("/api/admin/token/create", body, token=maker)
    assert reply.status == 200, reply.json
    token: str = reply.json["token"]
    assert re.fullmatch(r"cmp_[A-Za-z0-9]{10}_[A-Za-z0-9]{40}", token)
    return token


def test_a_bot_lists_approves_and_is_named_in_the_log(stack: Stack) -> None:
    alice, token = stack.pending("alice"), make_token(stack, "discord-bot", "users.read", "users.review")

    listed = stack.get("/api/admin/users", {"search": alice.name}, token=token)
    approved = stack.post("/api/admin/user/approve", {"username": alice.name}, token=token)
    banned = stack.post("/api/admin/user/ban", {"username": alice.name}, token=token)

    assert [user["username"] for user in listed.json["users"]] == [alice.name]
    assert (approved.status, stack.status(alice)) == (200, "approved")
    assert assert_refused(banned, 403, "forbidden")["permission"] == "users.ban"
    [entry] = stack.audits(alice, "user.approved")
    assert entry["operator"] == "discord-bot (Olivia)"
    stored = str(our_database(stack).query("SELECT * FROM regsvc_token"))
    assert token not in stored
    assert token[15:] not in stored


def test_it_dies_with_its_makers_right(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = make_token(stack, "oscars-bot", "users.read", by=stack.admin_token(oscar.name, oscar.password))
    assert stack.get("/api/admin/users", token=token).status == 200

    operators.dismiss(oscar)

    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")

    ask_until(lambda: is_revoked(stack, "oscars-bot"), bool)  # the daemon notices within seconds
    operators.appoint(oscar)
    stack.admin_token(oscar.name, oscar.password)
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")


def test_it_does_not_come_back_when_a_ban_of_its_maker_is_lifted(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar", level=2)
    token = make_token(stack, "bot-of-oscar", "users.read", by=stack.admin_token(oscar.name, oscar.password))
    stack.decides("ban", oscar)
    stack.decides("unban", oscar)
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")


def is_revoked(stack: Stack, name: str) -> bool:
    [row] = our_database(stack).query("SELECT revoked_at FROM regsvc_token WHERE name = ?", (name,))
    return row["revoked_at"] is not None


def test_it_outlives_the_session_and_needs_the_password_and_its_maker_is_mailed(
    stack: Stack, operators: Operators
) -> None:
    oscar = operators.new("oscar")
    session = stack.admin_token(oscar.name, oscar.password)
    body: dict[str, object] = {"name": "stolen", "permissions": ["users.read"]}
    refused = stack.post("/api/admin/token/create", body, token=session)
    assert_refused(refused, 422, "current_password_needed", field="currentPassword")
    refused = stack.post("/api/admin/token/create", {**body, "currentPassword": "a-guess"}, token=session)
    assert_refused(refused, 422, "wrong_password", field="currentPassword")
    make_token(stack, "oscars-own", "users.read", by=session)
    assert stack.smtp.wait_for(oscar.email, 1, counts=lambda letter: "An API token was made" in letter.text)
    tokens = stack.get("/api/admin/team", token=stack.olivia()).json["tokens"]
    [own] = [it for it in tokens if it["name"] == "oscars-own"]
    assert own["expiresAt"] - own["createdAt"] == 90 * 86_400_000


def test_the_requests_of_each_are_counted(stack: Stack) -> None:
    token = make_token(stack, "counted", "users.read")
    for _ in range(3):
        stack.get("/api/admin/users", token=token)
    stack.post("/api/admin/user/ban", {"username": "nobody"}, token=token)
    assert scrape(stack.daemon).of("companion_api_token_requests_total", token="counted (Olivia)") == 3


@pytest.mark.parametrize("permission", sorted(NOT_FOR_TOKENS))
def test_what_no_token_may_do(stack: Stack, permission: Permission) -> None:
    body = {"name": "king", "permissions": [permission]}
    assert_refused(
        stack.post("/api/admin/token/create", body, token=stack.olivia()), 422, "invalid_field", field="permissions"
    )


def test_it_takes_over_no_account_of_the_team(stack: Stack) -> None:
    rita, _ritas = with_role(stack, "reviewer")
    token = make_token(stack, "manager", "users.manage")
    body = {"username": rita.name, "password": "a-new-password"}
    assert_refused(
        stack.post("/api/admin/user/password", body, token=token), 409, "protected_operator", field="username"
    )
    reply = stack.post("/api/admin/user/password-link", {"username": rita.name}, token=token)
    assert_refused(reply, 409, "protected_operator", field="username")


def test_a_token_is_refused_elsewhere(stack: Stack) -> None:
    token = make_token(stack, "reader", "users.read")
    assert_refused(stack.get("/api/user/totp", token=token), 401, "unauthorized")
    assert stack.get(f"/api/admin/users?access_token={token}").status == 401
    assert_refused(stack.get("/api/admin/users", token=token[:-8] + "AAAAAAAA"), 401, "unauthorized")
    assert_refused(stack.get("/api/admin/users", token=token + "x" * 4000), 401, "unauthorized")


def test_names_are_used_once_at_a_time(stack: Stack) -> None:
    make_token(stack, "twin", "users.read")
    body = stack.confirmed(stack.olivia(), name="TWIN", permissions=["users.read"])
    assert_refused(
        stack.post("/api/admin/token/create", body, token=stack.olivia()), 409, "token_name_taken", field="name"
    )
    stack.post("/api/admin/token/revoke", {"name": "twin"}, token=stack.olivia())
    make_token(stack, "twin", "users.read")


def test_the_command_line_makes_lists_and_revokes(stack: Stack) -> None:
    config = stack.daemon.config_file
    made = companion("token", "create", "night-bot", "--may", "users.read", "--expires", "90 days", config=config)
    token = made.output.split()[0]
    assert stack.get("/api/admin/users", token=token).status == 200
    listed = companion("token", "list", config=config).output
    assert re.search(r"night-bot +active +users\.read; by cli:\w+; last used", listed)
    assert token not in listed
    assert companion("token", "revoke", "night-bot", config=config).status == 0
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    assert companion("token", "revoke", "night-bot", config=config).status == 1
    assert companion("token", "create", "x", "--may", "team.manage", config=config).status == 2


def test_every_route_is_for_the_tokens_that_name_its_permission(stack: Stack) -> None:
    streams = ("/events", "/api/admin/events")
    routes = [route for route in ROUTES if route.access is Access.ADMIN and route.permission is not None]
    for permission in sorted(set(Permission) - NOT_FOR_TOKENS):
        token = make_token(stack, f"for-{permission}", permission)
        for route in routes:
            if route.path in streams:
                continue
            call = stack.get if route.method == "GET" else partial(stack.post, body={})
            reply = call(route.path, token=token)
            is_allowed = route.permission == permission
            assert (reply.json.get("code") != "forbidden") == is_allowed, (route.path, permission, reply.json)
            if not is_allowed:
                assert reply.json["permission"] == route.permission


@pytest.mark.parametrize("name", ["discord-bot\n", "dіscord-bot", "discord-bot\u200b", "ｂｏｔ", "bot (Olivia)", ""])
def test_a_name_that_is_no_plain_word_is_refused(stack: Stack, name: str) -> None:
    body = stack.confirmed(stack.olivia(), name=name, permissions=["users.read"])
    assert_refused(
        stack.post("/api/admin/token/create", body, token=stack.olivia()), 422, "invalid_field", field="name"
    )
    done = companion("token", "create", name, "--may", "users.read", config=stack.daemon.config_file)
    assert done.status == 2


def test_no_two_active_names_look_alike(stack: Stack) -> None:
    make_token(stack, "bill-b0t", "users.read")
    for alike in ("BILL-B0T", "blll-bot", "bi1l-bOt"):
        body = stack.confirmed(stack.olivia(), name=alike, permissions=["users.read"])
        reply = stack.post("/api/admin/token/create", body, token=stack.olivia())
        assert_refused(reply, 409, "token_name_taken", field="name")
    revoked = stack.post("/api/admin/token/revoke", {"name": "Bill-b0t"}, token=stack.olivia())
    assert revoked.status == 200
    make_token(stack, "blll-bot", "users.read")


def test_a_name_of_an_earlier_version_is_listed_and_revoked(stack: Stack) -> None:
    make_token(stack, "renamed", "users.read")
    our_database(stack).execute(
        "UPDATE regsvc_token SET name = 'Übersetzer', active_name = 'übersetzer' WHERE name = 'renamed'"
    )
    names = [it["name"] for it in stack.get("/api/admin/team", token=stack.olivia()).json["tokens"]]
    assert "Übersetzer" in names
    assert stack.post("/api/admin/token/revoke", {"name": "Übersetzer"}, token=stack.olivia()).status == 200


# POST /api/admin/token/revoke: a token ends at once, once.


def test_forty_who_revoke_end_it_once(stack: Stack) -> None:
    token, olivia = make_token(stack, "bot-of-forty", "users.read"), stack.olivia()

    replies = at_once([lambda: stack.post("/api/admin/token/revoke", {"name": "bot-of-forty"}, token=olivia)] * 40)

    assert sorted(reply.status for reply in replies) == [200] + [404] * 39
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    tokens = stack.get("/api/admin/team", token=olivia).json["tokens"]
    [shown] = [it for it in tokens if it["name"] == "bot-of-forty"]
    assert shown["revokedAt"] is not None
    assert shown["madeBy"] == "Olivia"


# GET /api/user/made: what a member of the team made and has not ended.


def test_an_operator_sees_what_outlives_their_password_and_a_player_has_nothing(
    stack: Stack, operators: Operators
) -> None:
    oscar, bob = operators.new("oscar"), stack.approved("bob")
    session = stack.admin_token(oscar.name, oscar.password)
    make_token(stack, "oscars-bot", "users.read", by=session)
    made = stack.get("/api/user/made", token=session).json
    assert (made["tokens"], len(made["sessions"]), made["chatAccounts"]) == (["oscars-bot"], 1, [])
    nothing = stack.get("/api/user/made", token=stack.user_token(bob)).json
    assert {kind for kind in ("tokens", "links", "invitations", "sessions", "chatAccounts") if nothing[kind]} == set()
    assert_refused(stack.get("/api/user/made"), 401, "unauthorized")


def test_what_a_role_made_is_seen_by_its_bearer_alone(stack: Stack) -> None:
    _rita, ritas = with_role(stack, "reviewer")
    stack.post("/api/admin/invitation", {"uses": 1, "days": 7, "grants": []}, token=ritas)
    assert len(stack.get("/api/user/made", token=ritas).json["invitations"]) == 1


# POST /api/user/made/end: all that a member of the team made ends, but the session that asks.


END = "/api/user/made/end"


def test_a_bot_and_the_other_sessions_end_and_the_log_says_so(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    session, other = (stack.admin_token(oscar.name, oscar.password) for _ in range(2))
    bot = make_token(stack, "bot-of-oscars", "users.read", by=session)
    wrong = stack.post(END, {"currentPassword": "a-guess"}, token=session)
    assert_refused(wrong, 422, "wrong_password", field="currentPassword")
    assert not is_revoked(stack, "bot-of-oscars")
    assert stack.post(END, {"currentPassword": oscar.password}, token=session).status == 200
    statuses = [stack.get("/api/admin/users", token=token).status for token in (session, other, bot)]
    assert statuses == [200, 401, 401]
    [entry] = stack.audits(oscar, "user.rights_ended")
    assert (entry["operator"], entry["detail"]["cause"], entry["detail"]["tokens"]) == (
        oscar.name,
        "by_its_maker",
        "bot-of-oscars",
    )


# Olivia makes a link with which a user sets a password, and hands it over herself.


PASSWORD_LINK = "/api/admin/user/password-link"
NEW = "bobs-new-secret"


def make_link(stack: Stack, person: Person, language: str = "en") -> Reply:
    return stack.post(PASSWORD_LINK, {"username": person.name.upper(), "language": language}, token=stack.olivia())


def reset(stack: Stack, token: str, password: str = NEW) -> Reply:
    return stack.post("/api/password/reset", {"token": token, "newPassword": password})


def test_it_sets_a_password_once_and_is_kept_nowhere(stack: Stack) -> None:
    bob = stack.approved("bob")
    made = make_link(stack, bob)
    assert made.json.keys() == {"success", "message", "username", "status", "link", "expiresAt"}
    assert (made.json["username"], made.json["status"]) == (bob.name, "approved")
    assert made.json["link"].startswith(f"{stack.daemon.base_url}/set-password#token=")
    assert abs(made.json["expiresAt"] / 1000 - time.time() - 3600) < 10
    assert made.headers["Cache-Control"] == "no-store"
    token = find_link_token(made.json["link"])
    assert token not in everything_stored(stack)

    assert_refused(reset(stack, token, "abc"), 422, "invalid_password", field="newPassword")
    assert reset(stack, token).status == 200
    assert_refused(reset(stack, token), 422, "invalid_token", field="token")
    assert stack.authme.login(bob.name, NEW)
    assert not [line for line in stack.daemon.log if token in line]
    assert not [letter for letter in stack.smtp.letters_to(bob.email) if token in letter.text]


def test_a_later_link_ends_it_and_a_mailed_one_does_not(stack: Stack) -> None:
    bob = stack.approved("bob")
    first, second = (find_link_token(make_link(stack, bob).json["link"]) for _link in range(2))
    assert_refused(reset(stack, first), 422, "invalid_token", field="token")
    stack.post("/api/password/forgot", {"email": bob.email})
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "#token=" in letter.text and not has_code(letter))
    assert reset(stack, second).status == 200
    assert_refused(reset(stack, find_link_token(letter.text)), 422, "invalid_token", field="token")


def test_links_are_for_admins_and_not_for_their_equals(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(stack.post(PASSWORD_LINK, {"username": bob.name}), 401, "unauthorized")
    assert_refused(stack.post(PASSWORD_LINK, {"username": bob.name}, token=stack.user_token(bob)), 403, "forbidden")
    unknown = stack.post(PASSWORD_LINK, {"username": "Nobody"}, token=stack.olivia())
    assert_refused(unknown, 404, "user_not_found", field="username")
    operators = Operators(stack)
    operators.appoint(bob)
    assert_refused(make_link(stack, bob, "zh"), 409, "protected_operator", field="username", language="zh")
    operators.dismiss(bob)
    assert make_link(stack, bob).status == 200


def test_a_link_ends_with_the_right_of_who_made_it(stack: Stack) -> None:
    operators = Operators(stack)
    oscar, bob = operators.new("oscar"), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    prepared = find_link_token(stack.post(PASSWORD_LINK, {"username": bob.name}, token=token).json["link"])
    operators.dismiss(oscar)
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    operators.appoint(oscar)  # before anything was revoked
    [entry] = ask_until(lambda: stack.audits(oscar, "user.rights_ended"), bool)
    assert (entry["detail"]["cause"], entry["detail"]["links"]) == ("not_in_team", bob.name)
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    assert stack.login(bob).status == 200


def test_a_link_does_not_come_back_when_a_ban_of_who_made_it_is_lifted(stack: Stack) -> None:
    oscar, bob = Operators(stack).new("oscar", level=2), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    prepared = find_link_token(stack.post(PASSWORD_LINK, {"username": bob.name}, token=token).json["link"])
    stack.decides("ban", oscar)
    stack.decides("unban", oscar)
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    token = stack.admin_token(oscar.name, oscar.password)
    anew = find_link_token(stack.post(PASSWORD_LINK, {"username": bob.name}, token=token).json["link"])
    assert reset(stack, anew).status == 200


@pytest.mark.one_database("sqlite")
def test_an_unreadable_list_of_operators_ends_nothing(stack: Stack) -> None:
    oscar = Operators(stack).new("oscar")
    token, ops = stack.admin_token(oscar.name, oscar.password), stack.game.directory / "ops.json"
    good = ops.read_text()
    stack.daemon.stop()
    ops.write_text(good[:20])
    stack.daemon.start()
    assert_refused(stack.get("/api/admin/users", token=token), 403, "forbidden")
    ops.write_text(good)
    assert stack.get("/api/admin/users", token=token).status == 200


def test_an_operator_makes_so_many_links_and_no_more(stack: Stack) -> None:
    oscar, bob = Operators(stack).new("oscar"), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    made = [stack.post(PASSWORD_LINK, {"username": bob.name}, token=token).status for _link in range(31)]
    assert made == [200] * 30 + [429]
    assert make_link(stack, bob).status == 200, "another operator's"
