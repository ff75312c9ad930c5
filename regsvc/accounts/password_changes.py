"""Changes of passwords: by the owner, by an admin, and through a link. Hashing stays between transactions."""

from dataclasses import dataclass

from regsvc.accounts.access import Principal
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.password_checker import PasswordChecker
from regsvc.accounts.password_store import PasswordOwner, PasswordStore
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.auth.password_links import PasswordLinks, proves_address
from regsvc.auth.sessions import KnownClients
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.names import name_key
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.users.credential_rules import CredentialRules


@dataclass(frozen=True)
class PasswordChanges:
    """Every way to a new password."""

    worker: Worker
    hashing: PasswordHashing
    store: PasswordStore
    checker: PasswordChecker
    links: PasswordLinks
    known_clients: KnownClients
    rules: CredentialRules

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
        owner = PasswordOwner(session.user_id, session.username, name_key(session.username))
        by = Actor(session.username, caller.address)
        # what ended the sessions meanwhile (an admin's reset, a ban) is the newer decision
        generation = identity.token_generation
        kept = session.jti if keeps_session else None
        return await self.worker.run(self.store.set, owner, stored, by, token_generation=generation, kept_session=kept)

    async def set_by_admin(self, username: str, password: str, by: Principal) -> DecisionResult:
        """Set a user's password without the current one.

        Raises `UserNotFound`, `ProtectedOperator` and `InvalidPassword`.
        """
        owner = await self.worker.run(self.store.get_owner, username, by)
        self.rules.check_password(password, owner.username)
        stored = await self.hashing.hash_in_pool(password, owner.username)
        return await self.worker.run(self.store.set, owner, stored, by.actor)

    async def reset(self, token: str, new: str, caller: Caller) -> DecisionResult:
        """Set the password with the token of a link. Failed logins of others no longer delay this client.

        Raises `ResetTokenInvalid`, and `InvalidPassword`, which does not spend the link.
        """
        owner = await self.worker.run(self._get_link_owner, token)
        self.rules.check_password(new, owner.username, "newPassword")
        stored = await self.hashing.hash_in_pool(new, owner.username)
        done = await self.worker.run(self._reset, token, owner, stored, caller)
        self.checker.forget_failures(owner.username, caller)
        return done

    def set_here(self, username: str, password: str, by: Actor) -> DecisionResult:
        """Set a password from the command line, on the calling thread."""
        owner = self.worker.run_here(self.store.get_owner, username, Principal(by, may_do_everything=True))
        self.rules.check_password(password, owner.username)
        stored = self.hashing.hash(password, owner.username)
        return self.worker.run_here(self.store.set, owner, stored, by)

    def _get_link_owner(self, token: str) -> PasswordOwner:
        link = self.links.find(token)
        if link is None:
            raise errors.ResetTokenInvalid
        return PasswordOwner(link.user.id, link.user.username, link.user.username_key)

    def _reset(self, token: str, owner: PasswordOwner, stored: StoredPassword, caller: Caller) -> DecisionResult:
        def redeem(user: User) -> None:
            link = self.links.redeem(token)
            self.known_clients.record(user.id, caller.limit_key)
            if user.email_key is not None and proves_address(link):
                user.is_email_verified = True

        return self.store.set(owner, stored, Actor(owner.username, caller.address), first=redeem)
