"""Registration: the request to become a user. Checks run from cheap to expensive."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.email_verification import EmailVerification
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.audit import AUTOMATIC, Actor
from regsvc.database.engine import Worker
from regsvc.registration.steps import Application, RegistrationStep
from regsvc.registration.user_creation import NewUser, UserCreation
from regsvc.registration.validation import ApplicationValidator, ValidApplication


@dataclass(frozen=True)
class Registered:
    """A new user. `status` tells whether a review is still to come."""

    username: str
    email: str
    status: str


class Registration:
    """Registration: turns applications into users."""

    def __init__(
        self,
        worker: Worker,
        validator: ApplicationValidator,
        verification: EmailVerification,
        hashing: PasswordHashing,
        users: UserCreation,
        steps: Sequence[RegistrationStep],
    ) -> None:
        """`steps`: conditions beyond the verification code, from cheap to expensive."""
        self._worker = worker
        self._validator = validator
        self._verification = verification
        self._hashing = hashing
        self._users = users
        self._steps = steps

    async def register(self, application: Application, caller: Caller) -> Registered:
        """Create the user. A refusal leaves everything as it was, except for the attempts at a wrong code."""
        valid = self._validator.validate(application)
        with ExitStack() as guards:
            for step in self._steps:
                guards.enter_context(step.guard(valid.application, caller))
            await self._worker.run(self._check, valid)
            stored = None
            if valid.password is not None:
                stored = await self._hashing.hash_in_pool(valid.password, valid.application.username)
            registered = await self._worker.run(self._create_applicant, valid, stored, caller)
        self._verification.wake_deliveries()
        return registered

    def create_user(self, username: str, email: str | None, password: str, by: Actor) -> DecisionResult:
        """Create an approved user from the command line, operators included. Blocking.

        Needs neither a code nor a review. Raises `UsernameTaken` and `EmailTaken`.
        """
        self._validator.check_credentials(username, password)
        address = parse_email(email) if email else None
        stored = self._hashing.hash(password, username)
        return self._worker.run_here(self._create, NewUser(username, address, stored, "created"), by)

    def _check(self, valid: ValidApplication) -> None:
        """Raise `ReservedUsername`, the refusals of the steps and, after an attempt was counted, `InvalidCode`."""
        application = valid.application
        self._validator.check_not_reserved(application.username)
        for step in self._steps:
            step.check(application)
        if not self._verification.is_right(valid.address, "register", application.code):
            raise errors.InvalidCode

    def _create(self, new: NewUser, by: Actor) -> DecisionResult:
        with self._users.transaction(new.key) as colliding:
            user = self._users.approve(self._users.insert(new, colliding, by), by)
        return DecisionResult(new.username, user.status)

    def _create_applicant(self, valid: ValidApplication, stored: StoredPassword | None, caller: Caller) -> Registered:
        application = valid.application
        new = _new_user(application, valid.address, stored, caller)
        with self._users.transaction(new.key) as colliding:
            self._verification.redeem(valid.address, "register", application.code)
            user = self._users.insert(new, colliding, Actor(new.username, new.ip))
            if self._redeem_steps(application, user.id):
                user = self._users.approve(user, AUTOMATIC)
        return Registered(new.username, valid.address.display, user.status)

    def _redeem_steps(self, application: Application, user_id: int) -> bool:
        """Redeem every step. Returns True where none asks for a review."""
        results = [step.redeem(application, user_id) for step in self._steps]
        return all(results)


def _new_user(
    application: Application, address: EmailAddress, stored: StoredPassword | None, caller: Caller
) -> NewUser:
    return NewUser(
        username=application.username,
        address=address,
        password=stored,
        origin="registered",
        platform=application.platform,
        language=application.language,
        ip=caller.address,
    )
