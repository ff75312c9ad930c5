"""POST /api/user/totp/begin: a secret for an authenticator app."""

from tests.support.authenticator import Authenticator
from tests.support.refusals import assert_refused
from tests.support.second_factor import BEGIN, CODES, OFF, log_in
from tests.support.stack import Stack


def test_one_from_the_game_is_not_replaced_but_gets_recovery_codes(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    app = Authenticator()
    stack.authme.set_totp(alice.name, app.secret)
    assert_refused(stack.post(BEGIN, {"currentPassword": alice.password}, token=token), 409, "totp_already_on")
    body = {"currentPassword": alice.password}
    assert_refused(stack.post(CODES, body, token=token), 401, "totp_required", field="totp")
    codes = stack.post(CODES, {**body, "totp": app.code()}, token=token).json["recoveryCodes"]
    assert log_in(stack, alice, codes[0]).status == 200
    assert stack.post(OFF, {**body, "totp": app.code(1)}, token=token).json["inGame"] is False
    assert stack.authme.get(alice.name)["totp"] is None
    assert log_in(stack, alice).status == 200
