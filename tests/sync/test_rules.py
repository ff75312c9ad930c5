"""The rules of the plan, one case after the other, without a database."""

from dataclasses import replace
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow, lock_text
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import UNVERIFIED
from regsvc.sync.actions import (
    Lock,
    MarkMissing,
    Provision,
    ReclaimRow,
    RecordSynced,
    Remove,
    RemoveLock,
    RestorePassword,
    UpdateState,
)
from regsvc.sync.bulk_actions import (
    Adopt,
    ApplySqlEdit,
    EndBan,
    MarkDeleted,
    RejectNameConflict,
    RevertRename,
    RowRequest,
    StatusAction,
)
from regsvc.sync.records import Account, SyncValues
from regsvc.sync.rules import decide
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
"""The regdate of another row than the last synced one."""


def decided(of: Account, **wanted: Any) -> Any:
    return decide(of, policy(**wanted))


# --- approved, no row ---


@pytest.mark.parametrize("presence", ["absent", "unasked"])
def test_approved_with_a_password_and_never_seen_is_provisioned(presence: str) -> None:
    assert decided(account(user(), never_seen(presence))) == Provision(WEB)
    assert decided(account(user())) == Provision(WEB)


@pytest.mark.parametrize("algorithm", ["BCRYPT", "PASSLIB"])
def test_a_hash_that_authme_could_not_verify_counts_as_no_password(algorithm: str) -> None:
    of = account(user(password=replace(WEB, algorithm=algorithm)), never_seen())
    assert decided(of) is None
    assert decided(of, algorithms=frozenset({"SHA256", algorithm})) == Provision(replace(WEB, algorithm=algorithm))


def test_approved_without_a_password_waits_for_the_mailed_link() -> None:
    assert decided(account(user(password=None), never_seen())) is None
    assert decided(account(user(password=None), never_seen("unasked"))) == UpdateState("absent", "absent")


@pytest.mark.parametrize("status", ["approved", "pending", "rejected", "banned"])
def test_a_row_that_was_there_and_went_is_noted_as_gone(status: str) -> None:
    assert decided(account(user(status=status), synced())) == MarkMissing()


def test_who_unregistered_in_the_game_stays_gone() -> None:
    gone = synced(presence="gone", plugin_state="absent")
    assert decided(account(user(), gone)) is None
    assert decided(account(user(password=None), gone)) is None


def test_who_unregistered_in_the_game_is_put_back_where_the_host_wants_it() -> None:
    gone = synced(presence="gone", plugin_state="absent")
    assert decided(account(user(), gone), on_player_removed="restore") == Provision(WEB)
    theirs = StoredPassword(WEB.hash, None, None)
    assert decided(account(user(password=None), gone), on_player_removed="restore") == Provision(theirs)


@pytest.mark.parametrize("intent", ["provision", "password"])
def test_a_new_password_or_a_new_approval_provisions_again(intent: str) -> None:
    assert decided(account(user(), synced(presence="gone", plugin_state="absent", intent=intent))) == Provision(WEB)


# --- approved, a foreign row ---


@pytest.mark.parametrize(
    ("before", "there"),
    [
        (never_seen(), row(hash=GAME)),
        (synced(presence="gone"), row(hash=GAME)),
        (synced(presence="gone"), row()),
        (synced(), row(hash=GAME, regdate=LATER)),
        (synced(), row(regdate=LATER)),
    ],
    ids=[
        "was absent",
        "was gone",
        "the same row after it was gone",
        "another regdate",
        "the same hash, another regdate",
    ],
)
def test_a_row_that_appeared_under_an_approved_name_is_locked_and_never_merged(
    before: SyncValues, there: PlayerRow
) -> None:
    assert decided(account(user(), before, there)) == Lock(there, "returned", UNVERIFIED, "returned")


def test_our_own_row_that_a_crash_kept_us_from_confirming_is_recorded() -> None:
    intent = never_seen(intent="provision", intent_hash=WEB.hash, intent_regdate=REGDATE)
    assert decided(account(user(), intent, row())) == RecordSynced(row())


