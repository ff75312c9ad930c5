"""Verification codes: proof that a user reads the mailbox of an e-mail address.

A code is bound to one address and one purpose and is not stored (`regsvc.auth.derived_secrets`). Of several rows for
one address and purpose only the newest counts: issuing a new code revokes the earlier one. The client that requested it
last has attempts of its own, so that no other client can use them up; all others share as many.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from peewee import Field

from regsvc.auth.address_proofs import PROOF_LIFETIME, AddressProofs, CodeOrProof, Purpose
from regsvc.auth.derived_secrets import DerivedSecrets, is_same_secret, new_nonce
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidCode, RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import Verification
from regsvc.database.prepared import PreparedQuery, prepare_insert, slot

_SCOPE: Final = "code.network"


class GuessLimits:
    """Limits of wrong codes per network, in memory. Safe from any thread.

    A wrong code counts once it was compared: of several at once, as many more are compared as there are threads.
    """

    def __init__(self, limits: MemoryLimits, per_network: Sequence[RateLimit]) -> None:
        self._limits = limits
        self._per_network = per_network
        self._lock = Lock()

    def check(self, caller: Caller) -> None:
        """Raise `RateLimited` if the caller's network has shown too many wrong codes."""
        with self._lock:
            self._limits.check(_SCOPE, caller.network_key, self._per_network)

    def count(self, caller: Caller) -> None:
        """Count a wrong code."""
        with self._lock, suppress(RateLimited):
            self._limits.hit(_SCOPE, caller.network_key, self._per_network)


MAX_AGE: Final = timedelta(minutes=15)
"""Longest lifetime of a code since it was requested, however slow the mail server was."""


class VerificationCodes:
    """Issues, verifies and redeems codes; every method runs inside the caller's transaction.

    `valid` runs from the moment the mail server accepts the mail.
    """

    def __init__(
        self,
        secrets: DerivedSecrets,
        now: Clock,
        guesses: GuessLimits,
        *,
        valid: timedelta,
        max_tries: int,
        digits: int,
    ) -> None:
        self._secrets = secrets
        self._now = now
        self._guesses = guesses
        self._valid = valid
        self._max_tries = max_tries
        self._digits = digits
        self.proofs = AddressProofs(secrets, now)

    @property
    def valid(self) -> timedelta:
        """Validity of a code from the moment it was sent; it does not depend on the address."""
        return self._valid

    def issue(self, email_key: str, purpose: Purpose, caller: Caller) -> int:
        """Return the id of the row whose code is to be mailed to the caller.

        While a code is active, its row is returned again, with the attempts used up so far; otherwise, and if they are
        all used up, a new one.
        """
        active, client = self._find_active(email_key, purpose), caller.limit_key
        if active is None or self._is_exhausted(active):
            return _INSERT.insert(
                email_key=email_key, purpose=purpose, nonce=new_nonce(), client=client, created_at=self._now()
            )
        # the new mail restarts the lifetime, otherwise it might deliver a code about to expire
        _ISSUE_AGAIN.execute(id=active.id, handed_over_at=None, client=client)
        return int(active.id)

    def verify_either(self, email_key: str, purpose: Purpose, given: CodeOrProof, caller: Caller) -> bool:
        """Return whether the code can be redeemed now, as `verify` does; raises `InvalidCode` unless the proof can."""
        if given.proof is None:
            return self.verify(email_key, purpose, _typed(given), caller)
        self.proofs.check(given.proof, email_key, purpose)
        return True

    def redeem_either(self, email_key: str, purpose: Purpose, given: CodeOrProof, caller: Caller) -> None:
        """Redeem the code or the proof in the transaction of its effect; `verify_either` must come first.

        Raises `InvalidCode`.
        """
        if given.proof is None:
            self.redeem(email_key, purpose, _typed(given), caller)
        else:
            self.proofs.redeem(given.proof, email_key, purpose)

    def verify(self, email_key: str, purpose: Purpose, code: str, caller: Caller) -> bool:
        """Return whether this code can be redeemed now. False: wrong, used, expired, never sent, or too many attempts.

        The attempt is counted before the code is compared; a correct code gives it back. Call it in a transaction of
        its own that commits whatever the result, before the one that redeems. Raises `RateLimited`.
        """
        self._guesses.check(caller)
        row = self._find_active(email_key, purpose)
        is_right = row is not None and self._compare(row, code, _ATTEMPTS[row.client == caller.limit_key])
        if not is_right:
            self._guesses.count(caller)
        return is_right

    def redeem(self, email_key: str, purpose: Purpose, code: str, caller: Caller) -> None:
        """Redeem the code in the transaction of its effect. Raises `InvalidCode`, also for the loser of a race.

        Counts no attempt, since a refusal rolls the transaction back: call `verify` first.
        """
        row = self._find_active(email_key, purpose)
        if row is None or not is_same_secret(code, self.code_of(row)):
            raise InvalidCode
        redeem = _ATTEMPTS[row.client == caller.limit_key].redeem
        if not redeem.execute(id=row.id, redeemed_at=self._now(), max_tries=self._max_tries):
            raise InvalidCode

    def prove(self, email_key: str, purpose: Purpose, code: str, caller: Caller) -> str | None:
        """Return a proof of the address in exchange for its code, or None. Counts and raises as `verify` does."""
        if not self.verify(email_key, purpose, code, caller):
            return None
        row = self._find_active(email_key, purpose)
        return None if row is None else self.proofs.issue(row)

    def mark_sent(self, row_id: int) -> None:
        """Record that a mail server has accepted the mail with this code: its lifetime starts now."""
        _MARK_SENT.execute(id=row_id, handed_over_at=self._now())

    def find_sendable(self, row_id: int) -> Verification | None:
        """Return the row if its code is worth mailing; None when it is used, exhausted, expired or replaced."""
        row = _FIND_BY_ID.first(id=row_id)
        if row is None:
            return None
        active = self._find_active(row.email_key, row.purpose)
        return active if active is not None and active.id == row_id and not self._is_exhausted(active) else None

    def code_of(self, row: Verification) -> str:
        """Return the row's code, derived anew each time."""
        return self._secrets.code(row.purpose, row.id, row.nonce, row.email_key, self._digits)

    def purge_expired(self) -> int:
        """Delete the rows whose code has expired, and any proof of it; returns their number."""
        is_expired = Verification.created_at < self._now() - MAX_AGE - PROOF_LIFETIME
        return int(Verification.delete().where(is_expired).execute())

    def _find_active(self, email_key: str, purpose: str) -> Verification | None:
        newest: Verification | None = _FIND_NEWEST.first(email_key=email_key, purpose=purpose)
        if newest is None or newest.redeemed_at is not None or self._expires_at(newest) <= self._now():
            return None
        return newest

    def _expires_at(self, row: Verification) -> datetime:
        latest: datetime = row.created_at + MAX_AGE
        if row.handed_over_at is None:
            return latest
        handed_over_at: datetime = row.handed_over_at
        return min(latest, handed_over_at + self._valid)

    def _is_exhausted(self, row: Verification) -> bool:
        """Return whether the client that asked last has used up its attempts."""
        return bool(row.tries >= self._max_tries)

    def _compare(self, row: Verification, code: str, attempts: "_Attempts") -> bool:
        """Compare the code if an attempt is left. Counted in one statement, so that parallel attempts serialize."""
        if not attempts.count.execute(id=row.id, max_tries=self._max_tries):
            return False
        if not is_same_secret(code, self.code_of(row)):
            return False
        attempts.give_back.execute(id=row.id)
        return True


