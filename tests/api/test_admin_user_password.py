"""Olivia sets a user's password or mails a link to set one. The password is never shown again."""

from functools import partial

import pytest

from tests.support.decisions import decide_as, decide_on_many, person_with_status
from tests.support.our_tables import everything_stored
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack, find_link_token
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("mariadb")

NEW = "olivias-choice-1"


# --- Set ---


def test_it_takes_effect_in_the_game_and_here_and_ends_every_session(stack: Stack) -> None:
    bob = stack.approved("bob")
    tokens = [stack.user_token(bob) for _device in range(2)]
    assert stack.authme.login(bob.name, bob.password)

    reply = stack.decides("password", bob, password=NEW)

    assert reply.json == {
        "success": True,
        "kind": "one",
        "message": f"The password of {bob.name} was set.",
        "username": bob.name,
        "status": "approved",
    }
    assert stack.authme.login(bob.name, NEW)
    assert not stack.authme.login(bob.name, bob.password)
    assert stack.authme.get(bob.name)["hasSession"] == 0
    assert [stack.post("/api/logout", {}, token=token).status for token in tokens] == [401, 401]
    assert stack.login(bob, NEW).status == 200
    assert_refused(stack.login(bob), 401, "bad_credentials")
    [entry] = stack.audits(bob, "user.password_changed")
    assert (entry["operator"], entry["ip"], entry["detail"]) == ("Olivia", "127.0.0.1", None)
    assert stack.sync()["updated"] == 0


def test_only_the_password_columns_of_one_row_are_written(stack: Stack) -> None:
    bob, carol = stack.approved("bob"), stack.approved("carol")
    assert stack.authme.login(bob.name, bob.password)
    before, hers = stack.authme.get(bob.name), stack.authme.get(carol.name)
    stack.decides("password", bob, password=NEW)
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
    stack.decides("password", bob, password=NEW)
    assert stack.authme.login(bob.name, NEW)
    assert stack.sync()["updated"] == 0
    assert stack.authme.login(bob.name, NEW)


def test_authmes_rules_hold(stack: Stack) -> None:
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

    reply = stack.decides("password", bob, password=NEW)

    assert (reply.json["status"], reply.json["message"]) == (
        "banned",
        f"The new password of {bob.name} is saved and takes effect once the player may join.",
    )
    assert stack.authme.get(bob.name)["password"].startswith("!locked!")
    assert not stack.authme.login(bob.name, NEW)
    assert_refused(stack.login(bob, NEW), 403, "banned")
    assert_refused(stack.login(bob), 401, "bad_credentials")

    stack.decides("unban", bob)
    assert stack.authme.login(bob.name, NEW)
    assert not stack.authme.login(bob.name, bob.password)


def test_on_an_applicant_it_is_kept_until_the_approval(stack: Stack) -> None:
    for status in ("pending", "rejected"):
        alice = person_with_status(stack, status)
        assert stack.decides("password", alice, password=NEW).json["status"] == status
        assert stack.authme.find(alice.name) is None
        assert stack.login(alice, NEW).status == 200
        stack.decides("approve", alice)
        assert stack.authme.login(alice.name, NEW)


def test_it_reclaims_a_foreign_row(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.authme.unregister_from_console(bob.name)
    stack.sync()
    stack.authme.register(bob.name, "a foreign password")
    stack.sync()
    stack.decides("password", bob, password=NEW)
    assert stack.authme.login(bob.name, NEW)
    assert not stack.authme.login(bob.name, "a foreign password")


def test_an_approved_user_without_a_password_may_play_now(stack: Stack) -> None:
    bob = stack.approved("bob", password=None)
    assert stack.authme.find(bob.name) is None
    stack.decides("password", bob, password=NEW)
    assert stack.authme.login(bob.name, NEW)


def test_who_is_only_a_player_yet_is_adopted_first(stack: Stack) -> None:
    steve = stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    reply = stack.decides("password", steve, password=NEW)
    assert reply.json["username"] == steve.name
    assert len(stack.audits(steve, "user.adopted")) == 1
    stack.decides("approve", steve)
    assert stack.authme.login(steve.name, NEW)


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

    assert stack.post("/api/password/reset", {"token": link, "newPassword": NEW}).status == 200
    assert stack.authme.login(bob.name, NEW)
    assert stack.post("/api/logout", {}, token=token).status == 401
    assert_refused(
        stack.post("/api/password/reset", {"token": link, "newPassword": NEW}), 422, "invalid_token", field="token"
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
    set_one = stack.post("/api/admin/user/password", body | {"password": NEW}, token=stack.olivia())
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