def test_a_row_that_came_before_the_requested_one_is_reclaimed() -> None:
    intent = never_seen(intent="provision", intent_hash=WEB.hash, intent_regdate=REGDATE)
    for foreign in (row(regdate=LATER), row(hash=GAME)):
        assert decided(account(user(), intent, foreign)) == ReclaimRow(foreign, WEB)
    assert isinstance(decided(account(user(password=None), intent, row(hash=GAME))), Lock)


@pytest.mark.parametrize(("known", "there"), [(None, REGDATE), (0, REGDATE), (REGDATE, 0), (REGDATE, None)])
def test_a_regdate_that_only_one_side_knows_says_nothing(known: int | None, there: int | None) -> None:
    there_now = row(regdate=there)
    assert decided(account(user(), synced(base_regdate=known), there_now)) == RecordSynced(there_now)


def test_a_returned_row_stays_locked_until_somebody_opens_it() -> None:
    returned = never_seen(kept_hash=GAME, kept_origin=UNVERIFIED, locked_at=NOW)
    there = locked_row(GAME, regdate=LATER)
    assert decided(account(user(), returned, there)) == UpdateState("returned")
    returned = replace(returned, plugin_state="returned")
    assert decided(account(user(), returned, there)) is None
    for intent in ("open", "password"):
        assert decided(account(user(), replace(returned, intent=intent), there)) == ReclaimRow(there, WEB)
    assert decided(account(user(password=None), replace(returned, intent="open"), there)) is None
    assert decided(account(user(password=None), replace(returned, intent="password"), there)) is None


def test_a_row_that_came_back_is_reclaimed_with_the_last_synced_password() -> None:
    there = locked_row(GAME, regdate=LATER)
    of = account(user(password=None), synced(base_hash="theirs", intent="open", plugin_state="returned"), there)
    assert decided(of) == ReclaimRow(there, StoredPassword("theirs", None, None))


def test_an_operators_row_that_appeared_stays_open_in_the_game_and_is_reported() -> None:
    of = account(user(), never_seen(), row(hash=GAME), is_operator=True)
    assert decided(of) == UpdateState("returned")
    assert decided(replace(of, sync_record=never_seen(intent="open"))) == ReclaimRow(row(hash=GAME), WEB)


# --- approved, locked by us ---


def test_a_row_we_locked_is_restored_when_its_user_may_play() -> None:
    there = locked_row()
    assert decided(account(user(), locked(), there)) == RestorePassword(there, WEB)
    theirs = StoredPassword(WEB.hash, None, None)
    assert decided(account(user(password=None), locked(), there)) == RestorePassword(there, theirs)


def test_a_password_set_while_the_row_was_locked_is_what_it_is_restored_with() -> None:
    new = StoredPassword("$SHA$new$0", None, "SHA256")
    of = account(user(password=new), locked(intent="password"), locked_row())
    assert decided(of) == RestorePassword(locked_row(), new)


def test_a_lock_is_restored_from_itself_when_we_know_nothing() -> None:
    of = account(user(password=None), synced(base_hash=None), locked_row(GAME))
    assert decided(of) == RestorePassword(locked_row(GAME), StoredPassword(GAME, None, None))


def test_a_lock_that_only_marks_its_hash_is_restored_from_what_we_kept() -> None:
    long = "x" * 255
    of = account(user(password=None), locked(long, base_hash=long), locked_row(long))
    assert decided(of) == RestorePassword(locked_row(long), StoredPassword(long, None, None))


# --- approved, the last synced row ---


def test_nothing_is_done_when_nothing_differs() -> None:
    assert decided(account(user(), synced(), row())) is None


@pytest.mark.parametrize(
    "behind",
    [{"intent": "password"}, {"locked_at": NOW}, {"plugin_state": "pending"}, {"base_realname": "Player"}],
    ids=lambda behind: next(iter(behind)),
)
def test_what_was_written_down_catches_up_without_writing_the_row(behind: dict[str, Any]) -> None:
    assert decided(account(user(), synced(**behind), row())) == RecordSynced(row())


# --- pending and rejected ---

unapproved = pytest.mark.parametrize("status", ["pending", "rejected"])


@unapproved
def test_unapproved_without_a_row_is_left_alone(status: str) -> None:
    assert decided(account(user(status=status), never_seen())) is None


