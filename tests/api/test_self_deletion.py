"""What users end themselves: their account and their sessions; and an admin one of their sessions."""

from tests.support.authenticator import Authenticator
from tests.support.authme.authme_tables import find_player
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import ago, everything_kept, our_database
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import Person, Stack
from tests.support.together import at_once

# POST /api/user/delete: the owner leaves for good, here and in the game.


PATH = "/api/user/delete"


def delete(stack: Stack, token: str | None, person: Person, **fields: object) -> Reply:
    return stack.post(PATH, {"currentPassword": person.password, **fields}, token=token)


# --- What it does ---


def test_alice_leaves_for_good(stack: Stack) -> None:
    """The history of the name stays; the mailbox is forgotten."""
    alice = stack.approved("alice")
    tokens = [stack.user_token(alice), stack.user_token(alice)]
    reply = delete(stack, tokens[0], alice)
    message = TRANSLATIONS.text("message.deleted_own", "en", username=alice.name)
    told = {"success": True, "message": message, "username": alice.name, "warnings": []}
    assert (reply.status, reply.json) == (200, told)
    assert stack.status(alice) is None
    assert find_player(stack.table, alice.key) is None
    for token in tokens:
        assert_refused(delete(stack, token, alice), 401, "unauthorized")
    assert_refused(stack.login(alice), 401, "bad_credentials")
    [entry] = stack.audits(alice, "user.deleted")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    assert stack.sync()["adopted"] == 0, "nothing comes back"
    assert alice.password not in everything_kept(stack, alice)
    rows = our_database(stack).query(
        "SELECT transition, operator, email_key FROM regsvc_review WHERE username = ? ORDER BY id", (alice.name,)
    )
    assert [(row["transition"], row["operator"]) for row in rows] == [("approve", "Olivia"), ("delete", alice.name)]
    assert {row["email_key"] for row in rows} == {None}


