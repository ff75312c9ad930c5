"""The chats of the team, as the config names them: their platforms, and who receives what people do there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from regsvc.accounts.team_credentials import CONFIRMATION_REFUSALS, OwnPassword, TeamCredentials
from regsvc.auth.second_factor import Totp
from regsvc.auth.team_accounts import CODE_VALID, PlatformName, TeamAccountFields, TeamAccounts
from regsvc.config.host_sections import TeamChat
from regsvc.core import errors
from regsvc.core.rights import Permission
from regsvc.core.shapes import Username
from regsvc.database.lease import TaskLease
from regsvc.http.messages import MessageReply, Password, Reply
from regsvc.http.route import ADMIN, PUBLIC, Routes
from regsvc.team_chat.decisions import ChatReceiver
from regsvc.team_chat.platform import Platform

ROUTES: Final = Routes()


if TYPE_CHECKING:
    from regsvc.http.call import Call
    from regsvc.team_chat.discord import DiscordInteractions
    from regsvc.team_chat.onebot import OneBotConnections
    from regsvc.team_chat.telegram import TelegramUpdates

AnyPlatform = TypeVar("AnyPlatform", bound=Platform)

_RECEIVING: Final = timedelta(minutes=1)
"""How long one daemon alone asks for what people do, unless it asks again; longer than such a request."""
_CONFLICT_KNOWN: Final = timedelta(minutes=15)
"""How long a conflict counts as such, unless it is met again; longer than the pause that follows it."""


def _make_discord(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.discord import Discord

    return Discord(chat, base_url)


def _make_telegram(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.telegram import Telegram

    return Telegram(chat, base_url)


def _make_onebot(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.onebot import OneBot

    return OneBot(chat, base_url)


PLATFORMS: Final[Mapping[str, Callable[[TeamChat, str], Platform]]] = {
    "discord": _make_discord,
    "telegram": _make_telegram,
    "onebot": _make_onebot,
}
"""Makers of platforms, given a chat and the address where people reach us; each imports what only it needs."""


def make_platforms(chats: Iterable[TeamChat], base_url: str) -> dict[str, Platform]:
    """Return the platform of each chat, by the chat's name."""
    return {chat.name: PLATFORMS[chat.platform](chat, base_url) for chat in chats if chat.platform in PLATFORMS}


@dataclass(frozen=True)
class TeamChats:
    """The chats of the team. Use on the event loop."""

    platforms: Mapping[str, Platform]
    discord: DiscordInteractions | None
    telegram: Sequence[TelegramUpdates] = ()
    """One for each bot: what asks for updates until it is stopped."""
    onebot: Sequence[OneBotConnections] = ()
    """One for each access token: what implementations connect to."""

    def close(self) -> None:
        """End the connections of others."""
        for connections in self.onebot:
            connections.close()

    def hasten(self) -> None:
        """Make due what waited for a connection. Blocking: for a worker thread."""
        for connections in self.onebot:
            connections.hasten()


def open_chats(
    platforms: Mapping[str, Platform], receiver: ChatReceiver, make_lease: Callable[[str, timedelta], TaskLease]
) -> TeamChats:
    """Return the chats with what receives from them. `make_lease`: of a name, for a period."""
    kinds = {platform.chat.platform for platform in platforms.values()}
    discord = _receive_from_discord(platforms, receiver) if "discord" in kinds else None
    telegram = _receive_from_telegram(platforms, receiver, make_lease) if "telegram" in kinds else ()
    onebot = _receive_from_onebot(platforms, receiver) if "onebot" in kinds else ()
    return TeamChats(platforms, discord, telegram, onebot)