@unapproved
def test_unapproved_and_adopted_from_this_row_is_locked_and_the_hash_is_theirs(status: str) -> None:
    assert decided(account(user(status=status), synced(), row())) == Lock(row(), status, "verified", "locked")
    changed = row(hash=GAME)
    assert decided(account(user(status=status), locked(), changed)) == Lock(changed, status, "verified", "locked")


@unapproved
def test_unapproved_with_a_row_that_appeared_is_locked_and_the_hash_is_unverified(status: str) -> None:
    for there in (row(hash=GAME), row(hash=GAME, regdate=1), row(hash=GAME, regdate=0)):
        of = account(user(status=status), never_seen(), there)
        assert decided(of) == Lock(there, status, UNVERIFIED, "conflict")


@unapproved
def test_unapproved_and_locked_stays_so_and_the_queue_tells(status: str) -> None:
    assert decided(account(user(status=status), never_seen(), locked_row(GAME))) == UpdateState("conflict")
    assert decided(account(user(status=status), synced(), locked_row())) == UpdateState("locked")
    assert decided(account(user(status=status), locked(), locked_row())) is None


@unapproved
def test_unapproved_is_only_reported_where_the_host_wants_that(status: str) -> None:
    for known in (synced(), never_seen()):
        of = account(user(status=status), known, row(hash=GAME))
        assert decided(of, unapproved_players="report") == UpdateState("conflict")


@unapproved
def test_an_operator_is_never_locked_by_the_sync(status: str) -> None:
    for known in (synced(), never_seen()):
        of = account(user(status=status), known, row(hash=GAME), is_operator=True)
        assert decided(of) == UpdateState("conflict")


def test_approval_writes_the_proven_password_over_a_foreign_one() -> None:
    queued = never_seen(kept_hash=GAME, kept_origin=UNVERIFIED, plugin_state="conflict", intent="open")
    assert decided(account(user(), queued, locked_row(GAME))) == ReclaimRow(locked_row(GAME), WEB)
    assert decided(account(user(password=None), queued, locked_row(GAME))) == UpdateState("returned")


# --- registered while there was no AuthMe to ask ---


@pytest.mark.parametrize("regdate", [epoch_ms(REGISTERED) - 1, 0, None])
def test_a_player_who_was_first_is_not_locked_and_the_registration_is_rejected(regdate: int | None) -> None:
    there = row(hash=GAME, regdate=regdate)
    assert decided(account(user(status="pending"), never_seen("unasked"), there)) == RejectNameConflict()
    for status in ("rejected", "approved"):
        assert decided(account(user(status=status), never_seen("unasked"), there)) == UpdateState("conflict")


def test_a_player_who_came_later_is_one_that_appeared() -> None:
    there = row(hash=GAME, regdate=epoch_ms(REGISTERED) + 1)
    of = account(user(status="pending"), never_seen("unasked"), there)
    assert decided(of) == Lock(there, "pending", UNVERIFIED, "conflict")


def test_a_player_who_was_first_gets_the_row_back_when_the_names_ban_is_over() -> None:
    there = row(hash=GAME, regdate=1)
    banned = account(user(status="banned"), never_seen("unasked"), there)
    assert decided(banned) == Lock(there, "banned", UNVERIFIED, "locked")
    over = account(user(), never_seen("unasked", kept_hash=GAME, kept_origin=UNVERIFIED), locked_row(GAME, regdate=1))
    assert decided(over) == RemoveLock(locked_row(GAME, regdate=1), StoredPassword(GAME, None, None))


# --- banned ---


def test_banned_is_locked() -> None:
    assert decided(account(user(status="banned"), synced(), row())) == Lock(row(), "banned", "verified", "locked")
    foreign_row = row(hash=GAME)
    assert decided(account(user(status="banned"), never_seen(), foreign_row)) == Lock(
        foreign_row, "banned", UNVERIFIED, "locked"
    )


def test_banned_is_locked_whoever_it_is_and_whatever_the_host_reports_only() -> None:
    of = account(user(status="banned"), synced(), row(), is_operator=True)
    assert decided(of, unapproved_players="report") == Lock(row(), "banned", "verified", "locked")


