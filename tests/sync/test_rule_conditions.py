"""The rules of the plan: each condition alone changes what is decided, without a database (`make mutants`)."""

from datetime import timedelta
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import UNVERIFIED
from regsvc.sync.actions import (
    EndPasswordlessLogin,
    Lock,
    MarkMissing,
    MarkUnverifiedMissing,
    Merge,
    Provision,
    ReclaimRow,
    RecordSynced,
    RemoveLock,
    RestorePassword,
    TakeEarlierPassword,
    TakeRow,
    UpdateState,
)
from regsvc.sync.bulk_actions import (
    NO_REQUEST,
    Adopt,
    ApplyMembershipEdit,
    ApplySqlEdit,
    EndMembership,
    ForgetLapse,
    KeepMembership,
    RowRequest,
)
from regsvc.sync.records import Account, SyncValues
from regsvc.sync.rules import decide, find_new_hash, is_registered_anew, request_row, returns, row_intent
from tests.support.accounts import (
    FIRST_START,
    GAME,
    NOW,
    REGDATE,
    REGISTERED,
    WEB,
    account,
    ago,
    locked,
    locked_row,
    never_seen,
    policy,
    row,
    synced,
    user,
)

LATER = REGDATE + 1
before_us = row(regdate=epoch_ms(FIRST_START) - 1)


def decided(of: Account, **wanted: Any) -> Any:
    return decide(of, policy(**wanted))


NEW = StoredPassword("$SHA$new$0", None, "SHA256")
LONG = "x" * 255
"""A hash of which a lock has only a mark."""
IDLE = {"idle": timedelta(days=30), "looks_at_roles": True}
DUE = {"member_until": NOW, "applied_until": NOW}
TO_COME = {"member_until": ago(seconds=-1), "applied_until": ago(seconds=-1)}
ENDED = {"ended_because": "date", "applied_ended": "date", "ended_at": NOW}
LAPSED = {"lapses_at": NOW, "lapse": "idle"}
REQUESTED = RowRequest("provision")


@pytest.mark.parametrize(
    ("columns", "more", "expected"),
    [
        (TO_COME, {}, Provision(WEB)),
        (TO_COME, {"is_operator": True}, Provision(WEB)),
        (DUE, {}, EndMembership("date")),
        (DUE, {"is_operator": True}, KeepMembership(REQUESTED)),
        (DUE | {"role": "reviewer"}, {}, KeepMembership(REQUESTED)),
        (ENDED, {}, None),
        (ENDED, {"is_operator": True}, KeepMembership(REQUESTED)),
        (ENDED | {"role": "reviewer"}, {}, KeepMembership(REQUESTED)),
        (LAPSED, {}, EndMembership("idle")),
        (LAPSED | {"lapse": "role"}, {}, EndMembership("role")),
        (LAPSED | {"lapse": None}, {}, Provision(WEB)),  # typed in SQL: no cause
        # typed in SQL: an end closes the row, anything else asks for it, unless the membership stays ended
        ({"ended_because": "role"}, {}, ApplyMembershipEdit(NO_REQUEST)),
        ({"applied_ended": "role"}, {}, ApplyMembershipEdit(REQUESTED)),
        ({"member_until": ago(seconds=-1)}, {}, ApplyMembershipEdit(REQUESTED)),
        (ENDED | {"member_until": ago(seconds=-1)}, {}, ApplyMembershipEdit(REQUESTED)),
        (
            ENDED | {"ended_because": "idle", "applied_ended": "idle", "member_until": ago(seconds=-1)},
            {},
            ApplyMembershipEdit(NO_REQUEST),
        ),
        # the status was typed, too
        (ENDED | {"applied_status": "pending"}, {}, ApplySqlEdit(NO_REQUEST)),
        ({"applied_status": "pending"}, {}, ApplySqlEdit(REQUESTED)),
    ],
)
def test_a_membership_ends_is_kept_or_edited(columns: dict[str, Any], more: dict[str, Any], expected: Any) -> None:
    assert decided(account(user(**columns), never_seen(), **more), **IDLE) == expected


def test_a_membership_that_may_not_end_now_leaves_the_rest_as_it_is() -> None:
    due, edited = account(user(**DUE), never_seen()), account(user(member_until=NOW), never_seen())
    assert decide(due, policy(), may_end=True) == EndMembership("date")
    assert decide(due, policy(), may_end=False) == Provision(WEB)
    assert decide(edited, policy(), may_end=False) == ApplyMembershipEdit(REQUESTED)


