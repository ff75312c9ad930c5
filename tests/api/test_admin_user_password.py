"""Olivia helps with a password: she sets one, or has a link mailed. It is never seen again."""

from functools import partial
from typing import Any

import pytest

from tests.support.brief_outage import Outage, assert_synced, file_busy, file_missing, table_missing
from tests.support.decisions import decide_as, decide_on_many, somebody
from tests.support.operators import Operators
from tests.support.our_tables import everything_stored
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeVillage, Person, Village, find_link_token
from tests.support.together import at_once

NEW = "olivias-choice-1"


# --- Set ---


def test_it_takes_effect_in_the_game_and_here_and_ends_every_session(village: Village) -> None:
    bob = village.approved("bob")
    tokens = [village.user_token(bob) for _device in range(2)]
    assert village.authme.login(bob.name, bob.password)

    reply = village.decides("password", bob, password=NEW)

    assert reply.json == {
        "success": True,
        "message": f"The password of {bob.name} was set.",
        "username": bob.name,
        "status": "approved",
    }
    assert village.authme.login(bob.name, NEW)
    assert not village.authme.login(bob.name, bob.password)
    assert village.authme.get(bob.name)["hasSession"] == 0
    assert [village.post("/api/logout", {}, token=token).status for token in tokens] == [401, 401]
    assert village.login(bob, NEW).status == 200
    assert_refused(village.login(bob), 401, "bad_credentials")
    [entry] = village.audits(bob, "user.password_changed")
    assert (entry["operator"], entry["ip"], entry["detail"]) == ("Olivia", "127.0.0.1", None)
    assert village.sync()["updated"] == 0


def test_only_the_password_columns_of_one_row_are_written(village: Village) -> None:
    bob, carol = village.approved("bob"), village.approved("carol")
    assert village.authme.login(bob.name, bob.password)
    before, hers = village.authme.get(bob.name), village.authme.get(carol.name)
    village.decides("password", bob, password=NEW)
    after = village.authme.get(bob.name)
    assert {name for name in after if after[name] != before[name]} == {"password"}
    assert village.authme.get(carol.name) == hers


def test_it_is_never_echoed_logged_stored_or_audited(village: Village) -> None:
    bob = village.approved("bob")
    secret = "a-very-secret-one"
    replies = [village.decides("password", bob, password=secret)]
    replies += [
        village.decide("password", bob, password=secret * 9),
        village.decide("password", bob, password=[secret]),
    ]
    told = "".join(reply.text + str(reply.headers) for reply in replies)
    token = village.olivia()
    told += village.get("/api/admin/audits", {"size": "100"}, token=token).text
    told += village.get("/api/admin/users", {"size": "100"}, token=token).text
    for place in (told, everything_stored(village), "\n".join(village.daemon.log)):
        assert secret not in place


def test_it_beats_a_change_in_the_game_that_nobody_has_seen_yet(village: Village) -> None:
    bob = village.approved("bob")
    village.authme.set_password(bob.name, "changed-in-the-game")
    village.decides("password", bob, password=NEW)
    assert village.authme.login(bob.name, NEW)
    assert village.sync()["updated"] == 0
    assert village.authme.login(bob.name, NEW)


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("abc", "too_short"),
        ("x" * 31, "too_long"),
        ("with a space", "forbidden_characters"),
        ("ümläut-secret", "forbidden_characters"),
        ("tab\tsecret", "forbidden_characters"),
        ("password", "unsafe"),
        ("", "too_short"),
    ],
)
def test_authmes_rules_hold(village: Village, password: str, fault: str) -> None:
    bob = village.approved("bob")
    for language in ("en", "zh"):
        reply = village.decide("password", bob, password=password, language=language)
        told = assert_refused(reply, 422, "invalid_password", field="password", language=language)
        assert told["fault"] == fault
    assert village.authme.login(bob.name, bob.password)
    assert village.audits(bob, "user.password_changed") == []


def test_the_name_is_no_password(village: Village) -> None:
    bob = village.approved("bob")
    told = assert_refused(village.decide("password", bob, password=bob.name), 422, "invalid_password", field="password")
    assert told["fault"] == "same_as_username"


