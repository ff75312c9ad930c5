"""Discord as we use it: a stand-in for its REST API that checks every body, and clicks that it signs.

The fields are those of its published OpenAPI description (discord/discord-api-spec, version 10); a body with any other
field, or one too long, is refused with 400 as Discord does.
"""

import itertools
import json
import re
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

from nacl.signing import SigningKey

from tests.support.daemon import Daemon, Reply
from tests.support.peers.http_peer import HttpPeer, body_of, headers_of

TOKEN = "the-token-of-the-bot-on-discord"
GUILD, CHANNEL, APPLICATION = "4000000000000000001", "4000000000000000002", "4000000000000000003"
BOT, ROLE = "4000000000000000004", "4000000000000000005"
SUPPORTER, PLAYER = "4000000000000000006", "4000000000000000007"
"""Roles of the guild below the bot's."""
WAIT = 60.0
MESSAGE_FIELDS = {"content", "embeds", "components", "allowed_mentions", "nonce", "enforce_nonce", "flags"}
_PATH = re.compile(r"/channels/(\d+)/messages(?:/(\d+))?")
_MEMBER = re.compile(rf"/guilds/{GUILD}/members/(\d+)(?:/roles/(\d+))?")
Answer = tuple[int, dict[str, str], Any]
"""Status, headers, and a body: JSON, or bytes as they are."""


