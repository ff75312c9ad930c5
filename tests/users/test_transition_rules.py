"""The rules of transitions, one case after the other, without a database."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from regsvc.core.clock import epoch_ms
from regsvc.core.errors import Forbidden, WrongStatus
from regsvc.core.rights import Permission, Rights
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED, STATUSES, User
from regsvc.users import transitions as rules
from regsvc.users.gates import HELD_BACK, NO_UUID, Gates
from regsvc.users.transitions import (
    TRANSITIONS,
    DecisionDetails,
    PlannedTransitions,
    Restoration,
    Transition,
    columns_of_new_membership,
    find_transition,
    is_kept_off_list,
    list_decisions,
    may_be_approved_again,
    needs_password,
    note_membership,
    read_membership,
    require_permission,
)

REVIEW, BAN, MANAGE = Permission.USERS_REVIEW, Permission.USERS_BAN, Permission.USERS_MANAGE
NOW = datetime(2031, 5, 4, tzinfo=UTC)
LATER = NOW + timedelta(days=9)
MONTH = timedelta(days=30)
OLIVIA = Actor("Olivia")
PLAIN = DecisionDetails()


def alice(status: str = PENDING, **columns: Any) -> User:
    return User(id=7, username="Alice", username_key="alice", **{"status": status, "applied_status": status} | columns)


def decision(user: User, name: str, target: str | None, details: DecisionDetails = PLAIN, before: str = "") -> Any:
    return rules._Decision(user, name, before or user.status, target, details)


# --- who decides what ---


def test_the_table_of_transitions() -> None:
    assert {
        name: (set(it.sources), it.target, it.event, it.permission, it.is_by_sql) for name, it in TRANSITIONS.items()
    } == {
        "approve": ({PENDING, REJECTED}, APPROVED, "approved", REVIEW, True),
        "reject": ({PENDING}, REJECTED, "rejected", REVIEW, True),
        "ban": ({PENDING, APPROVED, REJECTED}, BANNED, "banned", BAN, True),
        "unban": ({BANNED}, APPROVED, "unbanned", BAN, True),
        "reopen": ({APPROVED, REJECTED}, PENDING, "reopened", REVIEW, False),
        "delete": (set(STATUSES), None, "deleted", MANAGE, True),
    }
    assert Transition(frozenset(), None, "deleted", MANAGE).is_by_sql


@pytest.mark.parametrize(
    ("name", "status", "choice", "needed"),
    [
        ("approve", PENDING, None, {REVIEW}),
        ("approve", APPROVED, None, {REVIEW}),
        ("approve", PENDING, "keep", {REVIEW}),
        ("approve", PENDING, "link", {REVIEW}),
        ("approve", PENDING, "take", {REVIEW, MANAGE}),
        ("reject", PENDING, None, {REVIEW}),
        ("reject", APPROVED, None, {REVIEW}),  # which is refused as a wrong status
        ("reopen", REJECTED, None, {REVIEW}),
        ("reopen", APPROVED, None, {REVIEW, BAN}),
        ("ban", APPROVED, None, {BAN}),
        ("unban", BANNED, None, {BAN}),
        ("delete", APPROVED, None, {MANAGE}),
    ],
)
def test_a_transition_needs_these_permissions_and_no_other(
    name: str, status: str, choice: Any, needed: set[Permission]
) -> None:
    details = DecisionDetails(password_choice=choice)
    require_permission(name, status, details, Rights(frozenset(needed)))
    for missing in needed:
        with pytest.raises(Forbidden) as refused:
            require_permission(name, status, details, Rights(frozenset(set(Permission) - {missing})))
        assert refused.value.facts["permission"] == missing


def test_an_approved_user_is_approved_again_for_their_row_or_the_list() -> None:
    for is_anew, is_kept_off, is_absent, has_password in product((False, True), repeat=4):
        expected = is_anew or is_kept_off or (is_absent and has_password)
        found = may_be_approved_again(
            is_anew=is_anew, is_kept_off=is_kept_off, is_absent=is_absent, has_password=has_password
        )
        assert found is expected


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        (None, None, False),
        ("listed", None, False),
        ("taken_off", None, True),
        ("add", HELD_BACK, True),
        ("add", NO_UUID, False),
    ],
)
def test_who_is_kept_off_the_list(state: str | None, reason: str | None, expected: bool) -> None:
    assert is_kept_off_list(state, reason) is expected


@pytest.mark.parametrize(
    ("status", "again", "expected"),
    [
        (PENDING, False, ("approve", "reject", "ban", "delete")),
        (PENDING, True, ("approve", "reject", "ban", "delete")),
        (APPROVED, False, ("ban", "reopen", "delete")),
        (APPROVED, True, ("approve", "ban", "reopen", "delete")),
        (REJECTED, True, ("approve", "ban", "reopen", "delete")),
        (BANNED, True, ("unban", "delete")),
    ],
)
def test_the_decisions_about_a_status(status: str, again: bool, expected: tuple[str, ...]) -> None:
    assert list_decisions(status, may_be_approved_again=again) == expected


def test_a_status_typed_in_sql_stands_for_a_transition_that_leads_there() -> None:
    legal = {
        (PENDING, APPROVED): "approve",
        (REJECTED, APPROVED): "approve",
        (PENDING, REJECTED): "reject",
        (PENDING, BANNED): "ban",
        (APPROVED, BANNED): "ban",
        (REJECTED, BANNED): "ban",
        (BANNED, APPROVED): "unban",
    }
    for source, target in product(STATUSES, repeat=2):
        assert find_transition(source, target) == legal.get((source, target)), (source, target)


def test_a_transition_from_another_status_is_refused() -> None:
    found = rules._decide(alice(), "approve", APPROVED, PLAIN)
    assert (found.name, found.before, found.target) == ("approve", PENDING, APPROVED)
    with pytest.raises(WrongStatus) as refused:
        rules._decide(alice(BANNED), "approve", APPROVED, PLAIN)
    assert refused.value.facts["status"] == BANNED


# --- what it does to the user ---


def test_details_say_nothing_by_themselves_and_clean_their_reason() -> None:
    plain = DecisionDetails()
    flags = (plain.is_silent, plain.keeps_expiry, plain.may_reapply, plain.is_on_time, plain.needs_password)
    assert not any((*flags, plain.is_attempt, plain.sends_link, plain.hands_over))
    assert plain.member_until is UNSET
    assert DecisionDetails("  Loud ").reason == "Loud"
    assert DecisionDetails(password_choice="link").sends_link
    assert not DecisionDetails(password_choice="link").hands_over
    assert DecisionDetails(password_choice="take").hands_over
    assert not DecisionDetails(password_choice="take").sends_link


@pytest.mark.parametrize(
    ("before", "target", "name", "banned_from", "begins", "ends_sessions"),
    [
        (PENDING, APPROVED, "approve", None, True, False),
        (REJECTED, APPROVED, "approve", None, True, False),
        (APPROVED, APPROVED, "approve", None, False, False),
        (PENDING, REJECTED, "reject", None, False, False),
        (PENDING, BANNED, "ban", None, False, True),
        (APPROVED, BANNED, "ban", None, False, True),
        (BANNED, BANNED, "ban", APPROVED, False, True),
        (BANNED, APPROVED, "unban", APPROVED, False, False),
        (BANNED, APPROVED, "unban", PENDING, True, False),
        (BANNED, PENDING, "unban", PENDING, False, False),
        (APPROVED, PENDING, "reopen", None, False, True),
        (REJECTED, PENDING, "reopen", None, False, False),
        (PENDING, APPROVED, "approve", APPROVED, True, False),  # typed in SQL
    ],
)
def test_when_a_membership_begins_and_sessions_end(
    before: str, target: str, name: str, banned_from: str | None, begins: bool, ends_sessions: bool
) -> None:
    it = decision(alice(before, banned_from=banned_from), name, target)
    assert (it.begins_membership, it.ends_sessions) == (begins, ends_sessions)


@pytest.mark.parametrize(
    ("before", "target", "name", "banned_from", "takes"),
    [
        (APPROVED, PENDING, "reopen", None, True),
        (APPROVED, REJECTED, "reject", None, True),  # where an approval is undone
        (BANNED, PENDING, "unban", APPROVED, True),
        (BANNED, PENDING, "unban", PENDING, False),
        (REJECTED, PENDING, "reopen", None, False),
        (APPROVED, BANNED, "ban", None, False),
        (BANNED, APPROVED, "unban", APPROVED, False),
        (APPROVED, None, "delete", None, False),
    ],
)
def test_a_membership_that_is_taken_is_noted(
    before: str, target: str | None, name: str, banned_from: str | None, takes: bool
) -> None:
    user = alice(before, banned_from=banned_from, applied_until=LATER)
    noted = decision(user, name, target).audit_record(None)[2].get("membershipBefore")
    assert noted == ({"until": epoch_ms(LATER)} if takes else None)


def test_a_membership_is_given_back_as_it_was_noted() -> None:
    """Not as SQL has changed it meanwhile; when it lapses is found anew."""
    times = {"applied_until": LATER, "renewed_at": NOW, "reminded_at": NOW + MONTH, "ended_at": NOW - MONTH}
    times["stay_asked_at"] = NOW + 2 * MONTH
    user = alice(APPROVED, **times, applied_ended="date", member_until=NOW, ended_because="idle", lapses_at=NOW)
    ended = NO_MEMBERSHIP | times | {"member_until": LATER, "ended_because": "date", "applied_ended": "date"}
    names = {"until": LATER, "renewedAt": NOW, "remindedAt": NOW + MONTH, "endedAt": NOW - MONTH}
    noted = {name: epoch_ms(at) for name, at in (names | {"stayAskedAt": NOW + 2 * MONTH}).items()}
    assert note_membership(user) == noted | {"because": "date"}, "also in the audit log of an older version"
    assert read_membership(note_membership(user)) == ended
    user.applied_ended = None
    lasts = NO_MEMBERSHIP | times | {"member_until": LATER, "ended_at": None}
    assert read_membership(note_membership(user)) == lasts
    assert note_membership(alice(APPROVED)) == {}
    assert read_membership({}) == NO_MEMBERSHIP


@pytest.mark.parametrize(
    ("invited", "usual", "length"),
    [("9 days", MONTH, 9), ("9 days", None, 9), (None, MONTH, 30), ("soon", MONTH, 30), ("soon", None, None)],
)
def test_an_invitation_may_say_how_long_a_membership_lasts(
    invited: str | None, usual: timedelta | None, length: int | None
) -> None:
    columns = decision(alice(member_for=invited), "approve", APPROVED).columns(OLIVIA, NOW, usual)
    assert columns["member_until"] == (None if length is None else NOW + timedelta(days=length))


NO_END = dict.fromkeys(("lapses_at", "lapse", "ended_because", "applied_ended", "ended_at", "stay_asked_at"))
NO_MEMBERSHIP = NO_END | dict.fromkeys(("member_until", "applied_until", "renewed_at", "reminded_at"))
DECIDED = {
    "reason": None,
    "reviewed_by": "Olivia",
    "reviewed_at": NOW,
    "ban_expires_at": None,
    "may_reapply": False,
    "asked_at": None,
    "answered_at": None,
}
NO_ROLE = {"role": None, "applied_role": None}


def of_status(status: str) -> dict[str, Any]:
    return DECIDED | {"status": status, "applied_status": status}


@pytest.mark.parametrize(
    ("user", "name", "target", "details", "expected"),
    [
        (
            alice(),
            "approve",
            APPROVED,
            PLAIN,
            of_status(APPROVED) | {"banned_from": None} | columns_of_new_membership(NOW + MONTH, NOW),
        ),
        (
            alice(),
            "approve",
            APPROVED,
            DecisionDetails(member_until=None),
            of_status(APPROVED) | {"banned_from": None} | columns_of_new_membership(None, NOW),
        ),
        (
            alice(),
            "approve",
            APPROVED,
            DecisionDetails(member_until=LATER),
            of_status(APPROVED) | {"banned_from": None} | columns_of_new_membership(LATER, NOW),
        ),
        (
            alice(member_until=LATER),
            "approve",
            APPROVED,
            PLAIN,
            of_status(APPROVED) | {"banned_from": None} | columns_of_new_membership(LATER, NOW),
        ),
        (alice(APPROVED), "approve", APPROVED, PLAIN, of_status(APPROVED) | {"banned_from": None}),
        (
            alice(),
            "reject",
            REJECTED,
            DecisionDetails("Loud", LATER, may_reapply=True),
            of_status(REJECTED)
            | {"reason": "Loud", "may_reapply": True, "banned_from": None}
            | NO_ROLE
            | NO_MEMBERSHIP,
        ),
        # a ban keeps the membership, and remembers from which status it was
        (
            alice(APPROVED),
            "ban",
            BANNED,
            DecisionDetails("Loud", LATER + timedelta(microseconds=1)),
            of_status(BANNED) | {"reason": "Loud", "ban_expires_at": LATER, "banned_from": APPROVED} | NO_ROLE,
        ),
        (alice(BANNED), "ban", BANNED, PLAIN, of_status(BANNED) | NO_ROLE),
        (alice(BANNED, banned_from=APPROVED), "unban", APPROVED, PLAIN, of_status(APPROVED) | {"banned_from": None}),
        (
            alice(APPROVED),
            "reopen",
            PENDING,
            PLAIN,
            of_status(PENDING) | {"banned_from": None} | NO_ROLE | NO_MEMBERSHIP,
        ),
    ],
)
def test_the_users_columns(
    user: User, name: str, target: str, details: DecisionDetails, expected: dict[str, Any]
) -> None:
    assert decision(user, name, target, details).columns(OLIVIA, NOW, MONTH) == expected
    if "member_until" not in expected or expected["member_until"] != NOW + MONTH:
        assert decision(user, name, target, details).columns(OLIVIA, NOW, None) == expected


def test_an_approval_without_a_usual_length_lasts() -> None:
    columns = decision(alice(), "approve", APPROVED).columns(OLIVIA, NOW, None)
    assert (columns["member_until"], columns["renewed_at"]) == (None, NOW)


def test_the_columns_of_a_new_membership() -> None:
    ends = {"member_until": LATER, "applied_until": LATER, "renewed_at": NOW, "reminded_at": NOW}
    assert columns_of_new_membership(LATER + timedelta(microseconds=1), NOW) == NO_END | ends
    lasts = {"member_until": None, "applied_until": None, "renewed_at": NOW, "reminded_at": None}
    assert columns_of_new_membership(None, NOW) == NO_END | lasts


@pytest.mark.parametrize(
    ("hash_", "origin", "expected"),
    [(None, "registered", True), (None, "adopted", False), ("$", "registered", False), ("$", "adopted", False)],
)
def test_who_needs_a_first_password(hash_: str | None, origin: str, expected: bool) -> None:
    assert needs_password(alice(password_hash=hash_, origin=origin)) is expected


@pytest.mark.parametrize(
    ("user", "name", "target", "details", "expected"),
    [
        (alice(), "approve", APPROVED, {}, ("user.approved", {"statusBefore": PENDING})),
        (
            alice(role="reviewer"),
            "approve",
            APPROVED,
            {"password_choice": "keep"},
            ("user.approved", {"statusBefore": PENDING, "returned": "keep"}),
        ),
        (
            alice(APPROVED, role="reviewer"),
            "ban",
            BANNED,
            {"reason": "Loud", "expires_at": LATER, "may_reapply": True},
            (
                "user.banned",
                {
                    "statusBefore": APPROVED,
                    "roleBefore": "reviewer",
                    "reason": "Loud",
                    "expiresAt": int(LATER.timestamp() * 1000),
                    "mayReapply": True,
                },
            ),
        ),
        (alice(APPROVED), "delete", None, {}, ("user.deleted", {"statusBefore": APPROVED})),
    ],
)
def test_the_audit_entry_and_the_review(
    user: User, name: str, target: str | None, details: dict[str, Any], expected: tuple[str, dict[str, Any]]
) -> None:
    it = decision(user, name, target, DecisionDetails(**details))
    assert it.audit_record(None) == (expected[0], "Alice", expected[1])
    user.email_key, user.is_email_verified = "alice@example.org", True
    assert it.review(OLIVIA, NOW, "answers") == {
        "user_id": 7,
        "username": "Alice",
        "username_key": "alice",
        "transition": name,
        "status_before": user.status,
        "status_after": target,
        "reason": details.get("reason"),
        "ban_expires_at": details.get("expires_at"),
        "operator": "Olivia",
        "reviewed_at": NOW,
        "email_key": user.proven_key,
        "answers": "answers",
    }
    assert user.proven_key is not None


@dataclass(frozen=True, kw_only=True)
class Recording(PlannedTransitions):
    """Transitions of the `User` objects given alone, which keep the decisions."""

    decisions: list[Any] = field(default_factory=list)

    def _record(self, decisions: Sequence[Any], *_more: object) -> None:
        self.decisions.extend(decisions)

    @property
    def ways(self) -> list[tuple[str, str, str]]:
        return [(it.name, it.before, it.target) for it in self.decisions]


def planned() -> Recording:
    unused: Any = None
    gates = Gates(True, lambda: True)
    return Recording(unused, unused, unused, unused, lambda: NOW, gates=gates, decided=[])


def test_only_the_approved_are_approved_again() -> None:
    transitions = planned()
    user = alice(APPROVED, member_until=LATER, applied_until=LATER)
    transitions.approve_again(user, OLIVIA, PLAIN)
    assert transitions.ways == [("approve", APPROVED, APPROVED)]
    assert user.member_until == LATER
    with pytest.raises(WrongStatus) as refused:
        planned().approve_again(alice(), OLIVIA, PLAIN)
    assert refused.value.facts["status"] == PENDING


def test_a_change_is_refused_from_another_status() -> None:
    user = alice()
    planned().change(user, "approve", OLIVIA, PLAIN)
    assert user.status == APPROVED
    with pytest.raises(WrongStatus):
        planned().change(user, "approve", OLIVIA, PLAIN)


@pytest.mark.parametrize(
    ("details", "reason", "ends_at"),
    [
        (DecisionDetails("Louder", NOW), "Louder", NOW),
        (DecisionDetails("Louder", LATER, keeps_expiry=True), "Louder", NOW),
        (DecisionDetails(None, LATER), "Loud", LATER),
        (DecisionDetails("Loud"), "Loud", None),
        (DecisionDetails("Loud", LATER, keeps_expiry=True), None, None),
        (DecisionDetails("Loud", NOW), None, None),
        (DecisionDetails(None, NOW), None, None),
    ],
)
def test_a_ban_is_changed_where_its_reason_or_end_differs(
    details: DecisionDetails, reason: str | None, ends_at: datetime | None
) -> None:
    banned = alice(BANNED, reason="Loud", ban_expires_at=NOW, banned_from=PENDING)
    if reason is None:
        with pytest.raises(WrongStatus):
            planned().change_ban(banned, OLIVIA, details)
    else:
        transitions = planned()
        transitions.change_ban(banned, OLIVIA, replace(details, is_silent=True))
        assert transitions.ways == [("ban", BANNED, BANNED)]
        assert transitions.decisions[0].details.is_silent
        assert (banned.reason, banned.ban_expires_at, banned.banned_from) == (reason, ends_at, PENDING)
    with pytest.raises(WrongStatus) as refused:
        planned().change_ban(alice(APPROVED, reason="Loud"), OLIVIA, details)
    assert refused.value.facts["status"] == APPROVED


def test_the_end_of_a_ban_returns_to_the_status_before_it() -> None:
    users = [alice(BANNED, banned_from=status) for status in (None, PENDING, REJECTED, APPROVED)]
    users[0].id = 8
    transitions = planned()
    transitions.end_bans(users, lacking_password={8})
    assert [it.details.needs_password for it in transitions.decisions] == [True, False, False, False]
    assert all(it.details.is_on_time and it.name == "unban" for it in transitions.decisions)
    assert [user.status for user in users] == [APPROVED, PENDING, REJECTED, APPROVED]
    assert {(user.reason, user.reviewed_by) for user in users} == {("ban_ended", "sync")}
    with pytest.raises(WrongStatus):
        planned().end_bans([alice(APPROVED)])


def test_a_name_taken_in_the_game_rejects_who_waits() -> None:
    user = alice()
    planned().reject_name_conflicts([user])
    assert (user.status, user.reason) == (REJECTED, "name_taken_in_game")
    with pytest.raises(WrongStatus):
        planned().reject_name_conflicts([alice(APPROVED)])


# --- the mail ---


@pytest.mark.parametrize(
    ("name", "before", "target", "details", "mail"),
    [
        ("approve", PENDING, APPROVED, {}, "approved"),
        ("approve", PENDING, APPROVED, {"needs_password": True}, "approved_set_password"),
        ("approve", PENDING, APPROVED, {"password_choice": "link"}, "approved_set_password"),
        ("approve", APPROVED, APPROVED, {"password_choice": "link"}, "password_link"),
        ("approve", APPROVED, APPROVED, {"password_choice": "keep"}, "approved"),
        ("approve", APPROVED, APPROVED, {"password_choice": "take"}, "approved_new_password"),
        ("reject", PENDING, REJECTED, {"needs_password": True}, "rejected"),
        ("ban", APPROVED, BANNED, {"needs_password": True}, "banned"),
        ("reopen", REJECTED, PENDING, {}, "reopened"),
        ("delete", APPROVED, None, {}, "deleted"),
        ("unban", BANNED, APPROVED, {}, "unbanned"),
        ("unban", BANNED, APPROVED, {"is_on_time": True}, "ban_ended"),
        ("unban", BANNED, APPROVED, {"needs_password": True}, "unbanned_set_password"),
        ("unban", BANNED, APPROVED, {"needs_password": True, "is_on_time": True}, "ban_ended_set_password"),
        ("unban", BANNED, PENDING, {"needs_password": True, "is_on_time": True}, "ban_ended_unapproved"),
    ],
)
def test_the_mail_that_tells_of_it(
    name: str, before: str, target: str | None, details: dict[str, Any], mail: str
) -> None:
    it = decision(alice(before), name, target, DecisionDetails(**details))
    assert PlannedTransitions._mail_of(SimpleNamespace(now=lambda: NOW), it) == mail  # type: ignore[arg-type]


def test_who_is_unbanned_after_the_end_of_their_membership_is_not_told_that_they_may_play() -> None:
    """Decisions change the user first, and then tell of it."""
    it = decision(alice(APPROVED, member_until=NOW), "unban", APPROVED, before=BANNED)
    assert PlannedTransitions._mail_of(SimpleNamespace(now=lambda: NOW), it) == "ban_ended_unapproved"  # type: ignore[arg-type]


# --- decisions that are undone ---


def restored(before: User, status: str, **columns: Any) -> Restoration:
    given = {"status": status, "reason": None, "ban_expires_at": None} | columns
    return Restoration(before, given, {"of": 5}, is_told=True, ends_sessions=False)


@pytest.mark.parametrize(
    ("before", "status", "columns", "expected"),
    [
        (alice(APPROVED, reason="Loud"), APPROVED, {}, False),
        (alice(APPROVED), PENDING, {}, True),
        (alice(BANNED), APPROVED, {}, True),
        (alice(BANNED, reason="Loud", ban_expires_at=NOW), BANNED, {"reason": "Loud", "ban_expires_at": NOW}, False),
        (alice(BANNED, reason="Loud", ban_expires_at=NOW), BANNED, {"reason": "Loud"}, True),
        (alice(BANNED, reason="Loud", ban_expires_at=NOW), BANNED, {"ban_expires_at": NOW}, True),
    ],
)
def test_whether_what_is_undone_was_a_decision(
    before: User, status: str, columns: dict[str, Any], expected: bool
) -> None:
    before.__data__.setdefault("reason", None)
    before.__data__.setdefault("ban_expires_at", None)
    assert restored(before, status, **columns).is_decision is expected


@pytest.mark.parametrize(
    ("before", "status", "name"),
    [
        (PENDING, APPROVED, "approve"),
        (APPROVED, PENDING, "reopen"),
        (APPROVED, REJECTED, "reject"),
        (APPROVED, BANNED, "ban"),
        (BANNED, APPROVED, "unban"),
        (BANNED, PENDING, "unban"),
        (BANNED, BANNED, "ban"),
    ],
)
def test_what_is_undone_comes_to_a_transition(before: str, status: str, name: str) -> None:
    found = restored(alice(before), status, reason="Loud", ban_expires_at=LATER).as_decision()
    assert (found.name, found.before, found.target) == (name, before, status)
    assert found.details == DecisionDetails("Loud", LATER)
    untold = replace(restored(alice(before), status), is_told=False)
    assert untold.as_decision().details == DecisionDetails(is_silent=True)
    assert found.audit_record(9) == ("user.undone", "Alice", {"of": 5, "review": 9})
    assert PlannedTransitions._mail_of(None, found) == "decision_undone"  # type: ignore[arg-type]
