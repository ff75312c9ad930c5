"""Validation of an application: everything that needs no database."""

from dataclasses import dataclass, field, replace

from regsvc.auth.address_proofs import NO_CODE_OR_PROOF
from regsvc.config.live import LiveConfig
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.errors import InvalidField, RegistrationClosed
from regsvc.registration.steps import Application
from regsvc.users.credential_rules import CredentialRules


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