def test_a_fresh_hash_in_the_row_of_a_banned_player_is_locked_again_and_kept_as_theirs() -> None:
    recovered = row(hash=GAME)
    assert decided(account(user(status="banned"), locked(), recovered)) == Lock(
        recovered, "banned", "verified", "locked"
    )


def test_banned_and_locked_stays_so() -> None:
    assert decided(account(user(status="banned"), locked(), locked_row())) is None
    assert decided(account(user(status="banned"), locked(plugin_state="synced"), locked_row())) == UpdateState("locked")


@pytest.mark.parametrize("is_bridge_on", [True, False])
def test_a_ban_ends_when_its_time_has_passed(is_bridge_on: bool) -> None:
    of = account(user(status="banned", ban_expires_at=NOW), locked(), locked_row())
    assert decided(of, is_bridge_on=is_bridge_on) == EndBan()
    of = account(user(status="banned", ban_expires_at=ago(seconds=-1)), locked(), locked_row())
    assert decided(of, is_bridge_on=is_bridge_on) is None


# --- deleted ---


@pytest.mark.parametrize("there", [row(), locked_row()], ids=["as it was", "with our lock"])
def test_a_row_that_a_deletion_did_not_get_to_is_removed(there: PlayerRow) -> None:
    buried = SyncValues("alice", tombstone_hash=WEB.hash, tombstone_regdate=REGDATE, tombstone_at=NOW)
    assert decided(account(None, buried, there)) == Remove(there)


@pytest.mark.parametrize("there", [row(regdate=LATER), row(hash=GAME)], ids=["another regdate", "another hash"])
def test_any_other_row_of_a_deleted_name_is_a_new_player(there: PlayerRow) -> None:
    buried = SyncValues("alice", tombstone_hash=WEB.hash, tombstone_regdate=REGDATE, tombstone_at=NOW)
    assert decided(account(None, buried, there)) == Adopt(there, "Alice", "pending")


@pytest.mark.parametrize("there", [None, row(), locked_row()], ids=["no row", "a row", "a locked row"])
@pytest.mark.parametrize("is_bridge_on", [True, False])
def test_a_user_deleted_in_sql_is_deleted(there: PlayerRow | None, is_bridge_on: bool) -> None:
    assert decided(account(None, synced(), there), is_bridge_on=is_bridge_on) == MarkDeleted()


def test_a_deleted_name_without_a_row_needs_nothing() -> None:
    assert decided(account(None, SyncValues("alice", tombstone_hash=GAME, tombstone_at=NOW))) is None
    assert decided(account()) is None


# --- players without a user ---

before_us = row(regdate=epoch_ms(FIRST_START) - 1)


@pytest.mark.parametrize("there", [before_us, row(regdate=0), row(regdate=None)], ids=["before", "0", "unknown"])
def test_a_player_from_before_our_first_start_is_adopted_as_existing(there: PlayerRow) -> None:
    assert decided(account(None, None, there)) == Adopt(there, "Alice", "approved")
    assert decided(account(None, None, there), existing_players="pending") == Adopt(there, "Alice", "pending")


def test_a_player_who_registered_in_the_game_since_is_adopted_as_new() -> None:
    there = row(regdate=epoch_ms(FIRST_START))
    assert decided(account(None, None, there)) == Adopt(there, "Alice", "pending")
    assert decided(account(None, None, there), new_players="approved") == Adopt(there, "Alice", "approved")


@pytest.mark.parametrize("wanted", ["approved", "pending"])
@pytest.mark.parametrize("is_operator", [True, False])
def test_a_row_that_is_locked_already_is_adopted_as_banned_and_never_as_approved(
    wanted: str, is_operator: bool
) -> None:
    there = replace(before_us, hash=lock_text(GAME))
    of = account(None, None, there, is_operator=is_operator)
    reason = "locked by an earlier installation"
    assert decided(of, existing_players=wanted) == Adopt(there, "Alice", "banned", reason)


# R51
@pytest.mark.parametrize("status", ["approved", "pending"])
def test_an_operator_who_was_there_before_us_is_adopted_as_approved_and_later_ones_are_pending(status: str) -> None:
    hosts_choice = {"existing_players": status, "new_players": status}
    of = account(None, None, before_us, is_operator=True)
    assert decided(of, **hosts_choice) == Adopt(before_us, "Alice", "approved")
    of = account(None, None, row(), is_operator=True)
    assert decided(of, **hosts_choice) == Adopt(row(), "Alice", "pending")


