"""Whose password was changed is told so where and when, at the address they had proven, with a link that undoes it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.peers.smtp import Letter
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_code, find_link_token, has_code
from tests.support.together import at_once

THIEFS, OWN, LAST = "the-thiefs-secret", "alices-new-secret", "the-last-secret"
FAR_AWAY = "203.0.113.9"
SUBJECTS = {
    "en": "Your password on Game server was changed",
    "de": "Dein Passwort auf Game server wurde geändert",
    "fr": "Ton mot de passe sur Game server a été modifié",
    "zh": "你在 Game server 的密码已更改",
}


def is_notice(letter: Letter) -> bool:
    return letter.subject in SUBJECTS.values()


def is_about_address(letter: Letter) -> bool:
    return letter.subject == "The e-mail address of your account on Game server was changed"


def notice(stack: Stack, person: Person, count: int = 1) -> Letter:
    return stack.smtp.wait_for(person.email, count, counts=is_notice)


def told(stack: Stack, person: Person) -> list[str]:
    """Return what was mailed to this person about a change of the password or the address, sent or not yet."""
    query = "SELECT template FROM regsvc_outbox WHERE recipient_key = ? ORDER BY id"
    mailed = [str(row["template"]) for row in our_database(stack).query(query, (person.email,))]
    return [template for template in mailed if template in ("password_changed", "email_changed")]


def where(letter: Letter) -> str:
    match = re.search(r"^Where: (.+)$", letter.text, re.MULTILINE)
    assert match is not None, letter.text
    return match[1]


def change(stack: Stack, token: str, current: str, new: str, client: str = FAR_AWAY) -> Reply:
    body = {"currentPassword": current, "newPassword": new}
    return stack.post("/api/user/password", body, token=token, headers={"X-Forwarded-For": client})


def verify(stack: Stack, email: str) -> str:
    """Ask for a code that proves this address, and return it."""
    letters = sum(map(has_code, stack.smtp.letters_to(email)))
    stack.post("/api/verify/send", {"email": email, "purpose": "change_email"})
    return find_code(stack.smtp.wait_for(email, letters + 1, counts=has_code).text)


def change_address(stack: Stack, token: str, password: str, to: str) -> Reply:
    code = verify(stack, to)
    return stack.post("/api/user/update", {"email": to, "code": code, "currentPassword": password}, token=token)


def redeem(stack: Stack, letter: Letter, new: str) -> Reply:
    return stack.post("/api/password/reset", {"token": find_link_token(letter.text), "newPassword": new})


def is_locked_out(stack: Stack, token: str) -> bool:
    return stack.get("/api/user/sessions", token=token).status == 401


# --- On a page, and what the link does ---


@pytest.mark.every_database
def test_alice_learns_where_a_thief_changed_it_and_takes_it_back(stack: Stack) -> None:
    alice = stack.approved("alice")
    thiefs = stack.user_token(alice)
    assert change(stack, thiefs, alice.password, THIEFS).status == 200
    letter = notice(stack, alice)
    assert where(letter) == f"on the website, from the address {FAR_AWAY}"
    assert "The link is valid for 3 days" in letter.text
    thiefs_again = stack.user_token(alice, THIEFS)
    assert redeem(stack, letter, OWN).status == 200
    assert is_locked_out(stack, thiefs_again)
    assert stack.login(alice, THIEFS).status == 401
    assert stack.login(alice, OWN).status == 200
    assert stack.authme.login(alice.name, OWN)
    assert_refused(redeem(stack, letter, LAST), 422, "invalid_token", field="token")
    assert where(notice(stack, alice, 2)) == "with a link from an e-mail, from the address 127.0.0.1"


@pytest.mark.parametrize(("language", "subject"), SUBJECTS.items())
def test_in_the_players_language_and_the_hosts_time_zone(stack: Stack, language: str, subject: str) -> None:
    alice = stack.approved("alice", language=language)
    before = datetime.now(UTC)
    assert change(stack, stack.user_token(alice), alice.password, OWN).status == 200
    letter = notice(stack, alice)
    assert letter.subject == subject
    minutes = (before, before + timedelta(minutes=1))
    assert any(TRANSLATIONS.moment(minute, language, before) in letter.text for minute in minutes), letter.text
    assert TRANSLATIONS.place("website", FAR_AWAY, language) in letter.text
    assert letter.html is not None
    assert letter.html.count("/set-password#token=") == 1, "its one button"


@pytest.mark.every_database
def test_a_thief_who_changes_the_address_as_well_loses_both(stack: Stack) -> None:
    """Neither a link mailed to the thief's address, nor one that is asked for there, helps the thief afterwards."""
    alice, mallory = stack.approved("alice"), stack.newcomer("mallory")
    assert change(stack, stack.user_token(alice), alice.password, THIEFS).status == 200
    letter = notice(stack, alice)
    thiefs = stack.user_token(alice, THIEFS)
    assert change_address(stack, thiefs, THIEFS, mallory.email).status == 200
    assert change(stack, thiefs, THIEFS, LAST).status == 200
    thiefs_letter = notice(stack, mallory)
    assert stack.post("/api/password/forgot", {"email": mallory.email}).status == 200
    asked = stack.smtp.wait_for(mallory.email, counts=lambda it: it.subject == "Set a password for Game server")
    assert redeem(stack, asked, THIEFS).status == 200

    assert redeem(stack, letter, OWN).status == 200
    assert stack.user(alice)["email"] == alice.email
    assert stack.authme.get(alice.name)["email"] == alice.email
    assert_refused(redeem(stack, thiefs_letter, LAST), 422, "invalid_token", field="token")
    parting = stack.smtp.wait_for(mallory.email, counts=is_about_address)
    assert "#token=" not in parting.text
    assert stack.post("/api/password/forgot", {"email": mallory.email}).status == 200
    assert stack.login(alice, OWN).status == 200
    query = "SELECT user_id FROM regsvc_outbox WHERE recipient_key = ? AND template = 'reset_password' ORDER BY id"
    assert our_database(stack).query(query, (mallory.email,))[-1]["user_id"] is None, "nobody has that address"


