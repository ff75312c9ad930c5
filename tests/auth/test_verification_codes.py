"""Verification codes: one active code for each address and purpose, few attempts, one winner."""

from threading import Barrier

import pytest
from peewee import Database

from regsvc.auth import verification_codes
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.verification_codes import CodeOrProof, VerificationCodes
from regsvc.core.addresses import Caller
from regsvc.core.errors import InvalidCode, RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import Verification
from tests.support.database_fixtures import InParallel
from tests.support.mail_parts import CALLER, INSTALLATION_KEY, MailHarness, is_right, redeem
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile

ALICE = "alice@example.org"
MALLORY = Caller("203.0.113.9", "203.0.113.9", "en", "request-2")
BOB = "bob@example.org"


@pytest.fixture
def codes(our_database: Database, clock: ManualClock) -> VerificationCodes:
    return MailHarness(our_database, clock).codes


def issue(codes: VerificationCodes, email_key: str = ALICE) -> str:
    """The code that Alice will find in her mailbox."""
    row = codes.find_sendable(codes.issue(email_key, "register", CALLER))
    assert row is not None
    code = codes.code_of(row)
    assert code == DerivedSecrets(INSTALLATION_KEY).code("register", row.id, row.nonce, email_key, 6)
    return code


def other_than(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06}"


def tries() -> int:
    used: int = Verification.get().tries
    return used


def test_a_code_works_once(codes: VerificationCodes) -> None:
    code = issue(codes)
    redeem(codes, ALICE, CodeOrProof(code), CALLER)
    assert not is_right(codes, ALICE, "register", code, CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), CALLER)


def test_asking_whether_a_code_is_right_costs_no_try(codes: VerificationCodes) -> None:
    code = issue(codes)
    for attempt in range(10):
        assert is_right(codes, ALICE, "register", code, CALLER), attempt
    assert tries() == 0


def test_a_code_is_bound_to_its_address_and_purpose(codes: VerificationCodes) -> None:
    code = issue(codes)
    issue(codes, BOB)
    codes.issue(ALICE, "change_email", CALLER)
    assert not is_right(codes, BOB, "register", code, CALLER)
    assert not is_right(codes, ALICE, "change_email", code, CALLER)
    with pytest.raises(InvalidCode):
        codes.check(ALICE, "unlink", CodeOrProof(code), CALLER)


def test_nobody_guesses_where_nothing_was_sent(codes: VerificationCodes) -> None:
    assert not is_right(codes, ALICE, "register", "123456", CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof("123456"), CALLER)


def test_five_wrong_tries_are_the_end_of_a_code(codes: VerificationCodes) -> None:
    code = issue(codes)
    for attempt in range(4):
        assert not is_right(codes, ALICE, "register", other_than(code), CALLER), attempt
    assert is_right(codes, ALICE, "register", code, CALLER)
    assert not is_right(codes, ALICE, "register", other_than(code), CALLER)
    assert not is_right(codes, ALICE, "register", code, CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), CALLER)


@pytest.mark.parametrize("state", ["active", "redeemed", "expired", "never_sent"])
def test_who_used_up_the_tries_is_told_so_whatever_the_code_is(
    codes: VerificationCodes, clock: ManualClock, state: str
) -> None:
    """By the client's own tries alone: nothing is told about what others did with the code."""
    code = issue(codes) if state != "never_sent" else "123456"
    if state == "redeemed":
        redeem(codes, ALICE, CodeOrProof(code), MALLORY)
    elif state == "expired":
        clock.advance(minutes=16)

    def faults(caller: Caller, number: int) -> list[object]:
        found = []
        for _ in range(number):
            with pytest.raises(InvalidCode) as refused:
                codes.check(ALICE, "register", CodeOrProof(other_than(code)), caller)
            found.append(refused.value.facts.get("fault"))
        return found

    assert faults(CALLER, 6) == [None, None, None, None, "tries_used", "tries_used"]
    assert faults(MALLORY, 1) == [None]
    issue(codes)
    assert faults(CALLER, 1) == [None]


