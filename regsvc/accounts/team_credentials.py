"""Things that outlive a session at /admin: made with the password, and the second factor, in the same request.

A stolen session is not enough for it, and the maker is mailed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, structs
from peewee import Database

from regsvc.accounts.password_changes import PasswordLinkReply, PasswordMails
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker
from regsvc.auth.api_tokens import ApiTokens, TokenFields, TokenName
from regsvc.auth.entitlement import MadeByRight, Principal
from regsvc.auth.second_factor import Totp
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.errors import InvalidField
from regsvc.core.rights import NOT_FOR_TOKENS, USUAL_DAYS, Permission, parse_permissions
from regsvc.core.shapes import Username
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.http.messages import MessageReply, Password, Reply
from regsvc.http.route import USER, Routes
from regsvc.notifications.mail.queue import MailQueue, UserMail

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

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
    ) -> tuple[str, TokenFields]:
        """Make an API token with the rights of a person. `lifetime` None: until it is revoked.

        Raises `CurrentPasswordNeeded`, `WrongPassword`, `TotpRequired`, and what `ApiTokens.create` does.
        """
        by = await self._confirm(session, by, own, caller)

        def make() -> tuple[str, TokenFields]:
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
    ) -> PasswordLinkReply:
        """Make a password link to hand over; one for a member of the team needs the maker's password.

        Raises as `PasswordMails.create_link`, and for a member as `create_token` about the password.
        """
        is_confirmed = own.password is not None
        if is_confirmed:
            by = await self._confirm(session, by, own, caller)

        def make() -> tuple[PasswordLinkReply, bool]:
            with self.database.atomic():
                link, is_for_team = self.password_mails.create_link(username, by)
                if is_for_team and not is_confirmed:
                    raise errors.CurrentPasswordNeeded
                if is_for_team:
                    self._mail(session.user_id, "password_link_made")
                return link, is_for_team

        link, is_for_team = await self.worker.run(make)
        if is_for_team:
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


class MadeReply(Reply, frozen=True, kw_only=True):
    """Things that the user made as a member of the team and that have not ended; none for a player."""

    sessions: Annotated[
        list[str], Meta(description="When the sessions at /admin began (UTC).", examples=[["2026-11-28 09:30"]])
    ]
    tokens: Annotated[list[str], Meta(description="Names of API tokens.", examples=[["discord-bot"]])]
    links: Annotated[list[str], Meta(description="For whom password links were handed over.", examples=[["Alice"]])]
    invitations: Annotated[list[str], Meta(description="Ids of invitations.", examples=[["7"]])]
    chat_accounts: Annotated[list[str], Meta(description="Platforms of chat accounts.", examples=[["discord"]])]


@ROUTES.add("GET", "/api/user/made", USER)
async def list_made(call: Call, team_credentials: TeamCredentials) -> MadeReply:
    """List what outlives a change of your password if you are in the team: sessions at /admin, tokens, links."""
    made = await call.run(team_credentials.list_own, call.require_session())
    return MadeReply(
        sessions=made.get("sessions", []),
        tokens=made.get("tokens", []),
        links=made.get("links", []),
        invitations=made.get("invitations", []),
        chat_accounts=made.get("chatAccounts", []),
    )


@ROUTES.add("POST", "/api/user/made/end", USER, errors.WrongPassword, errors.RateLimited, errors.AuthMeUnavailable)
async def end_made(call: Call, team_credentials: TeamCredentials, *, current_password: Password) -> MessageReply:
    """End all of it but this session, as after a password that a stranger may have known."""
    await team_credentials.end_own(call.require_session(), current_password, call.caller)
    return MessageReply(message=call.message("made_ended"))


TokenPermission = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": [it.value for it in Permission if it not in NOT_FOR_TOKENS]}, examples=["users.read"]
    ),
]


class CreateTokenReply(Reply, frozen=True, kw_only=True):
    """The token is in this reply only."""

    token: Annotated[str, Meta(examples=["cmp_…"])]
    record: TokenFields


@ROUTES.add(
    "POST",
    "/api/admin/token/create",
    Permission.TEAM_MANAGE,
    errors.TokenNameTaken,
    *CONFIRMATION_REFUSALS,
)
async def create_token(
    call: Call,
    team_credentials: TeamCredentials,
    *,
    name: TokenName,
    permissions: Annotated[list[TokenPermission], Meta(min_length=1, max_length=len(Permission))],
    days: Annotated[int, Meta(ge=1, le=3650, examples=[90])] | None = USUAL_DAYS,
    current_password: Password | None = None,
    totp: Totp | None = None,
) -> CreateTokenReply:
    """Make an API token for a bot. It may do what it names, as far as you may do that yourself at that moment.

    It outlives your session, so the request has your password (`currentPassword`), and a code of your second factor if
    you have one (`totp`). You are mailed.

    CreateTokenRequest: The permissions of the token, for how many days it works (null: until it is revoked), and one's
    own password.
    """
    try:
        permitted = parse_permissions(permissions)
    except ValueError:
        raise InvalidField("permissions") from None
    if permitted & NOT_FOR_TOKENS:
        raise InvalidField("permissions")
    lifetime = None if days is None else timedelta(days=days)
    own, made_by = OwnPassword(current_password, totp), (call.require_admin(), call.principal)
    create = team_credentials.create_token
    token, record = await create(name, permitted, lifetime, *made_by, own, call.caller)
    return CreateTokenReply(message=call.message("token_created", name=record.name), token=token, record=record)


@ROUTES.add("POST", "/api/admin/token/revoke", Permission.TEAM_MANAGE, errors.NoSuchToken)
async def revoke_token(call: Call, api_tokens: ApiTokens, *, name: TokenName) -> MessageReply:
    """Revoke an API token.

    TokenNameRequest:
    """
    name = await call.run(api_tokens.revoke, name, call.principal.actor)
    return MessageReply(message=call.message("token_revoked", name=name))


@ROUTES.add("POST", "/api/admin/user/password-link", Permission.USERS_MANAGE, *LINK_REFUSALS)
async def make_password_link(
    call: Call,
    team_credentials: TeamCredentials,
    *,
    username: Username,
    current_password: Password | None = None,
    totp: Totp | None = None,
) -> PasswordLinkReply:
    """Make a link that sets a user's password once, to hand over yourself: it is shown only now.

    One for a member of the team needs your password, and a code of your second factor if there is one; you are mailed.

    PasswordLinkRequest: The user to make a link for; for a member of the team also one's own password.
    """
    own, by = OwnPassword(current_password, totp), (call.require_admin(), call.principal)
    created = await team_credentials.create_link(username, *by, own, call.caller)
    return structs.replace(created, message=call.message("link_created", username=created.username))
