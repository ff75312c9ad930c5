"""A OneBot v11 implementation that connects by reverse WebSocket, as NapCat does beside a QQ client.

NoneBot's adapter, an application like ours, has to accept every event as real, and every message that we send.
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from nonebot.adapters.onebot.v11 import Adapter, Message
from nonebot.adapters.onebot.v11.utils import handle_api_result
from nonebot.compat import type_validate_python
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

TOKEN = "the-access-token-of-OneBot"
ACCOUNT, GROUP = 10001, 20001
WAIT = 60.0
_FIELDS = {
    "send_group_msg": {"group_id", "message"},
    "send_private_msg": {"user_id", "message"},
    "get_group_member_info": {"group_id", "user_id", "no_cache"},
}
T = TypeVar("T")


class OneBot:
    """A context manager. `sent` has what was sent, in order: action, recipient, text, and the message replied to."""

    def __init__(self, port: Callable[[], int]) -> None:
        self._port = port
        self.sent: list[tuple[str, str, str, str | None]] = []
        self.ids: list[str] = []
        """The id of each message in `sent`."""
        self.member: dict[str, Any] = {"role": "member", "shut_up_timestamp": 0}
        self.answers = True
        """Whether actions are answered at once."""
        self.unanswered: list[str] = []
        self._socket: WebSocketClientConnection | None = None
        self._numbers = itertools.count(1)
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.disconnect()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT)

    def connect(self, *, token: str = TOKEN, in_query: bool = False) -> None:
        """Connect with the token in a header, or in the query as some implementations do."""
        self._do(self._connect(token, in_query))

    async def _connect(self, token: str, in_query: bool) -> None:
        url = f"ws://127.0.0.1:{self._port()}/api/team-chat/onebot{f'?access_token={token}' if in_query else ''}"
        headers = {"X-Self-ID": str(ACCOUNT), "X-Client-Role": "Universal"}
        headers |= {} if in_query else {"Authorization": f"Bearer {token}"}
        self._socket = await websocket_connect(HTTPRequest(url, headers=headers))
        self._reading = asyncio.create_task(self._read(self._socket))
        self._send_event(post_type="meta_event", meta_event_type="lifecycle", sub_type="connect")

    def disconnect(self) -> None:
        async def close() -> None:
            if self._socket is not None:
                self._socket.close()
                await self._reading
            self._socket = None

        self._do(close())

    async def _read(self, socket: WebSocketClientConnection) -> None:
        while (written := await socket.read_message()) is not None:
            if socket.protocol is not None:  # what comes while it is closed is not taken any more
                self._answer(socket, json.loads(written))

    def _answer(self, socket: WebSocketClientConnection, call: dict[str, Any]) -> None:
        assert call.keys() == {"action", "params", "echo"}, call
        action, params = call["action"], call["params"]
        assert params.keys() == _FIELDS[action], call
        data: dict[str, Any] = self.member
        if action.startswith("send_"):
            recipient = params.get("group_id", params.get("user_id"))
            assert isinstance(recipient, int), call
            message = type_validate_python(Message, params["message"])
            replied = next((str(it.data["id"]) for it in message if it.type == "reply"), None)
            assert all(it.type in ("text", "reply") for it in message), call
            data = {"message_id": next(self._numbers)}
            with self._news:
                self.sent.append((action, str(recipient), message.extract_plain_text(), replied))
                self.ids.append(str(data["message_id"]))
                self._news.notify_all()
        reply = {"status": "ok", "retcode": 0, "data": data, "echo": call["echo"]}
        handle_api_result(reply)
        if self.answers:
            socket.write_message(json.dumps(reply))
        else:
            self.unanswered.append(json.dumps(reply))

    def _send_event(self, **event: Any) -> None:
        whole = {"time": int(time.time()), "self_id": ACCOUNT, **event}
        if event["post_type"] == "message" and isinstance(event["message"], list):
            assert Adapter.json_to_event(whole) is not None, whole
        assert self._socket is not None
        self._socket.write_message(json.dumps(whole))

    # --- what people see and do ---

    def wait_for(self, *parts: str, recipient: int = GROUP, after: int = 0) -> int:
        """Return the index of a message with these parts, once there is one."""

        def find() -> int | None:
            to_them = ((i, it[2]) for i, it in enumerate(self.sent) if i >= after and it[1] == str(recipient))
            return next((i for i, text in to_them if all(part in text for part in parts)), None)

        with self._news:
            assert self._news.wait_for(lambda: find() is not None, WAIT), self.sent
            index = find()
            assert index is not None
            return index

    def say(self, message: str | list[dict[str, Any]], person: int, *, group: int | None = GROUP, **event: Any) -> int:
        """Say something in a group, or privately (None); returns how much was sent to people before.

        `is_codes`: with CQ codes, as a string; else what is a string becomes an array.
        """
        before, number, is_codes = len(self.sent), next(self._numbers), event.pop("is_codes", False)
        kind = {"message_type": "group", "group_id": group, "sub_type": "normal"}
        private = {"message_type": "private", "sub_type": "friend"}
        is_array = is_codes or not isinstance(message, str)
        segments = message if is_array else [{"type": "text", "data": {"text": message}}]
        whole = {
            "post_type": "message",
            **(private if group is None else kind),
            "message_id": number,
            "user_id": person,
            "message": segments,
            "raw_message": "…",
            "font": 0,
            "sender": {"user_id": person, "nickname": "Some One", "role": "owner"},
            **event,
        }
        self._loop.call_soon_threadsafe(lambda: self._send_event(**whole))
        return before