def test_the_password_may_be_called_so(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    both = {"currentPassword": alice.password, "password": alice.password}
    assert_refused(stack.post(PATH, both, token=token), 422, "invalid_field", field="currentPassword")
    assert stack.post(PATH, {"password": alice.password}, token=token).status == 200
    assert stack.status(alice) is None


def test_the_mailbox_hears_of_it(stack: Stack) -> None:
    """If another person did it, with Alice's session and password, Alice should know."""
    alice = stack.pending("alice", language="zh")
    assert delete(stack, stack.user_token(alice), alice).status == 200
    letter = stack.smtp.wait_for(alice.email, counts=lambda letter: "已删除" in letter.subject)
    assert alice.name in letter.text


def test_name_and_address_are_free_and_nothing_is_inherited(stack: Stack) -> None:
    alice = stack.approved("alice")
    assert delete(stack, stack.user_token(alice), alice).status == 200
    carl = Person(alice.name, alice.email, "another-secret")
    assert stack.register(carl).status == 201
    assert_refused(stack.login(alice), 401, "bad_credentials")
    stack.decides("approve", carl)
    assert stack.authme.login(carl.name, carl.password)


def test_without_the_second_factor_nothing_is_deleted(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    app = Authenticator()
    stack.authme.set_totp(alice.name, app.secret)
    for language in ("en", "zh"):
        reply = delete(stack, token, alice, language=language)
        assert_refused(reply, 401, "totp_required", field="totp", language=language)
    assert_refused(delete(stack, token, alice, totp=app.wrong_code()), 401, "totp_required", field="totp")
    assert stack.status(alice) == "approved"
    assert delete(stack, token, alice, totp=app.code()).status == 200
    assert find_player(stack.table, alice.key) is None


def test_the_code_of_the_login_does_not_serve_twice(stack: Stack) -> None:
    alice = stack.approved("alice")
    app = Authenticator()
    stack.authme.set_totp(alice.name, app.secret)
    code = app.code()
    body = {"username": alice.name, "password": alice.password, "totp": code}
    token = stack.post("/api/login", body).json["token"]
    assert_refused(delete(stack, token, alice, totp=code), 401, "totp_required", field="totp")
    assert delete(stack, token, alice, totp=app.code(1)).status == 200


def test_twice_at_once_is_once(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    replies = at_once([lambda: delete(stack, token, alice)] * 4)
    statuses = sorted(reply.status for reply in replies)
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {401, 422}, [reply.text for reply in replies]
    assert len(stack.audits(alice, "user.deleted")) == 1


# --- What it refuses ---


def test_it_refuses_a_wrong_password(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    reply = delete(stack, token, alice, currentPassword="not-the-password", language="zh")
    assert_refused(reply, 422, "wrong_password", field="currentPassword", language="zh")
    assert stack.status(alice) == "approved"
    assert stack.authme.login(alice.name, alice.password)


def test_no_operator_leaves_his_name_to_whoever_comes_next(stack: Stack, operators: Operators) -> None:
    """With the row gone, anybody could register the operator's name in the game."""
    oscar = operators.new()
    for token in (stack.user_token(oscar), stack.admin_token(oscar.name, oscar.password)):
        reply = delete(stack, token, oscar, language="zh")
        assert_refused(reply, 409, "protected_operator", field="username", language="zh")
    assert stack.authme.login(oscar.name, oscar.password)
    operators.dismiss(oscar)
    assert delete(stack, stack.user_token(oscar), oscar).status == 200


def test_who_was_rejected_cannot_free_the_name_before_its_time(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="bad name")
    token = stack.user_token(rick)
    payload = assert_refused(delete(stack, token, rick, language="zh"), 409, "wrong_status", language="zh")
    assert payload["status"] == "rejected"
    our_database(stack).execute("UPDATE regsvc_user SET reviewed_at = ? WHERE username = ?", (ago(hours=25), rick.name))
    assert delete(stack, token, rick).status == 200


def test_a_rejection_typed_in_sql_counts_as_one(stack: Stack) -> None:
    rick = stack.pending("rick")
    token = stack.user_token(rick)
    our_database(stack).execute("UPDATE regsvc_user SET status = 'rejected' WHERE username = ?", (rick.name,))
    assert_refused(delete(stack, token, rick), 409, "wrong_status")
    stack.sync()
    assert stack.status(rick) == "rejected"


# --- While AuthMe is busy ---


def test_the_row_goes_when_a_busy_authme_lets_it(impatient: Stack) -> None:
    alice = impatient.approved("alice")
    token = impatient.user_token(alice)
    with file_busy(impatient, "IMMEDIATE"):
        reply = delete(impatient, token, alice)
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    assert impatient.status(alice) is None
    assert find_player(impatient.table, alice.key) is not None
    impatient.sync()
    assert find_player(impatient.table, alice.key) is None
    assert impatient.status(alice) is None


def test_while_the_row_cannot_be_read_it_is_refused(impatient: Stack) -> None:
    """It may have a second factor."""
    alice = impatient.approved("alice")
    token = impatient.user_token(alice)
    with file_busy(impatient):
        reply = delete(impatient, token, alice)
    assert_refused(reply, 503, "players_away")
    assert impatient.status(alice) == "approved"


# GET /api/user/sessions: where Alice is logged in.


LIST = "/api/user/sessions"


def test_what_a_session_is_called_is_no_part_of_its_token(stack: Stack) -> None:
    """Those who see the list could otherwise make a token, if they ever got our signing key."""
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    [session] = stack.get(LIST, token=token).json["sessions"]
    [exported] = stack.get("/api/user/export", token=token).json["sessions"]
    assert exported["id"] == session["id"]
    rows = our_database(stack).query("SELECT jti FROM regsvc_session")
    assert not any(session["id"] in row["jti"] for row in rows)


# POST /api/user/sessions/end: Alice ends one of her sessions.


END = "/api/user/sessions/end"


def test_alice_ends_the_session_she_left_open(stack: Stack) -> None:
    alice, bob = stack.approved("alice"), stack.approved("bob")
    left_open, here, bobs = stack.user_token(alice), stack.user_token(alice), stack.user_token(bob)
    [current, other] = stack.get(LIST, token=here).json["sessions"]
    assert [(one["isCurrent"], one["audience"], one["ip"]) for one in (current, other)] == [
        (True, "user", "127.0.0.1"),
        (False, "user", "127.0.0.1"),
    ]
    assert_refused(stack.post(END, {"session": other["id"]}, token=bobs), 404, "session_not_found", field="session")
    assert stack.post(END, {"session": other["id"]}, token=here).status == 200
    assert_refused(stack.get(LIST, token=left_open), 401, "unauthorized")
    assert_refused(stack.post(END, {"session": other["id"]}, token=here), 404, "session_not_found", field="session")
    assert stack.post(END, {"session": current["id"]}, token=here).status == 200
    assert_refused(stack.get(LIST, token=here), 401, "unauthorized")
    assert [entry["operator"] for entry in stack.audits(alice, "user.session_ended")] == [alice.name] * 2


# POST /api/admin/user/sessions/end: an admin ends one session of a user.


END_OF_ANOTHER = "/api/admin/user/sessions/end"


def test_an_admin_ends_one_session_of_a_user(stack: Stack) -> None:
    alice = stack.approved("alice")
    tokens = [stack.user_token(alice), stack.user_token(alice)]
    user = stack.get("/api/admin/user", {"username": alice.name}, token=stack.olivia()).json["user"]
    newest = user["sessions"][0]["id"]
    body = {"username": alice.name.upper(), "session": newest}
    assert_refused(stack.post(END_OF_ANOTHER, body, token=tokens[0]), 403, "forbidden")
    reply = stack.post(END_OF_ANOTHER, body, token=stack.olivia())
    assert (reply.status, alice.name in reply.json["message"]) == (200, True)
    assert stack.get(LIST, token=tokens[0]).status == 200
    assert_refused(stack.get(LIST, token=tokens[1]), 401, "unauthorized")
    assert_refused(stack.post(END_OF_ANOTHER, body, token=stack.olivia()), 404, "session_not_found", field="session")
    assert_refused(
        stack.post(END_OF_ANOTHER, {**body, "username": "Nobody"}, token=stack.olivia()),
        404,
        "user_not_found",
        field="username",
    )
    assert [entry["operator"] for entry in stack.audits(alice, "user.session_ended")] == ["Olivia"]


def test_operators_do_not_end_their_equals_sessions_but_their_own(stack: Stack) -> None:
    operators = Operators(stack)
    oscar, paula = operators.new("oscar", 3), operators.new("paula", 3)
    token = stack.admin_token(oscar.name, oscar.password)
    paulas = stack.user_token(paula)

    def end(username: str) -> Reply:
        user = stack.get("/api/admin/user", {"username": username}, token=token).json["user"]
        body = {"username": username, "session": user["sessions"][-1]["id"]}
        return stack.post(END_OF_ANOTHER, body, token=token)

    assert_refused(end(paula.name), 409, "protected_operator", field="username")
    assert stack.get(LIST, token=paulas).status == 200
    assert end(oscar.name).status == 200
    assert_refused(stack.get(LIST, token=token), 401, "unauthorized")
