"""Routes of the team's chats: what platforms post to us, and the accounts that act for members of the team."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from regsvc.accounts.team_credentials import CONFIRMATION_REFUSALS, OwnPassword
from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    EpochMilliseconds,
    MessageReply,
    Output,
    Password,
    Reply,
    Request,
    Totp,
    Username,
    to_reply,
)
from regsvc.api.route import ADMIN, PUBLIC, Routes
from regsvc.auth.team_accounts import CODE_VALID
from regsvc.core import errors
from regsvc.core.rights import Permission

ROUTES: Final = Routes()

PlatformName = Annotated[str, Meta(min_length=1, max_length=16, examples=["discord"])]


class TeamAccountFields(Output, frozen=True, kw_only=True):
    """An account on a chat platform, and the member of the team for whom it acts."""

    username: Username
    platform: PlatformName
    account_name: Annotated[str, Meta(examples=["olivia"])]
    linked_at: EpochMilliseconds


class TeamChatReply(Reply, frozen=True, kw_only=True):
    """The platforms that are configured, and the linked accounts: all for those who manage the team, else one's own."""

    platforms: list[PlatformName]
    accounts: list[TeamAccountFields]


class ChatCodeReply(Reply, frozen=True, kw_only=True):
    """The code is in this reply only, and links one account."""

    code: Annotated[str, Meta(examples=["K7M2QX9T"])]
    valid_seconds: Annotated[int, Meta(examples=[600])]


class ChatUnlinkRequest(Request, frozen=True, kw_only=True):
    username: Username
    platform: PlatformName


@ROUTES.add("POST", "/api/team-chat/discord", PUBLIC, errors.Unauthorized, has_large_body=True)
async def receive_from_discord(call: ApiHandler) -> None:
    """Answer an interaction that Discord posts: its documentation describes body and response.

    401 unless the headers `X-Signature-Ed25519` and `X-Signature-Timestamp` prove that it is from Discord, new, and
    not older than five minutes.
    """
    discord = call.services.team_chat.discord
    if discord is None:
        raise errors.Unauthorized
    headers = call.request.headers
    signature, timestamp = headers.get("X-Signature-Ed25519", ""), headers.get("X-Signature-Timestamp", "")
    response = await discord.receive(signature, timestamp, call.request.body)
    call.finish(msgspec.json.encode(response))


@ROUTES.add("GET", "/api/admin/team-chat", ADMIN)
async def show_team_chat(call: ApiHandler) -> TeamChatReply:
    """List the chat platforms on which the team decides, and the accounts that are linked."""
    session = call.require_admin()
    of_all = session.rights.may(Permission.TEAM_MANAGE)
    accounts = await call.run(call.services.team_accounts.list_accounts, None if of_all else session.user_id)
    return TeamChatReply(
        platforms=sorted({chat.platform for chat in call.services.config.team_chats}),
        accounts=[to_reply(TeamAccountFields, account) for account in accounts],
    )


class ChatCodeRequest(Request, frozen=True, kw_only=True):
    """One's own password, and a code of the second factor if there is one."""

    current_password: Password | None = None
    totp: Totp | None = None


@ROUTES.add("POST", "/api/admin/team-chat/code", ADMIN, errors.Forbidden, *CONFIRMATION_REFUSALS)
async def make_chat_code(call: ApiHandler, request: ChatCodeRequest) -> ChatCodeReply:
    """Make a code that links a chat account to yourself, once and within ten minutes. API tokens cannot.

    The account outlives your session, so the request has your password (`currentPassword`), and a code of your second
    factor if you have one (`totp`). You are mailed.
    """
    own = OwnPassword(request.current_password, request.totp)
    issue = call.services.team_credentials.issue_chat_code
    code = await issue(call.require_admin(), call.principal, own, call.caller)
    return ChatCodeReply(message=call.message("chat_code"), code=code, valid_seconds=int(CODE_VALID.total_seconds()))


@ROUTES.add("POST", "/api/admin/team-chat/unlink", ADMIN, errors.Forbidden, errors.UserNotFound)
async def unlink_chat_account(call: ApiHandler, request: ChatUnlinkRequest) -> MessageReply:
    """End the link of a chat account: your own, or any for those who manage the team."""
    by = call.principal
    is_own = not by.is_token and request.username.lower() == by.username.lower()
    if not is_own and not by.rights.may(Permission.TEAM_MANAGE):
        raise errors.Forbidden(permission=Permission.TEAM_MANAGE)
    await call.run(call.services.team_accounts.unlink, request.username, request.platform, by.actor)
    return MessageReply(message=call.message("chat_account_unlinked", username=request.username))
