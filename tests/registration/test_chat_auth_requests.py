"""Authorization requests: only the client that started one can finish it, once, within ten minutes."""

import pytest
from peewee import Database

from regsvc.accounts.chat import provider as auth_requests
from regsvc.accounts.chat.provider import AuthorizationRequests
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.sessions import Sessions
from regsvc.core.addresses import Caller
from regsvc.core.errors import InvalidState, Unauthorized
from regsvc.database.models import BANNED, ChatRequest, Session, User
from tests.support.database_fixtures import InParallel
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile

MINE, OTHERS = "a" * 64, "b" * 64


@pytest.fixture
def requests(our_database: Database, clock: ManualClock) -> AuthorizationRequests:
    return AuthorizationRequests(DerivedSecrets(b"k" * 32), clock)


def log_in(sessions: Sessions, user: User, caller: Caller) -> str:
    """The `jti` of a new session."""
    sessions.issue(user, "user", caller)
    newest = Session.select().where(Session.user == user).order_by(Session.created_at.desc()).first()
    assert newest is not None
    return str(newest.jti)


def test_it_is_spent_once(requests: AuthorizationRequests) -> None:
    state = requests.create(None, MINE)
    redeemed = requests.redeem(state, [OTHERS, MINE], None)
    assert (redeemed.token_hash, redeemed.session_jti) == (MINE, None)
    with pytest.raises(InvalidState):
        requests.redeem(state, [MINE], None)


def test_the_verifier_belongs_to_the_state_and_the_installation(clock: ManualClock) -> None:
    ours, theirs = (AuthorizationRequests(DerivedSecrets(key * 32), clock) for key in (b"k", b"K"))
    assert len(ours.pkce_verifier("state")) == 43
    assert ours.pkce_verifier("state") == ours.pkce_verifier("state")
    assert len({ours.pkce_verifier("state"), ours.pkce_verifier("State"), theirs.pkce_verifier("state")}) == 3


def test_the_state_is_not_stored(requests: AuthorizationRequests) -> None:
    state = requests.create(None, MINE)
    stored = str(list(ChatRequest.select().dicts()))
    assert state not in stored
    assert requests.pkce_verifier(state) not in stored


@pytest.mark.parametrize("hashes", [[], [OTHERS], ["", "a"], [MINE.upper()]])
def test_nobody_else_spends_it(requests: AuthorizationRequests, hashes: list[str]) -> None:
    state = requests.create(None, MINE)
    for jti in (None, "", "0" * 32):
        with pytest.raises(InvalidState):
            requests.redeem(state, hashes, jti)
    assert requests.redeem(state, [MINE], None)


def test_the_session_that_began_spends_it_too(
    requests: AuthorizationRequests, sessions: Sessions, alice: User, olivia: User, caller: Caller
) -> None:
    hers, others = log_in(sessions, alice, caller), log_in(sessions, olivia, caller)
    state = requests.create(hers, MINE)
    with pytest.raises(InvalidState):
        requests.redeem(state, [], others)
    assert requests.redeem(state, [], hers).session_jti == hers


@pytest.mark.parametrize("state", [None, "", "x", "A" * 43, "A" * 101, "\ud800"])
def test_what_is_no_state(requests: AuthorizationRequests, state: str | None) -> None:
    requests.create(None, MINE)
    with pytest.raises(InvalidState):
        requests.redeem(state, [MINE], None)


def test_a_state_of_a_hundred_characters_is_the_longest(requests: AuthorizationRequests, clock: ManualClock) -> None:
    states = ["A" * 100, "A" * 101]
    for state in states:
        state_hash = requests.secrets.digest("chat state", state)
        ChatRequest.create(state_hash=state_hash, token_hash=MINE, session=None, created_at=clock())
    assert requests.redeem(states[0], [MINE], None)
    with pytest.raises(InvalidState):
        requests.redeem(states[1], [MINE], None)