@pytest.mark.parametrize(
    ("columns", "there", "more", "rules", "expected"),
    [
        (LAPSED, row(is_logged=0), {}, IDLE, EndMembership("idle")),
        (LAPSED, row(is_logged=1), {}, IDLE, None),
        (LAPSED | {"lapse": "role"}, row(is_logged=1), {}, IDLE, EndMembership("role")),
        (LAPSED, row(is_logged=0), {}, IDLE | {"looks_at_roles": False}, EndMembership("idle")),
        (LAPSED, row(), {}, {}, ForgetLapse()),
        (LAPSED | {"lapse": "role"}, row(), {}, IDLE | {"looks_at_roles": False}, ForgetLapse()),
        (LAPSED, None, {"is_player_known": False}, IDLE, None),
        (LAPSED, None, {"is_player_known": False}, IDLE | {"is_bridge_on": False}, EndMembership("idle")),
    ],
)
def test_nobody_ends_as_idle_who_plays_or_may_play(
    columns: dict[str, Any], there: PlayerRow | None, more: dict[str, Any], rules: dict[str, Any], expected: Any
) -> None:
    assert decided(account(user(**columns), synced(), there, **more), **rules) == expected


def test_the_row_of_an_ended_member_is_locked_whatever_the_host_reports_only() -> None:
    of = account(user(**ENDED), synced(), row())
    assert decided(of, unapproved_players="report") == Lock(row(), "ended", "verified", "locked")


@pytest.mark.parametrize(
    ("of", "rules", "expected", "intent"),
    [
        (account(None, never_seen()), {}, NO_REQUEST, None),
        (account(user()), {}, NO_REQUEST, None),
        (account(user(password=None)), {}, NO_REQUEST, None),
        (account(user(), never_seen()), {"is_bridge_on": False}, NO_REQUEST, None),
        (account(user(password=None), never_seen()), {"is_bridge_on": False}, NO_REQUEST, None),
        (account(user(), synced()), {}, REQUESTED, "provision"),
        (account(user(), never_seen()), {}, REQUESTED, "provision"),
        (account(user(password=None), never_seen()), {}, RowRequest(needs_password=True), None),
        (account(user(), never_seen()), {"may_provision": False}, NO_REQUEST, None),
        (account(user(password=None), never_seen()), {"may_provision": False}, NO_REQUEST, None),
        (account(user(), synced(), row(regdate=LATER)), {}, RowRequest(needs_password=True), "open"),
        (account(user(), synced(), row()), {}, NO_REQUEST, None),
        (account(user(status="pending"), never_seen(), row(hash=GAME)), {}, RowRequest("open"), "open"),
        # a row that is there needs a password also where rows are a forum's
        (
            account(user(status="pending", password=None), never_seen(), row(hash=GAME)),
            {"may_provision": False},
            RowRequest(needs_password=True),
            None,
        ),
        # the row cannot be read
        (account(user(), never_seen(), is_player_known=False), {}, REQUESTED, "provision"),
        (
            account(user(password=None), never_seen(), is_player_known=False),
            {"may_provision": False},
            RowRequest("provision", needs_password=True),
            "provision",
        ),
        (
            account(user(status="pending"), never_seen(kept_origin=UNVERIFIED), is_player_known=False),
            {},
            RowRequest("open"),
            "open",
        ),
        # a lock under which no password is known
        (account(user(), locked(), locked_row()), {}, NO_REQUEST, None),
        (
            account(user(password=None), synced(base_hash=None), locked_row(LONG)),
            {},
            RowRequest(needs_password=True),
            None,
        ),
        (account(user(password=None), synced(base_hash=None), row()), {}, NO_REQUEST, None),
    ],
)
def test_what_a_decision_that_a_user_may_play_requests(
    of: Account, rules: dict[str, Any], expected: RowRequest, intent: str | None
) -> None:
    assert request_row(of, policy(**rules)) == expected
    assert row_intent(of, policy(**rules)) == intent


