"""A person's browser that links a chat account: it keeps our cookies and is logged in on the chat platform."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

from tests.support.daemon import Daemon, Reply
from tests.support.peers.oauth_platform import ChatPerson

BROWSERS_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@dataclass
class Browser:
    """A browser. `person` is logged in on the chat platform; None: consent is denied."""

    daemon: Daemon
    person: ChatPerson | None
    name: str = "chat"
    """The name in our paths: `chat`, or `discord` as in older front ends."""
    cookies: dict[str, str] = field(default_factory=dict)

    def begin(self, username: str | None = None, token: str | None = None) -> "StartedLink":
        """Start an authorization request, as a front end does; AssertionError if it is refused."""
        query = {} if username is None else {"username": username}
        reply = self.get(f"/api/{self.name}/auth", query, token=token)
        assert reply.status == 200, reply.text
        return StartedLink(reply.json["authUrl"], reply.json["linkToken"])

    def consent(self, auth_url: str) -> str:
        """Open the platform's URL; returns the URL of our callback, with state and code."""
        parts = urlsplit(auth_url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        headers = {"Cookie": f"account={self.person.id}"} if self.person else {}
        try:
            connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
            response = connection.getresponse()
            told = response.read()
        finally:
            connection.close()
        assert response.status == 302, told
        return response.headers["Location"]

    def open_callback(
        self, callback: str, token: str | None = None, accept: str = "*/*", link_token: str = ""
    ) -> Reply:
        """Open the callback."""
        parts = urlsplit(callback)
        headers = {"Accept": accept} | ({"X-Link-Token": link_token} if link_token else {})
        return self.get(f"{parts.path}?{parts.query}", token=token, headers=headers)

    def link(self, username: str | None = None, token: str | None = None) -> str:
        """Link the account and return the link token."""
        begun = self.begin(username, token)
        reply = self.open_callback(self.consent(begun.auth_url))
        assert reply.status == 200, reply.text
        return begun.link_token

    def status(self, username: str, token: str | None = None) -> Reply:
        return self.get(f"/api/{self.name}/status", {"username": username}, token=token)

    def get(self, path: str, query: Mapping[str, str] | None = None, **options: object) -> Reply:
        """Send a GET request with the cookies set before."""
        return self._keep_cookies(self.daemon.get(path, query, **{**options, "headers": self._headers(options)}))

    def post(self, path: str, json: object, **options: object) -> Reply:
        return self._keep_cookies(self.daemon.post(path, json, **{**options, "headers": self._headers(options)}))

    def _headers(self, options: Mapping[str, object]) -> dict[str, str]:
        given = options.get("headers") or {}
        assert isinstance(given, dict)
        written = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**given, **({"Cookie": written} if written else {})}

    def _keep_cookies(self, reply: Reply) -> Reply:
        for header in reply.headers.get_all("Set-Cookie", []):
            for name, morsel in SimpleCookie(header).items():
                self.cookies[name] = morsel.value
        return reply


@dataclass(frozen=True)
class StartedLink:
    """A started authorization request."""

    auth_url: str
    link_token: str

    @property
    def query(self) -> dict[str, str]:
        """Parameters of the platform's URL."""
        return query_of(self.auth_url)


def query_of(address: str) -> dict[str, str]:
    """Return the parameters of a URL; ValueError if one is repeated."""
    return {name: value for name, [value] in parse_qs(urlsplit(address).query, strict_parsing=True).items()}
