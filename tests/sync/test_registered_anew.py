"""Alice forgot her password, an admin typed /authme unregister, and she registered again in the game.

The sync locks the row: another person may have done it. Olivia says which password counts, or mails Alice a link.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from regsvc.auth.entitlement import Principal
from regsvc.auth.hashing import StoredPassword
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.core.rights import PERMISSIONS_OF, Rights, Role
from regsvc.database.audit import Actor
from regsvc.database.models import UNVERIFIED, OutboxEntry
from regsvc.sync.actions import Lock, TakeRow
from regsvc.sync.rules import decide
from regsvc.users.transitions import DecisionDetails, PasswordChoice
from tests.support.accounts import GAME, REGDATE, account, locked_row, policy, row, synced, user
from tests.support.authme.authme_tables import dump_table
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness, authme_away

NEW = "the-password-she-knows"
ADMIN = Actor("Olivia")

with_and_without_sync = pytest.mark.parametrize("is_synced", [True, False], ids=["a sync between", "no sync between"])


def register_anew(services: ServiceHarness, *, is_synced: bool = True) -> None:
    services.approved("Bob")  # without whom the table would be suddenly empty
    services.approved("Alice")
    services.sync()
    register_again(services, is_synced=is_synced)


def register_again(services: ServiceHarness, *, is_synced: bool = True) -> None:
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", NEW)
    if is_synced:
        services.sync()
        assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)


def approve(services: ServiceHarness, choice: PasswordChoice | None) -> tuple[str, ...]:
    return services.decide("approve", "Alice", password_choice=choice).warnings


def may_log_in(services: ServiceHarness, password: str) -> tuple[bool, bool]:
    """Return whether the password opens the game, and whether it opens the web."""
    in_game = services.authme.login("Alice", password)
    try:
        services.login("Alice", password)
    except errors.BadCredentials:
        return in_game, False
    return in_game, True


def use_link(services: ServiceHarness, password: str) -> None:
    """Set a password with the link that Alice was mailed."""
    token = services.find_mailed_link()
    assert token is not None
    asyncio.run(services.app.password_changes.reset(token, password, CALLER))


def refused(services: ServiceHarness, choice: PasswordChoice | None) -> Refusal:
    """Return the refusal of an approval, after which everything is as it was."""
    before = everything(services)
    with pytest.raises(Refusal) as refusal:
        approve(services, choice)
    assert everything(services) == before
    return refusal.value


def everything(services: ServiceHarness) -> list[Any]:
    """Return what an approval may change."""
    tables = ("user", "sync_record", "review", "audit", "outbox", "session")
    return [dump_table(services.table), *[services.ours.query(f"SELECT * FROM regsvc_{table}") for table in tables]]


@with_and_without_sync
def test_an_approval_that_does_not_say_which_is_refused(services: ServiceHarness, is_synced: bool) -> None:
    register_anew(services, is_synced=is_synced)
    assert refused(services, None).code == "password_choice_needed"
    services.sync()
    assert not services.authme.login("Alice", NEW)
    assert not services.authme.login("Alice", PASSWORD)


@with_and_without_sync
def test_the_password_from_before_counts(services: ServiceHarness, is_synced: bool) -> None:
    register_anew(services, is_synced=is_synced)
    assert approve(services, "keep") == ()
    assert may_log_in(services, PASSWORD) == (True, True)
    assert may_log_in(services, NEW) == (False, False)
    assert_decided(services, "keep")


@with_and_without_sync
def test_the_new_password_counts(services: ServiceHarness, is_synced: bool) -> None:
    register_anew(services, is_synced=is_synced)
    services.table.database.execute(f"UPDATE {services.table.name} SET hasSession = 1 WHERE username = 'alice'")
    assert approve(services, "take") == ()
    assert services.row("alice")["hasSession"] == 0
    assert services.user("Alice").password_hash is None
    assert services.sessions("Alice") == 0
    assert may_log_in(services, NEW) == (True, True)
    assert may_log_in(services, PASSWORD) == (False, False)
    assert services.player("Alice").base_regdate == services.row("alice")["regdate"]
    assert services.row("alice")["email"] == "alice@example.org"  # hers is confirmed, the game's is not
    assert services.details("user.password_changed", "Alice") == [{"where": "in the game"}]
    assert_decided(services, "take")
    services.sync()
    assert not services.sync().has_effects


@with_and_without_sync
def test_a_link_is_mailed_and_its_password_counts(services: ServiceHarness, is_synced: bool) -> None:
    register_anew(services, is_synced=is_synced)
    assert approve(services, "link") == ("player_locked",)
    assert services.mails("Alice")[-1] == "password_link"
    services.sync()
    assert services.plugin("Alice") == "returned"
    assert not services.authme.login("Alice", NEW)
    use_link(services, "by-the-link")
    assert may_log_in(services, "by-the-link") == (True, True)
    assert may_log_in(services, NEW) == may_log_in(services, PASSWORD) == (False, False)
    assert services.details("user.approved", "Alice")[-1] == {"statusBefore": "approved", "returned": "link"}


@pytest.mark.parametrize("role", ["reviewer", "moderator"])
def test_who_may_set_no_password_gives_the_account_to_nobody(services: ServiceHarness, role: Role) -> None:
    register_anew(services)
    rita = Principal(Actor("Rita"), Rights(PERMISSIONS_OF[role], 1), "Rita")

    def approve_as_rita(choice: PasswordChoice) -> None:
        decide, details = services.app.decisions.decide, DecisionDetails(password_choice=choice)
        services.app.worker.run_here(decide, "Alice", "approve", rita, details)

    before = everything(services)
    with pytest.raises(errors.Forbidden) as refusal:
        approve_as_rita("take")
    assert (refusal.value.facts, everything(services)) == ({"permission": "users.manage"}, before)
    approve_as_rita("keep")  # which gives it back to whom it was
    assert may_log_in(services, PASSWORD) == (True, True)


def test_the_owner_is_told_that_the_new_password_counts_even_in_silence(services: ServiceHarness) -> None:
    register_anew(services)
    services.decide("approve", "Alice", password_choice="take", is_silent=True)
    told = OutboxEntry.select().where(OutboxEntry.template == "approved_new_password")
    mail = services.app.worker.run_here(lambda: services.app.mail_renderer.render(told.get()))
    body = mail.message.get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert "the password typed there counts now" in text
    assert "/forgot-password" in text


def assert_decided(services: ServiceHarness, choice: str) -> None:
    entry = services.audits("user.approved", "Alice")[-1]
    assert (entry.operator, services.details("user.approved", "Alice")[-1]["returned"]) == ("Olivia", choice)
    assert services.plugin("Alice") == "synced"
    with pytest.raises(errors.WrongStatus):
        approve(services, None)


def test_a_link_needs_a_confirmed_address(services: ServiceHarness) -> None:
    services.authme.register("Bob", "bobs-password")
    services.authme.register("Alice", "forgotten", email="alice@example.org")
    services.sync()
    services.decide("approve", "Alice")
    register_again(services)
    refusal = refused(services, "link")
    assert (refusal.code, refusal.facts) == ("password_choice_needed", {"fault": "no_address"})
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)
    assert may_log_in(services, "forgotten") == (False, False)


def test_without_mail_there_is_no_link(make_services: MakeServices) -> None:
    services = make_services(mail__backend="off", registration__methods=["captcha"])
    services.app.registration.create_user("Bob", None, PASSWORD, ADMIN)
    services.app.registration.create_user("Alice", "alice@example.org", PASSWORD, ADMIN)
    register_again(services)
    assert refused(services, "link").code == "mail_unavailable"


def test_who_never_had_a_password_keeps_none(services: ServiceHarness) -> None:
    """A foreign row in the queue stays locked after the approval, until a link is used: or Olivia takes the row's."""
    services.register("Alice", password=None)
    services.authme.register("Alice", NEW)
    services.sync()
    assert approve(services, "take") == ("player_locked",), "what was registered around the review never counts"
    assert not services.authme.login("Alice", NEW)
    assert refused(services, "keep").facts == {"fault": "nothing_to_keep"}
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)


