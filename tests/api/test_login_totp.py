"""The second factor at both logins: players who enabled it in the game need a code here, too, each usable once."""

from collections.abc import Mapping

import pytest

from tests.support.authenticator import Authenticator
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("sqlite")

LOGINS = ["/api/login", "/api/admin/login"]
FREE_FAILURES = 5


def log_in(
    stack: Stack,
    person: Person,
    totp: str | None = None,
    path: str = LOGINS[0],
    headers: Mapping[str, str] | None = None,
    **fields: object,
) -> Reply:
    """With the password, unless `fields` say another one."""
    body = {"username": person.name, "password": person.password, **fields}
    return stack.post(path, body if totp is None else {**body, "totp": totp}, headers=headers or {})


def with_app(stack: Stack, person: Person) -> Authenticator:
    """The player switches the second factor on, in the game."""
    app = Authenticator()
    assert stack.authme.set_totp(person.name, app.secret)
    return app


@pytest.fixture
def alice(stack: Stack) -> Person:
    return stack.approved("alice")


@pytest.fixture
def app(stack: Stack, alice: Person) -> Authenticator:
    return with_app(stack, alice)


# --- With the code ---


@pytest.mark.parametrize("path", LOGINS)
def test_a_right_password_alone_is_asked_for_a_code(stack: Stack, operators: Operators, path: str) -> None:
    oscar = operators.new()
    app = with_app(stack, oscar)
    for language in ("en", "zh"):
        reply = log_in(stack, oscar, path=path, language=language)
        assert_refused(reply, 401, "totp_required", field="totp", language=language)
    assert log_in(stack, oscar, app.code(), path=path).status == 200


def test_a_name_that_only_authme_knows_is_asked_too_before_it_is_adopted(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    app = with_app(stack, bob)
    assert_refused(log_in(stack, bob), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, bob, app.wrong_code()), 401, "totp_required", field="totp")
    assert stack.status(bob) is None
    code = app.code()
    assert log_in(stack, bob, code).json["status"] == "pending"
    assert_refused(log_in(stack, bob, code), 401, "totp_required", field="totp")


def test_the_row_of_who_waits_is_locked_and_its_factor_still_counts(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    app = with_app(stack, bob)
    stack.sync()
    assert stack.authme.get(bob.name)["password"].startswith("!locked!")
    assert_refused(log_in(stack, bob), 401, "totp_required", field="totp")
    assert log_in(stack, bob, app.code()).status == 200


def test_who_has_none_may_send_anything(stack: Stack, alice: Person) -> None:
    assert log_in(stack, alice, "123456").status == 200
    assert log_in(stack, alice, "").status == 200


def test_an_empty_column_is_no_second_factor(stack: Stack, alice: Person) -> None:
    for blank in ("", "  "):
        assert stack.authme.set_totp(alice.name, blank)
        assert log_in(stack, alice).status == 200


def test_a_session_has_shown_it_already(stack: Stack, alice: Person, app: Authenticator) -> None:
    token = log_in(stack, alice, app.code()).json["token"]
    body = {"currentPassword": alice.password, "newPassword": "a-new-secret-1"}
    assert stack.post("/api/user/password", body, token=token).status == 200
    assert stack.authme.get(alice.name)["totp"] == app.secret


# --- Without ---


def test_what_is_no_code_is_none(stack: Stack, alice: Person, app: Authenticator) -> None:
    for totp in ("", "   ", "x" * 6_000):
        assert_refused(log_in(stack, alice, totp), 401, "totp_required", field="totp")


def test_only_a_right_password_is_asked_for_it(stack: Stack, alice: Person, app: Authenticator) -> None:
    """Otherwise the refusal would reveal who has enabled it."""
    for totp in (None, app.code(), app.wrong_code()):
        reply = log_in(stack, alice, totp, password="wrong-password", language="zh")
        assert_refused(reply, 401, "bad_credentials", language="zh")


def test_a_code_serves_once(stack: Stack, alice: Person, app: Authenticator) -> None:
    code = app.code()
    assert log_in(stack, alice, code).status == 200
    assert_refused(log_in(stack, alice, code), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, code, path=LOGINS[1]), 401, "totp_required", field="totp")
    assert log_in(stack, alice, app.code(1)).status == 200
    assert_refused(log_in(stack, alice, code), 401, "totp_required", field="totp")


