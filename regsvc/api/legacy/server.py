"""Public routes of front ends that connect to a WebSocket, show players' heads and open absolute links."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from regsvc.api.endpoint import ACCESS_TOKEN, endpoint
from regsvc.api.handlers.config import ConfigHandler, public_config
from regsvc.api.handlers.server import DownloadsHandler, ServerStatusHandler
from regsvc.api.legacy.types import (
    ListedPlayersFields,
    OnlinePlayerFields,
    ServerWithPlayersFields,
    ServerWithPlayersReply,
)
from regsvc.api.types.config import ConfigReply
from regsvc.api.types.server import DownloadsReply
from regsvc.config.sections import Config

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class FrontEndConfigHandler(ConfigHandler):
    @endpoint()
    async def get(self) -> ConfigReply:
        """Show the public config of this host: texts for front ends, and the requirements of a registration."""
        public, config = public_config(self.services), self.services.config
        regex = self._password_regex(public.authme.password_regex)
        changed = msgspec.structs.replace(
            public,
            registration=msgspec.structs.replace(public.registration, password_regex=regex),
            authme=msgspec.structs.replace(public.authme, password_regex=regex),
            captcha=msgspec.structs.replace(
                public.captcha,
                enabled="captcha" in config.registration.methods,
                type="math" if public.captcha.type == "work" else public.captcha.type,
            ),
            ws_port=public_port(config),
        )
        return ConfigReply(config=changed)

    def _password_regex(self, regex: str) -> str:
        """Return the expression with the lengths in it, as in that for names: it is all that is checked."""
        rule = self.services.password_rule
        rest = f"(?:{regex})" if "|" in regex else regex.removeprefix("^")
        return f"^(?=.{{{rule.min_length},{rule.max_length}}}$){rest}"


class ServerWithPlayersHandler(ServerStatusHandler):
    @endpoint(credentials=(ACCESS_TOKEN,))
    async def get(self) -> ServerWithPlayersReply:
        """Show the game server's status of some seconds ago. Only logged-in users see the names of the players."""
        data = self.last_status().data
        status = self.services.game_status.last_status().status
        listed = [] if status is None else [OnlinePlayerFields(name=name, uuid=uuid) for name, uuid in status.players]
        players = ListedPlayersFields(
            online=data.players.online, max=data.players.max, names=UNSET if self.session is None else listed
        )
        return ServerWithPlayersReply(
            data=ServerWithPlayersFields(**{**msgspec.structs.asdict(data), "players": players})
        )


class AbsoluteDownloadsHandler(DownloadsHandler):
    @endpoint()
    async def get(self) -> DownloadsReply:
        """List the files that this host offers to players, such as a client or a resource pack. URLs are absolute."""
        base_url = self.services.config.base_url()
        resources = [
            msgspec.structs.replace(file, url=f"{base_url}{file.url}") if file.url.startswith("/") else file
            for file in self.list_downloads().resources
        ]
        return DownloadsReply(resources=resources)


def public_port(config: Config) -> int:
    """Return the port of our public address: without one, front ends send their token to the port after it."""
    address = urlsplit(config.base_url())
    return address.port or _DEFAULT_PORTS[address.scheme]