def test_a_choice_does_not_concern_a_registration(services: ServiceHarness) -> None:
    services.register("Alice")
    services.authme.register("Alice", NEW)
    services.sync()
    approve(services, "take")
    assert may_log_in(services, PASSWORD) == (True, True)
    assert may_log_in(services, NEW) == (False, False)
    assert services.details("user.approved", "Alice") == [{"statusBefore": "pending"}]


# --- A player who was adopted, and registers anew while they wait for the review ---


def adopted(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.clock.advance(hours=1)
    services.authme.register("Alice", "forgotten", email="alice@example.org")
    services.sync()
    assert services.user("Alice").status == "pending"
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", NEW)
    services.sync()
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("conflict", True)


def test_an_adopted_applicant_gets_no_forgotten_password_either(services: ServiceHarness) -> None:
    adopted(services)
    assert refused(services, None).code == "password_choice_needed"
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)
    assert may_log_in(services, "forgotten") == (False, False)


def test_an_approval_typed_in_sql_leaves_the_row_locked(services: ServiceHarness) -> None:
    adopted(services)
    services.ours.execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = 'alice'")
    services.sync()
    assert services.user("Alice").applied_status == "approved"
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)


# --- The row is gone, and no other there yet ---


def gone(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    services.authme.unregister_from_console("Alice")
    services.sync()
    assert services.plugin("Alice") == "absent"


def test_a_row_that_is_gone_comes_back_by_an_approval_or_a_link(services: ServiceHarness) -> None:
    gone(services)
    assert refused(services, "take").facts == {"fault": "nothing_to_take"}
    assert approve(services, "link") == ()
    services.sync()
    assert services.plugin("Alice") == "absent"
    use_link(services, "by-the-link")
    assert may_log_in(services, "by-the-link") == (True, True)
    assert may_log_in(services, PASSWORD) == (False, False)


def test_a_registration_before_the_requested_row_is_asked_about(services: ServiceHarness) -> None:
    """Olivia lets Alice in again while AuthMe's table is away; meanwhile Alice registers in the game."""
    gone(services)
    with authme_away(services):
        assert approve(services, None) == ("player_pending",)
    services.clock.advance(hours=1)
    services.authme.register("Alice", NEW)
    services.sync()
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)
    assert refused(services, None).code == "password_choice_needed"
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)


