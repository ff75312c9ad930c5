"""Olivia makes a link with which a user sets a password, and hands it over herself."""

import time

import pytest

from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import everything_stored
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack, find_link_token, has_code

pytestmark = pytest.mark.one_database("mariadb")

PATH = "/api/admin/user/password-link"
NEW = "bobs-new-secret"


def make_link(stack: Stack, person: Person, language: str = "en") -> Reply:
    return stack.post(PATH, {"username": person.name.upper(), "language": language}, token=stack.olivia())


def reset(stack: Stack, token: str, password: str = NEW) -> Reply:
    return stack.post("/api/password/reset", {"token": token, "newPassword": password})


def test_it_sets_a_password_once_and_is_kept_nowhere(stack: Stack) -> None:
    bob = stack.approved("bob")
    made = make_link(stack, bob)
    assert made.json.keys() == {"success", "message", "username", "status", "link", "expiresAt"}
    assert (made.json["username"], made.json["status"]) == (bob.name, "approved")
    assert made.json["link"].startswith(f"{stack.daemon.base_url}/set-password#token=")
    assert abs(made.json["expiresAt"] / 1000 - time.time() - 3600) < 10
    assert made.headers["Cache-Control"] == "no-store"
    token = find_link_token(made.json["link"])
    assert token not in everything_stored(stack)

    assert_refused(reset(stack, token, "abc"), 422, "invalid_password", field="newPassword")
    assert reset(stack, token).status == 200
    assert_refused(reset(stack, token), 422, "invalid_token", field="token")
    assert stack.authme.login(bob.name, NEW)
    assert not [line for line in stack.daemon.log if token in line]
    assert not [letter for letter in stack.smtp.letters_to(bob.email) if token in letter.text]


def test_a_later_link_ends_it_and_a_mailed_one_does_not(stack: Stack) -> None:
    bob = stack.approved("bob")
    first, second = (find_link_token(make_link(stack, bob).json["link"]) for _link in range(2))
    assert_refused(reset(stack, first), 422, "invalid_token", field="token")
    stack.post("/api/password/forgot", {"email": bob.email})
    letter = stack.smtp.wait_for(bob.email, 1, counts=lambda letter: "#token=" in letter.text and not has_code(letter))
    assert reset(stack, second).status == 200
    assert_refused(reset(stack, find_link_token(letter.text)), 422, "invalid_token", field="token")


def test_links_are_for_admins_and_not_for_their_equals(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(stack.post(PATH, {"username": bob.name}), 401, "unauthorized")
    assert_refused(stack.post(PATH, {"username": bob.name}, token=stack.user_token(bob)), 403, "forbidden")
    unknown = stack.post(PATH, {"username": "Nobody"}, token=stack.olivia())
    assert_refused(unknown, 404, "user_not_found", field="username")
    operators = Operators(stack)
    operators.appoint(bob)
    assert_refused(make_link(stack, bob, "zh"), 409, "protected_operator", field="username", language="zh")
    operators.dismiss(bob)
    assert make_link(stack, bob).status == 200


def test_a_link_ends_with_the_right_of_who_made_it(stack: Stack) -> None:
    operators = Operators(stack)
    oscar, bob = operators.new("oscar"), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    prepared = find_link_token(stack.post(PATH, {"username": bob.name}, token=token).json["link"])
    operators.dismiss(oscar)
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    operators.appoint(oscar)  # before anything was revoked
    assert stack.daemon.wait_for_log("sessions 1, links 1")
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    assert_refused(stack.get("/api/admin/users", token=token), 401, "unauthorized")
    assert stack.login(bob).status == 200


def test_a_link_does_not_come_back_when_a_ban_of_who_made_it_is_lifted(stack: Stack) -> None:
    oscar, bob = Operators(stack).new("oscar", level=2), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    prepared = find_link_token(stack.post(PATH, {"username": bob.name}, token=token).json["link"])
    stack.decides("ban", oscar)
    stack.decides("unban", oscar)
    assert_refused(reset(stack, prepared), 422, "invalid_token", field="token")
    token = stack.admin_token(oscar.name, oscar.password)
    anew = find_link_token(stack.post(PATH, {"username": bob.name}, token=token).json["link"])
    assert reset(stack, anew).status == 200


@pytest.mark.one_database("sqlite")
def test_an_unreadable_list_of_operators_ends_nothing(stack: Stack) -> None:
    oscar = Operators(stack).new("oscar")
    token, ops = stack.admin_token(oscar.name, oscar.password), stack.game.directory / "ops.json"
    good = ops.read_text()
    stack.daemon.stop()
    ops.write_text(good[:20])
    stack.daemon.start()
    assert_refused(stack.get("/api/admin/users", token=token), 403, "forbidden")
    ops.write_text(good)
    assert stack.get("/api/admin/users", token=token).status == 200


def test_an_operator_makes_so_many_links_and_no_more(stack: Stack) -> None:
    oscar, bob = Operators(stack).new("oscar"), stack.approved("bob")
    token = stack.admin_token(oscar.name, oscar.password)
    made = [stack.post(PATH, {"username": bob.name}, token=token).status for _link in range(31)]
    assert made == [200] * 30 + [429]
    assert make_link(stack, bob).status == 200, "another operator's"
