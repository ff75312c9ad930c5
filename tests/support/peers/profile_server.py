"""Stand-in for Mojang's look-up of accounts by name, over real HTTP."""

import json
from http.server import BaseHTTPRequestHandler

from tests.support.peers.http_peer import HttpPeer


class ProfileServer(HttpPeer):
    """`accounts`: the UUID by the name as it is spelled. `status`: of all replies, instead of the right one.

    `asked` are the names of all requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, str] = {}
        self.status: int | None = None
        self.asked: list[str] = []

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.path.rpartition("/")[2]
        self.asked.append(asked)
        name = next((name for name in self.accounts if name.lower() == asked.lower()), None)
        body = b""
        if name is not None:
            body = json.dumps({"id": self.accounts[name].replace("-", ""), "name": name}).encode()
        handler.send_response(self.status or (404 if name is None else 200))
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
