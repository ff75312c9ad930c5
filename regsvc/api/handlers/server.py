"""Public routes for versions, the game server's status and downloads. No request waits for another server."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import UNSET

from plugin_bridge.server.status_ping import ServerStatus
from plugin_bridge.server.versions import is_newer
from regsvc import __version__
from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import ACCESS_TOKEN, endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.messages import epoch_milliseconds
from regsvc.api.types.server import (
    BedrockServerFields,
    DownloadFields,
    DownloadsReply,
    GameServerFields,
    JoinHelpFields,
    JoinHelpReply,
    NetworkServerFields,
    OnlinePlayersFields,
    PluginVersionFields,
    ServerStatusReply,
    VersionReply,
)
from regsvc.runtime.game_status import LastStatus
from regsvc.runtime.join_help import BedrockServer, make_join_help

PLUGIN: Final = "AuthMe"


class VersionHandler(ApiHandler):
    @endpoint()
    async def get(self) -> VersionReply:
        """Show the installed versions, and whether newer ones are available (checked in the background)."""
        latest = self.services.updates.latest
        own, plugin = latest.published.get("companion"), latest.published.get("plugin")
        installed = await self.services.plugin.get()
        return VersionReply(
            current_version=__version__,
            latest_version=own.version if own else None,
            update_available=is_newer(own.version if own else None, __version__),
            releases_url=own.page if own else None,
            checked_at=epoch_milliseconds(latest.checked_at),
            plugin=PluginVersionFields(
                name=PLUGIN,
                current_version=installed,
                latest_version=plugin.version if plugin else None,
                update_available=is_newer(plugin.version if plugin else None, installed),
            ),
        )


class ServerStatusHandler(ApiHandler):
    @endpoint(credentials=(ACCESS_TOKEN,))
    async def get(self) -> ServerStatusReply:
        """Show the game server's status of some seconds ago. Only logged-in users see the names of the players."""
        return self.last_status()

    def last_status(self) -> ServerStatusReply:
        last, network = self.services.game_status.last_status(), self.services.network
        status = last.status
        return ServerStatusReply(
            data=GameServerFields(
                online=status is not None,
                players=self._players(status),
                version=status.version if status else None,
                motd=status.motd if status else None,
                latency_ms=round(status.latency * 1000) if status else None,
                checked_at=epoch_milliseconds(last.at),
                status_hidden=last.is_hidden,
                servers=[self._server(name, game.last_status()) for name, game in network.items()] or UNSET,
            )
        )

    def _server(self, name: str, last: LastStatus) -> NetworkServerFields:
        status = last.status
        return NetworkServerFields(
            name=name,
            online=status is not None,
            players=self._players(status),
            version=status.version if status else None,
            checked_at=epoch_milliseconds(last.at),
            status_hidden=last.is_hidden,
        )

    def _players(self, status: ServerStatus | None) -> OnlinePlayersFields:
        names = [] if status is None else [player.name for player in status.players]
        return OnlinePlayersFields(
            online=status.online if status else None,
            max=status.max if status else None,
            names=UNSET if self.session is None else names,
        )


class JoinHelpHandler(ApiHandler):
    @endpoint()
    async def get(self) -> JoinHelpReply:
        """Show what players need to join the game: addresses, versions, and a QR code for phones."""
        help = await asyncio.to_thread(make_join_help, self.services.config)
        return JoinHelpReply(
            data=JoinHelpFields(address=help.address, versions=help.versions, bedrock=_bedrock_fields(help.bedrock))
        )


class DownloadsHandler(ApiHandler):
    @endpoint()
    async def get(self) -> DownloadsReply:
        """List the files that this host offers to players, such as a client or a resource pack."""
        return self.list_downloads()

    def list_downloads(self) -> DownloadsReply:
        return DownloadsReply(
            resources=[
                to_reply(DownloadFields, download, id=name) for name, download in self.services.config.downloads.items()
            ]
        )


def _bedrock_fields(server: BedrockServer | None) -> BedrockServerFields | None:
    if server is None:
        return None
    address = server.address
    return BedrockServerFields(host=address.host, port=address.port, link=server.link, qr_code=server.qr_code)
