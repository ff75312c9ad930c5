"""Public routes for versions, the game server's status and downloads. No request waits for another server."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from plugin_bridge.server.status_ping import ServerStatus
from plugin_bridge.server.versions import is_newer
from regsvc import __version__
from regsvc.api.base import ApiHandler
from regsvc.api.messages import EpochMilliseconds, Output, Reply, epoch_milliseconds, to_reply
from regsvc.api.route import ACCESS_TOKEN, PUBLIC, Routes
from regsvc.runtime.game_status import BedrockServer, LastStatus, make_join_help

ROUTES: Final = Routes()

VersionText = Annotated[str, Meta(examples=["1.2.0"])]
PluginVersionText = Annotated[str, Meta(examples=["5.6.0-beta2"])]
PlayerNames = Annotated[
    list[str],
    Meta(
        description="Names of players, as far as the server reports them. Only for logged-in users.",
        examples=[["Alice"]],
    ),
]

# --- Versions ---


class PluginVersionFields(Output, frozen=True, kw_only=True):
    """The version of AuthMe's jar on the game server, and its newest release; null if unknown."""

    name: Annotated[str, Meta(examples=["AuthMe"])]
    current_version: PluginVersionText | None
    latest_version: PluginVersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]


class VersionReply(Reply, frozen=True, kw_only=True):
    """The versions of the companion and of the plugin it works with; null if unknown."""

    current_version: VersionText
    latest_version: VersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]
    releases_url: Annotated[str, Meta(examples=["https://example.org/companion/releases/tag/1.2.0"])] | None
    checked_at: EpochMilliseconds | None
    plugin: PluginVersionFields


# --- The game server ---


class OnlinePlayersFields(Output, frozen=True, kw_only=True):
    """The number of players online; null while the server does not answer."""

    online: Annotated[int, Meta(ge=0, examples=[2])] | None
    max: Annotated[int, Meta(ge=0, examples=[20])] | None
    names: PlayerNames | UnsetType = msgspec.field(default=UNSET, name="list")


class NetworkServerFields(Output, frozen=True, kw_only=True):
    """The last answer of one of several game servers; see `GameServerFields`."""

    name: Annotated[str, Meta(examples=["survival"])]
    online: Annotated[bool, Meta(examples=[True])]
    players: OnlinePlayersFields
    version: Annotated[str, Meta(examples=["Paper 1.21.4"])] | None
    checked_at: EpochMilliseconds | None
    status_hidden: Annotated[bool, Meta(examples=[False])]


class GameServerFields(Output, frozen=True, kw_only=True):
    """The game server's last answer. While it does not answer, `online` is false and the rest null."""

    online: Annotated[bool, Meta(examples=[True])]
    players: OnlinePlayersFields
    version: Annotated[str, Meta(examples=["Paper 1.21.4"])] | None
    motd: Annotated[str, Meta(description="Message of the day, unformatted.", examples=["A Minecraft Server"])] | None
    latency_ms: Annotated[int, Meta(ge=0, examples=[3])] | None
    checked_at: Annotated[EpochMilliseconds, Meta(description="The time of the last query; null before it.")] | None
    status_hidden: Annotated[
        bool, Meta(description="Whether it does not answer because of `enable-status=false`.", examples=[False])
    ]
    servers: (
        Annotated[
            list[NetworkServerFields],
            Meta(description="All game servers, the main one first. Only where there are several."),
        ]
        | UnsetType
    ) = UNSET


class ServerStatusReply(Reply, frozen=True, kw_only=True):
    data: GameServerFields


# --- Joining ---


class BedrockServerFields(Output, frozen=True, kw_only=True):
    """The server as players of the Bedrock edition enter it."""

    host: Annotated[str, Meta(examples=["play.example.org"])]
    port: Annotated[int, Meta(examples=[19132])]
    link: Annotated[
        str,
        Meta(
            description="Adds the server to the game.",
            examples=["minecraft:?addExternalServer=Oakvale|play.example.org:19132"],
        ),
    ]
    qr_code: Annotated[str, Meta(description="The link as a PNG image.", examples=["data:image/png;base64,iVBORw0K"])]


class JoinHelpFields(Output, frozen=True, kw_only=True):
    """The addresses that players join; null: not set, or `bedrock.enabled` is off."""

    address: Annotated[str, Meta(examples=["play.example.org"])] | None
    versions: Annotated[str, Meta(examples=["1.20 to 1.21.4"])] | None
    bedrock: BedrockServerFields | None


