"""POST /api/user/totp/recovery-codes: codes that stand in for the app, each once."""

import pytest

from tests.support.refusals import assert_refused
from tests.support.second_factor import CODES, Enrolled, log_in, state
from tests.support.stack import Stack
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("mariadb")


def test_each_recovery_code_serves_once(stack: Stack) -> None:
    alice = stack.approved("alice")
    enrolled = Enrolled(stack, alice)
    first, second, *_others = enrolled.codes
    assert log_in(stack, alice, first).status == 200
    assert_refused(log_in(stack, alice, first), 401, "totp_required", field="totp")
    assert log_in(stack, alice, second.replace(" ", "-")).status == 200
    assert_refused(log_in(stack, alice, "0000 0000 0000"), 401, "totp_required", field="totp")
    assert state(stack, enrolled.token)["recoveryCodesLeft"] == 8
    assert len(stack.audits(alice, "user.recovery_code_used")) == 2


def test_of_many_logins_with_one_recovery_code_one_gets_in(stack: Stack) -> None:
    alice = stack.approved("alice")
    code = Enrolled(stack, alice).codes[0]
    replies = at_once([lambda: log_in(stack, alice, code)] * 4)
    assert sorted(reply.status for reply in replies) == [200, 401, 401, 401]


def test_new_recovery_codes_replace_the_old_ones(stack: Stack) -> None:
    alice, bob = stack.approved("alice"), stack.approved("bob")
    enrolled, other = Enrolled(stack, alice), Enrolled(stack, bob)
    body = {"currentPassword": alice.password, "totp": enrolled.codes[0]}
    assert_refused(
        stack.post(CODES, {**body, "totp": other.codes[0]}, token=enrolled.token), 401, "totp_required", field="totp"
    )
    reply = stack.post(CODES, body, token=enrolled.token)
    assert len(reply.json["recoveryCodes"]) == 10
    assert_refused(log_in(stack, alice, enrolled.codes[1]), 401, "totp_required", field="totp")
    assert log_in(stack, alice, reply.json["recoveryCodes"][1]).status == 200
    assert len(stack.audits(alice, "user.recovery_codes_replaced")) == 1
