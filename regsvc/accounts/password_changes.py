"""Changes of passwords: by the owner, by an admin, and through a link. Hashing stays between transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType
from peewee import Database, IntegrityError

from regsvc.accounts.access import AccountAccess, AccountForUpdate, Warnings
from regsvc.accounts.captcha import CAPTCHA_REFUSALS, NO_PROOF, CaptchaProof, CaptchaProtectedRequest, Captchas
from regsvc.accounts.decisions import (
    DECISION_REFUSALS,
    BulkDecisionReply,
    DecisionReply,
    DecisionResult,
    ReviewRequest,
    apply,
)
from regsvc.accounts.password_checker import PasswordChecker, password_of
from regsvc.auth.entitlement import MadeByRight, Principal
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.auth.password_links import PasswordLinks, link_address, proves_address
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.sessions import KnownClients, Sessions
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.rights import EVERYTHING, Permission
from regsvc.core.shapes import Moment, Username
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker, violates_unique
from regsvc.database.models import ENDED, Link, User
from regsvc.http.messages import Email, MessageReply, Password, Reply, Status, to_reply
from regsvc.http.route import PUBLIC, USER, Routes
from regsvc.notifications.mail.queue import MailLimits, MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.users.credential_rules import CredentialRules, claim, find_holder
from regsvc.users.gates import access_of
from regsvc.users.membership import HAS_ENDED
from regsvc.users.password_notices import PasswordNotices, Place

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_BY_OWNER: Final = ("website", "link", "handed_over")
"""Places where a client poses as the owner, who learns its address."""


@dataclass(frozen=True)
class PasswordChanges:
    """Every way to a new password."""

    worker: Worker
    hashing: PasswordHashing
    checker: PasswordChecker
    rules: CredentialRules
    access: AccountAccess
    reconciler: Reconciler
    sessions: Sessions
    links: PasswordLinks
    made: MadeByRight
    known_clients: KnownClients
    notices: PasswordNotices
    audit: Audit
    now: Clock

    async def change_own(
        self, session: VerifiedSession, current: str, new: str, caller: Caller, *, keeps_session: bool = False
    ) -> DecisionResult:
        """Change the password of a user who knows the current one. `keeps_session`: this session does not end.

        Raises `WrongPassword` (counted as a failed login), `InvalidPassword`, and `Unauthorized` where the session has
        ended meanwhile.
        """
        identity = await self.checker.check_owner(session, current, caller)
        self.rules.check_password(new, session.username, "newPassword")
        stored = await self.hashing.hash_in_pool(new, session.username)
        by = Actor(session.username, caller.address)
        # what ended the sessions meanwhile (an admin's reset, a ban) is the newer decision
        generation = identity.token_generation
        kept = session.jti if keeps_session else None
        owner = session.user_id, session.username
        return await self._set_in_thread(*owner, stored, by, "website", token_generation=generation, kept_session=kept)

    async def set_by_admin(self, username: str, password: str, by: Principal) -> DecisionResult:
        """Set a user's password without the current one.

        Raises `UserNotFound`, `ProtectedOperator` and `InvalidPassword`.
        """
        owner = await self.worker.run(self.access.get_user, username, "password", by)
        self.rules.check_password(password, owner.username)
        stored = await self.hashing.hash_in_pool(password, owner.username)
        return await self._set_in_thread(owner.id, owner.username, stored, by.actor, "operator")

    async def reset(self, token: str, new: str, caller: Caller) -> DecisionResult:
        """Set the password with the token of a link. Failed logins of others no longer delay this client.

        A link that undoes a change gives the account the address to which it was mailed, if it has another one by now.

        Raises `ResetTokenInvalid`, and `InvalidPassword`, which does not spend the link.
        """
        link = await self.worker.run(self.get_link, token)
        owner: User = link.user
        self.rules.check_password(new, owner.username, "newPassword")
        stored = await self.hashing.hash_in_pool(new, owner.username)
        done = await self.worker.run(self._reset, token, link, stored, caller)
        self.notices.mail_queue.wake_all()
        self.checker.forget_failures(owner, caller)
        return done

    def set_here(self, username: str, password: str, by: Actor) -> DecisionResult:
        """Set a password from the command line, on the calling thread."""
        everything = Principal(by, EVERYTHING)
        owner = self.worker.run_here(self.access.get_user, username, "password", everything)
        self.rules.check_password(password, owner.username)
        stored = self.hashing.hash(password, owner.username)
        return self.worker.run_here(self.set, owner.id, owner.username, stored, by, "host")

    async def _set_in_thread(
        self, user_id: int, username: str, stored: StoredPassword, by: Actor, place: Place, **options: Any
    ) -> DecisionResult:
        done = await self.worker.run(self.set, user_id, username, stored, by, place, **options)
        self.notices.mail_queue.wake_all()
        return done

    def set(
        self,
        user_id: int,
        username: str,
        stored: StoredPassword,
        by: Actor,
        place: Place,
        *,
        token_generation: int | None = None,
        kept_session: str | None = None,
        ends_made: bool = False,
        first: Callable[[User], None] = lambda user: None,
    ) -> DecisionResult:
        """Set the password, and let the player's row follow. Blocking.

        It ends every session, except one to be kept, and every link but those that undo a change, and reaches the
        player's row at once, or when the row is unlocked. The user is told, at the address that is theirs by then,
        unless it is their first password.

        `first` runs at the beginning of the transaction; it may change the user's e-mail address, or mark it as
        verified. `place`: where the password is changed. `ends_made`: what the user made by a right ends, too: a
        stranger may have made it.

        `token_generation`: that of the session that asked; raises `Unauthorized` if it has ended meanwhile. Without
        one, raises `UserNotFound` for a user deleted meanwhile. `kept_session`: the `jti` of a session that stays.
        """
        refusal = errors.UserNotFound if token_generation is None else errors.Unauthorized

        def work(locked: AccountForUpdate) -> DecisionResult:
            user = locked.user
            is_ended = token_generation is not None and user.token_generation != token_generation
            if user.id != user_id or is_ended:
                raise refusal
            is_change = password_of(locked.account)[0] is not None
            before = user.email_key
            first(user)
            user.password_hash, user.password_salt = stored.hash, stored.salt
            user.password_algorithm, user.password_set_at = stored.algorithm, self.now()
            changed = [User.password_hash, User.password_salt, User.password_algorithm, User.password_set_at]
            changed += [User.email, User.email_key, User.is_email_verified]
            changes = {field: getattr(user, field.name) for field in changed}
            self.sessions.revoke_all(user.id, changes, kept=kept_session)
            user.token_generation += 1
            self.links.revoke_all(user.id)
            self.audit.record("user.password_changed", by, user.username)
            if is_change:
                self.notices.tell(user, place, by.ip if place in _BY_OWNER else None)
            if ends_made:
                self.made.end_of(user.username, "password_reset", by)
            warnings = self.access.find_warnings("password", locked.account)
            locked.take_user()
            locked.intended = self.reconciler.request_password_write(locked.account)
            if user.email_key != before:
                locked.intended |= self.reconciler.clear_email_conflict(locked.account)
            return DecisionResult(username, user.status, tuple(warnings), has_ended=access_of(user) == ENDED)

        result, warnings = self.access.change(name_key(username), work, reconciles_first=True, if_missing=refusal)
        return replace(result, warnings=tuple(sorted({*result.warnings, *warnings})))

    def get_link(self, token: str) -> Link:
        """Return the link of this token. Raises `ResetTokenInvalid`."""
        link = self.links.find(token)
        if link is None:
            raise errors.ResetTokenInvalid
        return link

    def _reset(self, token: str, link: Link, stored: StoredPassword, caller: Caller) -> DecisionResult:
        owner: User = link.user
        by = Actor(owner.username, caller.address)

        def redeem(user: User) -> None:
            link = self.links.redeem(token)
            self.known_clients.record(user.id, caller.limit_key)
            if link.undoes and user.email_key != link.email_key:
                self._give_back_address(user, link.email_key, by)
            if user.email_key is not None and proves_address(link):
                user.is_email_verified = True

        place: Place = "link" if proves_address(link) else "handed_over"
        try:
            return self.set(owner.id, owner.username, stored, by, place, ends_made=True, first=redeem)
        except IntegrityError as error:  # another request verified the same address at the same time
            if not violates_unique(error):
                raise
            raise errors.ResetTokenInvalid from None

    def _give_back_address(self, user: User, email_key: str, by: Actor) -> None:
        """Give the user the address that they had proven before. Raises `ResetTokenInvalid` if it is another's now."""
        try:
            claim(email_key, self.audit, claimant_id=user.id)
        except errors.EmailTaken:
            raise errors.ResetTokenInvalid from None
        self.notices.mail_queue.send(user, "email_changed")
        user.email = user.email_key = email_key
        self.audit.record("user.email_changed", by, user.username, {"why": "taken back"})