def _receive_from_discord(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> DiscordInteractions:
    from regsvc.team_chat.discord import Discord, DiscordInteractions

    channels = [platform for platform in platforms.values() if isinstance(platform, Discord)]
    return DiscordInteractions(channels, receiver)


def _receive_from_telegram(
    platforms: Mapping[str, Platform], receiver: ChatReceiver, make_lease: Callable[[str, timedelta], TaskLease]
) -> list[TelegramUpdates]:
    from regsvc.team_chat.telegram import Telegram, TelegramUpdates

    return [
        TelegramUpdates(
            groups,
            receiver,
            make_lease(_lease_name(token), _RECEIVING),
            make_lease(name_conflict(token), _CONFLICT_KNOWN),
        )
        for token, groups in _by_token(platforms, Telegram).items()
    ]


def _lease_name(token: str) -> str:
    return f"telegram:{sha256(token.encode()).hexdigest()[:16]}"


def name_conflict(token: str) -> str:
    """Return the name of the lease that is held while another program receives the updates of a bot on Telegram."""
    return f"{_lease_name(token)}:conflict"


def _receive_from_onebot(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> list[OneBotConnections]:
    from regsvc.team_chat.onebot import OneBot, OneBotConnections

    hasten = receiver.decisions.queue.hasten
    return [OneBotConnections(groups, receiver, hasten) for groups in _by_token(platforms, OneBot).values()]


def _by_token(platforms: Mapping[str, Platform], kind: type[AnyPlatform]) -> dict[str, list[AnyPlatform]]:
    """Return the platforms of one kind by their token."""
    found = dict[str, list[AnyPlatform]]()
    for platform in platforms.values():
        if isinstance(platform, kind):
            found.setdefault(platform.chat.token, []).append(platform)
    return found


class TeamChatReply(Reply, frozen=True, kw_only=True):
    """The platforms that are configured, and the linked accounts: all for those who manage the team, else one's own."""

    platforms: list[PlatformName]
    accounts: list[TeamAccountFields]


class ChatCodeReply(Reply, frozen=True, kw_only=True):
    """The code is in this reply only, and links one account."""

    code: Annotated[str, Meta(examples=["K7M2QX9T"])]
    valid_seconds: Annotated[int, Meta(examples=[600])]


@ROUTES.add("POST", "/api/team-chat/discord", PUBLIC, errors.Unauthorized, has_large_body=True)
async def receive_from_discord(call: Call, team_chat: TeamChats) -> None:
    """Answer an interaction that Discord posts: its documentation describes body and response.

    401 unless the headers `X-Signature-Ed25519` and `X-Signature-Timestamp` prove that it is from Discord, new, and
    not older than five minutes.
    """
    discord = team_chat.discord
    if discord is None:
        raise errors.Unauthorized
    headers = call.request.headers
    signature, timestamp = headers.get("X-Signature-Ed25519", ""), headers.get("X-Signature-Timestamp", "")
    response = await discord.receive(signature, timestamp, call.request.body)
    call.finish(msgspec.json.encode(response))


@ROUTES.add("GET", "/api/admin/team-chat", ADMIN)
async def show_team_chat(call: Call, team_accounts: TeamAccounts) -> TeamChatReply:
    """List the chat platforms on which the team decides, and the accounts that are linked."""
    session = call.require_admin()
    of_all = session.rights.may(Permission.TEAM_MANAGE)
    accounts = await call.run(team_accounts.list_accounts, None if of_all else session.user_id)
    return TeamChatReply(
        platforms=sorted({chat.platform for chat in call.config.team_chats}),
        accounts=accounts,
    )


@ROUTES.add("POST", "/api/admin/team-chat/code", ADMIN, errors.Forbidden, *CONFIRMATION_REFUSALS)
async def make_chat_code(
    call: Call, team_credentials: TeamCredentials, *, current_password: Password | None = None, totp: Totp | None = None
) -> ChatCodeReply:
    """Make a code that links a chat account to yourself, once and within ten minutes. API tokens cannot.

    The account outlives your session, so the request has your password (`currentPassword`), and a code of your second
    factor if you have one (`totp`). You are mailed.

    ChatCodeRequest: One's own password, and a code of the second factor if there is one.
    """
    own = OwnPassword(current_password, totp)
    issue = team_credentials.issue_chat_code
    code = await issue(call.require_admin(), call.principal, own, call.caller)
    return ChatCodeReply(message=call.message("chat_code"), code=code, valid_seconds=int(CODE_VALID.total_seconds()))


@ROUTES.add("POST", "/api/admin/team-chat/unlink", ADMIN, errors.Forbidden, errors.UserNotFound)
async def unlink_chat_account(
    call: Call, team_accounts: TeamAccounts, *, username: Username, platform: PlatformName
) -> MessageReply:
    """End the link of a chat account: your own, or any for those who manage the team.

    ChatUnlinkRequest:
    """
    by = call.principal
    is_own = not by.is_token and username.lower() == by.username.lower()
    if not is_own and not by.rights.may(Permission.TEAM_MANAGE):
        raise errors.Forbidden(permission=Permission.TEAM_MANAGE)
    await call.run(team_accounts.unlink, username, platform, by.actor)
    return MessageReply(message=call.message("chat_account_unlinked", username=username))
