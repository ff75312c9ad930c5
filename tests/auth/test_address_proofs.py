"""Proofs of addresses: bound to an address and a purpose, good for an hour and for one use."""

import pytest
from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.errors import InvalidCode
from regsvc.database.models import Verification
from tests.support.mail_parts import CALLER, MailHarness
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
    proof = codes.prove(email_key, "register", code_of(codes, email_key), CALLER)
    assert proof is not None
    return proof


def test_a_proof_lives_for_an_hour_and_longer_than_its_code(codes: VerificationCodes, clock: ManualClock) -> None:
    code = code_of(codes)
    proof = codes.prove(ALICE, "register", code, CALLER)
    assert proof is not None
    clock.advance(minutes=59, seconds=59)
    assert codes.purge_expired() == 0
    assert not codes.verify(ALICE, "register", code, CALLER)
    codes.proofs.check(proof, ALICE, "register")
    assert codes.proofs.find_address(proof, "register") == ALICE
    clock.advance(seconds=1)
    with pytest.raises(InvalidCode):
        codes.proofs.check(proof, ALICE, "register")


def test_it_proves_one_address_for_one_purpose(codes: VerificationCodes) -> None:
    proof = prove(codes)
    prove(codes, BOB)
    with pytest.raises(InvalidCode):
        codes.proofs.check(proof, BOB, "register")
    with pytest.raises(InvalidCode):
        codes.proofs.check(proof, ALICE, "change_email")


def test_it_is_redeemed_once_and_its_code_with_it(codes: VerificationCodes) -> None:
    code, proof = code_of(codes), prove(codes)
    codes.proofs.redeem(proof, ALICE, "register")
    with pytest.raises(InvalidCode):
        codes.proofs.redeem(proof, ALICE, "register")
    with pytest.raises(InvalidCode):
        codes.redeem(ALICE, "register", code, CALLER)


def test_it_dies_with_its_code(codes: VerificationCodes) -> None:
    proof = prove(codes)
    codes.redeem(ALICE, "register", code_of(codes), CALLER)
    with pytest.raises(InvalidCode):
        codes.proofs.check(proof, ALICE, "register")


def test_a_later_code_leaves_it_alone(codes: VerificationCodes, clock: ManualClock) -> None:
    proof = prove(codes)
    clock.advance(minutes=20)
    prove(codes)
    assert Verification.select().count() == 2
    codes.proofs.redeem(proof, ALICE, "register")


def test_a_wrong_code_proves_nothing_and_is_counted(codes: VerificationCodes) -> None:
    code = code_of(codes)
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    for _try in range(5):
        assert codes.prove(ALICE, "register", wrong, CALLER) is None
    assert codes.prove(ALICE, "register", code, CALLER) is None, "no attempt is left"


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
            codes.proofs.check(forged, ALICE, "register")