def test_a_right_code_is_nothing_once_the_tries_are_used_up_meanwhile(codes: VerificationCodes) -> None:
    code = issue(codes)
    row = codes.check(ALICE, "register", CodeOrProof(code), CALLER)
    for attempt in range(5):
        assert not is_right(codes, ALICE, "register", other_than(code), CALLER), attempt
    with pytest.raises(InvalidCode):
        codes.redeem(row, CodeOrProof(code), CALLER)


def test_a_right_code_is_nothing_once_another_was_issued_meanwhile(codes: VerificationCodes) -> None:
    code = issue(codes)
    row = codes.check(ALICE, "register", CodeOrProof(code), MALLORY)
    for attempt in range(5):
        assert not is_right(codes, ALICE, "register", other_than(code), CALLER), attempt
    assert issue(codes) != code
    with pytest.raises(InvalidCode):
        codes.redeem(row, CodeOrProof(code), MALLORY)


def test_wrong_tries_of_others_at_the_same_time_count_no_more_than_five(codes: VerificationCodes) -> None:
    wrong = other_than(issue(codes))

    def others_try() -> None:
        for _try in range(5):
            is_right(codes, ALICE, "register", wrong, CALLER)

    with meanwhile(codes, "_is_right", others_try):
        assert not is_right(codes, ALICE, "register", wrong, CALLER)
    assert tries() == 5


def test_fifty_wrong_tries_at_once_count_five(
    codes: VerificationCodes, our_database: Database, in_parallel: InParallel
) -> None:
    wrong = other_than(issue(codes))

    def guess() -> bool:
        with our_database.atomic():
            return is_right(codes, ALICE, "register", wrong, CALLER)

    assert in_parallel(guess, 50) == [False] * 50
    assert tries() == 5


def test_one_code_in_two_hands_has_one_winner(
    codes: VerificationCodes, our_database: Database, in_parallel: InParallel
) -> None:
    rounds = 500
    addresses = [f"alice{number}@example.org" for number in range(rounds)]
    with our_database.atomic():
        shown = {address: issue(codes, address) for address in addresses}
    both = Barrier(2)

    def redeem_each() -> list[bool]:
        return [meet_and_redeem(address) for address in addresses]

    def meet_and_redeem(address: str) -> bool:
        given = CodeOrProof(shown[address])
        row = codes.check(address, "register", given, CALLER)
        both.wait()
        try:
            with our_database.atomic():
                codes.redeem(row, given, CALLER)
        except InvalidCode:
            return False
        return True

    one, other = in_parallel(redeem_each, 2)
    assert [first + second for first, second in zip(one, other, strict=True)] == [1] * rounds


def test_while_a_code_lives_asking_again_brings_the_same(codes: VerificationCodes, clock: ManualClock) -> None:
    code = issue(codes)
    assert not is_right(codes, ALICE, "register", other_than(code), CALLER)
    clock.advance(minutes=4)
    assert issue(codes) == code
    assert tries() == 1


# R62
def test_a_code_whose_tries_are_used_up_is_not_mailed_again(codes: VerificationCodes) -> None:
    code = issue(codes)
    row_id = Verification.get().id
    for attempt in range(5):
        assert not is_right(codes, ALICE, "register", other_than(code), CALLER), attempt
    assert codes.find_sendable(row_id) is None
    another = issue(codes)
    assert another != code
    assert not is_right(codes, ALICE, "register", code, CALLER)
    assert is_right(codes, ALICE, "register", another, CALLER)


# R62
def test_strangers_use_up_no_tries_of_the_client_that_asked(codes: VerificationCodes) -> None:
    code = issue(codes)
    for attempt in range(6):
        assert not is_right(codes, ALICE, "register", other_than(code), MALLORY), attempt
    assert not is_right(codes, ALICE, "register", code, MALLORY)
    assert is_right(codes, ALICE, "register", code, CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), MALLORY)
    redeem(codes, ALICE, CodeOrProof(code), CALLER)


def test_the_code_is_good_on_another_device(codes: VerificationCodes) -> None:
    code = issue(codes)
    for attempt in range(5):
        assert not is_right(codes, ALICE, "register", other_than(code), CALLER), attempt
    assert is_right(codes, ALICE, "register", code, MALLORY), "her phone, here"
    redeem(codes, ALICE, CodeOrProof(code), MALLORY)


