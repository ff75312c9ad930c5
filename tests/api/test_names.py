"""Names with spaces at their ends, in other cases and in other letters, on every route that takes a name.

Databases disagree about them: some collations ignore spaces at the end, case, accents or the width of a letter when
they compare, others do not. So spaces at the ends are removed before anything is looked up, and whatever else differs
is another name.
"""

import itertools
import os
from collections.abc import Callable
from typing import Final

import pytest

from regsvc.app.routes import ROUTES
from regsvc.http.messages import name_fields
from regsvc.http.route import Route
from regsvc.legacy.routes import legacy_routes
from tests.support.authme.authme_tables import find_player
from tests.support.daemon import Reply
from tests.support.peers.mariadb import MYSQLD
from tests.support.stack import MakeStack, Person, Stack
from tests.support.watching import ask_until

FIELDS_FOR_NAMES: Final = frozenset(
    ("username", "identifier", "account", "uuid", "user_id", "usernames", "operator", "target", "to", "search")
)
LOOK_UPS: Final = {
    "/api/user/status": ("username",),
    "/api/review/status": ("username",),
    "/api/chat/status": ("username",),
    "/api/admin/user": ("username",),
    "/api/admin/users": ("search",),
    "/api/admin/audits": ("target", "operator"),
    "/api/admin/mails": ("to",),
}

NO_PAD: Final = (
    ("utf8mb4_0900_ai_ci", "utf8mb4_0900_bin")
    if MYSQLD in os.environ
    else ("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_nopad_bin")
)
"""Collations that count spaces at the end; the first is MySQL 8's default, and the closest that MariaDB has."""

Spell = Callable[[str], str]
SAME: Final[dict[str, Spell]] = {
    "before": lambda name: f" {name}",
    "after": lambda name: f"{name} ",
    "many": lambda name: f"\t{name}\u3000\xa0\r\n",
    "case": str.upper,
}
OTHER: Final[dict[str, Spell]] = {
    "inside": lambda name: name.replace("_", " "),
    "wide": lambda name: chr(ord(name[0]) + 0xFEE0) + name[1:],
    "accent": lambda name: f"{name[0]}\u0301{name[1:]}",
    "no width": lambda name: f"{name}\u200b",
    "control": lambda name: f"{name}\x01",
}


