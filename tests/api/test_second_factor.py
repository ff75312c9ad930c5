"""The second factor: switched on and off, and what it means for logins, here and in the game."""

import base64
from collections.abc import Mapping

import pytest

from tests.support.authenticator import Authenticator
from tests.support.command_line import companion
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import everything_kept, our_database
from tests.support.refusals import assert_refused
from tests.support.second_factor import (
    BEGIN,
    CODES,
    CONFIRM,
    OFF,
    OFF_STATE,
    STATE,
    Enrolled,
    begin,
    confirm,
    log_in,
    state,
)
from tests.support.stack import MakeStack, Person, Stack
from tests.support.together import at_once

# GET /api/user/totp: what the second factor means for logins, here and in the game.


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


# POST /api/user/totp/begin: a secret for an authenticator app.


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


# POST /api/user/totp/confirm: a code of the app switches the second factor on.


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


# POST /api/user/totp/off: the second factor is switched off, here and in the game.


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


# POST /api/user/totp/recovery-codes: codes that stand in for the app, each once.


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


# The second factor at both logins: players who enabled it in the game need a code here, too, each usable once.


LOGINS = ["/api/login", "/api/admin/login"]
FREE_FAILURES = 5


def log_in_at(
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


@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize("path", LOGINS)
def test_a_right_password_alone_is_asked_for_a_code(stack: Stack, operators: Operators, path: str) -> None:
    oscar = operators.new()
    app = with_app(stack, oscar)
    for language in ("en", "zh"):
        reply = log_in_at(stack, oscar, path=path, language=language)
        assert_refused(reply, 401, "totp_required", field="totp", language=language)
    assert log_in_at(stack, oscar, app.code(), path=path).status == 200


@pytest.mark.one_database("sqlite")
def test_a_name_that_only_authme_knows_is_asked_too_before_it_is_adopted(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    app = with_app(stack, bob)
    assert_refused(log_in_at(stack, bob), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, bob, app.wrong_code()), 401, "totp_required", field="totp")
    assert stack.status(bob) is None
    code = app.code()
    assert log_in_at(stack, bob, code).json["status"] == "pending"
    assert_refused(log_in_at(stack, bob, code), 401, "totp_required", field="totp")


@pytest.mark.one_database("sqlite")
def test_the_row_of_who_waits_is_locked_and_its_factor_still_counts(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    app = with_app(stack, bob)
    stack.sync()
    assert stack.authme.get(bob.name)["password"].startswith("!locked!")
    assert_refused(log_in_at(stack, bob), 401, "totp_required", field="totp")
    assert log_in_at(stack, bob, app.code()).status == 200


@pytest.mark.one_database("sqlite")
def test_who_has_none_may_send_anything(stack: Stack, alice: Person) -> None:
    assert log_in_at(stack, alice, "123456").status == 200
    assert log_in_at(stack, alice, "").status == 200


@pytest.mark.one_database("sqlite")
def test_an_empty_column_is_no_second_factor(stack: Stack, alice: Person) -> None:
    for blank in ("", "  "):
        assert stack.authme.set_totp(alice.name, blank)
        assert log_in_at(stack, alice).status == 200


@pytest.mark.one_database("sqlite")
def test_a_session_has_shown_it_already(stack: Stack, alice: Person, app: Authenticator) -> None:
    token = log_in_at(stack, alice, app.code()).json["token"]
    body = {"currentPassword": alice.password, "newPassword": "a-new-secret-1"}
    assert stack.post("/api/user/password", body, token=token).status == 200
    assert stack.authme.get(alice.name)["totp"] == app.secret


# --- Without ---


@pytest.mark.one_database("sqlite")
def test_what_is_no_code_is_none(stack: Stack, alice: Person, app: Authenticator) -> None:
    for totp in ("", "   ", "x" * 6_000):
        assert_refused(log_in_at(stack, alice, totp), 401, "totp_required", field="totp")


@pytest.mark.one_database("sqlite")
def test_only_a_right_password_is_asked_for_it(stack: Stack, alice: Person, app: Authenticator) -> None:
    """Otherwise the refusal would reveal who has enabled it."""
    for totp in (None, app.code(), app.wrong_code()):
        reply = log_in_at(stack, alice, totp, password="wrong-password", language="zh")
        assert_refused(reply, 401, "bad_credentials", language="zh")


@pytest.mark.one_database("sqlite")
def test_a_code_serves_once(stack: Stack, alice: Person, app: Authenticator) -> None:
    code = app.code()
    assert log_in_at(stack, alice, code).status == 200
    assert_refused(log_in_at(stack, alice, code), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, code, path=LOGINS[1]), 401, "totp_required", field="totp")
    assert log_in_at(stack, alice, app.code(1)).status == 200
    assert_refused(log_in_at(stack, alice, code), 401, "totp_required", field="totp")


@pytest.mark.one_database("sqlite")
def test_of_many_logins_with_one_code_one_gets_in(stack: Stack, alice: Person, app: Authenticator) -> None:
    many = FREE_FAILURES // 2 + 1  # those that fail after the one that succeeded count against the next round
    for later in (0, 1):
        code = app.code(later)
        replies = at_once([lambda code=code: log_in_at(stack, alice, code)] * many)  # type: ignore[misc]
        assert sorted(reply.status for reply in replies) == [200] + [401] * (many - 1)


@pytest.mark.one_database("sqlite")
def test_a_ban_is_told_only_after_the_code(stack: Stack, alice: Person, app: Authenticator) -> None:
    stack.decides("ban", alice, reason="Griefing")
    assert_refused(log_in_at(stack, alice, language="zh"), 401, "totp_required", field="totp", language="zh")
    payload = assert_refused(log_in_at(stack, alice, app.code(), language="zh"), 403, "banned", language="zh")
    assert payload["reason"] == "Griefing"


@pytest.mark.one_database("sqlite")
def test_that_one_is_no_operator_is_told_only_after_the_code(stack: Stack, alice: Person, app: Authenticator) -> None:
    code = app.code()
    assert_refused(log_in_at(stack, alice, path=LOGINS[1]), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, code, path=LOGINS[1]), 403, "not_operator")
    assert_refused(log_in_at(stack, alice, code), 401, "totp_required", field="totp")  # it was shown, and is spent


