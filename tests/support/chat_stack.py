"""A stack with a chat platform: a real OAuth 2.0 server beside the daemon."""

import itertools
from collections.abc import Mapping
from typing import Any

from tests.support.authme.authme_database import DatabaseKind, Row
from tests.support.chat_browser import Browser
from tests.support.our_tables import ago, our_database
from tests.support.peers.oauth_platform import ChatPerson
from tests.support.peers.oauth_server import OAuthServer
from tests.support.stack import MakeStack, Stack

CALLBACK_PATH = "/api/chat/callback"


class ChatStack:
    """`stack` with the platform `provider` in its config."""

    def __init__(self, stack: Stack, provider: OAuthServer) -> None:
        self.stack = stack
        self.provider = provider
        self._numbers = itertools.count(10_000_000_000_000_000)
        provider.platform.redirect_urls.add(stack.daemon.base_url + CALLBACK_PATH)

    def person(self, name: str = "alice", **profile: Any) -> ChatPerson:
        """Return a person with a new account on the platform."""
        return self.provider.join(ChatPerson(str(next(self._numbers)), name, **profile))

    def browser(self, person: ChatPerson | None = None) -> Browser:
        """Return a new browser logged in on the platform as `person`; None: as a new person."""
        return Browser(self.stack.daemon, person or self.person())

    def refusing_browser(self) -> Browser:
        """Return a new browser whose person denies consent."""
        return Browser(self.stack.daemon, None)

    def links(self, browser: Browser) -> list[Row]:
        """Return the stored links of the browser's person, claimed or not."""
        assert browser.person is not None
        query = "SELECT * FROM regsvc_chat_link WHERE account_id = ?"
        return our_database(self.stack).query(query, (browser.person.id,))

    def count_requests(self) -> int:
        """Return the number of open authorization requests."""
        [row] = our_database(self.stack).query("SELECT COUNT(*) AS n FROM regsvc_chat_request")
        return int(row["n"])

    def age_links(self, **period: float) -> None:
        """Make all links this old."""
        our_database(self.stack).execute("UPDATE regsvc_chat_link SET linked_at = ?", (ago(**period),))


def make_chat_stack(
    make_stack: MakeStack,
    provider: OAuthServer,
    kind: DatabaseKind = "sqlite",
    *,
    chat: Mapping[str, object] | None = None,
    platform: str = "discord",
    config: Mapping[str, Mapping[str, Any]] | None = None,
) -> ChatStack:
    """Return a new stack; `chat` changes keys of that section, `config` the others."""
    sections = {**(config or {}), "chat": provider.config(platform, **(chat or {}))}
    return ChatStack(make_stack(kind, config=sections), provider)
