"""Steps and validation of an application: everything that needs no database."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.accounts.email_verification import EmailVerification
from regsvc.auth.address_proofs import NO_CODE_OR_PROOF, CodeOrProof
from regsvc.auth.rate_limits import DurableLimits
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.errors import InvalidField, RegistrationClosed
from regsvc.users.credential_rules import CredentialRules


@dataclass(frozen=True)
class Application:
    """A request to become a user, as received; None: not given.

    `browser_link_tokens`: link tokens from the browser's cookie, newest first.
    """

    username: str
    email: str | None
    code_or_proof: CodeOrProof
    password: str | None = field(repr=False)
    platform: str
    language: str
    captcha: CaptchaProof = NO_PROOF
    questionnaire_token: str | None = field(default=None, repr=False)
    link_token: str | None = field(default=None, repr=False)
    browser_link_tokens: tuple[str, ...] = field(default=(), repr=False)


class RegistrationStep:
    """One condition of a registration. Each method by default asks for nothing."""

    def guard(self, application: Application, caller: Caller) -> AbstractContextManager[object]:
        """Return a context manager around the rest of the registration; entering it may raise a refusal.

        Used on the event loop.
        """
        return nullcontext()

    def check(self, application: Application) -> None:
        """Raise the step's refusal before an attempt at the code is counted. Spends nothing. Blocking."""

    def redeem(self, application: Application, user_id: int) -> bool:
        """Spend the proof on the new user, inside the transaction that creates it. Raises as `check` does. Blocking.

        Returns False where an admin has to review this registration.
        """
        return True


class CaptchaStep(RegistrationStep):
    """Step that asks for a captcha, where the host wants one for registrations."""

    def __init__(self, captchas: Captchas) -> None:
        self._captchas = captchas

    def guard(self, application: Application, caller: Caller) -> AbstractContextManager[object]:
        return self._captchas.guard("register", application.captcha, caller)


class ApprovalStep(RegistrationStep):
    """Step that leaves new users to an admin's review, where the host wants that (`registration.approval`)."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    def redeem(self, application: Application, user_id: int) -> bool:
        return not self._live.current.registration.approval


@dataclass(frozen=True)
class ValidApplication:
    """An application that breaks no rule. `application.username` is the name in the game."""

    application: Application
    proven: EmailAddress | None
    """The address that the code or the proof is of; None where registrations require no code."""
    contact: str | None
    """An address that nothing proves, as typed, where registrations require no code."""
    password: str | None = field(repr=False)
    """The password to keep; None: the user has none yet."""


class ApplicationValidator:
    """Validator of applications against the host's settings and AuthMe's rules."""

    def __init__(self, live: LiveConfig, rules: CredentialRules, email_policy: EmailPolicy) -> None:
        self._live = live
        self._rules = rules
        self._email_policy = email_policy

    def validate(self, application: Application) -> ValidApplication:
        """Return the application with its parsed address, the name as the game has it, and the password to hash.

        Raises `RegistrationClosed`, `InvalidUsername`, `InvalidEmail`, `DomainNotAllowed`, `InvalidField` (a missing
        address or code, or a Bedrock name where Bedrock players are off), `PasswordRequired` and `InvalidPassword`.
        """
        registration = self._live.current.registration
        if registration.requires_code:
            _require_fields(application)
        name = self._rules.name_in_game(application.username, application.platform)
        if not registration.open:
            raise RegistrationClosed
        self._rules.check_username(name, application.platform)
        email = application.email or ""
        address = self._email_policy.parse(email) if registration.requires_code or email else None
        password = self._rules.password_at_registration(application.password, name)
        return ValidApplication(
            replace(application, username=name),
            proven=address if registration.requires_code else None,
            contact=address.display if address is not None and not registration.requires_code else None,
            password=password,
        )

    def check_not_reserved(self, username: str) -> None:
        """Raise `ReservedUsername` for a reserved name. May read ops.json, so it must not run on the event loop."""
        self._rules.check_not_reserved(username)

    def check_credentials(self, username: str, password: str) -> None:
        """Validate a user created by an operator of this machine. Raises `InvalidUsername` and `InvalidPassword`."""
        self._rules.check_username(username)
        self._rules.check_password(password, username)


def _require_fields(application: Application) -> None:
    if application.email is None:
        raise InvalidField("email")
    if application.code_or_proof == NO_CODE_OR_PROOF:
        raise InvalidField("code")


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
