"""The chats of the team, as the config names them: their platforms, and who receives what people do there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from regsvc.config.host_sections import TeamChat
from regsvc.database.lease import TaskLease
from regsvc.team_chat.decisions import ChatReceiver
from regsvc.team_chat.platform import Platform

if TYPE_CHECKING:
    from regsvc.team_chat.discord import DiscordInteractions
    from regsvc.team_chat.telegram import TelegramUpdates

RECEIVING: Final = timedelta(minutes=1)
"""How long one daemon alone asks for what people do, unless it asks again; longer than such a request."""


def _make_discord(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.discord import Discord

    return Discord(chat, base_url)


def _make_telegram(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.telegram import Telegram

    return Telegram(chat, base_url)


PLATFORMS: Final[Mapping[str, Callable[[TeamChat, str], Platform]]] = {
    "discord": _make_discord,
    "telegram": _make_telegram,
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


def open_chats(
    platforms: Mapping[str, Platform], receiver: ChatReceiver, make_lease: Callable[[str], TaskLease]
) -> TeamChats:
    """Return the chats with what receives from them. `make_lease`: of a name."""
    kinds = {platform.chat.platform for platform in platforms.values()}
    discord = _receive_from_discord(platforms, receiver) if "discord" in kinds else None
    telegram = _receive_from_telegram(platforms, receiver, make_lease) if "telegram" in kinds else ()
    return TeamChats(platforms, discord, telegram)


def _receive_from_discord(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> "DiscordInteractions":
    from regsvc.team_chat.discord import Discord, DiscordInteractions

    channels = [platform for platform in platforms.values() if isinstance(platform, Discord)]
    return DiscordInteractions(channels, receiver)


def _receive_from_telegram(
    platforms: Mapping[str, Platform], receiver: ChatReceiver, make_lease: Callable[[str], TaskLease]
) -> "list[TelegramUpdates]":
    from regsvc.team_chat.telegram import Telegram, TelegramUpdates

    bots = dict[str, list[Telegram]]()
    for platform in platforms.values():
        if isinstance(platform, Telegram):
            bots.setdefault(platform.chat.token, []).append(platform)
    names = {token: f"telegram:{sha256(token.encode()).hexdigest()[:16]}" for token in bots}
    return [TelegramUpdates(groups, receiver, make_lease(names[token])) for token, groups in bots.items()]
