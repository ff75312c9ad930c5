"""Registering: a code by e-mail, then the request to become a user. Checks run from cheap to dear."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from peewee import Database, IntegrityError

from plugin_bridge.authme.players import Players, PlayersUnavailable
from regsvc.accounts.captcha.captcha import NO_PROOF, CaptchaProof, Captchas
from regsvc.accounts.decisions import DecisionResult
from regsvc.auth.hashing import HashPool, PasswordHashing, StoredPassword
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.verification_codes import Purpose, VerificationCodes
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, EmailPolicy, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.audit import AUTOMATIC, Actor, Audit
from regsvc.database.engine import Worker, violates_unique
from regsvc.database.models import PENDING, REJECTED, UNVERIFIED, User
from regsvc.notifications.mail.limits import MailLimits
from regsvc.notifications.mail.queue import MailQueue
from regsvc.registration.steps import Application, RegistrationStep
from regsvc.sync.reconciler import Reconciler
from regsvc.users.chat_links import find_linked_owner
from regsvc.users.email_owners import claim, find_owner
from regsvc.users.name_rules import InputRules
from regsvc.users.transitions import DecisionDetails, Transitions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _NewUser:
    """A user about to be inserted, as pending."""

    username: str
    address: EmailAddress | None
    password: StoredPassword | None
    platform: str
    language: str | None
    ip: str | None
    origin: str

    @property
    def key(self) -> str:
        return self.username.lower()

    def values(self, moment: datetime) -> dict[str, object]:
        """The columns of the row."""
        address, password = self.address, self.password
        return {
            "username": self.username,
            "username_key": self.key,
            "email": address.display if address else None,
            "email_key": address.key if address else None,
            "is_email_verified": address is not None,
            "status": PENDING,
            "applied_status": PENDING,
            "language": self.language,
            "platform": self.platform,
            "origin": self.origin,
            "registration_ip": self.ip,
            "created_at": moment,
            "password_hash": password.hash if password else None,
            "password_salt": password.salt if password else None,
            "password_algorithm": password.algorithm if password else None,
            "password_set_at": moment if password else None,
        }


@dataclass(frozen=True)
class Registered:
    """Who registered, and whether a review is still to come."""

    username: str
    email: str
    status: str


@dataclass(frozen=True)
class CodeSent:
    """When the next code may be asked for, and how long this one is good for."""

    remaining_seconds: int
    expires_in_seconds: int


@dataclass(frozen=True)
class RegistrationPolicy:
    """What the host wants (section `registration` of the config)."""

    is_open: bool
    needs_approval: bool
    reapply_after: timedelta


class Registration:
    """Issues codes and takes applications."""

    def __init__(
        self,
        *,
        database: Database,
        worker: Worker,
        hash_pool: HashPool,
        hashing: PasswordHashing,
        players: Players,
        reconciler: Reconciler,
        transitions: Transitions,
        codes: VerificationCodes,
        mail_queue: MailQueue,
        limits: DurableLimits,
        mail_limits: MailLimits,
        email_policy: EmailPolicy,
        rules: InputRules,
        policy: RegistrationPolicy,
        captchas: Captchas,
        has_chat: bool,
        steps: Sequence[RegistrationStep],
        audit: Audit,
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._hash_pool = hash_pool
        self._hashing = hashing
        self._players = players
        self._reconciler = reconciler
        self._transitions = transitions
        self._codes = codes
        self._mail_queue = mail_queue
        self._limits = limits
        self._mail_limits = mail_limits
        self._email_policy = email_policy
        self._rules = rules
        self.policy = policy
        self._captchas = captchas
        self._has_chat = has_chat
        self._steps = steps
        self._audit = audit
        self._now = now

    async def send_code(
        self, email: str, purpose: Purpose, caller: Caller, captcha: CaptchaProof = NO_PROOF
    ) -> CodeSent:
        """Mail a code, or to an address that is taken a notice; the answer does not tell which."""
        self._mail_queue.require_available()
        if purpose == "register" and not self.policy.is_open:
            raise errors.RegistrationClosed
        if purpose == "unlink" and not self._has_chat:
            raise errors.NotEnabled
        address = parse_email(email)
        self._email_policy.check(address)
        with self._captchas.guard("verify_send", captcha, caller):
            sent = await self._worker.run(self._issue_code, address, purpose, caller)
        self._mail_queue.wake()
        return sent

    async def register(self, application: Application, caller: Caller) -> Registered:
        """Make the user. A refusal leaves everything as it was, but for the tries of a wrong code."""
        name = self._rules.name_in_game(application.username, application.platform)
        application = replace(application, username=name)
        address, password = self._check(application)
        with self._captchas.guard("register", application.captcha, caller):
            if not await self._worker.run(self._is_proven, application, address):
                raise errors.InvalidCode
            stored = None
            if password is not None:
                stored = await self._hash_pool.run(self._hashing.hash, password, application.username)
            registered = await self._worker.run(self._insert_applicant, application, address, stored, caller)
        self._mail_queue.wake()
        return registered

    def _check(self, application: Application) -> tuple[EmailAddress, str | None]:
        """Everything that needs no database: the address and the password to keep."""
        if not self.policy.is_open:
            raise errors.RegistrationClosed
        self._rules.check_username(application.username, application.platform)
        address = parse_email(application.email)
        self._email_policy.check(address)
        password = self._rules.password_at_registration(application.password, application.username)
        return address, password

    def _issue_code(self, address: EmailAddress, purpose: Purpose, caller: Caller) -> CodeSent:
        with self._database.atomic():
            remaining = self._mail_limits.hit(self._limits, address.key, caller)
            row_id = self._codes.issue(address.key, purpose)  # the same writes, whether it is mailed or not
            if purpose == "unlink":
                self._mail_unlink_code(address, caller, row_id)
            elif (holder := find_owner(address)) is None:
                self._mail_queue.send_verification_code(address, caller.language, row_id)
            else:
                proven = EmailAddress(str(holder.email), address.key)
                self._mail_queue.send_already_registered(proven, caller.language, holder.id)
        return CodeSent(remaining, round(self._codes.valid.total_seconds()))

    def _mail_unlink_code(self, address: EmailAddress, caller: Caller, row_id: int) -> None:
        """To whoever proved this address and has something to unlink; else nothing is mailed."""
        holder = find_linked_owner(address)
        proven = address if holder is None else EmailAddress(str(holder.email), address.key)
        self._mail_queue.send_unlink_code(proven, caller.language, row_id, None if holder is None else holder.id)

    def _is_proven(self, application: Application, address: EmailAddress) -> bool:
        """Whether the code is right. Raises `ReservedUsername` and what the steps refuse, before a try is counted."""
        self._rules.check_not_reserved(application.username)  # may read ops.json, hence not on the loop
        for step in self._steps:
            step.check(application)
        with self._database.atomic():
            return self._codes.verify(address.key, "register", application.code)

    def create_user(self, username: str, email: str | None, password: str, by: Actor) -> DecisionResult:
        """Create an approved user from the command line, operators included. Blocking.

        Neither a code nor a review is needed. Raises `UsernameTaken` and `EmailTaken`.
        """
        self._rules.check_username(username)
        self._rules.check_password(password, username)
        address = parse_email(email) if email else None
        stored = self._hashing.hash(password, username)
        return self._worker.run_here(self._create, username, address, stored, by)

    def _create(self, username: str, address: EmailAddress | None, stored: StoredPassword, by: Actor) -> DecisionResult:
        new = _NewUser(username, address, stored, "java", None, None, "created")
        return DecisionResult(username, self._insert(new, None, by, registered_by=by))

    def _insert_applicant(
        self, application: Application, address: EmailAddress, stored: StoredPassword | None, caller: Caller
    ) -> Registered:
        new = _NewUser(
            application.username,
            address,
            stored,
            application.platform,
            application.language,
            caller.address,
            "registered",
        )
        approved_by = None if self.policy.needs_approval else AUTOMATIC
        return Registered(new.username, address.display, self._insert(new, application, approved_by))

    def _insert(
        self,
        new: _NewUser,
        application: Application | None,
        approved_by: Actor | None,
        registered_by: Actor | None = None,
    ) -> str:
        """The user, and everything that comes with it, in one transaction. Returns the status.

        `application` None: nothing has to be proven; `registered_by` None: the user's own doing.
        """
        try:
            self._players.find_colliding(new.key)  # a busy file is waited for before our own database is held
            with self._database.atomic():
                if application is not None and new.address is not None:
                    self._codes.redeem(new.address.key, "register", application.code)
                user = self._make_user(new, registered_by or Actor(new.username, new.ip))
                if application is not None and not self._redeem_steps(application, user.id):
                    approved_by = None
                if approved_by is not None:
                    user = self._transitions.change(user, "approve", approved_by, DecisionDetails())
                    self._reconciler.request_row(new.key)
                    self._reconciler.reconcile_in_transaction(new.key)
        except IntegrityError as error:
            raise _taken(error) from None
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        self._settle_after(new.key)
        return str(user.status)

    def _redeem_steps(self, application: Application, user_id: int) -> bool:
        """Whether no step wants somebody to look at it."""
        answers = [step.redeem(application, user_id) for step in self._steps]
        return all(answers)

    def _make_user(self, new: _NewUser, by: Actor) -> User:
        keeps_row = self._make_room_for_name(new.key)
        if new.address is not None:
            claim(new.address, self._audit)
        user: User = User.get_by_id(User.insert(new.values(self._now())).execute())
        if keeps_row:
            self._reconciler.inherit_lock(new.key, user.id)
        else:
            self._reconciler.record_registration(new.key, user.id)
        self._transitions.note_registration(user, by)
        return user

    def _settle_after(self, key: str) -> None:
        """The player's row of a user who needed no approval; while AuthMe is away the wish waits for the sync."""
        try:
            self._reconciler.reconcile_after_commit(key)
        except PlayersUnavailable as error:
            log.warning("the player of a new user waits for the sync: %s", error)

    def _make_room_for_name(self, key: str) -> bool:
        """Raises `UsernameTaken`. True: a row stands there that we keep locked, and that stays so."""
        holder = User.get_or_none(User.username_key == key)
        keeps_row = False
        if holder is not None:
            if not self._may_be_replaced(holder):
                raise errors.UsernameTaken
            keeps_row = self._is_strangers_locked_row(key)
            User.delete().where(User.id == holder.id).execute()  # the reviews of it stay
        if not keeps_row and self._players.find_colliding(key) is not None:
            raise errors.UsernameTaken
        return keeps_row

    def _may_be_replaced(self, holder: User) -> bool:
        if holder.status != REJECTED or holder.applied_status != REJECTED or holder.reviewed_at is None:
            return False
        return bool(holder.reviewed_at + self.policy.reapply_after <= self._now())

    def _is_strangers_locked_row(self, key: str) -> bool:
        account = self._reconciler.load_for_update(key)
        return (
            account.player is not None
            and account.player.is_locked
            and account.sync_record is not None
            and account.sync_record.kept_origin == UNVERIFIED
        )


def _taken(error: IntegrityError) -> Refusal:
    """Which unique index said no. Anything else is a bug."""
    if not violates_unique(error):
        raise error
    said = str(error.args[-1] if error.args else error).rpartition("for key")[2]
    return errors.EmailTaken() if "email_key" in said else errors.UsernameTaken()
