"""E-mail addresses changed on the web, and their effect on AuthMe's column."""

import asyncio

import pytest

from regsvc.accounts.email_addresses import UpdateUserReply
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core import errors
from regsvc.core.addresses import VerifiedSession
from regsvc.core.email_address import parse_email
from regsvc.database.models import Link, User
from tests.support.authme.authme_tables import TableShape
from tests.support.services import CALLER, PASSWORD, ServiceHarness

NEW = "new@example.org"


def session_of(services: ServiceHarness, name: str) -> VerifiedSession:
    user, now = services.user(name), services.clock()
    return VerifiedSession("j1", user.id, user.username, "user", now, None, now, user.token_generation)


def code_for(services: ServiceHarness, email: str) -> str:
    codes = services.app.codes
    issued = codes.find_sendable(codes.issue(parse_email(email).key, "change_email", CALLER))
    assert issued is not None
    return codes.code_of(issued)


def change(services: ServiceHarness, name: str, email: str = NEW, code: str | None = None) -> UpdateUserReply:
    given = CodeOrProof(code or code_for(services, email))
    changes = services.app.email_changes
    return asyncio.run(changes.change_own(session_of(services, name), email, given, PASSWORD, CALLER))


def test_an_adopted_player_whose_row_is_locked_gets_it_with_the_approval(services: ServiceHarness) -> None:
    services.authme.register("Bob", PASSWORD, email="typed@example.org")
    services.sync()
    assert services.is_locked("bob")
    change(services, "Bob")
    assert services.row("bob")["email"] == "typed@example.org"
    services.decide("approve", "Bob")
    assert services.row("bob")["email"] == NEW
    assert services.user("Bob").is_email_verified


def test_a_proven_address_outlives_what_the_game_says_later(services: ServiceHarness) -> None:
    services.approved("Alice")
    change(services, "Alice")
    services.authme.set_email("Alice", "typed@example.org")
    services.sync()
    assert services.user("Alice").email == NEW
    assert services.plugin("alice") == "conflict"


def test_a_foreign_row_gets_no_address(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.register("Olivia", "olivias-secret")  # an empty table would be taken for the wrong one
    services.authme.unregister_from_console("Alice")
    services.sync()
    services.authme.register("Alice", "foreign-password", email="foreign@example.org")
    services.sync()
    change(services, "Alice")
    assert services.row("alice")["email"] == "foreign@example.org"
    services.login("Alice", PASSWORD)  # opens the row
    assert services.row("alice")["email"] == NEW


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_an_address_that_the_table_cannot_hold_is_a_conflict_told_once(services: ServiceHarness) -> None:
    """latin1: the rest of the row stays in sync, and no later run fails."""
    services.approved("Alice")
    before = services.row("alice")["email"]
    assert change(services, "Alice", "用户@example.org").warnings == ()
    assert services.row("alice")["email"] == before
    assert services.plugin("alice") == "conflict"
    for _run in range(2):
        assert services.sync().errors == []
    assert services.details("sync.conflict") == [{"field": "email", "kept": "both"}]
    services.set_password("Alice", "another-password")
    assert services.authme.login("Alice", "another-password")

    given = CodeOrProof(code_for(services, NEW))
    changes = services.app.email_changes
    asyncio.run(changes.change_own(session_of(services, "Alice"), NEW, given, "another-password", CALLER))
    assert services.row("alice")["email"] == NEW
    assert services.plugin("alice") == "synced"


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_one_after_another_that_it_cannot_hold(services: ServiceHarness) -> None:
    """The row has no address at all, so each run might try to write ours."""
    services.register("Alice", email="用户@example.org")
    services.decide("approve", "Alice")
    assert change(services, "Alice", "另一个@example.org").warnings == ()
    assert services.row("alice")["email"] == "your@email.com"
    assert services.plugin("alice") == "conflict"
    assert services.sync().errors == []
    services.set_password("Alice", "another-password")
    assert services.authme.login("Alice", "another-password")


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
def test_nor_does_it_keep_a_row_that_came_back_closed(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.register("Olivia", "olivias-secret")  # an empty table would be taken for the wrong one
    services.authme.unregister_from_console("Alice")
    services.sync()
    change(services, "Alice", "用户@example.org")
    services.authme.register("Alice", "foreign-password")
    services.sync()
    services.login("Alice", PASSWORD)
    assert services.authme.login("Alice", PASSWORD)


def test_links_end_and_what_ended_the_sessions_is_the_newer_word(services: ServiceHarness) -> None:
    user = services.approved("Alice")
    services.app.links.issue(user.id, "reset", "alice@example.org")
    change(services, "Alice")
    [left] = Link.select().where(Link.redeemed_at.is_null())
    assert left.undoes, "which the old address may use, if it was a thief"

    changes = services.app.email_changes
    candidate = asyncio.run(services.app.checker.check("Alice", PASSWORD, CALLER))
    services.app.sessions.revoke_all(user.id)
    with pytest.raises(errors.Unauthorized):
        services.app.worker.run_here(
            changes._change,
            candidate,
            parse_email("x@example.org"),
            lambda: None,
            CALLER,
        )
    assert services.user("Alice").email == NEW


def test_the_index_decides_when_two_prove_one_address(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob's change is committed between Alice's check and her write: the check is left out here."""
    services.approved("Alice")
    bob = services.approved("Bob")
    User.update(email=NEW, email_key=NEW, is_email_verified=True).where(User.id == bob.id).execute()
    monkeypatch.setattr("regsvc.accounts.email_addresses.claim", lambda *args, **named: None)
    code = code_for(services, NEW)
    with pytest.raises(errors.EmailTaken):
        change(services, "Alice", code=code)
    assert services.user("Alice").email == "Alice@example.org".lower()
    User.update(email=None, email_key=None).where(User.id == bob.id).execute()
    assert change(services, "Alice", code=code).email == NEW, "the code was not spent"


def test_a_table_without_the_column_is_not_written_again_and_again(services: ServiceHarness) -> None:
    services.table.database.execute(f"ALTER TABLE {services.table.name} DROP COLUMN email")
    services.approved("Alice")
    services.sync()
    assert not services.sync().has_effects
    change(services, "Alice")
    services.sync()
    assert not services.sync().has_effects
    assert services.user("Alice").email == NEW


def test_an_address_is_handed_over_between_two_runs(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob"):
        services.authme.register(name, f"{name}s-password", email=f"{name.lower()}@example.org")
    services.sync()
    for name in ("Alice", "Bob"):
        services.decide("approve", name)
    services.authme.set_email("Alice", NEW)
    services.authme.set_email("Bob", "alice@example.org")
    assert services.sync().conflicts == []
    assert [services.user(name).email for name in ("Alice", "Bob")] == [NEW, "alice@example.org"]
