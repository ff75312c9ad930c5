"""Access tokens: only ours, only until they expire, and never with more rights than the database grants right now."""

import logging
from datetime import timedelta

import jwt
import pytest
from peewee import Database

from regsvc.auth.keys import SigningKeys
from regsvc.auth.sessions import Sessions
from regsvc.core.addresses import Caller
from regsvc.core.errors import Forbidden, Unauthorized
from regsvc.database.models import APPROVED, PENDING, AuditEntry, Session, User
from tests.support.database_fixtures import FORMER_KEY, KEY, InParallel, MakeSessions
from tests.support.manual_clock import ManualClock


def test_a_token_stands_for_its_session(sessions: Sessions, alice: User, caller: Caller, clock: ManualClock) -> None:
    issued = sessions.issue(alice, "user", caller)

    session = sessions.authenticate(issued.token)

    assert issued.token not in repr(issued)
    assert (session.user_id, session.username, session.audience) == (alice.id, "Alice", "user")
    assert not session.is_admin
    assert session.language is None
    assert session.expires_at == issued.expires_at == (clock() + timedelta(days=30)).replace(microsecond=0)
    assert Session.get_by_id(session.jti).ip == caller.address


def test_a_token_says_what_it_must_and_no_more(
    sessions: Sessions, olivia: User, caller: Caller, clock: ManualClock
) -> None:
    token = sessions.issue(olivia, "admin", caller).token

    assert jwt.get_unverified_header(token) == {
        "alg": "HS256",
        "typ": "JWT",
        "kid": SigningKeys(KEY).current_kid,
    }
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims.keys() == {"sub", "aud", "jti", "iat", "exp"}
    assert (claims["sub"], claims["aud"]) == (str(olivia.id), "admin")
    assert claims["exp"] - claims["iat"] == 12 * 3600
    assert isinstance(claims["iat"], int)
    assert claims["iat"] == int(clock().timestamp())


def test_an_admin_token_is_its_owners_on_user_routes(sessions: Sessions, olivia: User, caller: Caller) -> None:
    token = sessions.issue(olivia, "admin", caller).token

    assert sessions.authenticate(token).is_admin
    assert sessions.authenticate(token).language == "zh"
    assert sessions.authenticate_admin(token, caller).username == "Olivia"


# --- What ends a session (R24) ---


def test_it_refuses_an_expired_token(sessions: Sessions, alice: User, caller: Caller, clock: ManualClock) -> None:
    token = sessions.issue(alice, "user", caller).token
    for _visit in range(4):
        clock.advance(days=6)
        sessions.authenticate(token)
    clock.advance(days=6, seconds=-1)
    assert sessions.authenticate(token).username == "Alice"

    clock.advance(seconds=1)
    with pytest.raises(Unauthorized):
        sessions.authenticate(token)


def test_logging_out_ends_one_session(sessions: Sessions, alice: User, caller: Caller) -> None:
    phone, computer = (sessions.issue(alice, "user", caller).token for device in range(2))

    sessions.revoke(sessions.authenticate(phone).jti)

    with pytest.raises(Unauthorized):
        sessions.authenticate(phone)
    assert sessions.authenticate(computer).username == "Alice"


def test_a_new_password_ends_all_sessions_but_nobody_elses(
    sessions: Sessions, alice: User, olivia: User, caller: Caller
) -> None:
    mine = [sessions.issue(alice, "user", caller).token for device in range(2)]
    hers = sessions.issue(olivia, "admin", caller).token

    sessions.revoke_all(alice.id)

    for token in mine:
        with pytest.raises(Unauthorized):
            sessions.authenticate(token)
    assert sessions.authenticate(hers).username == "Olivia"
    again = sessions.issue(User.get_by_id(alice.id), "user", caller).token
    assert sessions.authenticate(again).username == "Alice"


def test_one_session_may_be_kept_but_none_that_had_ended(sessions: Sessions, alice: User, caller: Caller) -> None:
    here, elsewhere, former = (sessions.issue(alice, "user", caller).token for device in range(3))
    kept, ended = sessions.authenticate(here), sessions.authenticate(former)
    Session.update(token_generation=Session.token_generation - 1).where(Session.jti == ended.jti).execute()

    sessions.revoke_all(alice.id, kept=kept.jti)
    assert sessions.authenticate(here).token_generation == kept.token_generation + 1
    with pytest.raises(Unauthorized):
        sessions.authenticate(elsewhere)
    sessions.revoke_all(alice.id, kept=ended.jti)
    for token in (here, former):
        with pytest.raises(Unauthorized):
            sessions.authenticate(token)


def test_a_login_that_is_rolled_back_leaves_no_session(
    our_database: Database, sessions: Sessions, alice: User, caller: Caller
) -> None:
    with our_database.atomic() as transaction:
        token = sessions.issue(alice, "user", caller).token
        transaction.rollback()
    with pytest.raises(Unauthorized):
        sessions.authenticate(token)


# --- Admins ---


def test_an_idle_admin_is_logged_out(sessions: Sessions, olivia: User, caller: Caller, clock: ManualClock) -> None:
    token = sessions.issue(olivia, "admin", caller).token
    for _visit in range(3):
        clock.advance(hours=1, minutes=59)
        sessions.authenticate_admin(token, caller)

    clock.advance(hours=2)
    with pytest.raises(Unauthorized):
        sessions.authenticate_admin(token, caller)
    with pytest.raises(Unauthorized):
        sessions.authenticate(token)