@pytest.mark.parametrize(
    ("realname", "username"),
    [("ALICE", "ALICE"), ("Player", "alice"), ("", "alice"), ("Bob", "alice"), ("Alice ", "alice")],
)
def test_the_adopted_name_is_the_real_one_if_it_is_the_same_name(realname: str, username: str) -> None:
    there = replace(before_us, realname=realname)
    assert decided(account(None, None, there)) == Adopt(there, username, "approved")


def test_a_row_whose_name_is_not_in_lower_case_is_nobodys() -> None:
    assert decided(account(None, None, row(username="Alice"))) is None


# --- edits in SQL ---


@pytest.mark.parametrize("is_bridge_on", [True, False])
def test_a_status_edited_in_sql_is_applied_before_anything_else(is_bridge_on: bool) -> None:
    of = account(user(status="banned", applied_status="approved", ban_expires_at=ago(days=1)), synced(), row())
    assert decided(of, is_bridge_on=is_bridge_on) == ApplySqlEdit()


def test_an_approval_in_sql_requests_the_row_as_an_operators_does() -> None:
    typed = user(status="approved", applied_status="pending")
    assert decided(account(typed, never_seen())) == ApplySqlEdit(RowRequest("provision"))
    assert decided(account(typed, never_seen(), locked_row(GAME))) == ApplySqlEdit(RowRequest("open"))
    assert decided(account(typed, synced(), locked_row())) == ApplySqlEdit()
    assert decided(account(typed, never_seen()), is_bridge_on=False) == ApplySqlEdit()


@pytest.mark.parametrize("by", [ApplySqlEdit, EndBan])
def test_the_end_of_a_ban_requests_the_row_as_an_approval_does(by: type[StatusAction]) -> None:
    def after(banned_from: str | None, *of: Any, **rules: Any) -> Any:
        status = "approved" if by is ApplySqlEdit else "banned"
        banned = user(status=status, applied_status="banned", banned_from=banned_from, ban_expires_at=ago(seconds=1))
        return decided(account(banned, *of), **rules)

    anew = locked_row(GAME, regdate=LATER)
    assert after("approved", locked(), locked_row()) == by()
    assert after("approved", synced(presence="gone")) == by(RowRequest("provision"))
    assert after("approved", locked(), anew) == by(RowRequest(needs_password=True))
    assert after(None, never_seen(), locked_row(GAME)) == by(RowRequest(needs_password=True))
    assert after("approved", synced(presence="gone"), may_provision=False) == by()
    assert after("approved", synced(presence="gone"), is_bridge_on=False) == by()
    waited = after("pending", never_seen(), locked_row(GAME))
    assert waited == (by(RowRequest("open")) if by is ApplySqlEdit else by())


def test_a_lock_whose_hash_nobody_knows_needs_a_password() -> None:
    unknown = row(hash="!locked!" + "0" * 32)
    banned = user(status="banned", ban_expires_at=ago(seconds=1), password=None)
    known = locked(base_hash=None, kept_hash=None)
    assert decided(account(banned, known, unknown)) == EndBan(RowRequest(needs_password=True))
    assert decided(account(banned, locked(GAME), unknown)) == EndBan()


def test_a_name_edited_in_sql_is_reverted() -> None:
    renamed = user(username="Alicia", username_key="alicia")
    assert decided(account(None, synced(), row(), renamed=renamed)) == RevertRename(renamed, "alice")
    of = account(renamed, None, None, key="alicia", known_as="alice")
    assert decided(of) == RevertRename(renamed, "alice")
    shown = user(username="Bob")
    assert decided(account(shown, synced(), row())) == RevertRename(shown, "alice")


# --- no AuthMe ---


@pytest.mark.parametrize("status", ["approved", "pending", "rejected", "banned"])
def test_without_a_bridge_nothing_is_asked_of_a_row(status: str) -> None:
    assert decided(account(user(status=status), never_seen("unasked")), is_bridge_on=False) is None
    assert decided(account(None, None, None), is_bridge_on=False) is None