# --- What guessing brings ---


@pytest.mark.one_database("sqlite")
def test_wrong_codes_delay_as_wrong_passwords_do(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES + 1):
        assert_refused(log_in_at(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, app.code()), 429, "rate_limited")
    rows = our_database(stack).query(
        "SELECT occurrences FROM regsvc_audit WHERE action = 'user.totp_failed' AND target = ?", (alice.name,)
    )
    assert sum(row["occurrences"] for row in rows) == FREE_FAILURES + 1
    [delayed] = stack.audits(alice, "user.login_failed")  # whatever the password was: a refusal costs the same
    assert (delayed["detail"] or {}).get("occurrences", 1) == 1


@pytest.mark.one_database("sqlite")
def test_a_code_left_out_is_no_failure(stack: Stack, alice: Person, app: Authenticator) -> None:
    """Front ends ask for the password first, and for the code only when it is required."""
    for _try in range(FREE_FAILURES + 3):
        assert_refused(log_in_at(stack, alice), 401, "totp_required", field="totp")
    assert log_in_at(stack, alice, app.code()).status == 200
    assert stack.audits(alice, "user.totp_failed") == []


@pytest.mark.one_database("sqlite")
def test_who_knows_the_password_cannot_wipe_out_wrong_codes(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES):
        assert_refused(log_in_at(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
        assert_refused(log_in_at(stack, alice), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, app.wrong_code()), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, app.wrong_code()), 429, "rate_limited")


@pytest.mark.one_database("sqlite")
def test_nor_with_a_session_and_the_password(stack: Stack, alice: Person) -> None:
    token = stack.user_token(alice)
    app = with_app(stack, alice)
    body = {"currentPassword": alice.password, "newPassword": "1"}
    client = {"X-Forwarded-For": "198.51.100.1"}
    for _try in range(FREE_FAILURES):
        assert_refused(log_in_at(stack, alice, app.wrong_code(), headers=client), 401, "totp_required", field="totp")
        reply = stack.post("/api/user/password", body, token=token, headers=client)
        assert_refused(reply, 422, "invalid_password", field="newPassword")
    assert_refused(log_in_at(stack, alice, app.wrong_code(), headers=client), 401, "totp_required", field="totp")
    assert_refused(log_in_at(stack, alice, app.wrong_code(), headers=client), 429, "rate_limited")


@pytest.mark.one_database("sqlite")
def test_a_right_code_clears_what_failed_before(stack: Stack, alice: Person, app: Authenticator) -> None:
    for _try in range(FREE_FAILURES):
        log_in_at(stack, alice, app.wrong_code())
    assert log_in_at(stack, alice, app.code()).status == 200
    for _try in range(FREE_FAILURES):
        log_in_at(stack, alice, app.wrong_code())
    assert log_in_at(stack, alice, app.code(1)).status == 200


# --- foreign rows, and an unreadable row ---


@pytest.mark.one_database("sqlite")
def test_a_foreign_factor_does_not_keep_the_owner_out(stack: Stack, alice: Person) -> None:
    """Alice left the game; another player took the name there and enabled the second factor."""
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, "foreign-password")
    with_app(stack, alice)
    stack.sync()
    assert log_in_at(stack, alice).status == 200
    assert stack.authme.get(alice.name)["totp"] is None, "her password opened the row, without the factor in it"


@pytest.mark.one_database("sqlite")
def test_while_the_row_cannot_be_read_nobody_gets_in(impatient: Stack) -> None:
    alice = impatient.approved("alice")
    app = with_app(impatient, alice)
    with file_busy(impatient):
        replies = [log_in_at(impatient, alice), log_in_at(impatient, alice, app.code())]
    for reply in replies:
        assert_refused(reply, 503, "players_away")
    assert log_in_at(impatient, alice, app.code()).status == 200
