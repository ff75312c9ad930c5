"""The chats of the team, as the config names them: their platforms, and who receives what people do there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

from regsvc.config.host_sections import TeamChat
from regsvc.database.lease import TaskLease
from regsvc.team_chat.decisions import ChatReceiver
from regsvc.team_chat.platform import Platform

if TYPE_CHECKING:
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
    discord: "DiscordInteractions | None"
    telegram: "Sequence[TelegramUpdates]" = ()
    """One for each bot: what asks for updates until it is stopped."""
    onebot: "Sequence[OneBotConnections]" = ()
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


def _receive_from_discord(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> "DiscordInteractions":
    from regsvc.team_chat.discord import Discord, DiscordInteractions

    channels = [platform for platform in platforms.values() if isinstance(platform, Discord)]
    return DiscordInteractions(channels, receiver)


def _receive_from_telegram(
    platforms: Mapping[str, Platform], receiver: ChatReceiver, make_lease: Callable[[str, timedelta], TaskLease]
) -> "list[TelegramUpdates]":
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


def _receive_from_onebot(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> "list[OneBotConnections]":
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
