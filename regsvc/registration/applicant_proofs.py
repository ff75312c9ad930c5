"""Proofs of applicants: a code sent by e-mail, or without one a limit per client."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from regsvc.accounts.email_verification import EmailVerification
from regsvc.auth.rate_limits import DurableLimits
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress
from regsvc.registration.validation import ValidApplication

_SCOPE: Final = "registration.client"


class ApplicantProof(ABC):
    """Interface of the proofs; `registration.methods` says which one is required. Blocking."""

    @abstractmethod
    def check(self, valid: ValidApplication, caller: Caller) -> None:
        """Raise the refusal of an application that cannot succeed; may count an attempt."""

    @abstractmethod
    def redeem(self, valid: ValidApplication, caller: Caller) -> None:
        """Spend the proof inside the transaction that creates the user. Raises as `check` does."""


@dataclass(frozen=True)
class MailedCode(ApplicantProof):
    """Proof of an e-mail address by a code sent to it, or by what a right code was exchanged for."""

    verification: EmailVerification

    def check(self, valid: ValidApplication, caller: Caller) -> None:
        """Raise `InvalidCode`, after an attempt at a code was counted, or `RateLimited`."""
        self.verification.check(_address_of(valid), "register", valid.application.code_or_proof, caller)

    def redeem(self, valid: ValidApplication, caller: Caller) -> None:
        self.verification.redeem(_address_of(valid), "register", valid.application.code_or_proof, caller)


@dataclass(frozen=True)
class ClientLimit(ApplicantProof):
    """Limit of registrations per client, where nothing is proven. Refused registrations are not counted."""

    limits: DurableLimits
    live: LiveConfig

    def check(self, valid: ValidApplication, caller: Caller) -> None:
        """Raise `RateLimited`, so that no password is hashed in vain."""
        rates = self.live.current.registration.limits_per_client
        if (seconds := self.limits.remaining_seconds(_SCOPE, caller.network_key, rates)) > 0:
            raise errors.RateLimited(seconds)

    def redeem(self, valid: ValidApplication, caller: Caller) -> None:
        self.limits.hit(_SCOPE, caller.network_key, self.live.current.registration.limits_per_client)


def _address_of(valid: ValidApplication) -> EmailAddress:
    assert valid.proven is not None  # the validator refuses an application without an address where a code is required
    return valid.proven