def test_a_thief_who_changes_the_address_first_loses_both(stack: Stack) -> None:
    alice, mallory = stack.approved("alice"), stack.newcomer("mallory")
    thiefs = stack.user_token(alice)
    assert change_address(stack, thiefs, alice.password, mallory.email).status == 200
    assert change(stack, thiefs, alice.password, THIEFS).status == 200
    assert told(stack, alice) == ["email_changed"]
    letter = stack.smtp.wait_for(alice.email, counts=is_about_address)
    assert "take the account back within 3 days" in letter.text
    assert redeem(stack, letter, OWN).status == 200
    assert (stack.user(alice)["email"], stack.login(alice, OWN).status) == (alice.email, 200)
    [_thiefs, entry] = stack.audits(alice, "user.email_changed")[::-1]
    assert entry["detail"] == {"why": "taken back"}


def test_a_link_of_a_later_address_ends_none_of_an_earlier_one(stack: Stack) -> None:
    alice, one, two = stack.approved("alice"), stack.newcomer("mallory"), stack.newcomer("mallory")
    thiefs = stack.user_token(alice)
    assert change_address(stack, thiefs, alice.password, one.email).status == 200
    assert change_address(stack, thiefs, alice.password, two.email).status == 200
    assert redeem(stack, stack.smtp.wait_for(one.email, counts=is_about_address), THIEFS).status == 200
    assert stack.user(alice)["email"] == one.email
    assert redeem(stack, stack.smtp.wait_for(alice.email, counts=is_about_address), OWN).status == 200
    assert stack.user(alice)["email"] == alice.email


def test_an_address_that_is_anothers_by_now_is_not_taken_from_them(stack: Stack) -> None:
    """Alice moved on, and gave her mailbox to Bob, who registered with it."""
    alice, bob = stack.approved("alice"), stack.newcomer("bob")
    token = stack.user_token(alice)
    assert change_address(stack, token, alice.password, stack.newcomer("new").email).status == 200
    letter = stack.smtp.wait_for(alice.email, counts=is_about_address)
    assert stack.register(bob, email=alice.email, code=stack.code_for(alice.email)).status == 201
    assert_refused(redeem(stack, letter, THIEFS), 422, "invalid_token", field="token")
    assert stack.login(alice).status == 200


@pytest.mark.every_database
def test_whatever_comes_first_the_account_is_alices_in_the_end(stack: Stack) -> None:
    """The thief changes the address while Alice takes the account back."""
    for trial in range(8):
        alice, mallory = stack.approved("alice"), stack.newcomer("mallory")
        assert change(stack, stack.user_token(alice), alice.password, THIEFS).status == 200
        letter, thiefs = notice(stack, alice), stack.user_token(alice, THIEFS)
        body = {"email": mallory.email, "code": verify(stack, mallory.email), "currentPassword": THIEFS}
        calls: list[Callable[[], Reply]] = [
            lambda body=body, thiefs=thiefs: stack.post("/api/user/update", body, token=thiefs),  # type: ignore[misc]
            lambda letter=letter: redeem(stack, letter, OWN),  # type: ignore[misc]
            lambda thiefs=thiefs: change(stack, thiefs, THIEFS, LAST),  # type: ignore[misc]
        ]
        replies = at_once(calls)
        assert replies[1].status == 200, (trial, replies[1].text)
        assert stack.user(alice)["email"] == alice.email, trial
        assert stack.login(alice, OWN).status == 200, trial


# --- Wherever it is changed ---


