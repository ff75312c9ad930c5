"""The three-way merge of an approved user with the last synced row, without a database."""

from dataclasses import replace
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow
from regsvc.auth.hashing import StoredPassword
from regsvc.sync.actions import Merge, RecordSynced
from regsvc.sync.effects import Conflict
from regsvc.sync.records import SyncValues, UserRecord
from regsvc.sync.rules import decide, standing_conflict
from tests.support.accounts import GAME, WEB, account, policy, row, synced, user

NEW = StoredPassword("$SHA$new$0", None, "SHA256")
WRITTEN = {"hash": NEW.hash, "salt": None, "has_session": 0}

both_policies = pytest.mark.parametrize("conflict", ["plugin", "companion"])


def merged(ours: UserRecord, base: SyncValues, theirs: PlayerRow, conflict: str = "plugin") -> Any:
    return decide(account(ours, base, theirs), policy(conflict=conflict))


# --- the password ---


@both_policies
def test_a_password_changed_in_the_game_is_taken_over(conflict: str) -> None:
    assert merged(user(), synced(), row(hash=GAME), conflict) == Merge(row(hash=GAME), takes_password=True)
    adopted = user(password=None)
    assert merged(adopted, synced(), row(hash=GAME), conflict) == Merge(row(hash=GAME), takes_password=True)


@both_policies
def test_a_new_salt_alone_is_a_change_too(conflict: str) -> None:
    theirs = row(salt="theirs")
    assert merged(user(), synced(base_salt="ours"), theirs, conflict) == Merge(theirs, takes_password=True)


@both_policies
def test_our_password_is_written_and_ends_the_session_in_the_game(conflict: str) -> None:
    assert merged(user(password=NEW), synced(), row(), conflict) == Merge(row(), WRITTEN)


def test_a_password_of_an_algorithm_that_authme_does_not_know_is_not_written() -> None:
    ours = user(password=replace(NEW, algorithm="PASSLIB"))
    assert merged(ours, synced(), row()) is None


def test_both_changed_and_the_plugin_wins_by_default() -> None:
    found = merged(user(password=NEW), synced(), row(hash=GAME))
    assert found == Merge(row(hash=GAME), takes_password=True, conflicts=(Conflict("password", "plugin"),))


def test_both_changed_and_the_companion_wins_where_the_host_wants_that() -> None:
    found = merged(user(password=NEW), synced(), row(hash=GAME), "companion")
    assert found == Merge(row(hash=GAME), WRITTEN, conflicts=(Conflict("password", "companion"),))


@both_policies
def test_both_changed_to_the_same_is_no_conflict(conflict: str) -> None:
    assert merged(user(password=NEW), synced(), row(hash=NEW.hash), conflict) == RecordSynced(row(hash=NEW.hash))


@both_policies
def test_a_password_set_through_us_is_not_merged(conflict: str) -> None:
    intent = synced(intent="password")
    assert merged(user(password=NEW), intent, row(hash=GAME), conflict) == Merge(row(hash=GAME), WRITTEN)
    assert merged(user(password=NEW), intent, row(), conflict) == Merge(row(), WRITTEN)


# --- the e-mail ---

unproven = {"is_email_verified": False}
no_email = {"email": None, "email_key": None, "is_email_verified": False}


@both_policies
@pytest.mark.parametrize("nothing", [None, "", "  ", "your@email.com", "Your@Email.COM"])
def test_our_proven_email_is_written_where_they_have_none(nothing: str | None, conflict: str) -> None:
    theirs = row(email=nothing)
    for base in (synced(base_email=nothing), synced()):
        assert merged(user(), base, theirs, conflict) == Merge(theirs, {"email": "alice@example.org"})


@pytest.mark.parametrize("nothing", [None, "", "your@email.com"])
def test_an_unproven_email_is_not_written(nothing: str | None) -> None:
    theirs = row(email=nothing)
    assert merged(user(**unproven), synced(base_email=nothing), theirs) is None
    assert merged(user(**unproven), synced(), theirs) == RecordSynced(theirs)


def test_all_the_ways_to_say_nothing_are_the_same() -> None:
    assert merged(user(**no_email), synced(base_email=None), row(email="your@email.com")) is None
    assert merged(user(**no_email), synced(base_email=""), row(email=None)) is None