pending = user(status="pending")
own_insert = never_seen(intent="provision", intent_hash=WEB.hash, intent_regdate=REGDATE)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (account(None, synced(), row(regdate=LATER)), False),
        (account(user(), None, row(regdate=LATER)), False),
        (account(user(), synced(), row(regdate=LATER)), True),
        (account(pending, synced(), row(regdate=LATER)), True),
        (account(user(), never_seen(), row()), True),
        (account(pending, never_seen(), row()), False),
        (account(user(), synced(), row()), False),
        (account(user(), own_insert, row()), False),
        (account(user(), synced(presence="gone")), False),
        # who played before the user registered is another person
        (account(user(), never_seen("unasked"), row(regdate=1)), False),
        (account(user(), never_seen("unasked"), row()), True),
        (account(user(), never_seen(), row(regdate=1)), True),
        # the row cannot be read: what was last known of it
        (account(pending, synced(kept_origin=UNVERIFIED), is_player_known=False), True),
        (account(pending, synced(kept_origin="verified"), is_player_known=False), False),
        (account(pending, never_seen(kept_origin=UNVERIFIED), is_player_known=False), False),
        (account(user(), never_seen(plugin_state="returned"), is_player_known=False), True),
        (account(pending, never_seen(plugin_state="returned"), is_player_known=False), False),
        (account(user(), synced(), is_player_known=False), False),
    ],
)
def test_whether_the_name_was_registered_anew(of: Account, expected: bool) -> None:
    assert is_registered_anew(of, policy()) is expected
    assert not is_registered_anew(of, policy(is_bridge_on=False))


@pytest.mark.parametrize(
    ("known", "there", "expected"),
    [
        (None, None, None),
        (never_seen(kept_hash=GAME, kept_origin=UNVERIFIED), None, GAME),
        (never_seen(kept_hash=GAME, kept_origin="verified"), None, None),
        (never_seen(), row(hash=GAME), GAME),
        (never_seen(), locked_row(GAME), GAME),
        (None, locked_row(GAME), GAME),
        (never_seen(kept_hash=LONG, kept_origin=UNVERIFIED), locked_row(LONG), LONG),
        (never_seen(kept_hash=WEB.hash, kept_origin=UNVERIFIED), locked_row(GAME), GAME),
    ],
)
def test_the_hash_that_a_row_was_registered_anew_with(
    known: SyncValues | None, there: PlayerRow | None, expected: str | None
) -> None:
    assert find_new_hash(account(user(), known, there)) == expected


def test_whether_a_row_that_goes_would_come_back() -> None:
    assert returns(account(user(), synced(), row()), policy(on_player_removed="restore"))
    assert not returns(account(user(), synced(), row()), policy())
    assert not returns(account(None, synced(), row()), policy(on_player_removed="restore"))
    assert not returns(account(user(), None, row()), policy(on_player_removed="restore"))


