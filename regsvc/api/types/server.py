"""What is told of versions, of the game server, and of files to download."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import EpochMilliseconds, Output, Reply

VersionText = Annotated[str, Meta(examples=["1.2.0"])]
PluginVersionText = Annotated[str, Meta(examples=["5.6.0-beta2"])]
PlayerNames = Annotated[
    list[str],
    Meta(
        description="Some of them, as far as the server names them; for those who are logged in.", examples=[["Alice"]]
    ),
]

# --- Versions ---


class PluginVersionFields(Output, frozen=True, kw_only=True):
    """Of AuthMe, by its jar in the game server's folder and its newest release; null where it is not known."""

    name: Annotated[str, Meta(examples=["AuthMe"])]
    current_version: PluginVersionText | None
    latest_version: PluginVersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]


class VersionReply(Reply, frozen=True, kw_only=True):
    """Of the companion, and of the plugin it works with; null where it is not known."""

    current_version: VersionText
    latest_version: VersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]
    releases_url: Annotated[str, Meta(examples=["https://example.org/companion/releases/tag/1.2.0"])] | None
    checked_at: EpochMilliseconds | None
    plugin: PluginVersionFields


# --- The game server ---


class OnlinePlayersFields(Output, frozen=True, kw_only=True):
    """How many play; null while the server is silent."""

    online: Annotated[int, Meta(ge=0, examples=[2])] | None
    max: Annotated[int, Meta(ge=0, examples=[20])] | None
    names: PlayerNames | UnsetType = msgspec.field(default=UNSET, name="list")


class GameServerFields(Output, frozen=True, kw_only=True):
    """The game server's last answer. `online` is false, and the rest null, while there is none."""

    online: Annotated[bool, Meta(examples=[True])]
    players: OnlinePlayersFields
    version: Annotated[str, Meta(examples=["Paper 1.21.4"])] | None
    motd: Annotated[str, Meta(description="Its greeting, without formatting.", examples=["A Minecraft Server"])] | None
    latency_ms: Annotated[int, Meta(ge=0, examples=[3])] | None
    checked_at: Annotated[EpochMilliseconds, Meta(description="When it was asked; null: not yet.")] | None


class ServerStatusReply(Reply, frozen=True, kw_only=True):
    data: GameServerFields


# --- Downloads ---


class DownloadFields(Output, frozen=True, kw_only=True):
    """A file that this host offers; what the host does not tell is empty. Addresses may be paths on this server."""

    id: Annotated[str, Meta(examples=["client"])]
    name: Annotated[str, Meta(examples=["Client"])]
    description: Annotated[str, Meta(examples=["Everything you need to join."])]
    version: Annotated[str, Meta(examples=["1.21.4"])]
    size: Annotated[str, Meta(description="As people read it.", examples=["12 MB"])]
    url: Annotated[str, Meta(examples=["/files/client.zip"])]
    icon: Annotated[str, Meta(examples=["/files/client.png"])]


class DownloadsReply(Reply, frozen=True, kw_only=True):
    resources: list[DownloadFields]