@pytest.mark.parametrize("password", [7, ["x"], {"a": 1}, True])
def test_it_has_to_be_text(village: Village, password: object) -> None:
    bob = village.approved("bob")
    assert_refused(village.decide("password", bob, password=password), 422, "invalid_field", field="password")


# --- On a row that is locked, or not there ---


def test_on_a_banned_user_it_is_kept_until_the_unban(village: Village) -> None:
    bob = village.approved("bob")
    village.decides("ban", bob)

    reply = village.decides("password", bob, password=NEW)

    assert (reply.json["status"], reply.json["message"]) == (
        "banned",
        f"The new password of {bob.name} is kept and takes effect once the player may play.",
    )
    assert village.authme.get(bob.name)["password"].startswith("!locked!")
    assert not village.authme.login(bob.name, NEW)
    assert_refused(village.login(bob, NEW), 403, "banned")
    assert_refused(village.login(bob), 401, "bad_credentials")

    village.decides("unban", bob)
    assert village.authme.login(bob.name, NEW)
    assert not village.authme.login(bob.name, bob.password)


def test_on_an_applicant_it_is_kept_until_the_approval(village: Village) -> None:
    for status in ("pending", "rejected"):
        alice = somebody(village, status)
        assert village.decides("password", alice, password=NEW).json["status"] == status
        assert village.authme.find(alice.name) is None
        assert village.login(alice, NEW).status == 200
        village.decides("approve", alice)
        assert village.authme.login(alice.name, NEW)


def test_it_brings_back_who_left_the_table(village: Village) -> None:
    bob = village.approved("bob")
    village.authme.unregister_from_console(bob.name)
    village.sync()
    village.decides("password", bob, password=NEW)
    assert village.authme.login(bob.name, NEW)
    assert village.user(bob)["plugin"] == "synced"


def test_it_opens_a_row_in_a_strangers_hands(village: Village) -> None:
    bob = village.approved("bob")
    village.authme.unregister_from_console(bob.name)
    village.sync()
    village.authme.register(bob.name, "a strangers one")
    village.sync()
    village.decides("password", bob, password=NEW)
    assert village.authme.login(bob.name, NEW)
    assert not village.authme.login(bob.name, "a strangers one")


def test_an_approved_user_without_a_password_may_play_now(village: Village) -> None:
    bob = village.approved("bob", password=None)
    assert village.authme.find(bob.name) is None
    village.decides("password", bob, password=NEW)
    assert village.authme.login(bob.name, NEW)


def test_who_is_only_a_player_yet_is_adopted_first(village: Village) -> None:
    steve = village.newcomer("steve")
    village.authme.register(steve.name, steve.password)
    reply = village.decides("password", steve, password=NEW)
    assert reply.json["username"] == steve.name
    assert len(village.audits(steve, "user.adopted")) == 1
    village.decides("approve", steve)
    assert village.authme.login(steve.name, NEW)


# --- A link instead ---


def test_without_a_password_a_link_is_mailed(village: Village) -> None:
    bob = village.approved("bob", language="zh")
    token = village.user_token(bob)

    reply = village.decides("password", bob, language="en")

    assert reply.json["message"] == f"A link to set a new password was sent to {bob.name}."
    letter = village.smtp.wait_for(bob.email, 3)
    assert "密码" in letter.subject
    link = find_link_token(letter.text)
    assert link not in reply.text
    assert village.authme.login(bob.name, bob.password)
    assert village.get("/api/user/status", {"username": bob.name}, token=token).json["data"]["email"] == bob.email
    assert village.audits(bob, "user.password_changed") == []

    assert village.post("/api/password/reset", {"token": link, "newPassword": NEW}).status == 200
    assert village.authme.login(bob.name, NEW)
    assert village.post("/api/logout", {}, token=token).status == 401
    assert_refused(
        village.post("/api/password/reset", {"token": link, "newPassword": NEW}), 422, "invalid_token", field="token"
    )


