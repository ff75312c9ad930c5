"""POST /api/user/totp/off: the second factor is switched off, here and in the game."""

from tests.support.crash.brief_outage import file_busy
from tests.support.refusals import assert_refused
from tests.support.second_factor import CODES, OFF, OFF_STATE, STATE, Enrolled, begin, confirm, log_in, state
from tests.support.stack import Stack


def test_alice_switches_it_off(stack: Stack) -> None:
    alice = stack.approved("alice")
    enrolled = Enrolled(stack, alice)
    other = log_in(stack, alice, enrolled.codes[0]).json["token"]
    body = {"currentPassword": alice.password}
    assert_refused(stack.post(OFF, body, token=enrolled.token), 401, "totp_required", field="totp")
    wrong = {"currentPassword": "wrong", "totp": enrolled.app.code(1)}
    assert_refused(stack.post(OFF, wrong, token=enrolled.token), 422, "wrong_password", field="currentPassword")
    reply = stack.post(OFF, {**body, "totp": enrolled.app.code(1)}, token=enrolled.token)
    assert (reply.status, reply.json["inGame"]) == (200, False)
    assert stack.authme.get(alice.name)["totp"] is None
    assert state(stack, enrolled.token) == OFF_STATE
    assert_refused(stack.get(STATE, token=other), 401, "unauthorized")
    assert log_in(stack, alice).status == 200
    assert len(stack.audits(alice, "user.totp_disabled")) == 1
    told = stack.smtp.wait_for(alice.email, counts=lambda letter: "verification is on" in letter.subject)
    assert (alice.name in told.text, "/account" in told.text) == (True, True)
    told = stack.smtp.wait_for(alice.email, counts=lambda letter: "verification is off" in letter.subject)
    assert "If this wasn’t you" in told.text
    for path in (OFF, CODES):
        assert_refused(stack.post(path, body, token=enrolled.token), 409, "totp_not_on")


def test_while_the_row_is_busy_it_counts_on_the_web(impatient: Stack) -> None:
    alice = impatient.approved("alice")
    token = impatient.user_token(alice)
    app = begin(impatient, alice, token)
    with file_busy(impatient, "IMMEDIATE"):
        reply = confirm(impatient, alice, token, app.code())
    assert (reply.status, reply.json["inGame"]) == (200, False)
    assert_refused(log_in(impatient, alice), 401, "totp_required", field="totp")
    impatient.authme.set_totp(alice.name, app.secret)
    off = {"currentPassword": alice.password, "totp": app.code(1)}
    with file_busy(impatient, "IMMEDIATE"):
        assert_refused(impatient.post(OFF, off, token=token), 503, "players_away")
    assert_refused(log_in(impatient, alice), 401, "totp_required", field="totp")
