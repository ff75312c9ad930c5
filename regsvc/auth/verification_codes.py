"""Verification codes, and the proofs of e-mail addresses that right ones are exchanged for.

A code is bound to one address and one purpose and is not stored (`regsvc.auth.derived_secrets`). Of several rows for
one address and purpose only the newest counts: issuing a new code revokes the earlier one. The client that requested it
last has attempts of its own, so that no other client can use them up; all others share as many.

A proof belongs to the row of its code and is not stored either. Whichever of the two is redeemed first, the other one
is used up with it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Annotated, Any, Final, Literal

from msgspec import Meta
from peewee import fn

from regsvc.auth.derived_secrets import DerivedSecrets, is_same_secret, new_nonce, parse_row_id
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.addresses import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidCode, RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.bulk import PreparedQuery, redate, slot
from regsvc.database.engine import catch_up
from regsvc.database.models import Verification

Code = Annotated[str, Meta(description="The mailed verification code.", examples=["123456"])]
Proof = Annotated[
    str,
    Meta(
        description="What `POST /api/verify/check` gave in exchange for a code.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8.1790003600"],
    ),
]
CodeProof = Annotated[Proof, Meta(description="In place of the code.")]

Purpose = Literal["register", "change_email", "unlink"]

MAX_AGE: Final = timedelta(minutes=15)
"""Longest lifetime of a code since it was requested, however slow the mail server was."""

PROOF_LIFETIME: Final = timedelta(minutes=60)

_GUESSES: Final = "code.network"
_WRONG: Final = "code.wrong"
"""Wrong codes of a client for an address, which only it typed: what they tell it does not depend on any code."""
_MAX_TIMESTAMP_DIGITS: Final = 10


@dataclass(frozen=True)
class CodeOrProof:
    """Code as typed, or the proof that it was exchanged for: one of them proves an address; None: not given."""

    code: str | None = field(default=None, repr=False)
    proof: str | None = field(default=None, repr=False)


NO_CODE_OR_PROOF: Final = CodeOrProof()


class VerificationCodes:
    """Issues, checks and redeems codes and proofs; every method runs inside the caller's transaction."""

    def __init__(
        self,
        secrets: DerivedSecrets,
        now: Clock,
        *,
        valid: timedelta,
        max_tries: int,
        digits: int,
        guesses: Sequence[RateLimit] = (),
    ) -> None:
        """`valid`: how long a code lives from the moment the mail server accepts the mail, whatever the address.

        `guesses`: limits of wrong codes per network, kept in memory. A wrong code counts once it was compared: of
        several at once, as many more are compared as there are threads.
        """
        self.valid = valid
        self._secrets = secrets
        self._now = now
        self._max_tries = max_tries
        self._digits = digits
        self._limits, self._guesses, self._lock = MemoryLimits(now), guesses, Lock()

    def issue(self, email_key: str, purpose: Purpose, caller: Caller) -> int:
        """Return the id of the row whose code is to be mailed to the caller.

        While a code is active, its row is returned again, with the attempts used up so far; otherwise, and if they are
        all used up, a new one.
        """
        active, client = self._find_active(email_key, purpose), caller.limit_key
        own = _WRONG, f"{email_key} {purpose} {client}"
        with self._lock:
            if self._limits.hits_of(*own).get(MAX_AGE, 0) >= self._max_tries:
                self._limits.clear(*own)
        if active is None or self._is_exhausted(active):
            if active is not None:  # others had attempts left, and `redeem` looks for no newer row
                _update(active.id, {Verification.other_tries: self._max_tries})
            values = {"email_key": email_key, "purpose": purpose, "nonce": new_nonce(), "client": client}
            return int(Verification.insert(**values, created_at=self._now()).execute())
        # the new mail restarts the lifetime, otherwise it might deliver a code about to expire
        _update(active.id, {Verification.handed_over_at: None, Verification.client: client})
        return int(active.id)

    def was_requested_by(self, email_key: str, purpose: Purpose, caller: Caller) -> bool:
        """Return whether this client was the last to request the code, which need not be active any more."""
        newest = _find_newest(email_key, purpose)
        return newest is not None and bool(newest.client == caller.limit_key)

    def check(self, email_key: str, purpose: Purpose, given: CodeOrProof, caller: Caller) -> Verification:
        """Return the row for `redeem`. Raises `InvalidCode` unless the code or proof can be redeemed now.

        Raises `RateLimited` after too many guesses. A wrong code costs an attempt, which a refusal must not roll back:
        this comes before the transaction that redeems, and not inside of it.
        """
        if given.proof is not None:
            return self._require_proof(given.proof, email_key, purpose)
        return self._compare(email_key, purpose, given.code or "", caller)

    def redeem(self, row: Verification, given: CodeOrProof, caller: Caller, *, at: datetime | None = None) -> None:
        """Redeem what `check` has returned the row of, in the transaction of its effect.

        Raises `InvalidCode` for a race's loser, and for a code whose attempts were used up meanwhile. `at`: the moment
        of the effect, by which `find_redemption` tells what the code was spent on; None: now.
        """
        changes: dict[Any, object] = {Verification.redeemed_at: at or self._now()}
        if given.proof is not None:
            if not _update(row.id, changes, Verification.redeemed_at.is_null()):
                raise InvalidCode("proof", field="proof")
        elif not _update(row.id, changes, self._is_left(row, caller)):
            raise InvalidCode

    def find_redemption(self, email_key: str, purpose: Purpose, given: CodeOrProof, caller: Caller) -> datetime | None:
        """Return when this code or proof was redeemed, for a request repeated because its reply was lost.

        None if it is wrong, was not redeemed, or longer ago than a proof lives. Attempts are counted as in `check`, and
        for a code that expired unused as well: that one was redeemed, and so that there is a user, must not show.
        """
        row = _find_newest(email_key, purpose) if given.proof is None else _row_of_proof(given.proof)
        if row is None or (row.email_key, row.purpose) != (email_key, purpose) or self._is_active(row):
            return None
        if given.proof is not None:
            is_right = self._is_own_proof(given.proof, row)
        else:
            is_right = self._is_right(row, given.code or "", caller)
        is_recent = row.redeemed_at is not None and row.redeemed_at > self._now() - PROOF_LIFETIME
        return row.redeemed_at if is_right and is_recent else None

    def prove(self, email_key: str, purpose: Purpose, code: str, caller: Caller) -> str:
        """Return a proof of the address in exchange for its code, which stays valid. Counts and raises as `check` does.

        It reads `<row id>.<mac>.<end, in seconds since 1970>`.
        """
        row = self._compare(email_key, purpose, code, caller)
        if not _update(row.id, {Verification.tries: Verification.tries}, self._is_left(row, caller)):
            raise InvalidCode  # as in `redeem`
        ends_at = int((self._now() + PROOF_LIFETIME).timestamp())
        return f"{self._secrets.link_token(int(row.id), row.nonce, _describe_proof(row, ends_at))}.{ends_at}"

    def find_proven_address(self, proof: str, purpose: Purpose) -> str:
        """Return the key of the address that is proven. Raises `InvalidCode`."""
        return str(self._find_proof(proof, purpose).email_key)

    def mark_sent(self, row_id: int) -> None:
        """Record that a mail server has accepted the mail with this code, or in its place: its lifetime starts now."""
        _update(row_id, {Verification.handed_over_at: self._now()})

    def find_sendable(self, row_id: int) -> Verification | None:
        """Return the row if its code is worth mailing; None when it is used, exhausted, expired or replaced."""
        row: Verification | None = _FIND_UNREPLACED.first(id=row_id)
        return row if row is not None and self._is_active(row) and not self._is_exhausted(row) else None

    def code_of(self, row: Verification) -> str:
        """Return the row's code, derived anew each time."""
        return self._secrets.code(row.purpose, row.id, row.nonce, row.email_key, self._digits)

    def purge_expired(self) -> int:
        """Delete the rows whose code has expired, and any proof of it; returns their number."""
        redate(self._now(), Verification.created_at, Verification.handed_over_at)
        redate(self._now(), Verification.handed_over_at)
        is_expired = Verification.created_at < self._now() - MAX_AGE - PROOF_LIFETIME
        return int(Verification.delete().where(is_expired).execute())

    def _find_active(self, email_key: str, purpose: str) -> Verification | None:
        newest = _find_newest(email_key, purpose)
        return newest if newest is not None and self._is_active(newest) else None

    def _is_active(self, row: Verification) -> bool:
        """Return whether the code of this row, the newest of its address, can be redeemed."""
        expires_at = row.created_at + MAX_AGE
        if row.handed_over_at is not None:
            expires_at = min(expires_at, row.handed_over_at + self.valid)
        return row.redeemed_at is None and bool(expires_at > self._now())

    def _is_exhausted(self, row: Verification) -> bool:
        """Return whether the client that asked last has used up its attempts."""
        return bool(row.tries >= self._max_tries)

    def _is_left(self, row: Verification, caller: Caller) -> Any:
        """Return the condition that the code is not redeemed and this client has an attempt left."""
        return (_tries_of(row, caller) < self._max_tries) & Verification.redeemed_at.is_null()

    def _compare(self, email_key: str, purpose: str, code: str, caller: Caller) -> Verification:
        """Return the row of a right code. Raises as `check` does.

        That the attempts are used up is told by the client's own wrong codes: those of the row would tell that another
        client tried as well, or has redeemed it.
        """
        with self._lock:
            self._limits.check(_GUESSES, caller.network_key, self._guesses)
        row = self._find_active(email_key, purpose)
        is_code = row is not None and is_same_secret(code.strip(), self.code_of(row))
        if not is_code and catch_up(Verification._meta.database):  # another node of a cluster may have made a newer one
            row = self._find_active(email_key, purpose)
        if row is not None and self._is_right(row, code, caller):
            return row
        own = (_WRONG, f"{email_key} {purpose} {caller.limit_key}", (RateLimit(self._max_tries, MAX_AGE),))
        with self._lock:
            for limit in ((_GUESSES, caller.network_key, self._guesses), own):
                with suppress(RateLimited):
                    self._limits.hit(*limit)
            is_last = self._limits.hits_of(*own[:2]).get(MAX_AGE, 0) >= self._max_tries
        # who unlinks types a name, and names without an address would share their tries
        raise InvalidCode("tries_used" if is_last and purpose != "unlink" else None)

    def _is_right(self, row: Verification, code: str, caller: Caller) -> bool:
        """Compare the code if the client has an attempt left; a wrong one costs it, in one statement.

        So parallel wrong ones serialize. A right one is nothing yet: what it is accepted by requires `_is_left` again.
        """
        tries = _tries_of(row, caller)
        if getattr(row, tries.name) >= self._max_tries:
            return False
        if is_same_secret(code.strip(), self.code_of(row)):
            return True
        _update(row.id, {tries: tries + 1}, tries < self._max_tries)
        return False

    def _require_proof(self, proof: str, email_key: str, purpose: Purpose) -> Verification:
        row = self._find_proof(proof, purpose)
        if row.email_key != email_key:
            raise InvalidCode("proof", field="proof")
        return row

    def _find_proof(self, proof: str, purpose: Purpose) -> Verification:
        """Return the row of a proof. Raises `InvalidCode` for one that is expired, redeemed, or not ours."""
        row = _row_of_proof(proof)
        if row is None or row.purpose != purpose or row.redeemed_at is not None or not self._is_own_proof(proof, row):
            raise InvalidCode("proof", field="proof")
        return row

    def _is_own_proof(self, proof: str, row: Verification) -> bool:
        """Whether this is a proof of the row that has not expired."""
        token, _dot, digits = proof.rpartition(".")
        ends_at = _parse_timestamp(digits)
        if ends_at is None or not self._secrets.is_link_token(token, row.id, row.nonce, _describe_proof(row, ends_at)):
            return False
        return datetime.fromtimestamp(ends_at, UTC) > self._now()