# R24
def test_a_user_who_was_away_for_a_week_is_logged_out(
    sessions: Sessions, alice: User, caller: Caller, clock: ManualClock
) -> None:
    token = sessions.issue(alice, "user", caller).token
    for _visit in range(3):
        clock.advance(days=6)
        sessions.authenticate(token)

    clock.advance(days=7)
    with pytest.raises(Unauthorized):
        sessions.authenticate(token)
    assert sessions.purge_expired() == 1


def test_an_admin_token_ends_however_busy_it_is(
    sessions: Sessions, olivia: User, caller: Caller, clock: ManualClock
) -> None:
    token = sessions.issue(olivia, "admin", caller).token
    for _visit in range(11):
        clock.advance(hours=1)
        sessions.authenticate_admin(token, caller)

    clock.advance(hours=1)
    with pytest.raises(Unauthorized):
        sessions.authenticate_admin(token, caller)


def test_it_notes_when_a_session_was_seen_once_a_minute(
    sessions: Sessions, alice: User, caller: Caller, clock: ManualClock
) -> None:
    token = sessions.issue(alice, "user", caller).token
    start = clock()

    clock.advance(seconds=59)
    jti = sessions.authenticate(token).jti
    assert Session.get_by_id(jti).last_seen_at == start

    clock.advance(seconds=1)
    sessions.authenticate(token)
    assert Session.get_by_id(jti).last_seen_at == clock()


def test_a_request_costs_one_query(
    sessions: Sessions, olivia: User, caller: Caller, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    token = sessions.issue(olivia, "admin", caller).token
    clock.advance(seconds=30)

    with caplog.at_level(logging.DEBUG, "peewee"):
        sessions.authenticate_admin(token, caller)
    assert len(caplog.records) == 1


def test_rights_are_looked_up_at_every_request(
    sessions: Sessions, olivia: User, caller: Caller, operators: set[str]
) -> None:
    token = sessions.issue(olivia, "admin", caller).token

    operators.remove("Olivia")
    with pytest.raises(Forbidden):
        sessions.authenticate_admin(token, caller)
    assert not sessions.authenticate(token).is_admin

    operators.add("Olivia")
    User.update(status=PENDING).execute()
    with pytest.raises(Forbidden):
        sessions.authenticate_admin(token, caller)

    User.update(status=APPROVED).execute()
    assert sessions.authenticate_admin(token, caller).is_admin


def test_knocking_all_day_leaves_an_entry_an_hour(
    sessions: Sessions, alice: User, caller: Caller, clock: ManualClock
) -> None:
    token = sessions.issue(alice, "user", caller).token
    for _hour in range(2):
        for _knock in range(5):
            with pytest.raises(Forbidden):
                sessions.authenticate_admin(token, caller)
        clock.advance(hours=1)

    assert [entry.occurrences for entry in AuditEntry.select()] == [5, 5]


def test_a_bad_token_on_an_admin_route_is_nobodys(sessions: Sessions, caller: Caller) -> None:
    with pytest.raises(Unauthorized):
        sessions.authenticate_admin("junk", caller)
    assert AuditEntry.select().count() == 0


# --- Keys and stores ---


def test_keys_rotate_with_overlap(make_sessions: MakeSessions, alice: User, caller: Caller) -> None:
    old = make_sessions(SigningKeys(FORMER_KEY)).issue(alice, "user", caller).token
    overlapping = make_sessions(SigningKeys(KEY, [FORMER_KEY]))

    new = overlapping.issue(alice, "user", caller).token

    assert overlapping.authenticate(old).username == "Alice"
    assert jwt.get_unverified_header(new)["kid"] == SigningKeys(KEY).current_kid
    with pytest.raises(Unauthorized):
        make_sessions(SigningKeys(KEY)).authenticate(old)


def test_a_user_has_so_many_sessions_and_no_more(
    sessions: Sessions, alice: User, olivia: User, caller: Caller, clock: ManualClock
) -> None:
    hers = sessions.issue(olivia, "user", caller).token
    first = sessions.issue(alice, "user", caller).token
    for _login in range(200):
        clock.advance(seconds=1)
        latest = sessions.issue(alice, "user", caller).token

    assert Session.select().where(Session.user == alice).count() == 200
    with pytest.raises(Unauthorized):
        sessions.authenticate(first)
    assert sessions.authenticate(latest).username == "Alice"
    assert sessions.authenticate(hers).username == "Olivia"


def test_sessions_that_are_over_are_purged(
    sessions: Sessions, alice: User, olivia: User, caller: Caller, clock: ManualClock
) -> None:
    sessions.issue(olivia, "admin", caller)
    clock.advance(hours=1)
    busy = sessions.issue(olivia, "admin", caller).token
    sessions.issue(alice, "user", caller)
    clock.advance(hours=1)

    assert sessions.purge_expired() == 1
    assert sessions.authenticate_admin(busy, caller).username == "Olivia"
    clock.advance(days=6)
    assert sessions.purge_expired() == 1
    clock.advance(days=1)
    assert sessions.purge_expired() == 1


def test_parallel_requests_of_one_session_do_not_disturb_each_other(
    sessions: Sessions, alice: User, caller: Caller, clock: ManualClock, in_parallel: InParallel
) -> None:
    token = sessions.issue(alice, "user", caller).token
    clock.advance(minutes=5)

    found = in_parallel(lambda: sessions.authenticate(token), 10)
    assert {session.username for session in found} == {"Alice"}