@pytest.fixture(
    scope="module",
    params=["", "utf8mb3_general_ci", "utf8mb4_bin", *NO_PAD],
    ids=lambda collation: collation or "sqlite",
)
def collated(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    """Stacks whose AuthMe tables compare names in different ways."""
    collation = request.param
    return make_stack("mariadb", collation=collation) if collation else make_stack("sqlite")


def ask(stack: Stack, path: str, parameter: str, name: str) -> Reply:
    return stack.get(path, {parameter: name}, token=stack.olivia())


def mail_states(stack: Stack, person: Person) -> set[str]:
    return {mail["state"] for mail in ask(stack, "/api/admin/user", "username", person.name).json["user"]["mails"]}


def test_a_decision_reaches_the_players_row_however_the_name_was_pasted(collated: Stack) -> None:
    """Each request has another spelling than the one before."""
    gus, spellings = collated.newcomer("gus"), itertools.cycle(SAME.values())
    collated.authme.register(gus.name, gus.password)
    collated.sync()

    def pasted() -> str:
        return next(spellings)(gus.name)

    def decide(action: str, **fields: object) -> None:
        reply = collated.post(f"/api/admin/user/{action}", {"username": pasted()} | fields, token=collated.olivia())
        assert (reply.status, reply.json.get("username")) == (200, gus.name), f"{action}: {reply.text}"
        assert "warnings" not in reply.json

    decide("reject")
    decide("approve")
    assert collated.authme.login(gus.name, gus.password)
    collated.authme.quit(gus.name)
    assert collated.post("/api/login", {"username": pasted(), "password": gus.password}).status == 200
    decide("ban")
    assert not collated.authme.login(gus.name, gus.password)
    decide("unban")
    decide("password", password="another-secret")
    assert collated.authme.login(gus.name, "another-secret")
    collated.authme.quit(gus.name)
    decide("password-link")
    decide("delete")
    assert find_player(collated.table, gus.key) is None
    assert collated.login(gus, "another-secret").status == 401
    collated.sync()
    assert collated.status(gus) is None


@pytest.mark.parametrize("field", ["uuid", "userId", "usernames"])
def test_the_other_ways_to_name_a_user_are_no_exception(collated: Stack, field: str) -> None:
    fred = collated.newcomer("fred")
    collated.authme.register(fred.name, fred.password)
    collated.sync()
    named = [f"{fred.name} "] if field == "usernames" else f"{fred.name} "
    assert collated.post("/api/admin/user/delete", {field: named}, token=collated.olivia()).status == 200
    assert find_player(collated.table, fred.key) is None


def test_every_look_up_takes_each_of_these_spellings_for_the_name(collated: Stack) -> None:
    dora = collated.pending("dora")
    ask_until(lambda: mail_states(collated, dora), lambda states: states == {"sent"})
    for path, parameters in LOOK_UPS.items():
        for parameter in parameters:
            expected = ask(collated, path, parameter, dora.name)
            assert expected.status == 200, expected.text
            for spelling, spell in SAME.items():
                reply = ask(collated, path, parameter, spell(dora.name))
                assert (reply.status, reply.json) == (200, expected.json), f"{path} {spelling}"


def test_a_similar_name_is_another_one(collated: Stack) -> None:
    """Neither do look-ups find it, nor do decisions and logins, nor can it be registered."""
    emma, nobody = collated.approved("emma"), collated.newcomer("nobody")
    for path, parameters in LOOK_UPS.items():
        for parameter in parameters:
            expected = ask(collated, path, parameter, nobody.name)
            for spelling, spell in OTHER.items():
                reply = ask(collated, path, parameter, spell(emma.name))
                assert (reply.status, reply.json) == (expected.status, expected.json), f"{path} {spelling}"
    for spelling, spell in OTHER.items():
        similar = spell(emma.name)
        for action in ("reject", "approve", "ban", "unban", "delete", "password", "password-link"):
            reply = collated.post(f"/api/admin/user/{action}", {"username": similar}, token=collated.olivia())
            assert (reply.status, reply.json["code"]) == (404, "user_not_found"), f"{action} {spelling}"
        for path in ("/api/login", "/api/admin/login"):
            assert collated.post(path, {"username": similar, "password": emma.password}).status == 401, spelling
        reply = collated.register(nobody, username=similar, code="000000")
        assert (reply.status, reply.json["code"]) == (422, "invalid_username"), spelling
    assert collated.status(emma) == "approved"


def test_a_name_with_nul_is_malformed(collated: Stack) -> None:
    name = f"{collated.newcomer('emma').name}\0"
    for path, parameters in LOOK_UPS.items():
        assert {ask(collated, path, parameter, name).status for parameter in parameters} == {400}
    for path in ("/api/login", "/api/register", "/api/admin/user/delete", "/api/chat/unlink"):
        assert collated.post(path, {"username": name, "password": "x"}, token=collated.olivia()).status == 400


def test_a_registration_takes_no_spaces_along(collated: Stack) -> None:
    alice = collated.newcomer("alice")
    reply = collated.register(alice, username=f" {alice.name} ")
    assert (reply.status, reply.json["username"]) == (201, alice.name)
    mallory = collated.newcomer("mallory")
    reply = collated.register(mallory, username=f"{alice.name.upper()} ")
    assert (reply.status, reply.json["code"]) == (409, "username_taken")


@pytest.mark.parametrize("routes", [ROUTES, legacy_routes(ROUTES)], ids=["ours", "legacy"])
def test_no_route_takes_a_name_in_any_other_way(routes: tuple[Route, ...]) -> None:
    for route in routes:
        if route.request_type is None:
            continue
        named = FIELDS_FOR_NAMES.intersection(route.request_type.__struct_fields__)
        if route.request_type.__name__ != "ForgotByAnyNameRequest":  # whose identifiers are addresses
            assert named == set(name_fields(route.request_type)), route.request_type
