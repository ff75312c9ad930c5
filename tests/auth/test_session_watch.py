"""The session of a streaming response: checked again and again, and never written to."""

from datetime import timedelta

import pytest

from regsvc.auth.sessions import Sessions
from regsvc.core.addresses import Caller
from regsvc.core.errors import Forbidden, Unauthorized
from regsvc.database.models import BANNED, PENDING, AuditEntry, Session, User
from tests.support.database_fixtures import MakeSessions
from tests.support.manual_clock import ManualClock


@pytest.fixture
def token(sessions: Sessions, olivia: User, caller: Caller) -> str:
    return sessions.issue(olivia, "admin", caller).token


def test_it_goes_on_while_the_session_stands(
    sessions: Sessions, token: str, caller: Caller, clock: ManualClock
) -> None:
    session = sessions.authenticate_admin(token, caller)
    began = clock()
    for _minute in range(90):
        clock.advance(minutes=1)
        assert sessions.is_still_admin(session)
    assert Session.get_by_id(session.jti).last_seen_at == began


def test_an_admin_who_only_listens_is_idle(sessions: Sessions, token: str, caller: Caller, clock: ManualClock) -> None:
    session = sessions.authenticate_admin(token, caller)
    clock.advance(hours=1, minutes=59)
    assert sessions.is_still_admin(session)
    sessions.authenticate_admin(token, caller, is_activity=False)  # as when a stream is opened again
    clock.advance(minutes=1)
    assert not sessions.is_still_admin(session)
    with pytest.raises(Unauthorized):
        sessions.authenticate_admin(token, caller, is_activity=False)


def test_another_request_keeps_it_alive(sessions: Sessions, token: str, caller: Caller, clock: ManualClock) -> None:
    session = sessions.authenticate_admin(token, caller)
    clock.advance(hours=1, minutes=59)
    sessions.authenticate_admin(token, caller)
    clock.advance(minutes=2)
    assert sessions.is_still_admin(session)


def test_whatever_ends_a_session_ends_it(
    make_sessions: MakeSessions, olivia: User, caller: Caller, clock: ManualClock, operators: set[str]
) -> None:
    sessions = make_sessions(admin_idle=timedelta(days=1))

    session = sessions.authenticate_admin(sessions.issue(olivia, "admin", caller).token, caller)
    assert sessions.is_still_admin(session)

    operators.clear()
    assert not sessions.is_still_admin(session)
    operators.add("Olivia")
    assert sessions.is_still_admin(session)

    for status in (BANNED, PENDING):
        User.update(status=status).where(User.id == olivia.id).execute()
        assert not sessions.is_still_admin(session)
    User.update(status="approved").where(User.id == olivia.id).execute()
    assert sessions.is_still_admin(session)

    clock.advance(hours=12)
    assert not sessions.is_still_admin(session)
    clock.advance(hours=-12)
    sessions.revoke(session.jti)
    assert not sessions.is_still_admin(session)

    session = sessions.authenticate_admin(sessions.issue(olivia, "admin", caller).token, caller)
    sessions.revoke_all(olivia.id)
    assert not sessions.is_still_admin(session)


def test_a_users_session_is_no_admins(sessions: Sessions, olivia: User, caller: Caller) -> None:
    session = sessions.authenticate(sessions.issue(olivia, "user", caller).token)
    assert not sessions.is_still_admin(session)


def test_looking_leaves_no_entry(sessions: Sessions, token: str, caller: Caller, operators: set[str]) -> None:
    session = sessions.authenticate_admin(token, caller)
    operators.clear()
    assert not sessions.is_still_admin(session)
    assert not AuditEntry.select().exists()
    with pytest.raises(Forbidden):  # opening anew does
        sessions.authenticate_admin(token, caller, is_activity=False)
    assert AuditEntry.get().action == "admin.denied"
