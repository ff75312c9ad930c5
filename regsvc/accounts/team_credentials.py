"""Things that outlive a session at /admin: made with the password, and the second factor, in the same request.

A stolen session is not enough for it, and the maker is mailed.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from peewee import Database

from regsvc.accounts.access import Principal
from regsvc.accounts.password_changes import HandedOverLink, PasswordMails
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker
from regsvc.auth.api_tokens import ApiTokens, TokenRecord
from regsvc.auth.made_by_right import MadeByRight
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.rights import Permission
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.notifications.mail.queue import MailQueue, UserMail

CONFIRMATION_REFUSALS: Final = (
    errors.CurrentPasswordNeeded,
    errors.WrongPassword,
    errors.TotpRequired,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)
"""Refusals of a password that confirms what is to be made."""
LINK_REFUSALS: Final = (errors.UserNotFound, errors.ProtectedOperator, *CONFIRMATION_REFUSALS)


@dataclass(frozen=True)
class OwnPassword:
    """The password of the maker, and a code of their second factor, as a request has them."""

    password: str | None = field(default=None, repr=False)
    totp: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TeamCredentials:
    """Maker of API tokens, codes that link chat accounts, and password links for members of the team."""

    database: Database
    worker: Worker
    checker: PasswordChecker
    tokens: ApiTokens
    accounts: TeamAccounts
    password_mails: PasswordMails
    mail_queue: MailQueue
    made: MadeByRight

    def list_own(self, session: VerifiedSession) -> dict[str, list[str]]:
        """Return labels of what the session's user made by a right and has not ended, by kind. Blocking."""
        return self.made.list_of(session.username)

    async def end_own(self, session: VerifiedSession, password: str, caller: Caller) -> None:
        """End all that the session's user made by a right, but this session. Raises `WrongPassword`."""
        await self.checker.check_owner(session, password, caller)
        by = Actor(session.username, caller.address)
        await self.worker.run(self.made.end_of, session.username, "by_its_maker", by, kept={session.jti})

    async def create_token(
        self,
        name: str,
        permissions: frozenset[Permission],
        lifetime: timedelta | None,
        session: VerifiedSession,
        by: Principal,
        own: OwnPassword,
        caller: Caller,
    ) -> tuple[str, TokenRecord]:
        """Make an API token with the rights of a person. `lifetime` None: until it is revoked.

        Raises `CurrentPasswordNeeded`, `WrongPassword`, `TotpRequired`, and what `ApiTokens.create` does.
        """
        by = await self._confirm(session, by, own, caller)

        def make() -> tuple[str, TokenRecord]:
            with self.database.atomic():
                factor = by.has_second_factor
                made = self.tokens.create(name, permissions, by.actor, by.username, lifetime, has_second_factor=factor)
                self._mail(session.user_id, "token_made")
                return made

        made = await self.worker.run(make)
        self.mail_queue.wake_all()
        return made

    async def issue_chat_code(self, session: VerifiedSession, by: Principal, own: OwnPassword, caller: Caller) -> str:
        """Return a code that links a chat account to the session's user.

        Raises as `create_token` about the password.
        """
        by = await self._confirm(session, by, own, caller)

        def make() -> str:
            with self.database.atomic():
                code = self.accounts.issue_code(session.user_id, has_second_factor=by.has_second_factor)
                self._mail(session.user_id, "chat_code_made")
                return code

        code = await self.worker.run(make)
        self.mail_queue.wake_all()
        return code

    async def create_link(
        self, username: str, session: VerifiedSession, by: Principal, own: OwnPassword, caller: Caller
    ) -> HandedOverLink:
        """Make a password link to hand over; one for a member of the team needs the maker's password.

        Raises as `PasswordMails.create_link`, and for a member as `create_token` about the password.
        """
        is_confirmed = own.password is not None
        if is_confirmed:
            by = await self._confirm(session, by, own, caller)

        def make() -> HandedOverLink:
            with self.database.atomic():
                link = self.password_mails.create_link(username, by)
                if link.is_for_team and not is_confirmed:
                    raise errors.CurrentPasswordNeeded
                if link.is_for_team:
                    self._mail(session.user_id, "password_link_made")
                return link

        link = await self.worker.run(make)
        if link.is_for_team:
            self.mail_queue.wake_all()
        return link

    async def _confirm(self, session: VerifiedSession, by: Principal, own: OwnPassword, caller: Caller) -> Principal:
        """Check the password, and the second factor where there is one; return the principal who has shown it."""
        if by.is_token:
            raise errors.Forbidden
        if own.password is None:
            raise errors.CurrentPasswordNeeded
        identity = await self.checker.check_owner_with_totp(session, own.password, own.totp, caller)
        await self.worker.run(self._use_up, identity, session.user_id, caller)
        return replace(by, has_second_factor=by.has_second_factor or identity.has_shown_code)

    def _use_up(self, identity: LoginIdentity, user_id: int, caller: Caller) -> None:
        with self.database.atomic():
            if not self.checker.use_second_factor(identity, user_id, caller):
                raise errors.TotpRequired

    def _mail(self, user_id: int, mail: UserMail) -> None:
        maker = User.get_or_none(User.id == user_id)
        if maker is not None:
            self.mail_queue.send(maker, mail)
