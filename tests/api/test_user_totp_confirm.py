"""POST /api/user/totp/confirm: a code of the app switches the second factor on."""

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.second_factor import BEGIN, CONFIRM, OFF, OFF_STATE, Enrolled, begin, confirm, log_in, state
from tests.support.stack import Stack

pytestmark = pytest.mark.one_database("mariadb")


def test_the_code_that_confirmed_it_opens_no_session(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    app = begin(stack, alice, token)
    code = app.code()
    assert confirm(stack, alice, token, code).status == 200
    assert_refused(log_in(stack, alice, code), 401, "totp_required", field="totp")


def test_who_has_no_row_in_the_game_has_it_on_the_web(stack: Stack) -> None:
    bob = stack.pending("bob")
    enrolled = Enrolled(stack, bob)
    assert enrolled.reply["inGame"] is False
    assert_refused(log_in(stack, bob), 401, "totp_required", field="totp")
    assert log_in(stack, bob, enrolled.app.code(1)).status == 200


def test_it_needs_the_password_and_a_right_code(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    assert_refused(
        stack.post(BEGIN, {"currentPassword": "wrong"}, token=token), 422, "wrong_password", field="currentPassword"
    )
    assert_refused(confirm(stack, alice, token, "123456"), 409, "totp_not_on")
    app = begin(stack, alice, token)
    wrong = {"currentPassword": "wrong", "totp": app.code()}
    assert_refused(stack.post(CONFIRM, wrong, token=token), 422, "wrong_password", field="currentPassword")
    for code in ("", "abcdef", app.wrong_code(), app.code(-3)):
        assert_refused(confirm(stack, alice, token, code), 422, "invalid_totp", field="totp")
    again = begin(stack, alice, token)
    assert_refused(confirm(stack, alice, token, app.code()), 422, "invalid_totp", field="totp")
    assert confirm(stack, alice, token, again.code()).status == 200
    for path, body in ((BEGIN, {}), (CONFIRM, {"totp": again.code()})):
        reply = stack.post(path, {"currentPassword": alice.password, **body}, token=token)
        assert_refused(reply, 409, "totp_already_on")


def test_nobody_fills_a_mailbox_by_switching_it_on_and_off(stack: Stack) -> None:
    mallory = stack.pending("mallory")
    token = stack.user_token(mallory)
    body = {"currentPassword": mallory.password}

    def switch_on() -> Reply:
        our_database(stack).execute("UPDATE regsvc_user SET totp_step = NULL WHERE username_key = ?", (mallory.key,))
        return confirm(stack, mallory, token, begin(stack, mallory, token).code())

    for _time in range(10):
        reply = switch_on()
        assert reply.status == 200, reply.text
        off = stack.post(OFF, {**body, "totp": reply.json["recoveryCodes"][0]}, token=token)
        assert off.status == 200, off.text
    assert_refused(switch_on(), 429, "rate_limited")
    assert state(stack, token) == OFF_STATE
    assert len(stack.audits(mallory, "user.totp_enabled")) == 10