class Discord(HttpPeer):
    """Keeps messages as people see them, by id: the newest body of each; `sent` has all requests in order.

    Of its guild it keeps the members, with their roles. How they are looked at and changed, and the codes of refusals,
    was read in the documentation: resources/guild, topics/opcodes-and-status-codes, topics/rate-limits.

    An interaction by a button, or by a form that it opened, has the message (read in the documentation: `message`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.key = SigningKey.generate()
        self.public_key = self.key.verify_key.encode().hex()
        self.messages: dict[str, dict[str, Any]] = {}
        self.channel_of: dict[str, str] = {}
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.endpoint: str | None = None
        """The interactions endpoint URL that was entered."""
        self.overwrites: list[dict[str, str]] = []
        self.clock_step = 0
        self.late: list[dict[str, Any]] = []
        self.lost_replies = 0
        """Number of next requests that are carried out and answered as if they were not."""
        self.closed_doors: set[str] = set()
        """People who take no messages from the bot."""
        self.members: dict[str, set[str]] = {}
        """Roles of the guild's members but the bot, by account."""
        self.bots_rights = (1 << 11) + (1 << 14) + (1 << 28)
        self.bots_position = 9
        self.emojis: list[dict[str, Any]] = []
        self.faults: dict[str, Answer] = {}
        """Answers to all requests whose path begins so, in place of what is true."""
        self.looks: list[str] = []
        """Requests about the guild, in order: "GET /guilds/…"."""
        self._nonces: dict[str, str] = {}
        self._about: dict[str, str] = {}
        """The message whose button was pressed, by what the button and its form are named."""
        self._numbers = itertools.count(5_000_000_000_000_000_000)
        self._news = threading.Condition()

    def next_id(self) -> str:
        return str(next(self._numbers))

    # --- what people see and do ---

    def wait_for(self, counts: Callable[[dict[str, Any]], bool]) -> tuple[str, dict[str, Any]]:
        """Return the id and body of a message like this, once there is one."""

        def find() -> tuple[str, dict[str, Any]] | None:
            return next((it for it in self.messages.items() if counts(it[1])), None)

        with self._news:
            assert self._news.wait_for(lambda: find() is not None, WAIT), list(self.messages.values())
            found = find()
            assert found is not None
            return found

    def wait_for_sent(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.sent) >= count, WAIT), self.sent

    def wait_for_late(self, count: int) -> list[dict[str, Any]]:
        """Return the deferred answers, once there are so many."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.late) >= count, WAIT), self.late
            return self.late[:count]

    def click(self, message: dict[str, Any], verb: str, person: str, **changes: Any) -> dict[str, Any]:
        """Return the interaction of a person who presses this button of a message."""
        [custom_id] = [id for id in custom_ids(message) if id.startswith(verb)]
        self._about[custom_id] = message["id"]
        return self.interaction(3, custom_id, person, **{"message": {"id": message["id"]}, **changes})

    def form(self, shown: dict[str, Any], text: str, person: str, **changes: Any) -> dict[str, Any]:
        """Return the interaction of a person who sends a form that was shown."""
        [labelled] = shown["data"]["components"]
        field = {**labelled["component"], "value": text}
        rows = [{"type": 18, "component": {key: field[key] for key in ("type", "custom_id", "value")}}]
        custom_id = shown["data"]["custom_id"]
        about = {"message": {"id": self._about.get(custom_id, "1")}}
        made = self.interaction(5, custom_id, person, **{**about, **changes})
        made["data"]["components"] = rows
        return made

    def interaction(self, kind: int, custom_id: str, person: str, **changes: Any) -> dict[str, Any]:
        return {
            "id": self.next_id(),
            "application_id": APPLICATION,
            "type": kind,
            "token": f"interaction-token-{person}",
            "version": 1,
            "guild_id": GUILD,
            "channel_id": CHANNEL,
            "locale": "en-US",
            "member": {"user": {"id": person, "username": "someone"}, "roles": [], "permissions": "0"},
            "data": {"custom_id": custom_id, "component_type": 2},
            **changes,
        }

    def sign(
        self, interaction: dict[str, Any], *, key: SigningKey | None = None, age: int = 0
    ) -> tuple[str, str, bytes]:
        """Return signature, timestamp and body of an interaction that was signed `age` seconds ago."""
        body, timestamp = json.dumps(interaction).encode(), str(int(time.time()) - age)
        return (key or self.key).sign(timestamp.encode() + body).signature.hex(), timestamp, body

    def send(self, daemon: Daemon, interaction: dict[str, Any], **options: Any) -> Reply:
        """Post an interaction; `options` are those of `sign`."""
        signature, timestamp, body = self.sign(interaction, **options)
        headers = {
            "X-Signature-Ed25519": signature,
            "X-Signature-Timestamp": timestamp,
            "Content-Type": "application/json",
        }
        return daemon.post("/api/team-chat/discord", body=body, headers=headers)

    # --- the API ---

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        handler = super()._handler_class()
        for method in ("PATCH", "PUT", "DELETE"):
            setattr(handler, f"do_{method}", lambda request: self.respond(request))
        return handler

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(body_of(handler) or b"{}")
        with self._news:
            status, headers, reply = self._answer(handler, body)
            if self.lost_replies > 0:
                self.lost_replies -= 1
                status, headers, reply = 429, {"Retry-After": "0.3", "X-RateLimit-Scope": "shared"}, {"code": 0}
            self._news.notify_all()
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        handler.send_response_only(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        method, headers = handler.command, headers_of(handler)
        if handler.path.startswith("/webhooks/"):
            assert "authorization" not in headers
            self.late.append(body)
            return 200, {}, {}
        if headers.get("authorization") != f"Bot {TOKEN}" or not headers["user-agent"].startswith("DiscordBot ("):
            return 401, {}, {"message": "401: Unauthorized", "code": 0}
        if handler.path.startswith("/guilds/"):
            self.looks.append(f"{method} {handler.path}")
            fault = next((it for start, it in self.faults.items() if handler.path.startswith(start)), None)
            if fault is not None:
                return fault
            if found := _MEMBER.fullmatch(handler.path):
                return self._member(method, *found.groups())
        if method == "GET":
            return self._show(handler.path)
        self.sent.append((method, handler.path, body))
        if handler.path == "/users/@me/channels":
            return 200, {}, {"id": f"7{body['recipient_id']}", "type": 1}
        found = _PATH.fullmatch(handler.path)
        if found is None:
            return 404, {}, {"message": "404: Not Found", "code": 0}
        channel, message_id = found.groups()
        if channel.removeprefix("7") in self.closed_doors:
            return 403, {}, {"message": "Cannot send messages to this user", "code": 50007}
        if problem := find_problem(body):
            return 400, {}, {"message": f"Invalid Form Body: {problem}", "code": 50035}
        return self._keep(channel, message_id, body)

    def _show(self, path: str) -> tuple[int, dict[str, str], Any]:
        shown: Any = {
            "/applications/@me": {
                "id": APPLICATION,
                "bot": {"id": BOT},
                "verify_key": self.public_key,
                "interactions_endpoint_url": self.endpoint,
            },
            f"/channels/{CHANNEL}": {"id": CHANNEL, "guild_id": GUILD, "permission_overwrites": self.overwrites},
            "/users/@me": {"id": BOT},
            f"/guilds/{GUILD}": self._guild(),
            f"/guilds/{GUILD}?with_counts=true": {
                **self._guild(),
                "approximate_member_count": len(self.members) + 1,
            },
            f"/guilds/{GUILD}/roles": self._roles(),
        }.get(path)
        date = {"Date": formatdate(time.time() + self.clock_step, usegmt=True)}
        if shown is None:
            return 404, date, {"message": "Unknown", "code": 10004 if path.startswith("/guilds/") else 10003}
        return 200, date, shown

    def _guild(self) -> dict[str, Any]:
        return {"id": GUILD, "roles": self._roles(), "emojis": self.emojis}

    def _roles(self) -> list[dict[str, Any]]:
        return [
            {"id": GUILD, "permissions": str(1 << 10), "position": 0},
            {"id": ROLE, "permissions": str(self.bots_rights), "position": self.bots_position},
            {"id": SUPPORTER, "permissions": "0", "position": 2},
            {"id": PLAYER, "permissions": "0", "position": 3},
        ]

    def _member(self, method: str, account: str, role: str | None) -> Answer:
        roles = {ROLE} if account == BOT else self.members.get(account)
        if roles is None:
            return 404, {}, {"message": "Unknown Member", "code": 10007}
        if role is None:
            return 200, {}, {"user": {"id": account, "username": "someone"}, "roles": sorted(roles)}
        if not self.bots_rights & (1 << 28 | 1 << 3) or self.bots_position <= 3:
            return 403, {}, {"message": "Missing Permissions", "code": 50013}
        (roles.add if method == "PUT" else roles.discard)(role)
        return 204, {}, b""

    def _keep(self, channel: str, message_id: str | None, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if message_id is not None and message_id not in self.messages:
            return 404, {}, {"message": "Unknown Message", "code": 10008}
        nonce = body.get("nonce") if body.get("enforce_nonce") else None
        known = self._nonces.get(nonce) if nonce is not None else None
        message_id = message_id or known or self.next_id()
        if nonce is not None:
            self._nonces[nonce] = message_id
        if known is None:
            self.messages[message_id] = {**self.messages.get(message_id, {}), **body, "id": message_id}
            self.channel_of[message_id] = channel
        return 200, {"X-RateLimit-Remaining": "4", "X-RateLimit-Reset-After": "0.2"}, {"id": message_id}


def custom_ids(message: dict[str, Any]) -> list[str]:
    """Return the ids of the buttons of a message, without links."""
    return [it["custom_id"] for row in message.get("components", []) for it in row["components"] if "custom_id" in it]


def text_of(message: dict[str, Any]) -> str:
    """Return all that a message says."""
    return "\n".join([message["content"], *(embed["description"] for embed in message.get("embeds", []))])


def find_problem(body: dict[str, Any]) -> str | None:
    """Return what Discord would not accept in a message, or None."""
    if unknown := body.keys() - MESSAGE_FIELDS:
        return f"unknown {unknown}"
    if len(body.get("content", "")) > 2000 or len(str(body.get("nonce", ""))) > 25:
        return "content or nonce too long"
    if body.get("allowed_mentions") != {"parse": []}:
        return "mentions are allowed"
    for embed in body.get("embeds", []):
        if not 0 < len(embed["description"]) <= 4096 or embed.keys() != {"description"}:
            return "embed"
    for row in body.get("components", []):
        if row["type"] != 1 or not 0 < len(row["components"]) <= 5:
            return "action row"
        for button in row["components"]:
            target = "url" if button["style"] == 5 else "custom_id"
            if button.keys() != {"type", "style", "label", target} or button["type"] != 2:
                return "button"
            limits = {"label": 80, "custom_id": 100, "url": 512}
            if any(not 0 < len(button[name]) <= limit for name, limit in limits.items() if name in button):
                return "length of a button's field"
    return None
