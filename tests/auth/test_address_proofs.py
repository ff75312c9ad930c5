"""Proofs of addresses: bound to an address and a purpose, good for an hour and for one use."""

import pytest
from peewee import Database

from regsvc.auth.verification_codes import CodeOrProof, VerificationCodes, proven_at
from regsvc.core.errors import InvalidCode
from regsvc.database.models import Verification
from tests.support.mail_parts import CALLER, MailHarness, is_right, redeem
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile

ALICE = "alice@example.org"
BOB = "bob@example.org"


@pytest.fixture
def codes(our_database: Database, clock: ManualClock) -> VerificationCodes:
    return MailHarness(our_database, clock).codes


def code_of(codes: VerificationCodes, email_key: str = ALICE) -> str:
    row = codes.find_sendable(codes.issue(email_key, "register", CALLER))
    assert row is not None
    return codes.code_of(row)


def prove(codes: VerificationCodes, email_key: str = ALICE) -> str:
    return codes.prove(email_key, "register", code_of(codes, email_key), CALLER)


def assert_refused(codes: VerificationCodes, email_key: str, proof: str) -> None:
    """The client is told that it is the proof, and not a code."""
    with pytest.raises(InvalidCode) as refused:
        codes.check(email_key, "register", CodeOrProof(proof=proof), CALLER)
    assert (refused.value.facts["fault"], refused.value.field) == ("proof", "proof")


def test_a_proof_lives_for_an_hour_and_longer_than_its_code(codes: VerificationCodes, clock: ManualClock) -> None:
    code = code_of(codes)
    proof = codes.prove(ALICE, "register", code, CALLER)
    assert proven_at(proof) == clock().replace(microsecond=0)
    clock.advance(minutes=59, seconds=59)
    assert codes.purge_expired() == 0
    assert not is_right(codes, ALICE, "register", code, CALLER)
    codes.check(ALICE, "register", CodeOrProof(proof=proof), CALLER)
    assert codes.find_proven_address(proof, "register") == ALICE
    clock.advance(milliseconds=1000 - clock().microsecond / 1000)
    assert proof.endswith(f".{clock().timestamp():.0f}"), "it tells its end, in whole seconds"
    assert_refused(codes, ALICE, proof)


def test_it_proves_one_address_for_one_purpose(codes: VerificationCodes) -> None:
    proof = prove(codes)
    assert codes.find_proven_address(prove(codes, BOB), "register") == BOB
    assert_refused(codes, BOB, proof)
    with pytest.raises(InvalidCode):
        codes.check(ALICE, "change_email", CodeOrProof(proof=proof), CALLER)


def test_it_is_redeemed_once_and_its_code_with_it(codes: VerificationCodes) -> None:
    code, proof = code_of(codes), prove(codes)
    redeem(codes, ALICE, CodeOrProof(proof=proof), CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(proof=proof), CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), CALLER)


def test_what_others_do_between_its_check_and_its_use(codes: VerificationCodes) -> None:
    """They use up all tries of its code, which it needs no more; then another request redeems it."""
    code = code_of(codes)
    proof = CodeOrProof(proof=prove(codes))
    row = codes.check(ALICE, "register", proof, CALLER)
    for _try in range(5):
        assert not is_right(codes, ALICE, "register", f"{(int(code) + 1) % 1_000_000:06}", CALLER)
    codes.redeem(codes.check(ALICE, "register", proof, CALLER), proof, CALLER)
    with pytest.raises(InvalidCode) as refused:
        codes.redeem(row, proof, CALLER)
    assert (refused.value.facts["fault"], refused.value.field) == ("proof", "proof")


def test_a_code_that_is_redeemed_meanwhile_proves_nothing(codes: VerificationCodes) -> None:
    code = code_of(codes)

    def redeem_first() -> None:
        redeem(codes, ALICE, CodeOrProof(code), CALLER)

    with meanwhile(codes, "_compare", redeem_first, after=True), pytest.raises(InvalidCode):
        codes.prove(ALICE, "register", code, CALLER)


def test_it_dies_with_its_code(codes: VerificationCodes) -> None:
    proof = prove(codes)
    redeem(codes, ALICE, CodeOrProof(code_of(codes)), CALLER)
    with pytest.raises(InvalidCode):
        codes.check(ALICE, "register", CodeOrProof(proof=proof), CALLER)


def test_a_later_code_leaves_it_alone(codes: VerificationCodes, clock: ManualClock) -> None:
    proof = prove(codes)
    clock.advance(minutes=20)
    prove(codes)
    assert Verification.select().count() == 2
    redeem(codes, ALICE, CodeOrProof(proof=proof), CALLER)


def test_a_wrong_code_proves_nothing_and_is_counted(codes: VerificationCodes) -> None:
    code = code_of(codes)
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    for _try in range(5):
        with pytest.raises(InvalidCode):
            codes.prove(ALICE, "register", wrong, CALLER)
    with pytest.raises(InvalidCode):  # no attempt is left
        codes.prove(ALICE, "register", code, CALLER)


def test_what_is_not_ours_proves_nothing(codes: VerificationCodes) -> None:
    proof = prove(codes)
    token, _dot, ends_at = proof.rpartition(".")
    for forged in (
        "",
        ".",
        "..",
        "1",
        token,
        f"{token}.{int(ends_at) + 1}",
        f"9{proof}",
        f"{token}.x",
        f"{token}.0{ends_at}",
        f"{token}.{''.join(chr(0x660 + int(digit)) for digit in ends_at)}",
        f"{token}.٣",
        "\ud800",
    ):
        assert_refused(codes, ALICE, forged)
