"""A session that an answer goes on for: looked at again and again, and never written to."""

from datetime import timedelta

import pytest

from regsvc.auth.sessions import Tokens
from regsvc.core.caller import Caller
from regsvc.core.errors import Forbidden, Unauthorized
from regsvc.database.models import BANNED, PENDING, AuditEntry, Session, User
from tests.support.database_fixtures import MakeTokens
from tests.support.manual_clock import ManualClock


@pytest.fixture
def token(tokens: Tokens, olivia: User, caller: Caller) -> str:
    return tokens.issue(olivia, "admin", caller).token


def test_it_goes_on_while_the_session_stands(tokens: Tokens, token: str, caller: Caller, clock: ManualClock) -> None:
    session = tokens.authenticate_admin(token, caller)
    began = clock()
    for _minute in range(90):
        clock.advance(minutes=1)
        assert tokens.is_still_admin(session)
    assert Session.get_by_id(session.jti).last_seen_at == began


def test_an_admin_who_only_listens_is_idle(tokens: Tokens, token: str, caller: Caller, clock: ManualClock) -> None:
    session = tokens.authenticate_admin(token, caller)
    clock.advance(hours=1, minutes=59)
    assert tokens.is_still_admin(session)
    tokens.authenticate_admin(token, caller, is_activity=False)  # as when a stream is opened again
    clock.advance(minutes=1)
    assert not tokens.is_still_admin(session)
    with pytest.raises(Unauthorized):
        tokens.authenticate_admin(token, caller, is_activity=False)


def test_another_request_keeps_it_alive(tokens: Tokens, token: str, caller: Caller, clock: ManualClock) -> None:
    session = tokens.authenticate_admin(token, caller)
    clock.advance(hours=1, minutes=59)
    tokens.authenticate_admin(token, caller)
    clock.advance(minutes=2)
    assert tokens.is_still_admin(session)


def test_whatever_ends_a_session_ends_it(
    make_tokens: MakeTokens, olivia: User, caller: Caller, clock: ManualClock, operators: set[str]
) -> None:
    tokens = make_tokens(admin_idle=timedelta(days=1))

    session = tokens.authenticate_admin(tokens.issue(olivia, "admin", caller).token, caller)
    assert tokens.is_still_admin(session)

    operators.clear()
    assert not tokens.is_still_admin(session)
    operators.add("Olivia")
    assert tokens.is_still_admin(session)

    for status in (BANNED, PENDING):
        User.update(status=status).where(User.id == olivia.id).execute()
        assert not tokens.is_still_admin(session)
    User.update(status="approved").where(User.id == olivia.id).execute()
    assert tokens.is_still_admin(session)

    clock.advance(hours=12)
    assert not tokens.is_still_admin(session)
    clock.advance(hours=-12)
    tokens.end(session.jti)
    assert not tokens.is_still_admin(session)

    session = tokens.authenticate_admin(tokens.issue(olivia, "admin", caller).token, caller)
    tokens.end_all(olivia.id)
    assert not tokens.is_still_admin(session)


def test_a_users_session_is_no_admins(tokens: Tokens, olivia: User, caller: Caller) -> None:
    session = tokens.authenticate(tokens.issue(olivia, "user", caller).token)
    assert not tokens.is_still_admin(session)


def test_looking_leaves_no_entry(tokens: Tokens, token: str, caller: Caller, operators: set[str]) -> None:
    session = tokens.authenticate_admin(token, caller)
    operators.clear()
    assert not tokens.is_still_admin(session)
    assert not AuditEntry.select().exists()
    with pytest.raises(Forbidden):  # opening anew does
        tokens.authenticate_admin(token, caller, is_activity=False)
    assert AuditEntry.get().action == "admin.denied"
