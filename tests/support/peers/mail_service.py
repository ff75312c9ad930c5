"""A real web server on loopback that answers as the mail services document it, and keeps the mails that it accepted.

Resend: resend.com/docs/api-reference (emails, domains, errors). Mailgun: documentation.mailgun.com (messages, response
codes). Brevo: developers.brevo.com (sendtransacemail, get-account, batch email idempotency, limit headers). Generic: a
service with a token in a header of its own that takes JSON or form fields.
"""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.support.peers.http_peer import HttpPeer, body_of, headers_of

KEY = "key-5f1c0e-of-the-account"
SENDING_KEY = "key-77aa12-for-sending-alone"
DOMAIN = "play.example.org"
WAIT = 30.0  # seconds a test waits for a mail before it fails


@dataclass(frozen=True)
class Asked:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}


@dataclass(frozen=True)
class Answered:
    """A response; `is_lost` ends the connection instead, after the request was dealt with."""

    status: int
    json: Any = None
    headers: Mapping[str, str] | None = None
    is_lost: bool = False


class MailService(HttpPeer):
    """A service of this kind. `path` is where its mails are posted."""

    def __init__(self, kind: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.kind = kind
        self.requests: list[Asked] = []
        self.mails: list[Any] = []  # as they were posted: JSON, or the fields of a form
        self._answer, self.path = _KINDS[kind]
        self._keys: dict[str, Any] = {}
        self._next: list[Answered] = []
        self._loses_next = False
        self._arrived = threading.Condition()

    @property
    def url(self) -> str:
        return f"{self.address}{self.path}"

    @property
    def config(self) -> dict[str, object]:
        """The keys of [mail] for this service."""
        provider = {"http_provider": self.kind, "http_url": self.url, "http_key": KEY, "http_allow_private": True}
        return {"backend": "http", "sender": f"Example Craft <noreply@{DOMAIN}>", **provider}

    def answer(self, *answers: Answered) -> None:
        """Send these responses to the next requests, one each, whatever is asked."""
        self._next.extend(answers)

    def lose_next_answer(self) -> None:
        """Deal with the next request, and end the connection without an answer."""
        self._loses_next = True

    def wait_for(self, count: int) -> list[Any]:
        """Return the mails once so many were accepted; AssertionError if fewer were."""
        with self._arrived:
            has_come = self._arrived.wait_for(lambda: len(self.mails) >= count, WAIT)
        assert has_come, f"{len(self.mails)} of {count} mails came"
        return list(self.mails)

    def accept(self, mail: Any) -> None:
        self.mails.append(mail)

    def has_key(self, key: str) -> bool:
        return key in self._keys

    def remember_key(self, key: str, answer: Any) -> Any:
        return self._keys.setdefault(key, answer)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Deal with one request, and answer it unless the answer is to be lost."""
        asked = Asked(handler.command, handler.path, headers_of(handler), body_of(handler))
        with self._arrived:
            self.requests.append(asked)
            answered = self._next.pop(0) if self._next else self._answer(self, asked)
            is_lost, self._loses_next = self._loses_next or answered.is_lost, False
            self._arrived.notify_all()
        if is_lost:
            return
        content = json.dumps(answered.json).encode()
        handler.send_response(answered.status)
        for name, value in (answered.headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def _resend(service: MailService, asked: Asked) -> Answered:
    key = asked.headers.get("authorization", "").removeprefix("Bearer ")
    if not key:
        return _resend_error(401, "missing_api_key", "Missing API key in the authorization header.")
    if key not in (KEY, SENDING_KEY):
        return _resend_error(403, "invalid_api_key", f"API key {key} is invalid.")
    if (asked.method, asked.path) == ("GET", "/domains"):
        if key == SENDING_KEY:
            return _resend_error(401, "restricted_api_key", "This API key is restricted to only send emails.")
        return Answered(200, {"object": "list", "data": [{"name": DOMAIN, "status": "verified"}]})
    if (asked.method, asked.path) != ("POST", "/emails"):
        return _resend_error(404, "not_found", "The requested endpoint does not exist.")
    mail, idempotency = asked.json, asked.headers.get("idempotency-key", "")
    if missing := [name for name in ("from", "to", "subject") if not mail.get(name)]:
        return _resend_error(422, "missing_required_field", f"Missing {missing}.")
    if f"@{DOMAIN}" not in mail["from"]:
        return _resend_error(403, "validation_error", "The domain is not verified.")
    if "nobody" in mail["to"][0]:
        return _resend_error(422, "validation_error", f"Invalid `to` field in {asked.body.decode()}.")
    if not service.has_key(idempotency):
        service.accept(mail)
    earlier, answer = service.remember_key(idempotency, (mail, {"id": f"id-{len(service.mails)}"}))
    if earlier != mail:
        return _resend_error(409, "invalid_idempotent_request", "Same idempotency key, different request payload.")
    return Answered(200, answer)


def _resend_error(status: int, name: str, message: str) -> Answered:
    return Answered(status, {"statusCode": status, "name": name, "message": message})


def _mailgun(service: MailService, asked: Asked) -> Answered:
    """Keys for sending alone may post to /messages of their domain, and nothing else."""
    credentials = base64.b64decode(asked.headers.get("authorization", "").removeprefix("Basic ")).decode()
    if credentials not in (f"api:{KEY}", f"api:{SENDING_KEY}"):
        return Answered(401, "Forbidden")
    if asked.method != "POST" or not asked.path.endswith("/messages"):
        return Answered(401 if credentials.endswith(SENDING_KEY) else 404, "Forbidden")
    if asked.path != f"/v3/{DOMAIN}/messages":
        return Answered(404, {"message": f"Domain not found: {asked.path}"})
    mail = asked.form
    for name in ("from", "to"):
        if not mail.get(name):
            return Answered(400, {"message": f"{name} parameter is missing"})
    if "nobody" in mail["to"]:
        return Answered(400, {"message": "to parameter is not a valid address. please check documentation"})
    if not mail.get("text") and not mail.get("html"):
        return Answered(400, {"message": "Need at least one of 'text' or 'html' parameters specified"})
    service.accept(mail)
    return Answered(200, {"id": "<1@mail>", "message": "Queued. Thank you."})


def _brevo(service: MailService, asked: Asked) -> Answered:
    key = asked.headers.get("api-key")
    if key != KEY:
        return Answered(401, {"code": "unauthorized", "message": "Key not found"})
    if (asked.method, asked.path) == ("GET", "/v3/account"):
        return Answered(200, {"email": "host@example.org", "plan": [{"type": "free", "credits": 300}]})
    if (asked.method, asked.path) != ("POST", "/v3/smtp/email"):
        return Answered(404, {"code": "document_not_found", "message": "Not found"})
    mail = asked.json
    if not mail["sender"]["email"].endswith(DOMAIN):
        return Answered(400, {"code": "invalid_parameter", "message": "sender is not valid"})
    if "nobody" in mail["to"][0]["email"]:
        return Answered(400, {"code": "invalid_parameter", "message": f"email is not valid: {asked.body.decode()}"})
    idempotency = mail["headers"]["idempotencyKey"]
    if service.has_key(idempotency):
        return Answered(400, {"code": "duplicate_parameter", "message": "The idempotency key was used already"})
    service.remember_key(idempotency, True)
    service.accept(mail)
    return Answered(201, {"messageId": "<1@relay>"})


def _generic(service: MailService, asked: Asked) -> Answered:
    if asked.method != "POST":
        return Answered(405)
    if asked.headers.get("x-server-token") != KEY:
        return Answered(401, {"Message": "No Account or Server API tokens were supplied"})
    is_json = asked.headers["content-type"] == "application/json"
    service.accept(asked.json if is_json else asked.form)
    return Answered(202)


_KINDS: dict[str, tuple[Callable[[MailService, Asked], Answered], str]] = {
    "resend": (_resend, "/emails"),
    "mailgun": (_mailgun, f"/v3/{DOMAIN}/messages"),
    "brevo": (_brevo, "/v3/smtp/email"),
    "generic": (_generic, "/send"),
}
