"""Proofs of e-mail addresses: what a right verification code is exchanged for, to be redeemed later.

A proof belongs to the row of its code, so it is bound to one address and one purpose, and it is not stored
(`regsvc.auth.derived_secrets`). Whichever of the two is redeemed first, the other one is used up with it.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from regsvc.auth.derived_secrets import DerivedSecrets, parse_row_id
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidCode, Refusal
from regsvc.database.models import Verification
from regsvc.database.prepared import PreparedQuery, slot

Purpose = Literal["register", "change_email", "unlink"]

PROOF_LIFETIME: Final = timedelta(minutes=60)

_MAX_TIMESTAMP_DIGITS: Final = 10


@dataclass(frozen=True)
class CodeOrProof:
    """Code as typed, or the proof that it was exchanged for: one of them proves an address; None: not given."""

    code: str | None = field(default=None, repr=False)
    proof: str | None = field(default=None, repr=False)


NO_CODE_OR_PROOF: Final = CodeOrProof()


@dataclass(frozen=True)
class AddressProofs:
    """Issues, verifies and redeems proofs; every method runs inside the caller's transaction."""

    secrets: DerivedSecrets
    now: Clock

    def issue(self, row: Verification) -> str:
        """Return a new proof for the row of a code that was right: `<row id>.<mac>.<end, in seconds since 1970>`."""
        ends_at = int((self.now() + PROOF_LIFETIME).timestamp())
        return f"{self._token(row, ends_at)}.{ends_at}"

    def find_address(self, proof: str, purpose: Purpose) -> str:
        """Return the key of the address that is proven. Raises `InvalidCode`."""
        return str(self._find(proof, purpose).email_key)

    def check(self, proof: str, email_key: str, purpose: Purpose) -> None:
        """Raise `InvalidCode` for a proof that is of another address or purpose, expired, redeemed, or not ours."""
        self._require(proof, email_key, purpose)

    def redeem(self, proof: str, email_key: str, purpose: Purpose) -> None:
        """Redeem the proof in the transaction of its effect. Raises as `check` does, also for the loser of a race."""
        row = self._require(proof, email_key, purpose)
        if not _REDEEM.execute(id=row.id, redeemed_at=self.now()):
            raise _invalid()

    def _require(self, proof: str, email_key: str, purpose: Purpose) -> Verification:
        row = self._find(proof, purpose)
        if row.email_key != email_key:
            raise _invalid()
        return row

    def _find(self, proof: str, purpose: Purpose) -> Verification:
        token, _dot, digits = proof.rpartition(".")
        row_id, ends_at = parse_row_id(token), _parse_timestamp(digits)
        row: Verification | None = None if row_id is None else _FIND.first(id=row_id)
        if row is None or ends_at is None or row.purpose != purpose or row.redeemed_at is not None:
            raise _invalid()
        is_ours = self.secrets.is_link_token(token, row.id, row.nonce, _describe(row, ends_at))
        if not is_ours or datetime.fromtimestamp(ends_at, UTC) <= self.now():
            raise _invalid()
        return row

    def _token(self, row: Verification, ends_at: int) -> str:
        return self.secrets.link_token(int(row.id), row.nonce, _describe(row, ends_at))


def _describe(row: Verification, ends_at: int) -> str:
    """Return what the token stands for, beside its row."""
    return f"proof for {row.purpose} until {ends_at}"


def _parse_timestamp(digits: str) -> int | None:
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_TIMESTAMP_DIGITS
    return int(digits) if is_number else None


def _invalid() -> Refusal:
    return InvalidCode("proof", field="proof")


_FIND: Final = PreparedQuery(
    Verification,
    lambda: Verification.select(
        Verification.id,
        Verification.email_key,
        Verification.purpose,
        Verification.nonce,
        Verification.redeemed_at,
    ).where(Verification.id == slot(Verification.id)),
)
_REDEEM: Final = PreparedQuery(
    Verification,
    lambda: Verification.update({Verification.redeemed_at: slot(Verification.redeemed_at)}).where(
        (Verification.id == slot(Verification.id)) & Verification.redeemed_at.is_null()
    ),
)
