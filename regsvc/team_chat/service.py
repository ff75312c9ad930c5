"""The chats of the team, as the config names them: their platforms, and who receives what people do there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regsvc.config.host_sections import TeamChat
from regsvc.team_chat.decisions import ChatReceiver
from regsvc.team_chat.platform import Platform

if TYPE_CHECKING:
    from regsvc.team_chat.discord import DiscordInteractions


def _make_discord(chat: TeamChat, base_url: str) -> Platform:
    from regsvc.team_chat.discord import Discord

    return Discord(chat, base_url)


PLATFORMS: Final[Mapping[str, Callable[[TeamChat, str], Platform]]] = {"discord": _make_discord}
"""Makers of platforms, given a chat and the address where people reach us; each imports what only it needs."""


def make_platforms(chats: Iterable[TeamChat], base_url: str) -> dict[str, Platform]:
    """Return the platform of each chat, by the chat's name."""
    return {chat.name: PLATFORMS[chat.platform](chat, base_url) for chat in chats if chat.platform in PLATFORMS}


@dataclass(frozen=True)
class TeamChats:
    """The chats of the team. Use on the event loop."""

    platforms: Mapping[str, Platform]
    discord: "DiscordInteractions | None"


def open_chats(platforms: Mapping[str, Platform], receiver: ChatReceiver) -> TeamChats:
    """Return the chats with what receives from those that call us."""
    if not any(platform.chat.platform == "discord" for platform in platforms.values()):
        return TeamChats(platforms, None)
    from regsvc.team_chat.discord import Discord, DiscordInteractions

    channels = [platform for platform in platforms.values() if isinstance(platform, Discord)]
    return TeamChats(platforms, DiscordInteractions(channels, receiver))