_LINKS_PER_OPERATOR: Final = (RateLimit(30, timedelta(hours=1)),)


class PasswordLinkReply(Reply, frozen=True, kw_only=True):
    """A link that sets the user's password once, until `expiresAt`. It is in this reply only."""

    username: Username
    status: Status
    link: Annotated[str, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: Moment


@dataclass(frozen=True)
class PasswordMails:
    """Links that set a password, mailed or handed over by operators. `base_url` has no trailing slash."""

    database: Database
    worker: Worker
    access: AccountAccess
    links: PasswordLinks
    mail_queue: MailQueue
    mail_limits: MailLimits
    email_policy: EmailPolicy
    rules: CredentialRules
    captchas: Captchas
    limits: DurableLimits
    audit: Audit
    base_url: str
    now: Clock

    def create_link(self, username: str, by: Principal) -> tuple[PasswordLinkReply, bool]:
        """Create a link to hand over, and tell whether it is a team member's; the user's earlier one ends. Blocking.

        Raises `UserNotFound`, `ProtectedOperator`, and `RateLimited` for an operator who makes too many.
        """
        owner = self.access.get_user(username, "password", by)
        with self.database.atomic():
            user = _get_user(owner.id)
            self.access.require_permission(user, "password", by)  # who may have got a rank meanwhile
            if by.username:
                self.limits.hit("password_link.operator", name_key(by.username), _LINKS_PER_OPERATOR)
            origin = by.origin(self.now())
            link = self.links.issue_for_handover(user.id, by.actor.name, origin, by.ends_at)
            self.audit.record("user.password_link_created", by.actor, user.username)
        address = link_address(self.base_url, self.links.token_of(link))
        expires_at = link.expires_at
        reply = PasswordLinkReply(username=user.username, status=user.status, link=address, expires_at=expires_at)
        return reply, self.access.has_rank(user)

    async def mail_link(self, username: str, by: Principal) -> DecisionResult:
        """Mail a user a link to choose a password, for an admin.

        Raises `MailUnavailable`, `UserNotFound`, `ProtectedOperator`, and `PasswordRequired` for a user without an
        e-mail address.
        """
        self.mail_queue.require_available()
        result = await self.worker.run(self._mail_link, username, by)
        self.mail_queue.wake_all()
        return result

    async def forgot(self, email: str, caller: Caller, captcha: CaptchaProof = NO_PROOF) -> None:
        """Mail a link to the user with this address, if there is one; the reply does not tell.

        Raises `MailUnavailable`, `InvalidEmail`, `RateLimited` and the captcha's refusals.
        """
        self.mail_queue.require_available()
        address = self.email_policy.parse_mailable(email)
        with self.captchas.guard("forgot", captcha, caller):
            await self.worker.run(self._forgot, address, caller)
        self.mail_queue.wake_all()

    def _mail_link(self, username: str, by: Principal) -> DecisionResult:
        owner = self.access.get_user(username, "password", by)
        with self.database.atomic():
            user = _get_user(owner.id)
            if user.email_key is None:
                raise errors.PasswordRequired
            self.mail_queue.send(user, "password_link")
        return DecisionResult(user.username, user.status)

    def _forgot(self, address: EmailAddress, caller: Caller) -> None:
        with self.database.atomic():
            user = find_holder(address.key)
            # to the mailbox on record: one that differs in case may be another person's
            to = EmailAddress(str(user.email), address.key) if user else address
            # an address in AuthMe's table proves nothing, and an operator's account is worth stealing
            is_known = user is not None and (
                user.is_email_verified or not (user.role or self.rules.is_operator(user.username))
            )
            may_mail = self.mail_limits.may_mail(address.mailbox, caller, is_known=is_known)
            user_id = user.id if user and may_mail else None
            self.mail_queue.send_to(to, caller.language, "reset_password", user_id=user_id)


def _get_user(user_id: int) -> User:
    """Return the user, whom another request may have deleted meanwhile. Raises `UserNotFound`."""
    user: User | None = User.get_or_none(User.id == user_id)
    if user is None:
        raise errors.UserNotFound
    return user


PasswordLinkToken = Annotated[str, Meta(description="The part of the link after the #.", examples=["7.c2VjcmV0"])]


class ChangePasswordReply(Reply, frozen=True, kw_only=True):
    """The password was changed, and sessions have ended."""

    warnings: Warnings


class ResetPasswordReply(Reply, frozen=True, kw_only=True):
    """The user whose password was set."""

    username: Username
    status: Status
    has_ended: Annotated[bool, HAS_ENDED] | UnsetType = UNSET
    warnings: Warnings


CHANGE_REFUSALS: Final = (errors.WrongPassword, errors.InvalidPassword, errors.RateLimited, errors.AuthMeUnavailable)


@ROUTES.add("POST", "/api/user/password", USER, *CHANGE_REFUSALS)
async def change_password(
    call: Call, password_changes: PasswordChanges, *, current_password: Password, new_password: Password
) -> ChangePasswordReply:
    """Change your own password. This ends all of your sessions."""
    decided = await password_changes.change_own(call.require_session(), current_password, new_password, call.caller)
    return to_reply(ChangePasswordReply, decided, message=call.message("password_changed"))


FORGOT_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    *CAPTCHA_REFUSALS,
    errors.MailUnavailable,
)


