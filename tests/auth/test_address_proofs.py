"""Proofs of addresses: bound to an address and a purpose, good for an hour and for one use."""

import pytest
from peewee import Database

from regsvc.auth.verification_codes import CodeOrProof, VerificationCodes
from regsvc.core.errors import InvalidCode
from regsvc.database.models import Verification
from tests.support.mail_parts import CALLER, MailHarness, is_right, redeem
from tests.support.manual_clock import ManualClock

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


def test_a_proof_lives_for_an_hour_and_longer_than_its_code(codes: VerificationCodes, clock: ManualClock) -> None:
    code = code_of(codes)
    proof = codes.prove(ALICE, "register", code, CALLER)
    clock.advance(minutes=59, seconds=59)
    assert codes.purge_expired() == 0
    assert not is_right(codes, ALICE, "register", code, CALLER)
    codes.check(ALICE, "register", CodeOrProof(proof=proof), CALLER)
    assert codes.find_proven_address(proof, "register") == ALICE
    clock.advance(seconds=1)
    with pytest.raises(InvalidCode):
        codes.check(ALICE, "register", CodeOrProof(proof=proof), CALLER)


def test_it_proves_one_address_for_one_purpose(codes: VerificationCodes) -> None:
    proof = prove(codes)
    prove(codes, BOB)
    with pytest.raises(InvalidCode):
        codes.check(BOB, "register", CodeOrProof(proof=proof), CALLER)
    with pytest.raises(InvalidCode):
        codes.check(ALICE, "change_email", CodeOrProof(proof=proof), CALLER)


def test_it_is_redeemed_once_and_its_code_with_it(codes: VerificationCodes) -> None:
    code, proof = code_of(codes), prove(codes)
    redeem(codes, ALICE, CodeOrProof(proof=proof), CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(proof=proof), CALLER)
    with pytest.raises(InvalidCode):
        redeem(codes, ALICE, CodeOrProof(code), CALLER)


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
        f"{token}.٣",
        "\ud800",
    ):
        with pytest.raises(InvalidCode):
            codes.check(ALICE, "register", CodeOrProof(proof=forged), CALLER)
