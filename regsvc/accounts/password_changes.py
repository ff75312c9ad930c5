"""Setting passwords: the owner's own, by an admin, and by a mailed link. Hashing stays between two transactions."""

from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.decisions import Accounts, DecisionResult, PasswordOwner, Principal
from regsvc.accounts.login import Logins
from regsvc.auth.hashing import HashPool, PasswordHashing, StoredPassword
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.rate_limits import DurableLimits
from regsvc.core import errors
from regsvc.core.caller import Caller, Session
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.notifications.mail.limits import MailLimits
from regsvc.notifications.mail.queue import MailQueue
from regsvc.users.name_rules import InputRules


@dataclass(frozen=True)
class PasswordChanges:
    """Every way to a new password."""

    database: Database
    worker: Worker
    hash_pool: HashPool
    hashing: PasswordHashing
    accounts: Accounts
    logins: Logins
    links: PasswordLinks
    limits: DurableLimits
    mail_limits: MailLimits
    mail_queue: MailQueue
    rules: InputRules

    async def change_own(self, session: Session, current: str, new: str, caller: Caller) -> DecisionResult:
        """The owner, who knows the current one. Raises `WrongPassword`, counted as a failed login."""
        candidate = await self.logins.check_owner(session, current, caller)
        self.rules.check_password(new, session.username, "newPassword")
        stored = await self._hash(new, session.username)
        owner = PasswordOwner(session.user_id, session.username, session.username.lower())
        by = Actor(session.username, caller.address)
        # whatever ended the sessions meanwhile, an admin's reset or a ban, is the newer word
        generation = candidate.token_generation
        return await self.worker.run(self.accounts.set_password, owner, stored, by, token_generation=generation)

    async def set_by_admin(self, username: str, password: str, by: Principal) -> DecisionResult:
        """An admin, who need not know the current one."""
        owner = await self.worker.run(self.accounts.get_password_owner, username, by)
        self.rules.check_password(password, owner.username)
        stored = await self._hash(password, owner.username)
        return await self.worker.run(self.accounts.set_password, owner, stored, by.actor)

    async def mail_link(self, username: str, by: Principal) -> DecisionResult:
        """An admin lets the user choose. Raises `PasswordRequired` where there is no e-mail to send a link to."""
        self.mail_queue.require_available()
        decided = await self.worker.run(self._mail_link, username, by)
        self.mail_queue.wake()
        return decided

    async def forgot(self, email: str, caller: Caller) -> None:
        """Mail a link to whoever has this e-mail; nobody learns whether there is one."""
        self.mail_queue.require_available()
        address = parse_email(email)
        await self.worker.run(self._forgot, address, caller)
        self.mail_queue.wake()

    async def reset(self, token: str, new: str, caller: Caller) -> DecisionResult:
        """Whoever got the link. Raises `ResetTokenInvalid`; a password that breaks a rule does not spend the link."""
        owner = await self.worker.run(self._get_link_owner, token)
        self.rules.check_password(new, owner.username, "newPassword")
        stored = await self._hash(new, owner.username)
        return await self.worker.run(self._reset, token, owner, stored, caller)

    def set_here(self, username: str, password: str, by: Actor) -> DecisionResult:
        """The command line, on the calling thread."""
        owner = self.accounts.get_password_owner(username, Principal(by, may_do_everything=True))
        self.rules.check_password(password, owner.username)
        stored = self.hashing.hash(password, owner.username)
        return self.worker.run_here(self.accounts.set_password, owner, stored, by)

    async def _hash(self, password: str, username: str) -> StoredPassword:
        return await self.hash_pool.run(self.hashing.hash, password, username)

    def _mail_link(self, username: str, by: Principal) -> DecisionResult:
        owner = self.accounts.get_password_owner(username, by)
        with self.database.atomic():
            user = User.get_by_id(owner.user_id)
            if user.email is None:
                raise errors.PasswordRequired
            self.mail_queue.send_password_link(user)
        return DecisionResult(user.username, user.status)

    def _forgot(self, address: EmailAddress, caller: Caller) -> None:
        with self.database.atomic():
            self.mail_limits.hit(self.limits, address.key, caller)
            user = User.get_or_none(User.email_key == address.key)
            # to the mailbox that was proven: one that differs in case may be somebody else's
            to = EmailAddress(str(user.email), address.key) if user else address
            user_id = user.id if user and not self._is_unproven_operator(user) else None
            self.mail_queue.send_reset_password(to, caller.language, user_id)

    def _is_unproven_operator(self, user: User) -> bool:
        """An e-mail that stands in AuthMe's table proves nothing, and an operator's account is worth stealing."""
        return not user.is_email_verified and self.rules.is_operator(user.username)

    def _get_link_owner(self, token: str) -> PasswordOwner:
        link = self.links.find(token)
        if link is None:
            raise errors.ResetTokenInvalid
        user = User.get_by_id(link.user.id)
        return PasswordOwner(user.id, user.username, user.username_key)

    def _reset(self, token: str, owner: PasswordOwner, stored: StoredPassword, caller: Caller) -> DecisionResult:
        with self.database.atomic():
            self.links.redeem(token)
            # who could read the mail has proven the address
            User.update(is_email_verified=True).where(
                (User.id == owner.user_id) & User.email_key.is_null(False)
            ).execute()
            decided = self.accounts.set_password_inside(owner, stored, Actor(owner.username, caller.address))
        return self.accounts.finish_password(owner, decided)
