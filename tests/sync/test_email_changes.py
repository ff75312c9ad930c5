"""An e-mail address changed on the web, and what becomes of AuthMe's column."""

import asyncio

import pytest

from regsvc.accounts.email_changes import EmailChangeRequest, EmailChangeResult
from regsvc.core import errors
from regsvc.core.caller import Session
from regsvc.core.email_address import parse_email
from regsvc.database.models import Link, User
from tests.support.authme_tables import TableShape
from tests.support.services import CALLER, PASSWORD, House, MakeHouse

NEW = "new@example.org"


def session_of(house: House, name: str) -> Session:
    user, now = house.user(name), house.clock()
    return Session("j1", user.id, user.username, "user", False, now, None)


def code_for(house: House, email: str) -> str:
    codes = house.app.mail_parts.codes
    issued = codes.find_to_mail(codes.issue(parse_email(email).key, "change_email"))
    assert issued is not None
    return codes.code_of(issued)


def change(house: House, name: str, email: str = NEW, code: str | None = None) -> EmailChangeResult:
    wished = EmailChangeRequest(email, code or code_for(house, email), PASSWORD)
    changes = house.app.self_service.email_changes
    return asyncio.run(changes.change_own(session_of(house, name), wished, CALLER))


def test_it_reaches_the_row_before_the_reply(house: House) -> None:
    house.approved("Alice")
    assert change(house, "Alice") == EmailChangeResult(NEW, ())
    assert house.row("alice")["email"] == NEW
    assert house.player("alice").base_email == NEW
    assert house.plugin("alice") == "synced"
    assert house.sync().updated == 0


def test_a_player_who_waits_gets_it_with_the_approval(house: House) -> None:
    house.register("Alice")
    change(house, "Alice")
    house.decide("approve", "Alice")
    assert house.row("alice")["email"] == NEW


def test_an_adopted_player_whose_row_is_locked_gets_it_with_the_approval(house: House) -> None:
    house.authme.register("Bob", PASSWORD, email="typed@example.org")
    house.sync()
    assert house.is_locked("bob")
    change(house, "Bob")
    assert house.row("bob")["email"] == "typed@example.org"
    house.decide("approve", "Bob")
    assert house.row("bob")["email"] == NEW
    assert house.user("Bob").is_email_verified


def test_a_proven_address_outlives_what_the_game_says_later(house: House) -> None:
    house.approved("Alice")
    change(house, "Alice")
    house.authme.set_email("Alice", "typed@example.org")
    house.sync()
    assert house.user("Alice").email == NEW
    assert house.plugin("alice") == "conflict"


def test_a_disagreement_about_the_old_address_is_over(house: House) -> None:
    house.approved("Alice")
    house.authme.set_email("Alice", "typed@example.org")
    house.sync()
    assert house.player("alice").conflict == "email"
    change(house, "Alice")
    assert house.row("alice")["email"] == NEW
    assert (house.player("alice").conflict, house.plugin("alice")) == (None, "synced")


def test_a_row_that_a_stranger_registered_gets_no_address(house: House) -> None:
    house.approved("Alice")
    house.authme.register("Olivia", "olivias-secret")  # an empty table would be believed to be the wrong one
    house.authme.unregister_from_console("Alice")
    house.sync()
    house.authme.register("Alice", "strangers-password", email="stranger@example.org")
    house.sync()
    change(house, "Alice")
    assert house.row("alice")["email"] == "stranger@example.org"
    house.login("Alice", PASSWORD)  # opens the row
    assert house.row("alice")["email"] == NEW


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_an_address_that_the_table_cannot_hold_is_a_conflict_told_once(house: House) -> None:
    """latin1: the rest of the row goes on, and no look at it fails from now on."""
    house.approved("Alice")
    before = house.row("alice")["email"]
    assert change(house, "Alice", "用户@example.org").warnings == ()
    assert house.row("alice")["email"] == before
    assert house.plugin("alice") == "conflict"
    for _run in range(2):
        assert house.sync().errors == []
    assert house.details("sync.conflict") == [{"field": "email", "kept": "both"}]
    house.set_password("Alice", "another-password")
    assert house.authme.login("Alice", "another-password")

    change_with = EmailChangeRequest(NEW, code_for(house, NEW), "another-password")
    changes = house.app.self_service.email_changes
    asyncio.run(changes.change_own(session_of(house, "Alice"), change_with, CALLER))
    assert house.row("alice")["email"] == NEW
    assert house.plugin("alice") == "synced"


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_one_after_another_that_it_cannot_hold(house: House) -> None:
    """The row has no address at all, so that each look would want to write ours."""
    house.register("Alice", email="用户@example.org")
    house.decide("approve", "Alice")
    assert change(house, "Alice", "另一个@example.org").warnings == ()
    assert house.row("alice")["email"] == "your@email.com"
    assert house.plugin("alice") == "conflict"
    assert house.sync().errors == []
    house.set_password("Alice", "another-password")
    assert house.authme.login("Alice", "another-password")


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_nor_does_it_keep_a_row_that_came_back_closed(house: House) -> None:
    house.approved("Alice")
    house.authme.register("Olivia", "olivias-secret")  # an empty table would be believed to be the wrong one
    house.authme.unregister_from_console("Alice")
    house.sync()
    change(house, "Alice", "用户@example.org")
    house.authme.register("Alice", "strangers-password")
    house.sync()
    house.login("Alice", PASSWORD)
    assert house.authme.login("Alice", PASSWORD)


def test_links_end_and_what_ended_the_sessions_is_the_newer_word(house: House) -> None:
    user = house.approved("Alice")
    house.app.mail_parts.links.issue(user.id, "reset", "alice@example.org")
    change(house, "Alice")
    assert Link.select().where(Link.redeemed_at.is_null()).count() == 0

    changes = house.app.self_service.email_changes
    candidate = asyncio.run(house.app.logins.check("Alice", PASSWORD, CALLER))
    house.app.auth_parts.tokens.end_all(user.id)
    with pytest.raises(errors.Unauthorized):
        house.app.worker.run_here(
            changes._change, candidate, parse_email("x@example.org"), code_for(house, "x@example.org"), CALLER
        )
    assert house.user("Alice").email == NEW


def test_the_index_decides_when_two_prove_one_address(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob's change commits between Alice's look and her write: the look is left out here."""
    house.approved("Alice")
    bob = house.approved("Bob")
    User.update(email=NEW, email_key=NEW, is_email_verified=True).where(User.id == bob.id).execute()
    monkeypatch.setattr("regsvc.accounts.email_changes.claim", lambda *args, **named: None)
    code = code_for(house, NEW)
    with pytest.raises(errors.EmailTaken):
        change(house, "Alice", code=code)
    assert house.user("Alice").email == "Alice@example.org".lower()
    User.update(email=None, email_key=None).where(User.id == bob.id).execute()
    assert change(house, "Alice", code=code).email == NEW, "the code was not spent"


def test_without_authme_nothing_has_to_follow(make_house: MakeHouse) -> None:
    house = make_house(authme__enabled=False)
    house.approved("Alice")
    assert change(house, "Alice") == EmailChangeResult(NEW, ())
