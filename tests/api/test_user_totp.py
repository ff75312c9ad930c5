"""GET /api/user/totp: what the second factor means for logins, here and in the game."""

import base64

import pytest

from tests.support.authenticator import Authenticator
from tests.support.command_line import companion
from tests.support.operators import Operators
from tests.support.our_tables import everything_kept
from tests.support.refusals import assert_refused
from tests.support.second_factor import BEGIN, OFF, OFF_STATE, STATE, Enrolled, confirm, log_in, state
from tests.support.stack import MakeStack, Stack

pytestmark = pytest.mark.one_database("mariadb")


def test_alice_sets_it_up_and_the_game_asks_for_it_too(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, other = stack.user_token(alice), stack.user_token(alice)
    assert state(stack, token) == OFF_STATE
    begun = stack.post(BEGIN, {"currentPassword": alice.password}, token=token).json
    assert f"secret={begun['secret']}" in begun["uri"]
    assert alice.name in begun["uri"]
    assert base64.b64decode(begun["image"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert log_in(stack, alice).status == 200, "it does not count before it is confirmed"
    app = Authenticator(begun["secret"])
    confirmed = confirm(stack, alice, token, app.code())
    assert (confirmed.status, confirmed.json["inGame"]) == (200, True)
    assert len(set(confirmed.json["recoveryCodes"])) == 10
    assert stack.authme.get(alice.name)["totp"] == app.secret
    assert state(stack, token) == {"enabled": True, "inGame": True, "required": False, "recoveryCodesLeft": 10}
    assert_refused(stack.get(STATE, token=other), 401, "unauthorized")
    assert_refused(log_in(stack, alice), 401, "totp_required", field="totp")
    assert_refused(log_in(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
    assert log_in(stack, alice, app.code(1)).status == 200
    assert [entry["operator"] for entry in stack.audits(alice, "user.totp_enabled")] == [alice.name]


def test_nothing_in_the_game_changes_it(stack: Stack) -> None:
    """Those who may use AuthMe's `disabletotp` could otherwise take it from an operator."""
    alice = stack.approved("alice")
    enrolled = Enrolled(stack, alice)
    stack.authme.set_totp(alice.name, None)
    assert_refused(log_in(stack, alice), 401, "totp_required", field="totp")
    foreign = Authenticator()
    stack.authme.set_totp(alice.name, foreign.secret)
    assert_refused(log_in(stack, alice, foreign.code(1)), 401, "totp_required", field="totp")
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    assert_refused(log_in(stack, alice), 401, "totp_required", field="totp")
    assert log_in(stack, alice, enrolled.app.code(1)).status == 200


def test_the_host_removes_a_lost_one(stack: Stack) -> None:
    alice = stack.approved("alice")
    enrolled = Enrolled(stack, alice)
    done = companion("users", "reset-totp", alice.name.upper(), config=stack.daemon.config_file)
    assert (done.status, "removed" in done.output) == (0, True), done
    assert_refused(stack.get(STATE, token=enrolled.token), 401, "unauthorized")
    assert stack.authme.get(alice.name)["totp"] is None
    assert log_in(stack, alice).status == 200
    [entry] = stack.audits(alice, "user.totp_disabled")
    assert entry["operator"].startswith("cli:")
    stack.code_for(stack.newcomer().email)  # wakes the delivery of what the command wrote down
    assert "/account" in stack.smtp.wait_for(alice.email, counts=lambda mail: "was reset" in mail.subject).text


def test_operators_need_it_where_the_host_says_so(make_stack: MakeStack) -> None:
    strict = make_stack()
    oscar, alice = Operators(strict).new(), strict.approved("alice")
    before = strict.olivia()
    strict.restart_with({"auth": {"operators_need_totp": True}})
    assert_refused(strict.get("/api/admin/verify", token=before), 401, "unauthorized")
    for language in ("en", "zh"):
        body = {"username": oscar.name, "password": oscar.password, "language": language}
        assert_refused(strict.post("/api/admin/login", body), 403, "totp_setup_required", language=language)
    login = log_in(strict, oscar)
    assert (login.status, login.json["isAdmin"]) == (200, False)
    assert state(strict, login.json["token"])["required"] is True
    enrolled = Enrolled(strict, oscar)
    admin = log_in(strict, oscar, enrolled.app.code(1), "/api/admin/login")
    assert strict.get("/api/admin/verify", token=admin.json["token"]).status == 200
    off = {"currentPassword": oscar.password, "totp": enrolled.codes[0]}
    assert strict.post(OFF, off, token=admin.json["token"]).status == 200
    assert_refused(strict.get("/api/admin/verify", token=admin.json["token"]), 401, "unauthorized")
    assert_refused(log_in(strict, oscar, path="/api/admin/login"), 403, "totp_setup_required")
    assert_refused(log_in(strict, alice, path="/api/admin/login"), 403, "not_operator")


def test_in_legacy_mode_an_operator_without_it_is_a_user(make_stack: MakeStack) -> None:
    legacy = {"http": {"legacy_status": True}, "registration": {"approval": False}}
    strict = make_stack(config={"auth": {"operators_need_totp": True}, **legacy})
    oscar = strict.pending("oscar")
    Operators(strict).appoint(oscar)
    token = log_in(strict, oscar).json["token"]
    assert strict.get("/api/admin/users", token=token).status == 403
    enrolled = Enrolled(strict, oscar)
    token = log_in(strict, oscar, enrolled.app.code(1)).json["token"]
    assert strict.get("/api/admin/users", token=token).status == 200


def test_no_secret_and_no_code_is_stored_logged_or_exported(stack: Stack) -> None:
    alice = stack.approved("alice")
    enrolled = Enrolled(stack, alice)
    code = enrolled.app.code(1)
    assert log_in(stack, alice, code).status == 200
    log_in(stack, alice, enrolled.codes[0])
    exported = stack.get("/api/user/export", token=enrolled.token)
    assert exported.json["user"]["totpEnabledAt"] is not None
    export = exported.text
    details = stack.get("/api/admin/user", {"username": alice.name}, token=stack.olivia()).text
    shown = companion("users", "show", alice.name, config=stack.daemon.config_file).output
    assert '"second_factor": "web"' in shown
    text = "\n".join([everything_kept(stack, alice), export, details, shown])
    for secret in (enrolled.app.secret, *enrolled.codes, *(code.replace(" ", "") for code in enrolled.codes)):
        assert secret not in text