class JoinHelpReply(Reply, frozen=True, kw_only=True):
    data: JoinHelpFields


# --- Downloads ---


class DownloadFields(Output, frozen=True, kw_only=True):
    """A file that this host offers; unset texts are empty. URLs may be paths on this server."""

    id: Annotated[str, Meta(examples=["client"])]
    name: Annotated[str, Meta(examples=["Client"])]
    description: Annotated[str, Meta(examples=["Everything you need to join."])]
    version: Annotated[str, Meta(examples=["1.21.4"])]
    size: Annotated[str, Meta(description="The size as text.", examples=["12 MB"])]
    url: Annotated[str, Meta(examples=["/files/client.zip"])]
    icon: Annotated[str, Meta(examples=["/files/client.png"])]


class DownloadsReply(Reply, frozen=True, kw_only=True):
    resources: list[DownloadFields]


PLUGIN: Final = "AuthMe"


@ROUTES.add("GET", "/api/version", PUBLIC)
async def show_versions(call: ApiHandler) -> VersionReply:
    """Show the installed versions, and whether newer ones are available (checked in the background)."""
    updates = call.services.updates
    own, plugin = updates.published.get("companion"), updates.published.get("plugin")
    installed = await call.services.plugin_version.get_last()
    return VersionReply(
        current_version=__version__,
        latest_version=own.version if own else None,
        update_available=is_newer(own.version if own else None, __version__),
        releases_url=own.page if own else None,
        checked_at=epoch_milliseconds(updates.checked_at),
        plugin=PluginVersionFields(
            name=PLUGIN,
            current_version=installed,
            latest_version=plugin.version if plugin else None,
            update_available=is_newer(plugin.version if plugin else None, installed),
        ),
    )


@ROUTES.add("GET", "/api/server/status", PUBLIC, credentials=(ACCESS_TOKEN,))
async def show_server_status(call: ApiHandler) -> ServerStatusReply:
    """Show the game server's status of some seconds ago. Only logged-in users see the names of the players."""
    last, network = call.services.game_status.last_status(), call.services.network
    status = last.status
    return ServerStatusReply(
        data=GameServerFields(
            online=status is not None,
            players=_players(call, status),
            version=status.version if status else None,
            motd=status.motd if status else None,
            latency_ms=round(status.latency * 1000) if status else None,
            checked_at=epoch_milliseconds(last.at),
            status_hidden=last.is_hidden,
            servers=[_server(call, name, game.last_status()) for name, game in network.items()] or UNSET,
        )
    )


def _server(call: ApiHandler, name: str, last: LastStatus) -> NetworkServerFields:
    status = last.status
    return NetworkServerFields(
        name=name,
        online=status is not None,
        players=_players(call, status),
        version=status.version if status else None,
        checked_at=epoch_milliseconds(last.at),
        status_hidden=last.is_hidden,
    )


def _players(call: ApiHandler, status: ServerStatus | None) -> OnlinePlayersFields:
    names = [] if status is None else [player.name for player in status.players]
    return OnlinePlayersFields(
        online=status.online if status else None,
        max=status.max if status else None,
        names=UNSET if call.session is None else names,
    )


@ROUTES.add("GET", "/api/server/join", PUBLIC)
async def show_join_help(call: ApiHandler) -> JoinHelpReply:
    """Show what players need to join the game: addresses, versions, and a QR code for phones."""
    help = await asyncio.to_thread(make_join_help, call.services.config)
    return JoinHelpReply(
        data=JoinHelpFields(address=help.address, versions=help.versions, bedrock=_bedrock_fields(help.bedrock))
    )


@ROUTES.add("GET", "/api/downloads", PUBLIC)
async def list_downloads(call: ApiHandler) -> DownloadsReply:
    """List the files that this host offers to players, such as a client or a resource pack."""
    return DownloadsReply(
        resources=[
            to_reply(DownloadFields, download, id=name) for name, download in call.services.config.downloads.items()
        ]
    )


def _bedrock_fields(server: BedrockServer | None) -> BedrockServerFields | None:
    if server is None:
        return None
    address = server.address
    return BedrockServerFields(host=address.host, port=address.port, link=server.link, qr_code=server.qr_code)