def test_an_operator_sets_it(stack: Stack) -> None:
    alice = stack.approved("alice")
    body, headers = {"username": alice.name, "password": OWN}, {"X-Forwarded-For": FAR_AWAY}
    assert stack.post("/api/admin/user/password", body, token=stack.olivia(), headers=headers).status == 200
    letter = notice(stack, alice)
    assert where(letter) == "by a moderator"
    assert FAR_AWAY not in letter.text, "where the team sits is its own business"


def test_the_host_sets_it_on_the_command_line(stack: Stack) -> None:
    alice = stack.approved("alice")
    given = ("users", "password", alice.name, "--password-stdin")
    done = companion(*given, config=stack.daemon.config_file, typed=f"{OWN}\n")
    assert done.status == 0, done.errors
    assert where(notice(stack, alice)) == "by the team, on the command line"


def test_it_is_set_with_a_link_that_an_operator_handed_over(stack: Stack) -> None:
    alice = stack.approved("alice")
    made = stack.post("/api/admin/user/password-link", {"username": alice.name}, token=stack.olivia())
    token = made.json["link"].partition("#token=")[2]
    assert stack.post("/api/password/reset", {"token": token, "newPassword": OWN}).status == 200
    assert where(notice(stack, alice)) == "with a link that a moderator handed over, from the address 127.0.0.1"


@pytest.mark.every_database
def test_it_is_changed_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.authme.set_password(alice.name, THIEFS)
    stack.sync()
    letter = notice(stack, alice)
    assert where(letter) == "in the game, where it was noticed at this time"
    assert redeem(stack, letter, OWN).status == 200
    assert stack.authme.login(alice.name, OWN)


def test_it_is_changed_in_the_game_just_before_a_ban(stack: Stack) -> None:
    """Nobody has seen the new password before the row is locked."""
    alice = stack.approved("alice")
    stack.authme.set_password(alice.name, THIEFS)
    stack.decides("ban", alice, reason="griefing")
    assert where(notice(stack, alice)) == "in the game, where it was noticed at this time"


def test_an_operator_lets_another_password_count(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, THIEFS)
    stack.sync()
    assert told(stack, alice) == []
    stack.decides("approve", alice, passwordChoice="take")
    letter = notice(stack, alice)
    assert where(letter).startswith("by a moderator: the password with which your name was registered anew")
    assert redeem(stack, letter, OWN).status == 200
    assert stack.authme.login(alice.name, OWN)


# --- Who is told nothing ---


def test_a_first_password_is_no_change(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    body = {"username": alice.name, "email": alice.email}
    link = stack.post("/api/admin/user/create", body, token=stack.olivia()).json["link"]
    body = {"token": link.partition("#token=")[2], "newPassword": OWN}
    assert stack.post("/api/password/reset", body).status == 200
    token = stack.user_token(alice, OWN)
    assert told(stack, alice) == []
    assert change(stack, token, OWN, LAST).status == 200
    assert told(stack, alice) == ["password_changed"]


def test_an_address_that_nobody_has_proven_is_told_nothing(stack: Stack) -> None:
    """Bob typed it in the game, where nobody asks whose it is."""
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    stack.decides("approve", bob)
    token = stack.user_token(bob)
    assert change(stack, token, bob.password, OWN).status == 200
    stack.authme.set_password(bob.name, THIEFS)
    stack.sync()
    assert told(stack, bob) == []
    assert change_address(stack, stack.user_token(bob, THIEFS), THIEFS, stack.newcomer("new").email).status == 200
    assert "#token=" not in stack.smtp.wait_for(bob.email, counts=is_about_address).text


@pytest.mark.every_database
def test_nobody_fills_a_mailbox_and_the_first_link_undoes_it_all(stack: Stack) -> None:
    alice, current = stack.approved("alice"), ""
    current = alice.password
    for number in range(12):
        new = f"the-thiefs-secret-{number}"
        assert change(stack, stack.user_token(alice, current), current, new).status == 200
        current = new
    assert told(stack, alice) == ["password_changed"] * 3
    letters = [notice(stack, alice, count) for count in (1, 2, 3)]
    assert len({find_link_token(letter.text) for letter in letters}) == 1
    assert redeem(stack, letters[0], OWN).status == 200
    assert stack.login(alice, OWN).status == 200


def test_a_host_may_leave_the_game_to_itself(make_stack: MakeStack) -> None:
    stack = make_stack("sqlite", config={"mail": {"password_changed_in_game": False}})
    alice = stack.approved("alice")
    stack.authme.set_password(alice.name, OWN)
    stack.sync()
    assert stack.login(alice, OWN).status == 200
    assert told(stack, alice) == []
    assert change(stack, stack.user_token(alice, OWN), OWN, LAST).status == 200
    notice(stack, alice)
    stack.daemon.stop()