def test_it_lives_ten_minutes(requests: AuthorizationRequests, clock: ManualClock) -> None:
    early, late = requests.create(None, MINE), requests.create(None, MINE)
    clock.advance(minutes=10, milliseconds=-1)
    assert requests.purge_expired() == 0
    assert requests.redeem(early, [MINE], None)
    clock.advance(milliseconds=1)
    with pytest.raises(InvalidState):
        requests.redeem(late, [MINE], None)
    assert requests.purge_expired() == 1


def test_who_comes_a_moment_later_finds_it_spent(requests: AuthorizationRequests) -> None:
    state, other = requests.create(None, MINE), requests.create(None, MINE)

    def redeem_first() -> None:
        requests.redeem(state, [MINE], None)

    with meanwhile(auth_requests, "_is_initiator", redeem_first, after=True), pytest.raises(InvalidState):
        requests.redeem(state, [MINE], None)
    assert requests.redeem(other, [MINE], None)


def test_many_who_come_at_once_spend_it_once(
    requests: AuthorizationRequests, our_database: Database, in_parallel: InParallel
) -> None:
    for _round in range(20):
        state = requests.create(None, MINE)

        def redeem(state: str = state) -> object:
            with our_database.atomic():
                return requests.redeem(state, [MINE], None)

        outcomes = in_parallel(redeem, 5)
        assert sum(isinstance(outcome, InvalidState) for outcome in outcomes) == 4, outcomes


def test_a_flood_of_anonymous_requests_ends_its_own(
    requests: AuthorizationRequests, sessions: Sessions, alice: User, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth_requests, "MAX_OPEN_REQUESTS", 5)
    monkeypatch.setattr(auth_requests, "_EVICTED_AT_ONCE", 2)
    hers = log_in(sessions, alice, caller)
    state_of_alice = requests.create(hers, MINE)
    flood = [requests.create(None, OTHERS) for _request in range(20)]
    state_of_bob = requests.create(None, MINE)
    assert ChatRequest.select().count() <= 5
    with pytest.raises(InvalidState):
        requests.redeem(flood[0], [OTHERS], None)
    assert requests.redeem(state_of_alice, [], hers)
    assert requests.redeem(state_of_bob, [MINE], None)


# --- Whose it is ---


def test_the_beginner_is_who_owns_the_session(
    requests: AuthorizationRequests, sessions: Sessions, alice: User, olivia: User, caller: Caller
) -> None:
    log_in(sessions, olivia, caller)
    jti = log_in(sessions, alice, caller)
    assert requests.get_initiating_user(requests.redeem(requests.create(jti, MINE), [MINE], None)) == alice
    assert requests.get_initiating_user(requests.redeem(requests.create(None, MINE), [MINE], None)) is None


def test_a_request_goes_with_its_session(
    requests: AuthorizationRequests, sessions: Sessions, alice: User, caller: Caller
) -> None:
    jti = log_in(sessions, alice, caller)
    state = requests.create(jti, MINE)
    sessions.revoke(jti)
    assert ChatRequest.select().count() == 0
    with pytest.raises(InvalidState):
        requests.redeem(state, [MINE], None)


def test_a_session_that_has_just_ended_begins_nothing(requests: AuthorizationRequests) -> None:
    with pytest.raises(Unauthorized):
        requests.create("0" * 32, MINE)


@pytest.mark.parametrize("end", ["log out", "password", "password by SQL", "ban", "expiry", "delete"])
def test_a_session_that_ends_while_the_platform_is_asked_gets_nothing(
    requests: AuthorizationRequests, sessions: Sessions, alice: User, caller: Caller, clock: ManualClock, end: str
) -> None:
    jti = log_in(sessions, alice, caller)
    redeemed = requests.redeem(requests.create(jti, MINE), [MINE], None)
    if end == "log out":
        sessions.revoke(jti)
    elif end == "password":
        sessions.revoke_all(alice.id)
    elif end == "password by SQL":
        User.update(token_generation=User.token_generation + 1).where(User.id == alice.id).execute()
    elif end == "ban":
        User.update(status=BANNED, applied_status=BANNED).where(User.id == alice.id).execute()
    elif end == "expiry":
        Session.update(expires_at=clock()).execute()
    else:
        User.delete().where(User.id == alice.id).execute()
    with pytest.raises(InvalidState):
        requests.get_initiating_user(redeemed)
