"""POST /api/user/password: users who know their password set a new one."""

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.daemon import Reply
from tests.support.our_tables import everything_stored
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("mariadb")

NEW = "a-new-secret-1"


def change(stack: Stack, token: str | None, current: str, new: str, **fields: object) -> Reply:
    body = {"currentPassword": current, "newPassword": new, **fields}
    return stack.post("/api/user/password", body, token=token)


def test_alice_changes_her_password_here_and_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = change(stack, stack.user_token(alice), alice.password, NEW)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.password_changed", "en"), "warnings": []},
    )
    assert stack.login(alice).status == 401
    assert stack.login(alice, NEW).status == 200
    assert stack.authme.login(alice.name, NEW)
    assert not stack.authme.login(alice.name, alice.password)
    assert stack.sync()["updated"] == 0, "both sides agree already"
    [entry] = stack.audits(alice, "user.password_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")


def test_every_session_ends(stack: Stack) -> None:
    alice = stack.approved("alice")
    tokens = [stack.user_token(alice), stack.user_token(alice)]
    assert change(stack, tokens[0], alice.password, NEW).status == 200
    for token in tokens:
        assert_refused(change(stack, token, NEW, alice.password), 401, "unauthorized")


def test_who_waits_may_change_it_too_and_plays_with_it_once_approved(stack: Stack) -> None:
    alice = stack.pending("alice")
    assert change(stack, stack.user_token(alice), alice.password, NEW).status == 200
    assert find_player(stack.table, alice.key) is None
    stack.decides("approve", alice)
    assert stack.authme.login(alice.name, NEW)


def test_an_adopted_player_may_change_it(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.sync()
    stack.decides("approve", bob)
    assert change(stack, stack.user_token(bob), bob.password, NEW).status == 200
    assert stack.authme.login(bob.name, NEW)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_wrong_current_password(stack: Stack, language: str) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    reply = change(stack, token, "not-the-password", NEW, language=language)
    assert_refused(reply, 422, "wrong_password", field="currentPassword", language=language)
    assert change(stack, token, alice.password, NEW).status == 200, "and the session stays"


@pytest.mark.parametrize("current", ["", "x" * 257, "x" * 6_000, "pässword"])
def test_a_current_password_nobody_could_have_is_just_wrong(stack: Stack, current: str) -> None:
    token = stack.user_token(stack.pending("alice"))
    assert_refused(change(stack, token, current, NEW), 422, "wrong_password", field="currentPassword")


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ("abcd", "too_short"),
        ("x" * 31, "too_long"),
        ("x" * 6_000, "too_long"),
        ("pass word", "forbidden_characters"),
        ("PASSWORD", "unsafe"),
        ("{name}", "same_as_username"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_authmes_rules_hold(stack: Stack, new: str, fault: str, language: str) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    reply = change(stack, token, alice.password, new.format(name=alice.name), language=language)
    payload = assert_refused(reply, 422, "invalid_password", field="newPassword", language=language)
    assert payload["fault"] == fault
    assert stack.login(alice).status == 200


@pytest.mark.parametrize("field", ["currentPassword", "newPassword"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_missing_field(stack: Stack, field: str, language: str) -> None:
    alice = stack.pending("alice")
    body = {"currentPassword": alice.password, "newPassword": NEW, "language": language}
    del body[field]
    reply = stack.post("/api/user/password", body, token=stack.user_token(alice))
    assert_refused(reply, 422, "invalid_field", field=field, language=language)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_who_shows_no_token(stack: Stack, language: str) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    assert_refused(change(stack, None, alice.password, NEW, language=language), 401, "unauthorized", language=language)
    body = {"currentPassword": alice.password, "newPassword": NEW, "token": token}
    assert_refused(stack.post(f"/api/user/password?token={token}", body), 401, "unauthorized")
    assert stack.login(alice).status == 200


def test_an_admin_token_counts_as_its_owners(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.game.write_operators("Olivia", alice.name)
    token = stack.admin_token(alice.name, alice.password)
    assert change(stack, token, alice.password, NEW).status == 200
    stack.game.write_operators("Olivia")
    assert_refused(stack.get("/api/admin/verify", token=token), 401, "unauthorized")
    assert stack.authme.login(alice.name, NEW)


def test_wrong_ones_delay_as_failed_logins_do(stack: Stack) -> None:
    """A thief with a session guesses no faster than one without. The owner's home has a counter of its own."""
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    replies = [guess(stack, token, "198.51.100.1") for _try in range(7)]
    assert [reply.status for reply in replies] == [422] * 6 + [429]
    assert_refused(replies[-1], 429, "rate_limited")
    assert change(stack, token, alice.password, NEW).status == 200


def guess(stack: Stack, token: str, client: str) -> Reply:
    body = {"currentPassword": "not-the-password", "newPassword": NEW}
    return stack.post("/api/user/password", body, token=token, headers={"X-Forwarded-For": client})


def test_no_password_is_kept_or_told(stack: Stack) -> None:
    alice = stack.approved("alice")
    change(stack, stack.user_token(alice), alice.password, NEW)
    for text in (everything_stored(stack), "\n".join(stack.daemon.log), str(stack.audits(alice))):
        assert NEW not in text
        assert alice.password not in text


# --- Other hosts ---


@pytest.fixture(scope="module")
def softened(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}, "auth": {"login_limits": ["5 per minute"]}})


def test_every_refusal_is_a_200_for_front_ends_that_want_it(softened: Stack) -> None:
    alice = softened.approved("alice")
    token = softened.user_token(alice)
    assert_refused_as_200(change(softened, token, alice.password, "1"), "invalid_password")
    for _try in range(5):
        assert_refused_as_200(change(softened, token, "wrong", NEW, language="zh"), "wrong_password", "zh")
    assert_refused_as_200(change(softened, token, alice.password, NEW), "rate_limited")
    assert_refused(change(softened, "rubbish", alice.password, NEW), 401, "unauthorized")


def test_the_change_waits_for_a_busy_authme(make_stack: MakeStack) -> None:
    """AuthMe's file stays locked for longer than the request waits: the change is saved for later, with a warning."""
    patient = make_stack(config={"database": {"busy_timeout": "200 ms"}})
    alice: Person = patient.approved("alice")
    token = patient.user_token(alice)
    file = patient.table.database.connect()  # type: ignore[attr-defined]
    file.execute("BEGIN IMMEDIATE")
    reply = change(patient, token, alice.password, NEW)
    file.execute("ROLLBACK")
    file.close()
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    patient.sync()
    assert patient.authme.login(alice.name, NEW)