def _typed(given: CodeOrProof) -> str:
    return (given.code or "").strip()


_INSERT: Final = prepare_insert(
    Verification,
    Verification.email_key,
    Verification.purpose,
    Verification.nonce,
    Verification.client,
    Verification.created_at,
)
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

_FIND_BY_ID: Final = PreparedQuery(
    Verification,
    lambda: Verification.select(Verification.email_key, Verification.purpose).where(
        Verification.id == slot(Verification.id)
    ),
)


def _prepare_update(changes: dict[Field, object], if_below: Field | None = None) -> PreparedQuery:
    """Prepare an update of one row; `if_below`: unless it was redeemed or this number of attempts is used up."""
    condition = Verification.id == slot(Verification.id)
    if if_below is not None:
        condition &= (if_below < slot(if_below, "max_tries")) & Verification.redeemed_at.is_null()
    return PreparedQuery(Verification, lambda: Verification.update(changes).where(condition))


class _Attempts:
    """Queries on the attempts of one kind of clients."""

    def __init__(self, tries: Field) -> None:
        self.count = _prepare_update({tries: tries + 1}, if_below=tries)
        self.give_back = _prepare_update({tries: tries - 1})
        self.redeem = _prepare_update({Verification.redeemed_at: slot(Verification.redeemed_at)}, if_below=tries)


_ATTEMPTS: Final = {True: _Attempts(Verification.tries), False: _Attempts(Verification.other_tries)}
"""By whether the client is the one that asked last."""

_MARK_SENT: Final = _prepare_update({Verification.handed_over_at: slot(Verification.handed_over_at)})
_ISSUE_AGAIN: Final = _prepare_update(
    {Verification.handed_over_at: slot(Verification.handed_over_at), Verification.client: slot(Verification.client)}
)