def _find_newest(email_key: str, purpose: str) -> Verification | None:
    newest: Verification | None = _FIND_NEWEST.first(email_key=email_key, purpose=purpose)
    return newest


def _unreplaced() -> Any:
    """Return the query for the row of an id, unless its address has a newer one."""
    newer = Verification.alias()
    is_newer = (newer.id > Verification.id) & (newer.purpose == Verification.purpose)
    has_newer = newer.select(newer.id).where(newer.email_key == Verification.email_key, is_newer)
    return Verification.select().where(Verification.id == slot(Verification.id), ~fn.EXISTS(has_newer))


_FIND_UNREPLACED: Final = PreparedQuery(Verification, _unreplaced)
_FIND_NEWEST: Final = PreparedQuery(
    Verification,
    lambda: (
        Verification.select()
        .where(
            Verification.email_key == slot(Verification.email_key), Verification.purpose == slot(Verification.purpose)
        )
        .order_by(Verification.id.desc())
        .limit(1)
    ),
)


def _row_of_proof(proof: str) -> Verification | None:
    row_id = parse_row_id(proof.rpartition(".")[0])
    row: Verification | None = None if row_id is None else Verification.get_or_none(Verification.id == row_id)
    return row


def proven_at(proof: str) -> datetime:
    """Return when a valid proof was given for its code."""
    ends_at = _parse_timestamp(proof.rpartition(".")[2])
    assert ends_at is not None, "the proof is valid"
    return datetime.fromtimestamp(ends_at, UTC) - PROOF_LIFETIME


def _describe_proof(row: Verification, ends_at: int) -> str:
    """Return what the token stands for, beside its row."""
    return f"proof for {row.purpose} until {ends_at}"


def _parse_timestamp(digits: str) -> int | None:
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_TIMESTAMP_DIGITS
    return int(digits) if is_number else None


def _tries_of(row: Verification, caller: Caller) -> Any:
    """Return the column that counts the wrong attempts of this client."""
    return Verification.tries if row.client == caller.limit_key else Verification.other_tries


def _update(row_id: int, changes: dict[Any, object], *conditions: object) -> bool:
    """Change the row if it meets the conditions; returns whether it did."""
    return bool(Verification.update(changes).where(Verification.id == row_id, *conditions).execute())
