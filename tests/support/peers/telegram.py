"""Telegram as we use it: `telegram-test-api` in a process of its own, behind a front that checks every body.

The front refuses wrong tokens, fields that a method does not have, and what is too long, as Telegram does; it also
knows the methods that the package lacks.
"""

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.support.peers.http_peer import HOST, HttpPeer, body_of
from tests.support.ports import free_port
from tests.support.programs import find_npm_package

BOT_ID = 666
TOKEN = f"{BOT_ID}:the-token-of-the-bot-on-Telegram"
GROUP = -1001234567890
WAIT = 60.0
_SCRIPT = Path(__file__).parents[2] / "js" / "telegram-server.js"
_MESSAGE = {"chat_id", "text", "reply_markup", "link_preview_options", "entities", "reply_parameters"}
_FIELDS = {
    "getMe": set[str](),
    "getWebhookInfo": set[str](),
    "getChat": {"chat_id"},
    "getChatMember": {"chat_id", "user_id"},
    "getUpdates": {"offset", "limit", "timeout", "allowed_updates"},
    "sendMessage": _MESSAGE,
    "editMessageText": _MESSAGE | {"message_id"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert"},
}


class Telegram(HttpPeer):
    """Keeps messages as people see them, by id: the newest body of each; `answers` to clicks by the click's id."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[int, dict[str, Any]] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.edits = list[int]()
        """The messages that were changed, in order."""
        self.refusals: list[dict[str, Any]] = []
        """What the next requests that send or edit a message get."""
        self.refused: list[str] = []
        """What was wrong with requests."""
        self.closed_doors: set[str] = set()
        """People who have not started the bot."""
        self.updates: list[dict[str, Any]] = []
        """All that were ever sent, in order."""
        self.polls = 0
        """Number of requests for updates."""
        self.conflicts = 0
        """How many of them were ended by another one."""
        self.is_conflicting = False
        """Whether another program asks for updates all the time."""
        self.webhook = ""
        self.member = {"status": "member"}
        self.group_type = "supergroup"
        self._again: list[dict[str, Any]] = []
        self._clicks = 0
        self._confirmed = 0
        """The first update that is not confirmed."""
        self._news = threading.Condition()
        self._server_port = free_port(HOST)

    def start(self) -> None:
        find_npm_package("telegram-test-api")
        command = ["node", str(_SCRIPT), str(self._server_port)]
        self._server_process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server_process.stdout is not None
        assert self._server_process.stdout.readline() == "listening\n"
        super().start()

    def go_away(self) -> None:
        """Be out of reach until `come_back`; what people do is kept."""
        super().stop()
        with self._news:
            self._news.notify_all()

    def come_back(self) -> None:
        super().start()

    def stop(self) -> None:
        self.go_away()
        self._server_process.communicate("", timeout=WAIT)

    # --- what people see and do ---

    def wait_for(self, counts: Callable[[dict[str, Any]], bool]) -> int:
        """Return the id of a message like this, once there is one."""

        def find() -> int | None:
            return next((number for number, message in self.messages.items() if counts(message)), None)

        with self._news:
            assert self._news.wait_for(lambda: find() is not None, WAIT), list(self.messages.values())
            found = find()
            assert found is not None
            return found

    def click(self, number: int, verb: str, person: int, chat: int = GROUP) -> str:
        """Press the button of a message; returns the id of the click."""
        message = self.messages[number]
        [[data]] = [[it for it in row if it.startswith(verb)] for row in [callbacks(message)]]
        return self.send_callback(data, number, person, chat)

    def send_callback(self, data: str, number: int, person: int, chat: int = GROUP) -> str:
        about = {"message_id": number, "date": int(time.time()), "chat": {"id": chat, "type": "supergroup"}}
        with self._news:
            self._clicks += 1
            self._post("sendCallback", {"botToken": TOKEN, "from": _user(person), "message": about, "data": data})
            self._news.notify_all()
            return str(self._clicks)

    def answer_to(self, click: str) -> dict[str, Any]:
        with self._news:
            assert self._news.wait_for(lambda: click in self.answers, WAIT), self.answers
            return self.answers[click]

    def wait_for_polls(self, count: int) -> None:
        """Wait until there were so many further requests for updates."""
        with self._news:
            enough = self.polls + count
            assert self._news.wait_for(lambda: self.polls >= enough, WAIT), self.polls

    def begin_conflict(self) -> None:
        """Let another program ask for updates, until `is_conflicting` is False."""
        with self._news:
            self.is_conflicting = True
            self._news.notify_all()

    def reply(self, number: int, text: str, person: int, *, age: int = 0) -> None:
        """Reply to a message of the bot in its group."""
        about = {
            "message_id": number,
            "from": {"id": BOT_ID, "is_bot": True, "first_name": "Bot"},
            "text": self.messages[number]["text"],
            "chat": {"id": GROUP, "type": "supergroup"},
            "date": int(time.time()),
        }
        self._say(text, person, {"id": GROUP, "type": "supergroup"}, age, reply_to_message=about)

    def write(self, text: str, person: int, chat: dict[str, Any] | None = None) -> None:
        """Write to the bot in private, or into a group."""
        self._say(text, person, chat or {"id": person, "type": "private"}, 0)

    def replay(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Send an update once more, as after a confirmation that was lost."""
        with self._news:
            self._again.append(next(update for update in self.updates if wanted(update)))
            self._news.notify_all()

    def _say(self, text: str, person: int, chat: dict[str, Any], age: int, **more: Any) -> None:
        said = {"botToken": TOKEN, "from": _user(person), "chat": chat, "date": int(time.time()) - age, "text": text}
        with self._news:
            self._post("sendMessage", {**said, **more})
            self._news.notify_all()

    # --- the API ---

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        token, _slash, method = handler.path.removeprefix("/bot").rpartition("/")
        with self._news:
            reply = self._answer(token, method, json.loads(body_of(handler) or b"{}"))
            self._news.notify_all()
        content = json.dumps(reply).encode()
        handler.send_response_only(reply.get("error_code", 200))
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, token: str, method: str, body: dict[str, Any]) -> dict[str, Any]:
        if token != TOKEN:
            return _refusal(401, "Unauthorized")
        if problem := find_problem(method, body):
            self.refused.append(problem)
            return _refusal(400, f"Bad Request: {problem}")
        if method == "getUpdates":
            return self._updates(body)
        if method == "answerCallbackQuery":
            self.answers[body["callback_query_id"]] = body
        elif method in ("sendMessage", "editMessageText"):
            if self.refusals:
                return self.refusals.pop(0)
            if refusal := self._refuse(method, body):
                return refusal
        shown = self._show(method, body)
        reply = shown or self._post(f"bot{TOKEN}/{method}", body)
        if method == "sendMessage":
            self.messages[reply["result"]["message_id"]] = body
        elif method == "editMessageText":
            self.edits.append(body["message_id"])
            self.messages[body["message_id"]] = {**self.messages[body["message_id"]], **body}
        return reply

    def _updates(self, body: dict[str, Any]) -> dict[str, Any]:
        """Wait for updates as long as asked; a later request ends an earlier one, and confirms what is before it."""
        self.polls += 1
        number, until = self.polls, time.monotonic() + body["timeout"]
        self._confirmed = max(self._confirmed, body["offset"])
        self._news.notify_all()
        while True:
            if self.is_conflicting or number != self.polls:
                self.conflicts += 1
                words = "terminated by other getUpdates request; make sure that only one bot instance is running"
                return _refusal(409, f"Conflict: {words}")
            self.updates += self._post(f"bot{TOKEN}/getUpdates", body)["result"]
            waiting = [update for update in self.updates if update["update_id"] >= self._confirmed]
            found, self._again = [*self._again, *waiting[: body["limit"]]], []
            left = until - time.monotonic()
            if found or left <= 0 or self.is_over.is_set():
                return {"ok": True, "result": found}
            self._news.wait(left)

    def _refuse(self, method: str, body: dict[str, Any]) -> dict[str, Any] | None:
        if str(body["chat_id"]) in self.closed_doors:
            return _refusal(403, "Forbidden: bot can't initiate conversation with a user")
        if method == "editMessageText":
            now = self.messages.get(body["message_id"])
            if now is None:
                return _refusal(400, "Bad Request: message to edit not found")
            if all(now[key] == body[key] for key in ("text", "reply_markup")):
                return _refusal(400, "Bad Request: message is not modified: the new content is the same")
        return None

    def _show(self, method: str, body: dict[str, Any]) -> dict[str, Any] | None:
        if method == "getWebhookInfo":
            return {"ok": True, "result": {"url": self.webhook}}
        if method in ("getChat", "getChatMember"):
            if str(body["chat_id"]) != str(GROUP):
                return _refusal(400, "Bad Request: chat not found")
            is_chat = method == "getChat"
            return {"ok": True, "result": {"id": GROUP, "type": self.group_type} if is_chat else self.member}
        return None

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{HOST}:{self._server_port}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT) as response:
            found: dict[str, Any] = json.load(response)
        return found


def callbacks(message: dict[str, Any]) -> list[str]:
    """Return the data of the buttons of a message."""
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    return [button["callback_data"] for row in rows for button in row]


def find_problem(method: str, body: dict[str, Any]) -> str | None:
    """Return what Telegram would not accept, or None."""
    if method not in _FIELDS or (unknown := body.keys() - _FIELDS[method]):
        return f"{method} has no {unknown if method in _FIELDS else 'such method'}"
    if "text" in body and not 0 < len(body["text"]) <= (200 if method == "answerCallbackQuery" else 4096):
        return None if method == "answerCallbackQuery" and body["text"] == "" else "message is empty or too long"
    if any(not 0 < len(data.encode()) <= 64 for data in callbacks(body)):
        return "BUTTON_DATA_INVALID"
    if len(body.get("reply_markup", {}).get("input_field_placeholder", "")) > 64:
        return "placeholder too long"
    return None


def _user(person: int) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": "Some One", "language_code": "en"}


def _refusal(code: int, description: str, **parameters: Any) -> dict[str, Any]:
    return {"ok": False, "error_code": code, "description": description, "parameters": parameters}