@both_policies
def test_an_email_changed_in_the_game_takes_an_unproven_ones_place(conflict: str) -> None:
    theirs = row(email="new@example.org")
    for ours in (user(**unproven), user(**no_email)):
        assert merged(ours, synced(), theirs, conflict) == Merge(theirs, takes_email="new@example.org")


def test_an_email_changed_in_the_game_never_takes_a_proven_ones_place() -> None:
    theirs = row(email="new@example.org")
    assert merged(user(), synced(), theirs) == Merge(theirs, conflicts=(Conflict("email", "both", "unproven"),))


def test_a_conflict_is_told_once_and_the_row_stays_untouched() -> None:
    theirs = row(email="new@example.org")
    after = synced(base_email="new@example.org", conflict="email", plugin_state="conflict")
    assert merged(user(), after, theirs) is None
    assert merged(user(), after, replace(theirs, hash=GAME)) == Merge(replace(theirs, hash=GAME), takes_password=True)


def test_a_conflict_outlives_a_base_that_moves_for_another_reason() -> None:
    theirs = row(email="new@example.org")
    after = synced(base_email="new@example.org", conflict="email", plugin_state="conflict", base_regdate=None)
    assert merged(user(), after, theirs) == RecordSynced(theirs, "email")


@pytest.mark.parametrize("theirs", ["alice@example.org", "Alice@Example.ORG"])
def test_a_conflict_ends_when_both_are_the_same(theirs: str) -> None:
    after = synced(base_email="new@example.org", conflict="email", plugin_state="conflict")
    assert merged(user(), after, row(email=theirs)) == RecordSynced(row(email=theirs))


def test_our_new_proven_email_is_written() -> None:
    ours = user(email="proven@example.org")
    assert merged(ours, synced(), row()) == Merge(row(), {"email": "proven@example.org"})


def test_both_emails_changed_and_a_proven_one_keeps_its_place() -> None:
    ours, theirs = user(email="proven@example.org"), row(email="new@example.org")
    assert merged(ours, synced(), theirs) == Merge(theirs, conflicts=(Conflict("email", "both", "unproven"),))
    found = merged(ours, synced(), theirs, "companion")
    assert found == Merge(theirs, {"email": "proven@example.org"}, conflicts=(Conflict("email", "companion"),))


def test_who_lost_an_unproven_email_to_its_prover_keeps_it_in_the_game() -> None:
    assert merged(user(**no_email), synced(), row()) is None


def test_another_case_of_the_same_email_is_no_change() -> None:
    theirs = row(email="ALICE@example.org")
    assert merged(user(), synced(), theirs) == RecordSynced(theirs)


# --- the real name ---


def test_another_case_of_the_name_is_taken_over() -> None:
    assert merged(user(), synced(), row(realname="ALICE")) == Merge(row(realname="ALICE"), takes_realname="ALICE")


def test_another_name_altogether_is_a_conflict_told_once() -> None:
    theirs = row(realname="Bob")
    assert merged(user(), synced(), theirs) == Merge(theirs, conflicts=(Conflict("realname", "both"),))
    after = synced(base_realname="Bob", conflict="realname", plugin_state="conflict")
    assert merged(user(), after, theirs) is None
    assert merged(user(), after, row()) == RecordSynced(row())


@pytest.mark.parametrize("unknown", ["Player", "", " "])
def test_a_name_that_authme_has_yet_to_learn_is_no_change(unknown: str) -> None:
    assert merged(user(), synced(base_realname=unknown), row(realname=unknown)) is None
    known = merged(user(username="alice"), synced(base_realname=unknown), row(realname="Alice"))
    assert known == Merge(row(realname="Alice"), takes_realname="Alice")


def test_our_own_new_case_is_written() -> None:
    assert merged(user(username="ALICE"), synced(), row()) == Merge(row(), {"realname": "ALICE"})


# --- all at once ---


def test_three_changes_are_one_merge() -> None:
    theirs = row(hash=GAME, email="new@example.org", realname="ALICE")
    assert merged(user(**unproven), synced(), theirs) == Merge(
        theirs, takes_password=True, takes_email="new@example.org", takes_realname="ALICE"
    )