@ROUTES.add("POST", "/api/password/forgot", PUBLIC, *FORGOT_REFUSALS)
async def forgot_password(
    call: Call, password_mails: PasswordMails, request: CaptchaProtectedRequest, *, email: Email
) -> MessageReply:
    """Mail a link to set a new password. The response does not reveal whether the address has an account."""
    await password_mails.forgot(email, call.caller, request.captcha)
    return MessageReply(message=call.message("forgot_sent"))


@ROUTES.add("POST", "/api/password/link", PUBLIC, errors.ResetTokenInvalid)
async def check_link(call: Call, password_changes: PasswordChanges, *, token: PasswordLinkToken) -> Reply:
    """Tell whether a link can set a password, and leave it as it is: a used one is refused."""
    await call.run(password_changes.get_link, token)
    return Reply()


@ROUTES.add("POST", "/api/password/reset", PUBLIC, errors.ResetTokenInvalid, errors.InvalidPassword)
async def reset_password(
    call: Call, password_changes: PasswordChanges, *, token: PasswordLinkToken, new_password: Password
) -> ResetPasswordReply:
    """Set a password with the token of a link. This ends all of the user's sessions."""
    decided = await password_changes.reset(token, new_password, call.caller)
    assert decided.status is not None  # only deleted users have none
    return ResetPasswordReply(
        message=call.message("password_set"),
        username=decided.username,
        status=decided.status,
        has_ended=decided.has_ended or UNSET,
        warnings=decided.warnings,
    )


@ROUTES.add(
    "POST",
    "/api/admin/user/password",
    Permission.USERS_MANAGE,
    *DECISION_REFUSALS,
    errors.InvalidPassword,
    errors.PasswordRequired,
    errors.MailUnavailable,
)
async def set_password(
    call: Call,
    password_changes: PasswordChanges,
    password_mails: PasswordMails,
    mails: MailQueue,
    request: ReviewRequest,
    *,
    password: Password | None = None,
) -> DecisionReply | BulkDecisionReply:
    """Set a user's password, or mail the user a link to set one. A new password ends all of their sessions.

    SetPasswordRequest: A new password; without one, a link to set a password is mailed.
    """
    by = call.principal
    if password is None:
        mail_link = partial(password_mails.mail_link, by=by)
        return await apply(call, mails, request, mail_link, "reset_link_sent")
    decide = partial(password_changes.set_by_admin, password=password, by=by)
    kept = "player_password_kept"  # by a row that stays locked
    return await apply(
        call, mails, request, decide, lambda it: "player_password_set" if it.status == "approved" else kept
    )
