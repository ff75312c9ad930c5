"""Passwords: changed by their owner, forgotten, or set by an admin."""

from functools import partial

import pytest

from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.decisions import decide_as, decide_on_many, person_with_status
from tests.support.our_tables import count_rows, everything_kept, everything_stored
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_link_token
from tests.support.together import at_once

# POST /api/user/password: users who know their password set a new one.


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
    for password in (alice.password, NEW):
        assert password not in everything_kept(stack, alice)


def test_an_adopted_player_may_change_it(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.sync()
    stack.decides("approve", bob)
    assert change(stack, stack.user_token(bob), bob.password, NEW).status == 200
    assert stack.authme.login(bob.name, NEW)


def test_it_refuses_a_wrong_current_password(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    for wrong in ("not-the-password", "", "x" * 257, "x" * 6_000, "pässword"):
        reply = change(stack, token, wrong, NEW, language="zh")
        assert_refused(reply, 422, "wrong_password", field="currentPassword", language="zh")
    assert change(stack, token, alice.password, NEW).status == 200, "and the session stays"


def test_authmes_rules_hold(stack: Stack) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    faults = {"x" * 6_000: "too_long", "pass word": "forbidden_characters", alice.name: "same_as_username"}
    for new, fault in faults.items():
        reply = change(stack, token, alice.password, new, language="zh")
        payload = assert_refused(reply, 422, "invalid_password", field="newPassword", language="zh")
        assert payload["fault"] == fault
    assert stack.login(alice).status == 200


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


# --- Other hosts ---


def test_the_change_waits_for_a_busy_authme(make_stack: MakeStack) -> None:
    """AuthMe's file stays locked for longer than the request waits: the change is saved for later, with a warning."""
    patient = make_stack(config={"database": {"busy_timeout": "200 ms"}})
    alice: Person = patient.approved("alice")
    token = patient.user_token(alice)
    with file_busy(patient, "IMMEDIATE"):
        reply = change(patient, token, alice.password, NEW)
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    patient.sync()
    assert patient.authme.login(alice.name, NEW)


# POST /api/password/forgot: mails a link, and the reply does not reveal who has an account.


def forget(stack: Stack, email: str, client: str | None = None, **fields: object) -> Reply:
    headers = {} if client is None else {"X-Forwarded-For": client}
    return stack.post("/api/password/forgot", {"email": email, **fields}, headers=headers)


def test_a_link_is_on_its_way(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = forget(stack, alice.email)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.forgot_sent", "en")},
    )
    letter = stack.smtp.wait_for(alice.email, 3)
    assert letter.subject.startswith("Set a password")
    assert find_link_token(letter.text)
    assert f"{stack.daemon.base_url}/set-password#token=" in letter.text, "behind the #: no log, no Referer"


def test_the_answer_and_the_mail_are_in_the_callers_language(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = forget(stack, alice.email.upper(), language="zh")
    assert reply.json["message"] == TRANSLATIONS.text("message.forgot_sent", "zh")
    assert "密码" in stack.smtp.wait_for(alice.email, 2).subject


def test_the_link_goes_to_the_address_that_was_proven_not_to_the_one_that_was_typed(stack: Stack) -> None:
    """Mail servers may distinguish ALICE@ from alice@, and the two may belong to different people."""
    alice = stack.pending("alice")
    forget(stack, alice.email.upper())
    assert find_link_token(stack.smtp.wait_for(alice.email, 2).text)
    assert stack.smtp.letters_to(alice.email.upper()) == []


# --- Nobody learns who has an account ---


@pytest.fixture
def residents(stack: Stack) -> dict[str, Person]:
    """One person of each kind, by kind."""
    rejected, banned, unproven = stack.pending("rick"), stack.approved("bert"), stack.newcomer("una")
    stack.decides("reject", rejected)
    stack.decides("ban", banned)
    stack.authme.register(unproven.name, unproven.password, email=unproven.email)
    stack.sync()
    return {
        "free": stack.newcomer("fred"),
        "pending": stack.pending("pete"),
        "approved": stack.approved("ada"),
        "rejected": rejected,
        "banned": banned,
        "unproven": unproven,
    }


UNEQUAL = ("regsvc_link", "regsvc_rate_limit")
"""Tables with a row more or less for any address: links that are issued later, and windows chosen at random."""


# R3
def test_the_answer_and_the_writes_are_the_same_for_every_address(stack: Stack, residents: dict[str, Person]) -> None:
    stack.smtp.hold()  # a link is made when its mail is written
    answers, writes = {}, {}
    for kind, person in residents.items():
        forget(stack, person.email)
        before = count_rows(stack)
        reply = forget(stack, person.email)
        after = count_rows(stack)
        answers[kind] = (reply.status, reply.body)
        writes[kind] = {table: after[table] - before[table] for table in before if table not in UNEQUAL}
    stack.smtp.release()
    assert len(set(answers.values())) == 1, answers
    assert writes["free"]["regsvc_outbox"] == 1
    assert all(written == writes["free"] for written in writes.values()), writes


def test_nobody_is_mailed_at_an_address_without_an_account(stack: Stack) -> None:
    nobody, alice = stack.newcomer("nobody"), stack.pending("alice")
    forget(stack, nobody.email)
    forget(stack, alice.email)
    stack.smtp.wait_for(alice.email, 2)
    assert stack.smtp.letters_to(nobody.email) == []


# --- Refusals ---


def test_it_refuses_no_address(stack: Stack) -> None:
    for email, code in (("a@b\r\nBcc: c@d.example", "invalid_email"), ("alice@[127.0.0.1]", "domain_not_allowed")):
        assert_refused(forget(stack, email, language="zh"), 422, code, field="email", language="zh")
    in_query = stack.post("/api/password/forgot?email=alice@example.org", {})
    assert_refused(in_query, 422, "invalid_field", field="email")


# --- Limits and other hosts ---


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    limits = {"limits_per_address": ["2 per day"], "limits_total_forgot": ["9 per day"]}
    return make_stack(request.param, config={"verification": limits, "http": {"trusted_proxies": ["127.0.0.1"]}})


# R60, R13
def test_a_request_that_mails_nothing_costs_the_others_nothing(strict: Stack) -> None:
    """Here 40 requests of 10 clients, and 12 of one subscriber of IPv6: all for addresses without an account."""
    alice = strict.newcomer("alice")
    for _try in range(2):
        assert forget(strict, alice.email, "192.0.2.1").status == 200
    payload = assert_refused(
        forget(strict, alice.email, "192.0.2.2", language="zh"), 429, "rate_limited", language="zh"
    )
    assert payload["remainingSeconds"] > 86_000
    for number in range(40):
        assert forget(strict, strict.newcomer().email, f"192.0.2.{10 + number % 10}").status == 200
    statuses = [forget(strict, strict.newcomer().email, f"2001:db8:1:{net:x}::1").status for net in range(12)]
    assert statuses == [200] * 4 + [429] * 8, "one network has at most half of the total"
    bob = strict.pending("bob")
    assert forget(strict, bob.email, "192.0.2.99").status == 200
    strict.smtp.wait_for(bob.email, 2)


# R60, R3
def test_mailed_links_have_a_total_of_their_own(strict: Stack) -> None:
    """Nobody learns from it who has an account: if it is used up, known and unknown addresses get the usual answer."""
    users = [strict.pending(f"user{number}") for number in range(10)]
    for number, user in enumerate(users):
        assert forget(strict, user.email, f"198.51.100.{number}").status == 200
    replies = [forget(strict, email, "198.51.100.99") for email in (users[-1].email, strict.newcomer().email)]
    assert [reply.status for reply in replies] == [200, 200]
    assert replies[0].body == replies[1].body
    assert strict.post("/api/verify/send", {"email": users[-1].email}).status == 200
    strict.smtp.wait_for(users[-1].email, 1, counts=lambda letter: "already" in letter.subject)
    letters = strict.smtp.letters_to(users[-1].email)  # an address gets its mails in order
    assert not any(letter.subject.startswith("Set a password") for letter in letters)

    strict.daemon.stop()
    strict.daemon.start()
    assert forget(strict, users[-1].email, "198.51.100.98").status == 429, "the limit of an address holds"
    forget(strict, strict.newcomer().email, "198.51.100.98")
    metrics = strict.daemon.get("/metrics")
    assert b'companion_mail_budget_refusals_total{budget="forgot"} 1.0' in metrics.body


def test_it_says_so_where_e_mail_is_off(make_stack: MakeStack) -> None:
    mute = make_stack(config={"mail": {"backend": "off"}})
    for language in ("en", "zh"):
        reply = forget(mute, "alice@example.org", language=language)
        assert_refused(reply, 503, "mail_unavailable", language=language)


# POST /api/password/reset: the mailed link sets a password, once.


def has_link(text: str) -> bool:
    return "/set-password#token=" in text


def link_for(stack: Stack, person: Person) -> str:
    """Ask for a link and read its token in the mail."""
    links = sum(has_link(letter.text) for letter in stack.smtp.letters_to(person.email))
    assert stack.post("/api/password/forgot", {"email": person.email}).status == 200
    letter = stack.smtp.wait_for(person.email, links + 1, counts=lambda letter: has_link(letter.text))
    return find_link_token(letter.text)


def reset(stack: Stack, token: str, new: str = NEW, **fields: object) -> Reply:
    return stack.post("/api/password/reset", {"token": token, "newPassword": new, **fields})


def test_alice_sets_a_new_password_here_and_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    session, token = stack.user_token(alice), link_for(stack, alice)
    reply = reset(stack, token)
    message = TRANSLATIONS.text("message.password_set", "en")
    told = {"success": True, "message": message, "username": alice.name, "status": "approved", "warnings": []}
    assert (reply.status, reply.json) == (200, told)
    assert stack.authme.login(alice.name, NEW)
    assert not stack.authme.login(alice.name, alice.password)
    assert_refused(stack.post("/api/logout", {}, token=session), 401, "unauthorized")
    assert stack.login(alice, NEW).status == 200
    [entry] = stack.audits(alice, "user.password_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    for secret in (NEW, token.partition(".")[2]):
        assert secret not in everything_kept(stack, alice)


def test_who_read_the_mail_has_proven_the_address(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    by_address = {"username": bob.email, "password": NEW}
    assert reset(stack, link_for(stack, bob)).status == 200
    assert stack.post("/api/login", by_address).status == 200


def test_a_password_that_breaks_a_rule_does_not_spend_the_link(stack: Stack) -> None:
    alice = stack.pending("alice")
    token = link_for(stack, alice)
    for new, fault in (("abcd", "too_short"), ("pass word", "forbidden_characters"), (alice.name, "same_as_username")):
        reply = reset(stack, token, new, language="zh")
        payload = assert_refused(reply, 422, "invalid_password", field="newPassword", language="zh")
        assert payload["fault"] == fault
    assert reset(stack, token).status == 200


# Olivia sets a user's password or mails a link to set one. The password is never shown again.


CHOICE = "olivias-choice-1"


# --- Set ---


def test_it_takes_effect_in_the_game_and_here_and_ends_every_session(stack: Stack) -> None:
    bob = stack.approved("bob")
    tokens = [stack.user_token(bob) for _device in range(2)]
    assert stack.authme.login(bob.name, bob.password)

    reply = stack.decides("password", bob, password=CHOICE)

    assert reply.json == {
        "success": True,
        "kind": "one",
        "message": f"The password of {bob.name} was set.",
        "username": bob.name,
        "status": "approved",
    }
    assert stack.authme.login(bob.name, CHOICE)
    assert not stack.authme.login(bob.name, bob.password)
    assert stack.authme.get(bob.name)["hasSession"] == 0
    assert [stack.post("/api/logout", {}, token=token).status for token in tokens] == [401, 401]
    assert stack.login(bob, CHOICE).status == 200
    assert_refused(stack.login(bob), 401, "bad_credentials")
    [entry] = stack.audits(bob, "user.password_changed")
    assert (entry["operator"], entry["ip"], entry["detail"]) == ("Olivia", "127.0.0.1", None)
    assert stack.sync()["updated"] == 0


def test_only_the_password_columns_of_one_row_are_written(stack: Stack) -> None:
    bob, carol = stack.approved("bob"), stack.approved("carol")
    assert stack.authme.login(bob.name, bob.password)
    before, hers = stack.authme.get(bob.name), stack.authme.get(carol.name)
    stack.decides("password", bob, password=CHOICE)
    after = stack.authme.get(bob.name)
    assert {name for name in after if after[name] != before[name]} == {"password"}
    assert stack.authme.get(carol.name) == hers


def test_it_is_never_echoed_logged_stored_or_audited(stack: Stack) -> None:
    bob = stack.approved("bob")
    secret = "a-very-secret-one"
    replies = [stack.decides("password", bob, password=secret)]
    replies += [
        stack.decide("password", bob, password=secret * 9),
        stack.decide("password", bob, password=[secret]),
    ]
    payload = "".join(reply.text + str(reply.headers) for reply in replies)
    token = stack.olivia()
    payload += stack.get("/api/admin/audits", {"size": "100"}, token=token).text
    payload += stack.get("/api/admin/users", {"size": "100"}, token=token).text
    for place in (payload, everything_stored(stack), "\n".join(stack.daemon.log)):
        assert secret not in place


def test_it_beats_a_change_in_the_game_that_nobody_has_seen_yet(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.authme.set_password(bob.name, "changed-in-the-game")
    stack.decides("password", bob, password=CHOICE)
    assert stack.authme.login(bob.name, CHOICE)
    assert stack.sync()["updated"] == 0
    assert stack.authme.login(bob.name, CHOICE)


def test_authmes_rules_hold_for_admins(stack: Stack) -> None:
    bob = stack.approved("bob")
    faults = {"": "too_short", "ümläut-secret": "forbidden_characters", bob.name: "same_as_username"}
    for password, fault in faults.items():
        reply = stack.decide("password", bob, password=password)
        assert assert_refused(reply, 422, "invalid_password", field="password")["fault"] == fault
    assert stack.authme.login(bob.name, bob.password)
    assert stack.audits(bob, "user.password_changed") == []


# --- On a row that is locked, or not there ---


def test_on_a_banned_user_it_is_kept_until_the_unban(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob)

    reply = stack.decides("password", bob, password=CHOICE)

    assert (reply.json["status"], reply.json["message"]) == (
        "banned",
        f"The new password of {bob.name} is saved and takes effect once the player may join.",
    )
    assert stack.authme.get(bob.name)["password"].startswith("!locked!")
    assert not stack.authme.login(bob.name, CHOICE)
    assert_refused(stack.login(bob, CHOICE), 403, "banned")
    assert_refused(stack.login(bob), 401, "bad_credentials")

    stack.decides("unban", bob)
    assert stack.authme.login(bob.name, CHOICE)
    assert not stack.authme.login(bob.name, bob.password)


def test_on_an_applicant_it_is_kept_until_the_approval(stack: Stack) -> None:
    for status in ("pending", "rejected"):
        alice = person_with_status(stack, status)
        assert stack.decides("password", alice, password=CHOICE).json["status"] == status
        assert stack.authme.find(alice.name) is None
        assert stack.login(alice, CHOICE).status == 200
        stack.decides("approve", alice)
        assert stack.authme.login(alice.name, CHOICE)


def test_it_reclaims_a_foreign_row(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    stack.authme.register(bob.name, "a foreign password")
    stack.sync()
    stack.decides("password", bob, password=CHOICE)
    assert stack.authme.login(bob.name, CHOICE)
    assert not stack.authme.login(bob.name, "a foreign password")


def test_an_approved_user_without_a_password_may_play_now(stack: Stack) -> None:
    bob = stack.approved("bob", password=None)
    assert stack.authme.find(bob.name) is None
    stack.decides("password", bob, password=CHOICE)
    assert stack.authme.login(bob.name, CHOICE)


def test_who_is_only_a_player_yet_is_adopted_first(stack: Stack) -> None:
    steve = stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    reply = stack.decides("password", steve, password=CHOICE)
    assert reply.json["username"] == steve.name
    assert len(stack.audits(steve, "user.adopted")) == 1
    stack.decides("approve", steve)
    assert stack.authme.login(steve.name, CHOICE)


# --- A link instead ---


def test_without_a_password_a_link_is_mailed(stack: Stack) -> None:
    bob = stack.approved("bob", language="zh")
    token = stack.user_token(bob)

    reply = stack.decides("password", bob, language="en")

    assert reply.json["message"] == f"A link to set a new password was sent to {bob.name}."
    letter = stack.smtp.wait_for(bob.email, 3)
    assert "密码" in letter.subject
    link = find_link_token(letter.text)
    assert link not in reply.text
    assert stack.authme.login(bob.name, bob.password)
    assert stack.get("/api/user/status", {"username": bob.name}, token=token).json["data"]["email"] == bob.email
    assert stack.audits(bob, "user.password_changed") == []

    assert stack.post("/api/password/link", {"token": link}).status == 200  # which spends nothing
    assert stack.post("/api/password/reset", {"token": link, "newPassword": CHOICE}).status == 200
    assert_refused(stack.post("/api/password/link", {"token": link}), 422, "invalid_token", field="token")
    assert stack.authme.login(bob.name, CHOICE)
    assert stack.post("/api/logout", {}, token=token).status == 401
    assert_refused(
        stack.post("/api/password/reset", {"token": link, "newPassword": CHOICE}), 422, "invalid_token", field="token"
    )


def test_without_an_email_there_is_nobody_to_mail_to(stack: Stack) -> None:
    steve = stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    stack.sync()
    for language in ("en", "zh"):
        reply = stack.decide("password", steve, language=language)
        assert_refused(reply, 422, "password_required", field="password", language=language)


def test_without_mail_no_link_can_be_sent(make_stack: MakeStack) -> None:
    stack = make_stack(config={"mail": {"backend": "off"}})
    stack.authme.register("Steve", "steves-secret", email="steve@example.org")
    body = {"username": "Steve"}
    for language in ("en", "zh"):
        reply = stack.post("/api/admin/user/password", body | {"language": language}, token=stack.olivia())
        assert_refused(reply, 503, "mail_unavailable", language=language)
    set_one = stack.post("/api/admin/user/password", body | {"password": CHOICE}, token=stack.olivia())
    assert set_one.status == 200


# --- Whose ---


def test_many_get_a_link_each(stack: Stack) -> None:
    bob, steve, nobody = stack.approved("bob"), stack.newcomer("steve"), stack.newcomer("nobody")
    stack.authme.register(steve.name, steve.password)
    results = decide_on_many(stack, "password", [bob.name, steve.name, nobody.name])
    assert [result.get("code") for result in results] == [None, "password_required", "user_not_found"]
    find_link_token(stack.smtp.wait_for(bob.email, 3).text)


def test_twenty_at_once_leave_one_password_on_both_sides(stack: Stack) -> None:
    bob, token = stack.approved("bob"), stack.olivia()
    passwords = [f"choice-number-{number}" for number in range(20)]
    replies = at_once([partial(decide_as, stack, token, "password", bob.name, password=one) for one in passwords])
    assert {reply.status for reply in replies} == {200}
    assert len(stack.audits(bob, "user.password_changed")) == 20
    stack.sync()
    [newest] = [one for one in passwords if stack.authme.login(bob.name, one)]
    assert stack.login(bob, newest).status == 200
    other = next(one for one in passwords if one != newest)
    assert_refused(stack.login(bob, other), 401, "bad_credentials")