def test_who_asks_after_a_stranger_has_tries_of_its_own(codes: VerificationCodes) -> None:
    codes.issue(ALICE, "register", MALLORY)
    code = issue(codes)
    for attempt in range(6):
        assert not is_right(codes, ALICE, "register", other_than(code), MALLORY), attempt
    assert is_right(codes, ALICE, "register", code, CALLER)


# R62
def test_wrong_codes_are_limited_for_each_network(our_database: Database, clock: ManualClock) -> None:
    codes = MailHarness(our_database, clock, guesses=[RateLimit.parse("7 per hour")]).codes
    neighbours = [Caller(f"2001:db8:1:{net:x}::1", f"2001:db8:1:{net:x}::/64", "en", "request") for net in range(9)]
    for number, neighbour in enumerate(neighbours[:7]):
        assert not is_right(codes, f"{number}@example.org", "register", "0", neighbour), "nothing was sent there"
    code = issue(codes)
    with pytest.raises(RateLimited):
        is_right(codes, ALICE, "register", other_than(code), neighbours[8])
    assert tries() == 0, "so it uses up no code either"
    for _right in range(9):
        assert is_right(codes, ALICE, "register", code, CALLER)
    clock.advance(hours=1)
    assert is_right(codes, BOB, "register", issue(codes, BOB), neighbours[8])


def test_a_later_code_ends_the_earlier(codes: VerificationCodes, clock: ManualClock) -> None:
    first = codes.issue(ALICE, "register", CALLER)
    old = issue(codes)
    codes.mark_sent(first)
    clock.advance(minutes=5)
    new = issue(codes)
    assert new != old
    assert not is_right(codes, ALICE, "register", old, CALLER)
    assert is_right(codes, ALICE, "register", new, CALLER)


def test_five_minutes_run_from_the_hand_over(codes: VerificationCodes, clock: ManualClock) -> None:
    code = issue(codes)
    clock.advance(minutes=8)
    codes.mark_sent(Verification.get().id)
    clock.advance(minutes=4, seconds=59)
    assert is_right(codes, ALICE, "register", code, CALLER)
    clock.advance(seconds=1)
    assert not is_right(codes, ALICE, "register", code, CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), CALLER)


def test_a_code_never_outlives_fifteen_minutes(codes: VerificationCodes, clock: ManualClock) -> None:
    code = issue(codes)
    clock.advance(minutes=14)
    codes.mark_sent(Verification.get().id)
    clock.advance(seconds=59)
    assert is_right(codes, ALICE, "register", code, CALLER)
    clock.advance(seconds=1)
    assert not is_right(codes, ALICE, "register", code, CALLER)


def test_a_code_mailed_again_has_its_five_minutes_again(codes: VerificationCodes, clock: ManualClock) -> None:
    row_id = codes.issue(ALICE, "register", CALLER)
    codes.mark_sent(row_id)
    clock.advance(minutes=4, seconds=59)
    assert codes.issue(ALICE, "register", CALLER) == row_id
    clock.advance(seconds=30)
    assert codes.find_sendable(row_id) is not None
    codes.mark_sent(row_id)
    clock.advance(minutes=4, seconds=59)
    assert codes.find_sendable(row_id) is not None
    clock.advance(seconds=1)
    assert codes.find_sendable(row_id) is None


def test_what_cannot_be_redeemed_is_not_worth_mailing(codes: VerificationCodes, clock: ManualClock) -> None:
    row_id = codes.issue(ALICE, "register", CALLER)
    clock.advance(minutes=15)
    assert codes.find_sendable(row_id) is None
    assert codes.find_sendable(row_id + 1) is None
    later = codes.issue(ALICE, "register", CALLER)
    assert codes.find_sendable(row_id) is None
    assert codes.find_sendable(later) is not None


