"""Refusals: registered by their code, public in all they carry; bugs: described without their messages."""

import pytest

from regsvc.core import errors
from regsvc.core.errors import REFUSALS, Category, Refusal
from regsvc.core.exceptions import describe_exception


def test_two_refusals_cannot_share_a_code() -> None:
    with pytest.raises(TypeError, match="username_taken"):
        type("NameGone", (Refusal,), {}, code="username_taken", category=Category.CONFLICT)
    assert REFUSALS["username_taken"] is errors.UsernameTaken


def test_facts_are_in_camel_case_and_only_if_known() -> None:
    assert errors.Banned("griefing").facts == {"fault": "for_a_reason", "reason": "griefing"}
    assert errors.Banned(expires_at=5).facts == {"banExpiresAt": 5}
    assert errors.WrongStatus("banned").facts == {"status": "banned"}


def test_a_retry_is_at_least_a_second_away() -> None:
    refusal = errors.RateLimited(remaining_seconds=0)
    assert refusal.facts == {"remainingSeconds": 1}
    assert refusal.retry_after == 1


def test_the_raiser_may_name_the_field() -> None:
    assert errors.InvalidPassword("unsafe", field="newPassword").field == "newPassword"
    assert errors.InvalidPassword("unsafe").field == "password"


@pytest.mark.parametrize("refusal", [kind for kind in REFUSALS.values() if kind.category is Category.UNAVAILABLE])
def test_every_unavailability_says_when_to_retry(refusal: type[Refusal]) -> None:
    assert refusal.retry_after is not None


def test_the_two_kinds_of_bad_tokens_differ() -> None:
    assert errors.Unauthorized.category is Category.UNAUTHENTICATED
    assert errors.ResetTokenInvalid.category is Category.INVALID
    assert errors.ResetTokenInvalid.code == "invalid_token"


def test_a_bug_is_described_by_types_and_places() -> None:
    def inner() -> None:
        raise ValueError("hunter2")

    try:
        try:
            inner()
        except ValueError as error:
            raise KeyError("hunter2") from error
    except KeyError as error:
        described = describe_exception(error)
    assert described.startswith("KeyError at ")
    assert "caused by ValueError at " in described
    assert " inner < " in described
    assert "hunter2" not in described
