"""Generator for conf/companion.toml: `python -m tests.generators.sample_config [--check]`."""

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from regsvc.config.host_sections import GameServer, TeamChat
from regsvc.config.key_types import Key, keys_of, to_toml
from regsvc.config.layers import DOWNLOADS, ENVIRONMENT_PREFIX, GAME_SERVERS, SECTIONS, TEAM_CHATS
from regsvc.config.sections import Config, Download
from tests.generators import write_or_check

SAMPLE_FILE = Path(__file__).resolve().parents[2] / "conf" / "companion.toml"

_WIDTH = 100

_HEAD = """\
The config of the companion. Every key is listed with its default: remove the # before those you change.

Durations, sizes and limits are written in words: "5 minutes", "64 KiB", "10 per day".

Any key but those of sections in double brackets can also be set in the environment, which takes precedence:
COMPANION_MAIL_HOST overrides host in [mail]; lists are separated by commas there. A secret can be in a file
of its own that only the companion may read: password_file instead of password. `companion check-config`
reports mistakes.
"""

_DOWNLOAD_EXAMPLE = {
    "name": "Client",
    "description": "Everything to join with",
    "version": "1.0",
    "size": "12 MB",
    "url": "https://play.example.org/client.zip",
    "icon": "/files/client.png",
}


_GAME_SERVER_EXAMPLE = {
    "name": "survival",
    "directory": "/srv/survival",
    "address": "127.0.0.1:25566",
    "rcon": True,
    "rcon_host": "127.0.0.1",
    "rcon_port": 25576,
    "rcon_password": "a-long-password",
}

_TEAM_CHAT_EXAMPLE = {
    "platform": "telegram",
    "token": "the-token-of-the-bot",
    "public_key": "",
    "channel": "-1001234567890",
    "tells": ["name", "score", "signals"],
    "language": "",
    "api_url": "",
}


def sample_config() -> str:
    """Return the text of conf/companion.toml: comments start with "# ", keys with "#" alone."""
    blocks = [_comment(_HEAD)]
    for name in Config.__dataclass_fields__:
        if name in SECTIONS:
            blocks += _section_blocks(name, SECTIONS[name])
        elif name == "servers":
            blocks.append(_example(GameServer, f"[[{GAME_SERVERS}]]", _GAME_SERVER_EXAMPLE))
        elif name == "team_chats":
            blocks.append(_example(TeamChat, f"[[{TEAM_CHATS}]]", _TEAM_CHAT_EXAMPLE))
        elif name == DOWNLOADS:
            blocks.append(_example(Download, f"[{DOWNLOADS}.client]", _DOWNLOAD_EXAMPLE))
    return "\n\n".join(blocks) + "\n"


def main(arguments: list[str] | None = None, file: Path = SAMPLE_FILE) -> int:
    """Write or check the sample config; return the exit status."""
    return write_or_check(file, sample_config(), arguments, __doc__ or "")


def _section_blocks(name: str, section: type) -> list[str]:
    heading = f"{_comment(section.__doc__ or '')}\n[{name}]"
    return [f"\n{heading}", *(_key_block(name, key_name, key) for key_name, key in keys_of(section).items())]


def _example(section: type, header: str, values: Mapping[str, object]) -> str:
    """Return an example of a section without defaults to show, as a comment that is not a key."""
    lines = [header, *(f"{name} = {to_toml(values[name])}" for name in keys_of(section))]
    return "\n".join([f"\n{_comment(section.__doc__ or '')}", *(f"#     {line}" for line in lines)])


def _key_block(section: str, name: str, key: Key[object]) -> str:
    lines = [_comment(key.help)]
    options = [to_toml(choice) for choice in key.choices]
    if options not in ([], ["true", "false"]):
        lines.append(f"# {'Any' if isinstance(key.default, list) else 'One'} of: {', '.join(options)}.")
    if key.is_secret:
        variable = f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()
        lines.append(f"# Secret: or {name}_file, or the environment's {variable}.")
    return "\n".join([*lines, f"#{name} = {to_toml(key.default)}"])


def _comment(text: str) -> str:
    """Wrap the text into comment lines; blank lines separate its paragraphs."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    wrapped = (textwrap.wrap(text, _WIDTH, break_on_hyphens=False) for text in paragraphs)
    return "\n#\n".join("\n".join(f"# {line}" for line in lines) for lines in wrapped)


if __name__ == "__main__":
    sys.exit(main())