# --- Between the decision and the row ---


def test_a_choice_waits_for_the_table(services: ServiceHarness) -> None:
    register_anew(services)
    with authme_away(services):
        with pytest.raises(errors.PasswordChoiceNeeded):
            approve(services, None)
        assert approve(services, "take") == ("player_pending",)
        with pytest.raises(errors.WrongStatus):
            approve(services, "keep")
    services.sync()
    assert may_log_in(services, NEW) == (True, True)


def test_only_the_row_that_was_decided_about_is_taken(services: ServiceHarness) -> None:
    register_anew(services)
    with authme_away(services):
        approve(services, "take")
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", "mallorys-password")
    services.sync()
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)
    assert services.user("Alice").password_hash is not None
    approve(services, "keep")
    assert may_log_in(services, PASSWORD) == (True, True)


def test_a_password_set_later_is_newer_than_the_choice(services: ServiceHarness) -> None:
    register_anew(services)
    with authme_away(services):
        approve(services, "take")
        services.set_password("Alice", "set-afterwards")
    services.sync()
    assert may_log_in(services, "set-afterwards") == (True, True)


def test_an_operators_row_that_was_left_open_is_taken_as_it_is(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.game.write_operators("Olivia", "Alice")
    services.app.registration.create_user("Alice", "alice@example.org", PASSWORD, ADMIN)
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", NEW)
    services.sync()
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", False)
    approve(services, "take")
    assert may_log_in(services, NEW) == (True, True)
    assert may_log_in(services, PASSWORD) == (False, False)


# --- The rules, without a database ---


def test_a_row_is_taken_only_with_the_password_that_was_decided_about() -> None:
    there = locked_row(GAME, regdate=REGDATE + 1)
    decision = synced(intent="open", intent_hash=GAME, plugin_state="returned", kept_hash=GAME, kept_origin=UNVERIFIED)
    password = StoredPassword(GAME, None, None)
    assert decide(account(user(), decision, there), policy()) == TakeRow(there, password)
    is_open = row(hash=GAME, regdate=REGDATE + 1)
    assert decide(account(user(), decision, is_open), policy()) == TakeRow(is_open, password)
    for other in (row(hash="$SHA$x$y", regdate=REGDATE + 1), row(hash="$SHA$x$y", regdate=REGDATE + 2)):
        assert decide(account(user(), decision, other), policy()) == Lock(other, "returned", UNVERIFIED, "returned")
    marked = "x" * 255
    long = replace(decision, intent_hash=marked, kept_hash=marked)
    there = locked_row(marked, regdate=REGDATE + 1)
    assert decide(account(user(), long, there), policy()) == TakeRow(there, StoredPassword(marked, None, None))
