"""Help to join the game: addresses, versions, and a QR code for phones."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from regsvc.config.sections import Config
from regsvc.core.game_address import GameAddress, public_bedrock_address, public_game_address
from regsvc.core.qr_code import draw_qr_code


@dataclass(frozen=True)
class BedrockServer:
    """A server as players of the Bedrock edition enter it."""

    address: GameAddress
    link: str
    """A link that adds the server to the game."""
    qr_code: str
    """The link as a `data:` address of an image."""


@dataclass(frozen=True)
class JoinHelp:
    """Addresses and versions of the game server; None: the host has not set them, or players cannot use them."""

    address: str | None
    versions: str | None
    bedrock: BedrockServer | None


def make_join_help(config: Config) -> JoinHelp:
    """Return what players need to join. Blocking: draws a QR code when it is called first."""
    written, bedrock = config.game.address, config.bedrock
    address = public_bedrock_address(bedrock.address, written) if bedrock.enabled else None
    return JoinHelp(
        public_game_address(written),
        config.game.versions or None,
        None if address is None else _make_bedrock_server(config.server.name, address),
    )


def _make_bedrock_server(name: str, address: GameAddress) -> BedrockServer:
    host = f"[{address.host}]" if ":" in address.host else address.host
    link = f"minecraft:?addExternalServer={quote(name.replace('|', ' '), safe='')}|{host}:{address.port}"
    return BedrockServer(address, link, _draw(link))


_draw: Final = lru_cache(maxsize=1)(draw_qr_code)
