"""The rule of memberships, case by case: what lasts, what ends, what was typed in SQL."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from regsvc.core.clock import epoch_ms
from regsvc.core.errors import InvalidMembership
from regsvc.users.gates import Membership, access_of, find_membership_edit, has_ended, membership
from regsvc.users.membership import Term, own_membership_fields, read_term

NOW = datetime(2031, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Someone:
    status: str = "approved"
    member_until: datetime | None = None
    applied_until: datetime | None = None
    lapses_at: datetime | None = None
    lapse: str | None = None
    ended_because: str | None = None
    applied_ended: str | None = None
    ended_at: datetime | None = None


SOON, LATE, WEEK = NOW + DAY, NOW + 30 * DAY, NOW + timedelta(days=7, seconds=1)
CURRENT = Membership("current")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (Someone(), CURRENT),
        (Someone(member_until=LATE), Membership("current", "date", LATE)),
        (Someone(member_until=SOON), Membership("ending", "date", SOON)),
        (Someone(member_until=NOW + 7 * DAY), Membership("ending", "date", NOW + 7 * DAY)),
        (Someone(member_until=WEEK), Membership("current", "date", WEEK)),
        (Someone(member_until=NOW - DAY), Membership("ending", "date", NOW - DAY)),
        (Someone(lapses_at=SOON, lapse="idle"), Membership("ending", "idle", SOON)),
        (Someone(member_until=LATE, lapses_at=SOON, lapse="role"), Membership("ending", "role", SOON)),
        (Someone(member_until=SOON, lapses_at=LATE, lapse="idle"), Membership("ending", "date", SOON)),
        (Someone(member_until=SOON, lapses_at=SOON, lapse="idle"), Membership("ending", "date", SOON)),
        (Someone(member_until=NOW - DAY, ended_because="date", applied_ended="date"), Membership("ended", "date")),
        (Someone(ended_because="idle", applied_ended="idle"), Membership("ended", "idle")),
        (Someone(ended_because="role"), Membership("ended", "role")),
        (Someone("pending", member_until=SOON), None),
        (Someone("rejected", ended_because="date"), None),
        (Someone("banned", ended_because="date", applied_ended="date"), None),
    ],
)
def test_what_a_membership_is(user: Someone, expected: Membership | None) -> None:
    assert membership(user, NOW) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (Someone(), False),
        (Someone(member_until=SOON), False),
        (Someone(member_until=NOW), True),
        (Someone(member_until=NOW - DAY), True),
        (Someone(lapses_at=NOW, lapse="idle"), True),
        (Someone(ended_because="role", applied_ended="role"), True),
        (Someone("pending", member_until=NOW - DAY), False),
    ],
)
def test_a_membership_has_ended_from_its_moment_on(user: Someone, expected: bool) -> None:
    assert has_ended(user, NOW) is expected


@pytest.mark.parametrize("status", ["pending", "approved", "rejected", "banned"])
def test_the_gates_obey_an_end_of_the_approved_alone(status: str) -> None:
    assert access_of(Someone(status)) == status
    ended = access_of(Someone(status, ended_because="date", applied_ended="date"))
    assert ended == ("ended" if status == "approved" else status)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (Someone(), None),
        (Someone(member_until=SOON, applied_until=SOON), None),
        (Someone(member_until=SOON), "set"),
        (Someone(applied_until=SOON), "set"),
        (Someone(member_until=NOW - DAY), "set"),
        (Someone(ended_because="role"), "ended"),
        (Someone(ended_because="date", applied_ended="date"), None),
        (Someone(applied_ended="role"), "renewed"),
        (Someone(ended_because="role", applied_ended="date"), "ended"),
        (Someone(member_until=SOON, applied_until=NOW, ended_because="date", applied_ended="date"), "renewed"),
        (Someone(member_until=None, applied_until=NOW, ended_because="date", applied_ended="date"), "renewed"),
        (Someone(member_until=NOW - DAY, applied_until=NOW, ended_because="date", applied_ended="date"), "set"),
        (Someone(member_until=NOW, applied_until=LATE, ended_because="date", applied_ended="date"), "set"),
        (Someone(member_until=SOON, ended_because="idle", applied_ended="idle"), "set"),
        (Someone("banned", member_until=SOON), None),
    ],
)
def test_what_was_typed_in_sql(user: Someone, expected: str | None) -> None:
    assert find_membership_edit(user, NOW) == expected


def test_more_time_begins_at_an_end_to_come() -> None:
    month = Term(duration=30 * DAY)
    assert month.find_end(NOW) == NOW + 30 * DAY
    assert month.find_end(NOW, SOON) == SOON + 30 * DAY
    assert month.find_end(NOW, NOW - DAY) == NOW + 30 * DAY
    assert Term(until=LATE).find_end(NOW, SOON) == LATE
    assert Term().find_end(NOW, SOON) is None


@pytest.mark.parametrize(
    ("term", "fault", "field"),
    [
        (Term(until=NOW), "in_the_past", "until"),
        (Term(until=NOW - DAY), "in_the_past", "until"),
        (Term(duration=timedelta()), "in_the_past", "for"),
        (Term(duration=timedelta(days=365_000 * 9)), "too_long", "for"),
    ],
)
def test_an_end_that_is_none_is_refused(term: Term, fault: str, field: str) -> None:
    with pytest.raises(InvalidMembership) as refused:
        term.find_end(NOW)
    assert (refused.value.facts["fault"], refused.value.field) == (fault, field)


@pytest.mark.parametrize(
    ("until", "length", "fault"),
    [(5, "30 days", "two_ends"), (None, "30 days", "two_ends"), (None, "soon", "two_ends")],
)
def test_two_ends_at_once_are_refused(until: int | None, length: str, fault: str) -> None:
    with pytest.raises(InvalidMembership) as refused:
        read_term(until, length)
    assert refused.value.facts["fault"] == fault


@pytest.mark.parametrize(
    ("until", "length", "expected"),
    [
        (UNSET, UNSET, None),
        (None, UNSET, Term()),
        (epoch_ms(SOON), UNSET, Term(until=SOON)),
        (UNSET, "30 days", Term(duration=30 * DAY)),
    ],
)
def test_the_term_that_a_request_gives(until: Any, length: Any, expected: Term | None) -> None:
    assert read_term(until, length) == expected
    assert (expected is not None and expected.has_end) is (expected not in (None, Term()))


@pytest.mark.parametrize(("length", "fault"), [("soon", "no_duration"), ("0 days", "in_the_past")])
def test_a_length_that_is_none_is_refused(length: str, fault: str) -> None:
    with pytest.raises(InvalidMembership) as refused:
        read_term(UNSET, length)
    assert (refused.value.facts["fault"], refused.value.field) == (fault, "for")
    with pytest.raises(InvalidMembership) as refused:
        read_term(None, "30 days")
    assert refused.value.field == "for"


@pytest.mark.parametrize(
    ("columns", "state", "because", "ends_at", "may_ask"),
    [
        ({}, "current", None, None, False),
        ({"member_until": SOON}, "ending", "date", SOON, True),
        ({"member_until": SOON, "stay_asked_at": NOW}, "ending", "date", SOON, False),
        ({"ended_because": "idle", "ended_at": NOW}, "ended", "idle", None, True),
    ],
)
def test_what_a_user_is_told_of_their_own_membership(
    columns: dict[str, Any], state: str, because: str | None, ends_at: datetime | None, may_ask: bool
) -> None:
    user = SimpleNamespace(**vars(Someone()) | {"stay_asked_at": None} | columns)
    shown = own_membership_fields(user, NOW, may_ask=True)
    assert shown is not None
    assert (shown.state, shown.because, shown.ends_at, shown.may_ask) == (state, because, ends_at, may_ask)
    assert (shown.ended_at, shown.stay_asked_at) == (user.ended_at, user.stay_asked_at)
    unasked = own_membership_fields(user, NOW, may_ask=False)
    assert unasked is not None
    assert not unasked.may_ask
    user.status = "banned"
    assert own_membership_fields(user, NOW, may_ask=True) is None
