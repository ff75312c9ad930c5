"""Registration: the request to become a user. Checks run from cheap to expensive."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from regsvc.accounts.decisions import DecisionResult
from regsvc.auth.derived_secrets import ApplicationTokens
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.core.caller import Caller
from regsvc.core.email_address import parse_email
from regsvc.database.audit import AUTOMATIC, Actor
from regsvc.database.engine import Worker
from regsvc.registration.user_creation import NewUser, UserCreation
from regsvc.registration.validation import (
    ApplicantProof,
    Application,
    ApplicationValidator,
    RegistrationStep,
    ValidApplication,
)


@dataclass(frozen=True)
class Registered:
    """A new user. `status` tells whether a review is still to come."""

    username: str
    email: str | None
    status: str
    application_token: str = field(repr=False)


class Registration:
    """Registration: turns applications into users."""

    def __init__(
        self,
        worker: Worker,
        validator: ApplicationValidator,
        proof: ApplicantProof,
        hashing: PasswordHashing,
        users: UserCreation,
        steps: Sequence[RegistrationStep],
        tokens: ApplicationTokens,
        wake: Callable[[], None],
    ) -> None:
        """`steps`: conditions beyond the proof, from cheap to expensive. `wake` delivers committed messages."""
        self._worker = worker
        self._validator = validator
        self._proof = proof
        self._hashing = hashing
        self._users = users
        self._steps = steps
        self._tokens = tokens
        self._wake = wake

    async def register(self, application: Application, caller: Caller) -> Registered:
        """Create the user. A refusal leaves everything as it was, except for the attempts at a wrong code."""
        valid = self._validator.validate(application)
        with ExitStack() as guards:
            for step in self._steps:
                guards.enter_context(step.guard(valid.application, caller))
            await self._worker.run(self._check, valid, caller)
            stored = None
            if valid.password is not None:
                stored = await self._hashing.hash_in_pool(valid.password, valid.application.username)
            registered = await self._worker.run(self._create_applicant, valid, stored, caller)
        self._wake()
        return registered

    def create_user(self, username: str, email: str | None, password: str, by: Actor) -> DecisionResult:
        """Create an approved user from the command line, operators included. Blocking.

        Needs neither a code nor a review. Raises `UsernameTaken` and `EmailTaken`.
        """
        self._validator.check_credentials(username, password)
        address = parse_email(email) if email else None
        stored = self._hashing.hash(password, username)
        return self._worker.run_here(self._create, NewUser(username, address, stored, "created"), by)

    def _check(self, valid: ValidApplication, caller: Caller) -> None:
        """Raise `ReservedUsername`, the refusals of the steps and, last, that of the proof."""
        application = valid.application
        self._validator.check_not_reserved(application.username)
        for step in self._steps:
            step.check(application)
        self._proof.check(valid, caller)

    def _create(self, new: NewUser, by: Actor) -> DecisionResult:
        with self._users.transaction(new.key) as colliding:
            user = self._users.approve(self._users.insert(new, colliding, by), by)
        return DecisionResult(new.username, user.status)

    def _create_applicant(self, valid: ValidApplication, stored: StoredPassword | None, caller: Caller) -> Registered:
        application = valid.application
        new = _new_user(valid, stored, caller)
        with self._users.transaction(new.key) as colliding:
            self._proof.redeem(valid, caller)
            user = self._users.insert(new, colliding, Actor(new.username, new.ip))
            if self._redeem_steps(application, user.id):
                user = self._users.approve(user, AUTOMATIC)
            else:
                self._users.acknowledge(user)
        return Registered(new.username, user.email, user.status, self._tokens.token_of(user))

    def _redeem_steps(self, application: Application, user_id: int) -> bool:
        """Redeem every step. Returns True where none asks for a review."""
        results = [step.redeem(application, user_id) for step in self._steps]
        return all(results)


def _new_user(valid: ValidApplication, stored: StoredPassword | None, caller: Caller) -> NewUser:
    application = valid.application
    return NewUser(
        username=application.username,
        address=valid.proven,
        contact=valid.contact,
        password=stored,
        origin="registered",
        platform=application.platform,
        language=application.language,
        ip=caller.address,
    )