def test_a_standing_conflict_is_what_still_differs() -> None:
    told = synced(conflict="email,realname")
    assert standing_conflict(user(), told, row(email="b@example.org", realname="Bob")) == "email,realname"
    assert standing_conflict(user(), told, row(realname="Bob")) == "realname"
    assert standing_conflict(user(), told, row()) is None
    assert standing_conflict(user(), synced(), row(email="b@example.org")) is None
    assert WEB.hash not in repr(user())


# --- each condition alone ---

HERS, ANOTHER = "alice@example.org", "hers@example.org"


def test_what_changed_on_both_sides_is_copied_at_once() -> None:
    theirs = row(hash=GAME, email=None)
    assert merged(user(), synced(base_email=None), theirs) == Merge(theirs, {"email": HERS}, takes_password=True)
    ours = user(password=NEW)
    assert merged(ours, synced(base_email=None), row(email=None)) == Merge(row(email=None), WRITTEN | {"email": HERS})
    taken = user(email=None, email_key=None, is_email_verified=False)
    theirs = row(email=ANOTHER, realname="ALICE")
    assert merged(taken, synced(base_email=None), theirs) == Merge(theirs, takes_email=ANOTHER, takes_realname="ALICE")
    theirs = row(hash=GAME, email=ANOTHER)
    conflicts = (Conflict("password", "plugin"), Conflict("email", "both", "unproven"))
    assert merged(user(password=NEW), synced(base_email=None), theirs) == Merge(
        theirs, takes_password=True, conflicts=conflicts
    )


def test_a_salt_of_ours_alone_is_not_written() -> None:
    assert merged(user(password=replace(WEB, salt="ours")), synced(), row()) is None


@pytest.mark.parametrize(
    ("ours", "base", "theirs", "conflict", "expected"),
    [
        # AuthMe's table cannot hold ours, which was reported once; any other conflict does not stand for it
        (HERS, {"base_email": None, "conflict": "email", "plugin_state": "conflict"}, None, "plugin", None),
        (HERS, {"base_email": None, "conflict": "realname"}, None, "plugin", Merge(row(email=None), {"email": HERS})),
        (HERS, {"base_email": None}, None, "plugin", Merge(row(email=None), {"email": HERS})),
        (HERS, {"conflict": "email"}, None, "plugin", Merge(row(email=None), {"email": HERS})),
        # only the game's changed: it is not proven, whoever wins conflicts
        *(
            (
                HERS,
                {"conflict": known},
                ANOTHER,
                winner,
                Merge(row(email=ANOTHER), conflicts=(Conflict("email", "both", "unproven"),)),
            )
            for winner in ("plugin", "companion")
            for known in (None, "email")
        ),
        # both changed
        (
            HERS,
            {"base_email": None, "conflict": "email"},
            ANOTHER,
            "plugin",
            Merge(row(email=ANOTHER), conflicts=(Conflict("email", "both", "unproven"),)),
        ),
        (
            HERS,
            {"base_email": "old@example.org"},
            ANOTHER,
            "companion",
            Merge(row(email=ANOTHER), {"email": HERS}, conflicts=(Conflict("email", "companion"),)),
        ),
        # only ours changed
        (HERS, {"base_email": ANOTHER}, ANOTHER, "plugin", Merge(row(email=ANOTHER), {"email": HERS})),
        (HERS, {"base_email": ANOTHER, "conflict": "email", "plugin_state": "conflict"}, ANOTHER, "plugin", None),
    ],
)
def test_an_address_is_written_reported_or_left(
    ours: str, base: dict[str, Any], theirs: str | None, conflict: str, expected: Any
) -> None:
    assert merged(user(email=ours, email_key=ours), synced(**base), row(email=theirs), conflict) == expected


def test_a_conflict_stands_while_the_sides_differ() -> None:
    both = synced(conflict="email,realname")
    other = row(email=ANOTHER, realname="Bob")
    assert standing_conflict(user(), both, other) == "email,realname"
    assert standing_conflict(user(), synced(conflict="email"), other) == "email"
    assert standing_conflict(user(), synced(conflict="realname"), other) == "realname"
    assert standing_conflict(user(), synced(), other) is None
    assert standing_conflict(user(), both, row(realname="Player")) is None
    assert standing_conflict(user(**no_email), both, row(email=None)) is None
    assert standing_conflict(user(**no_email), both, other) == "email,realname"
