"""The interface of a chat platform, and what a message about an application shows on any of them."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import ClassVar, Final
from urllib.parse import urlsplit

from plugin_bridge.text import one_line
from regsvc.config.host_sections import TeamChat
from regsvc.core.addresses import is_loopback, is_private
from regsvc.core.text import MAX_ANSWER

ONEBOT_PATH: Final = "/api/team-chat/onebot"
_LINKING: Final = re.compile(r"([@#$/.:])(?=\S)")
"""Characters within what clients turn into links, mentions and commands by themselves."""
_JOINER: Final = "\u2060"
"""A character without width that ends what clients take for a link."""


def break_links(text: str) -> str:
    """Return a text of another person on one line, which looks as typed, and in which clients find no link."""
    return _LINKING.sub(rf"\1{_JOINER}", one_line(text, MAX_ANSWER))


def is_public_address(url: str) -> bool:
    """Whether only public addresses are meant, as opposed to a host that names one of its own network."""
    host = urlsplit(url).hostname or ""
    return not (is_loopback(host) or is_private(host))


@dataclass(frozen=True)
class MessageContent:
    """Content of a message about an application. Texts are escaped for the platform, in the chat's language.

    `number` names the application in commands, `version` its answers: a decision tells which ones it is about.
    `labels` are those of the buttons by verb; empty: there is nothing to decide any more.
    """

    number: int
    title: str
    lines: tuple[str, ...]
    url: str
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Checksum of all that is shown."""
        return sha256(repr((self.title, self.lines, self.url, self.version, sorted(self.labels))).encode()).hexdigest()


class MessageGone(Exception):
    """The message was deleted on the platform."""


@dataclass(eq=False)
class Platform(ABC):
    """A chat of the team on one platform: sends messages there, and receives what people do with them.

    A new platform is a class beside `Discord`, and an entry in `PLATFORMS` (`regsvc.team_chat.service`). What people do
    goes to `TeamDecisions`, on a worker thread. All methods raise what `Transport.send` raises.
    """

    title: ClassVar[str]
    """The platform's name, as the audit log shows it."""
    longest: ClassVar[int]
    """Characters of all lines of a message together."""
    labels: ClassVar[str] = ""
    """What the keys of the labels' texts begin with."""
    sends_itself: ClassVar[bool] = True
    """Whether any process can send messages; else only the daemon that is connected."""

    chat: TeamChat

    @staticmethod
    @abstractmethod
    def escape(text: str) -> str:
        """Return a text of another person so that it neither mentions, formats nor links, on one line."""

    @abstractmethod
    async def post(self, content: MessageContent, delivery: int) -> str:
        """Send a new message and return its id. The same `delivery` is not sent twice, where the platform can tell."""

    @abstractmethod
    async def edit(self, remote_id: str, content: MessageContent) -> None:
        """Let a message show this, or answer it where messages cannot be edited. Raises `MessageGone`."""

    @abstractmethod
    async def write_to(self, account_id: str, text: str) -> None:
        """Send a person a message, if the platform and they allow it; `text` is escaped."""

    @abstractmethod
    async def find_problems(self, now: datetime) -> list[str]:
        """Return what keeps the team from deciding here, each a sentence for the host. Sends no message."""