@pytest.mark.parametrize(
    ("minutes", "after", "own", "is_authmes"),
    [
        (8.99, 10, None, False),
        (9, 10, None, True),
        (25, 10, None, True),
        (25.01, 10, None, False),
        (9, 10, WEB, False),
        (3, 0, None, False),
    ],
)
def test_a_row_that_authme_deletes_by_itself_is_told_by_its_age(
    minutes: float, after: int, own: StoredPassword | None, is_authmes: bool
) -> None:
    of = account(user(password=own), synced(base_regdate=epoch_ms(ago(minutes=minutes))))
    assert decided(of, unverified_minutes=after) == (MarkUnverifiedMissing() if is_authmes else MarkMissing())
    unknown = account(user(password=None), synced(base_regdate=0), now=ago(days=365 * 61 + 15, hours=23, minutes=45))
    assert decided(unknown, unverified_minutes=10) == MarkMissing()


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (account(None, synced(), is_player_known=False), None),
        (account(user(), never_seen(), is_player_known=False), None),
        (account(user(ban_expires_at=ago(seconds=1)), synced(), row()), None),  # of an earlier ban, in SQL
        # AuthMe logged the player of a locked row in without a password
        (
            account(user(status="banned"), locked(), locked_row(is_logged=1, last_login=5)),
            EndPasswordlessLogin(locked_row(is_logged=1, last_login=5)),
        ),
        (account(user(status="banned"), locked(kicked_login=5), locked_row(is_logged=1, last_login=5)), None),
        (
            account(user(status="banned"), locked(), locked_row(has_session=1)),
            EndPasswordlessLogin(locked_row(has_session=1)),
        ),
        (
            account(user(status="banned"), synced(), locked_row(has_session=1)),
            EndPasswordlessLogin(locked_row(has_session=1)),
        ),
        (account(user(), locked(), locked_row(has_session=1)), RestorePassword(locked_row(has_session=1), WEB)),
        (account(user(), synced(), row(has_session=1)), None),
        # without the moment of the deletion, or its hash, there is no tombstone
        (
            account(None, SyncValues("alice", tombstone_hash=WEB.hash, tombstone_regdate=REGDATE), row()),
            Adopt(row(), "Alice", "pending"),
        ),
        (
            account(None, SyncValues("alice", tombstone_at=NOW, tombstone_regdate=REGDATE), row()),
            Adopt(row(), "Alice", "pending"),
        ),
        # registered in the same millisecond as the user: not before
        (
            account(pending, never_seen("unasked"), row(regdate=epoch_ms(REGISTERED))),
            Lock(row(regdate=epoch_ms(REGISTERED)), "pending", UNVERIFIED, "conflict"),
        ),
        # an earlier player's row: opened only where it is locked, with what was kept
        (account(user(), never_seen("unasked", kept_hash=GAME), row(regdate=1)), UpdateState("conflict")),
        (account(user(), never_seen("unasked"), locked_row(GAME, regdate=1)), UpdateState("conflict")),
        (
            account(user(), never_seen("unasked", kept_hash=GAME), locked_row(GAME, regdate=1, salt="salt")),
            RemoveLock(locked_row(GAME, regdate=1, salt="salt"), StoredPassword(GAME, "salt", None)),
        ),
        # a foreign row that an operator gave to the user, and another one that came instead
        (
            account(user(), never_seen(intent="open", intent_hash=GAME), locked_row(GAME, salt="salt")),
            TakeRow(locked_row(GAME, salt="salt"), StoredPassword(GAME, "salt", None)),
        ),
        (
            account(user(), never_seen(intent="open", intent_hash=GAME), row(hash=GAME)),
            TakeRow(row(hash=GAME), StoredPassword(GAME, None, None)),
        ),
        (
            account(user(), never_seen(intent="open", intent_hash=GAME), row()),
            Lock(row(), "returned", UNVERIFIED, "returned"),
        ),
        # the row that was gone was requested, but the player registered anew meanwhile
        (
            account(user(password=None), synced(presence="gone", intent="provision"), row(hash=GAME)),
            Lock(row(hash=GAME), "returned", UNVERIFIED, "returned"),
        ),
        (
            account(user(password=NEW), synced(presence="gone", intent="provision"), row(hash=GAME)),
            ReclaimRow(row(hash=GAME), NEW),
        ),
        # under our lock: what was kept of the user's own row, else what the lock holds; with the row's salt
        (account(user(password=None), synced(base_hash=None), locked_row(LONG)), UpdateState("locked")),
        (
            account(user(password=None), locked(GAME, kept_origin=UNVERIFIED), locked_row(salt="salt")),
            RestorePassword(locked_row(salt="salt"), StoredPassword(WEB.hash, "salt", None)),
        ),
        (
            account(user(password=None), locked(GAME), locked_row()),
            RestorePassword(locked_row(), StoredPassword(GAME, None, None)),
        ),
        (
            account(user(password=None), never_seen(base_hash=GAME, base_salt="salt", intent="provision")),
            Provision(StoredPassword(GAME, "salt", None)),
        ),
        # AuthMe's table is one of an earlier day; a password set through us is newer
        (
            account(user(), synced().with_earlier_hash(GAME), row(hash=GAME)),
            TakeEarlierPassword(row(hash=GAME), takes_password=True),
        ),
        (
            account(user(password=NEW), synced(intent="password").with_earlier_hash(GAME), row(hash=GAME)),
            Merge(row(hash=GAME), {"hash": NEW.hash, "salt": None, "has_session": 0}),
        ),
        # a conflict that is over
        (account(user(), synced(conflict="email"), row()), RecordSynced(row())),
    ],
)
def test_each_condition_alone_changes_the_decision(of: Account, expected: Any) -> None:
    assert decided(of) == expected


def test_without_authme_or_its_table_of_users_no_row_is_made_and_nobody_is_adopted() -> None:
    assert decided(account(user(), never_seen()), may_provision=False) is None
    assert decided(account(None, None, before_us), is_bridge_on=False) is None