def test_of_two_requests_at_once_one_code_is_mailed(codes: VerificationCodes) -> None:
    """The one that counts; a code for another purpose is neither's business."""
    others = []

    def request_too() -> None:
        others.append(codes.issue(ALICE, "register", MALLORY))

    with meanwhile(codes, "_find_active", request_too, after=True):
        row_id = codes.issue(ALICE, "register", CALLER)
    codes.issue(ALICE, "change_email", CALLER)
    codes.issue(BOB, "register", CALLER)
    assert codes.find_sendable(row_id) is not None
    assert codes.find_sendable(others[0]) is None


@pytest.mark.parametrize("shown", ["", " ", "12345", "1234567", "abcdef", "１２３４５６", "\ud800", "0" * 10_000])
def test_whatever_is_shown_as_a_code_is_just_wrong(codes: VerificationCodes, shown: str) -> None:
    issue(codes)
    assert not is_right(codes, ALICE, "register", shown, CALLER)


def test_neither_a_code_nor_a_proof_is_shown_where_it_is_printed() -> None:
    assert repr(CodeOrProof("123456", "1.x.9")) == "CodeOrProof()"


def test_a_code_from_another_node_of_a_cluster_is_right(
    codes: VerificationCodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice's second code is made on another node, whose rows ours has not applied yet; it catches up where it must."""
    first, asked = issue(codes), list[int]()

    def catch_up(database: Database) -> bool:
        assert database is Verification._meta.database
        asked.append(Verification.update(email_key=ALICE).where(Verification.email_key == "elsewhere").execute())
        return True

    monkeypatch.setattr(verification_codes, "catch_up", catch_up)
    assert is_right(codes, ALICE, "register", f" {first}", CALLER)
    assert asked == []
    values = {"purpose": "register", "nonce": "n" * 32, "client": CALLER.limit_key}
    row = Verification.create(email_key="elsewhere", **values, created_at=Verification.get().created_at)
    second = DerivedSecrets(INSTALLATION_KEY).code("register", row.id, "n" * 32, ALICE, 6)
    assert is_right(codes, ALICE, "register", second, CALLER)
    assert asked == [1]
    assert [row.tries for row in Verification.select()] == [0, 0]


def test_a_code_counts_from_now_once_the_clock_was_set_back(codes: VerificationCodes, clock: ManualClock) -> None:
    """Alice's was mailed; Bob's still waits for the mail server."""
    code, row_id, bobs = issue(codes), Verification.get().id, issue(codes, BOB)
    codes.mark_sent(row_id)
    clock.advance(days=-700)
    assert codes.purge_expired() == 0
    clock.advance(minutes=4, seconds=59)
    assert is_right(codes, ALICE, "register", code, CALLER)
    clock.advance(days=365)  # for a moment, in which the mail is sent again
    codes.mark_sent(row_id)
    clock.advance(days=-365)
    assert codes.purge_expired() == 0
    clock.advance(minutes=5)
    assert not is_right(codes, ALICE, "register", code, CALLER)
    clock.advance(minutes=5)
    assert is_right(codes, BOB, "register", bobs, CALLER)
    clock.advance(seconds=1)
    assert not is_right(codes, BOB, "register", bobs, CALLER)


def test_the_dead_are_purged(codes: VerificationCodes, clock: ManualClock) -> None:
    issue(codes)
    clock.advance(minutes=76)  # any proof of it is dead, too
    living = issue(codes, BOB)
    assert codes.purge_expired() == 1
    assert is_right(codes, BOB, "register", living, CALLER)


# --- a request that is repeated, since its reply was lost ---


def found(codes: VerificationCodes, given: CodeOrProof, email_key: str = ALICE, purpose: str = "register") -> bool:
    """Whether the redemption is found, by the client that asked."""
    return codes.find_redemption(email_key, purpose, given, CALLER) is not None  # type: ignore[arg-type]


def test_a_redemption_is_found_for_an_hour_by_the_right_code(codes: VerificationCodes, clock: ManualClock) -> None:
    code = issue(codes)
    assert not found(codes, CodeOrProof(code)), "it is active"
    assert not found(codes, CodeOrProof(other_than(code)))
    assert tries() == 0, "`check` counts, while it is active"
    redeem(codes, ALICE, CodeOrProof(code), CALLER)
    redeemed_at = codes.find_redemption(ALICE, "register", CodeOrProof(code), CALLER)
    assert redeemed_at == clock()
    assert not found(codes, CodeOrProof(other_than(code)))
    assert not found(codes, CodeOrProof())
    assert not found(codes, CodeOrProof(code), BOB)
    assert not found(codes, CodeOrProof(code), purpose="change_email")
    clock.advance(minutes=59, seconds=59)
    assert found(codes, CodeOrProof(code))
    clock.advance(seconds=1)
    assert not found(codes, CodeOrProof(code))


def test_a_redemption_is_found_by_the_proof_of_its_address(codes: VerificationCodes, clock: ManualClock) -> None:
    proof = CodeOrProof(proof=codes.prove(ALICE, "register", issue(codes), CALLER))
    issue(codes, BOB)
    assert not found(codes, proof), "it is active"
    redeem(codes, ALICE, proof, CALLER)
    assert found(codes, proof)
    issue(codes)
    assert found(codes, proof), "also while a later code is active"
    assert not found(codes, proof, BOB)
    assert not found(codes, proof, purpose="change_email")
    assert not found(codes, CodeOrProof(proof=f"{proof.proof}0"))
    assert not found(codes, CodeOrProof(proof="9.x.9"))
    clock.advance(minutes=60)
    assert not found(codes, proof)


def test_no_redemption_is_found_of_a_code_that_expired_unused(codes: VerificationCodes, clock: ManualClock) -> None:
    code = issue(codes)
    clock.advance(minutes=16)
    assert not found(codes, CodeOrProof(code))
    assert not found(codes, CodeOrProof(other_than(code)))
    assert tries() == 1, "as if it had been redeemed"


def test_the_moment_of_the_effect_is_that_of_the_redemption(codes: VerificationCodes, clock: ManualClock) -> None:
    code, started_at = issue(codes), clock()
    row = codes.check(ALICE, "register", CodeOrProof(code), CALLER)
    clock.advance(seconds=3)
    codes.redeem(row, CodeOrProof(code), CALLER, at=started_at)
    assert codes.find_redemption(ALICE, "register", CodeOrProof(code), CALLER) == started_at


def test_who_requested_a_code_last_is_remembered(codes: VerificationCodes, clock: ManualClock) -> None:
    assert not codes.was_requested_by(ALICE, "register", CALLER)
    issue(codes)
    assert codes.was_requested_by(ALICE, "register", CALLER)
    assert not codes.was_requested_by(ALICE, "register", MALLORY)
    assert not codes.was_requested_by(ALICE, "change_email", CALLER)
    codes.issue(ALICE, "register", MALLORY)
    assert not codes.was_requested_by(ALICE, "register", CALLER)
    clock.advance(minutes=16)
    assert codes.was_requested_by(ALICE, "register", MALLORY)


def test_a_code_is_typed_with_spaces_around_it(codes: VerificationCodes) -> None:
    code = issue(codes)
    assert is_right(codes, ALICE, "register", f" {code}\n", CALLER)


def test_who_unlinks_is_not_told_that_the_tries_are_used_up(codes: VerificationCodes) -> None:
    """They type a name; names without an address would share their tries."""
    for _attempt in range(6):
        with pytest.raises(InvalidCode) as refused:
            codes.check(ALICE, "unlink", CodeOrProof("123456"), CALLER)
        assert refused.value.facts.get("fault") is None


def test_a_new_code_gives_the_client_its_own_tries_again_and_no_sooner(codes: VerificationCodes) -> None:
    def faults(number: int) -> list[object]:
        told = []
        for _ in range(number):
            with pytest.raises(InvalidCode) as refused:
                codes.check(ALICE, "register", CodeOrProof("1"), CALLER)
            told.append(refused.value.facts.get("fault"))
        return told

    issue(codes)
    assert faults(3) == [None] * 3
    issue(codes)
    assert faults(2) == [None, "tries_used"]
    issue(codes)
    assert faults(5) == [None] * 4 + ["tries_used"]