def test_a_later_link_ends_the_earlier_one(village: Village) -> None:
    bob = village.approved("bob")
    links = []
    for count in (3, 4):
        village.decides("password", bob)
        links.append(find_link_token(village.smtp.wait_for(bob.email, count).text))
    first = village.post("/api/password/reset", {"token": links[0], "newPassword": NEW})
    assert_refused(first, 422, "invalid_token", field="token")
    assert village.post("/api/password/reset", {"token": links[1], "newPassword": NEW}).status == 200


def test_without_an_email_there_is_nobody_to_mail_to(village: Village) -> None:
    steve = village.newcomer("steve")
    village.authme.register(steve.name, steve.password)
    village.sync()
    for language in ("en", "zh"):
        reply = village.decide("password", steve, language=language)
        assert_refused(reply, 422, "password_required", field="password", language=language)


def test_without_mail_no_link_can_be_sent(make_village: MakeVillage) -> None:
    village = make_village(config={"mail": {"backend": "off"}})
    village.authme.register("Steve", "steves-secret", email="steve@example.org")
    body = {"username": "Steve"}
    for language in ("en", "zh"):
        reply = village.post("/api/admin/user/password", body | {"language": language}, token=village.olivia())
        assert_refused(reply, 503, "mail_unavailable", language=language)
    set_one = village.post("/api/admin/user/password", body | {"password": NEW}, token=village.olivia())
    assert set_one.status == 200


# --- Whose ---


def test_nobody_sets_his_own_or_an_equals(village: Village, operators: Operators) -> None:
    oscar, low = operators.new("oscar", level=4), operators.new("otto", level=3)
    fields: list[dict[str, Any]] = [{"password": NEW}, {}]
    for name in (OPERATOR, oscar.name):
        for given in fields:
            reply = decide_as(village, village.olivia(), "password", name, **given)
            assert_refused(reply, 409, "protected_operator", field="username")
    token = village.admin_token(low.name, low.password)
    assert decide_as(village, token, "password", oscar.name, password=NEW).status == 409
    assert village.authme.login(oscar.name, oscar.password)
    assert len(village.smtp.letters_to(oscar.email)) == 2
    assert village.decide("password", low, password=NEW).status == 200


def test_many_get_a_link_each(village: Village) -> None:
    bob, steve, nobody = village.approved("bob"), village.newcomer("steve"), village.newcomer("nobody")
    village.authme.register(steve.name, steve.password)
    results = decide_on_many(village, "password", [bob.name, steve.name, nobody.name])
    assert [result.get("code") for result in results] == [None, "password_required", "user_not_found"]
    find_link_token(village.smtp.wait_for(bob.email, 3).text)


def test_twenty_at_once_leave_one_password_on_both_sides(village: Village) -> None:
    bob, token = village.approved("bob"), village.olivia()
    passwords = [f"choice-number-{number}" for number in range(20)]
    replies = at_once([partial(decide_as, village, token, "password", bob.name, password=one) for one in passwords])
    assert {reply.status for reply in replies} == {200}
    assert len(village.audits(bob, "user.password_changed")) == 20
    village.sync()
    [newest] = [one for one in passwords if village.authme.login(bob.name, one)]
    assert village.login(bob, newest).status == 200
    other = next(one for one in passwords if one != newest)
    assert_refused(village.login(bob, other), 401, "bad_credentials")


# --- AuthMe's table is away ---


def test_while_the_table_is_missing_it_waits(village: Village) -> None:
    bob = village.approved("bob")
    with table_missing(village):
        assert village.decides("password", bob, password=NEW).json["warnings"] == ["player_pending"]
    assert_has_the_new_one_after_the_sync(village, bob)


@pytest.mark.parametrize("outage", [file_missing, file_busy])
def test_while_the_file_is_away_it_waits(impatient: Village, outage: Outage) -> None:
    bob = impatient.approved("bob")
    with outage(impatient):
        assert impatient.decides("password", bob, password=NEW).json["warnings"] == ["player_pending"]
    assert_has_the_new_one_after_the_sync(impatient, bob)


def assert_has_the_new_one_after_the_sync(village: Village, person: Person) -> None:
    assert village.authme.login(person.name, person.password)
    assert_synced(village, updated=1)
    assert village.authme.login(person.name, NEW)
    assert not village.authme.login(person.name, person.password)
    assert village.login(person, NEW).status == 200