def test_of_many_logins_with_one_code_one_gets_in(stack: Stack, alice: Person, app: Authenticator) -> None:
    many = FREE_FAILURES // 2 + 1  # those that fail after the one that succeeded count against the next round
    for later in (0, 1):
        code = app.code(later)
        replies = at_once([lambda code=code: log_in(stack, alice, code)] * many)  # type: ignore[misc]
        assert sorted(reply.status for reply in replies) == [200] + [401] * (many - 1)


def test_a_ban_is_told_only_after_the_code(stack: Stack, alice: Person, app: Authenticator) -> None:
    stack.decides("ban", alice, reason="Griefing")
    assert_refused(log_in(stack, alice, language="zh"), 401, "totp_required", field="totp", language="zh")
    payload = assert_refused(log_in(stack, alice, app.code(), language="zh"), 403, "banned", language="zh")
    assert payload["reason"] == "Griefing"


def test_that_one_is_no_operator_is_told_only_after_the_code(stack: Stack, alice: Person, app: Authenticator) -> None:
    code = app.code()
    assert_refused(log_in(stack, alice, path=LOGINS[1]), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, code, path=LOGINS[1]), 403, "not_operator")
    assert_refused(log_in(stack, alice, code), 401, "totp_required", field="totp")  # it was shown, and is spent


# --- What guessing brings ---


def test_wrong_codes_delay_as_wrong_passwords_do(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES + 1):
        assert_refused(log_in(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, app.code()), 429, "rate_limited")
    rows = our_database(stack).query(
        "SELECT occurrences FROM regsvc_audit WHERE action = 'user.totp_failed' AND target = ?", (alice.name,)
    )
    assert sum(row["occurrences"] for row in rows) == FREE_FAILURES + 1
    [delayed] = stack.audits(alice, "user.login_failed")  # whatever the password was: a refusal costs the same
    assert (delayed["detail"] or {}).get("occurrences", 1) == 1


def test_a_code_left_out_is_no_failure(stack: Stack, alice: Person, app: Authenticator) -> None:
    """Front ends ask for the password first, and for the code only when it is required."""
    for _try in range(FREE_FAILURES + 3):
        assert_refused(log_in(stack, alice), 401, "totp_required", field="totp")
    assert log_in(stack, alice, app.code()).status == 200
    assert stack.audits(alice, "user.totp_failed") == []


def test_who_knows_the_password_cannot_wipe_out_wrong_codes(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES):
        assert_refused(log_in(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
        assert_refused(log_in(stack, alice), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, app.wrong_code()), 429, "rate_limited")


def test_nor_with_a_session_and_the_password(stack: Stack, alice: Person) -> None:
    token = stack.user_token(alice)
    app = with_app(stack, alice)
    body = {"currentPassword": alice.password, "newPassword": "1"}
    client = {"X-Forwarded-For": "198.51.100.1"}
    for _try in range(FREE_FAILURES):
        assert_refused(log_in(stack, alice, app.wrong_code(), headers=client), 401, "totp_required", field="totp")
        reply = stack.post("/api/user/password", body, token=token, headers=client)
        assert_refused(reply, 422, "invalid_password", field="newPassword")
    assert_refused(log_in(stack, alice, app.wrong_code(), headers=client), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, app.wrong_code(), headers=client), 429, "rate_limited")


def test_a_right_code_clears_what_failed_before(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES):
        log_in(stack, alice, app.wrong_code())
    assert log_in(stack, alice, app.code()).status == 200
    for _try in range(FREE_FAILURES):
        log_in(stack, alice, app.wrong_code())
    assert log_in(stack, alice, app.code(1)).status == 200


# --- foreign rows, and an unreadable row ---


def test_a_foreign_factor_does_not_keep_the_owner_out(stack: Stack, alice: Person) -> None:
    """Alice left the game; another player took the name there and enabled the second factor."""
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, "foreign-password")
    with_app(stack, alice)
    stack.sync()
    assert log_in(stack, alice).status == 200
    assert stack.authme.get(alice.name)["totp"] is None, "her password opened the row, without the factor in it"


def test_while_the_row_cannot_be_read_nobody_gets_in(impatient: Stack) -> None:
    alice = impatient.approved("alice")
    app = with_app(impatient, alice)
    with file_busy(impatient):
        replies = [log_in(impatient, alice), log_in(impatient, alice, app.code())]
    for reply in replies:
        assert_refused(reply, 503, "players_away")
    assert log_in(impatient, alice, app.code()).status == 200
