"""OneBot v11: implementations beside a QQ client, which connect to us by a reverse WebSocket.

There are no buttons and no changes of messages: people write commands, and a decision is told by another message.
Source: github.com/botuniverse/onebot-11.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

import msgspec
from tornado.httputil import HTTPServerRequest
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from plugin_bridge.text import decode_json, one_line
from regsvc.config.host_sections import TeamChat
from regsvc.core.errors import ChatMessageUnknown, ChatPersonUnknown, Refusal, Unauthorized
from regsvc.core.http_response import NoResponse
from regsvc.http.call import BaseHandler
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.team_chat.decisions import ChatReceiver, Click, Person
from regsvc.team_chat.messages import TEST
from regsvc.team_chat.platform import ONEBOT_PATH, MessageContent, Platform, break_links

log = logging.getLogger(__name__)

_PLATFORM: Final = "onebot"
_TIMEOUT: Final = timedelta(seconds=20)
_UNCONNECTED_PAUSE: Final = timedelta(hours=1)
"""Pause of a message while nothing is connected. `TeamChatQueue.hasten` ends it, but not the last minutes of it."""
_MAX_AGE: Final = timedelta(minutes=5)
_MAX_REASON: Final = 1000
_HINTS: Final = {**{verb: f"hint_{verb}" for verb in ("approve", "reject", "ask")}, TEST: "hint_test_button"}
"""Texts whose first words are the commands, in any language."""
_WITH_TEXT: Final = ("reject", "ask")
_COMMAND: Final = re.compile(r"[/!！]?([^\W\d_]{1,20})\s*[#＃]?(\d{1,18})?(?:[\s:：]+(.*))?", re.DOTALL)
_LINK: Final = re.compile(r"/link\s+(\S{1,64})\s*", re.IGNORECASE)
_CQ: Final = re.compile(r"\[CQ:(\w+)((?:,[^\[\],]*)*)\]")
_LONGEST_ID: Final = 64
_LONGEST_INT: Final = 2**63 - 1
_ENTITIES: Final = (("&#91;", "["), ("&#93;", "]"), ("&#44;", ","), ("&amp;", "&"))


# ids are numbers in the specification, and strings in some implementations
_Id = (
    Annotated[int, msgspec.Meta(ge=-_LONGEST_INT, le=_LONGEST_INT)]
    | Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_ID)]
)


class _Sender(msgspec.Struct):
    card: str | None = None
    nickname: str | None = None


class _Event(msgspec.Struct):
    """Fields of the event of a message that we use; `message` is an array or a string."""

    message_type: str
    self_id: _Id
    user_id: _Id
    message_id: _Id
    group_id: _Id | None = None
    time: Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_INT)] = 0
    sender: _Sender | None = None
    message: Any = None

    @property
    def key(self) -> str:
        """Text that no other event has."""
        return f"{self.self_id}:{self.group_id or 'private'}:{self.message_id}"


@dataclass(eq=False)
class OneBotConnection:
    """An open WebSocket of an implementation; `role`: "universal", "api" or "event"."""

    account: str
    role: str
    send: Callable[[str], Awaitable[None]]
    close: Callable[[], None]


class OneBot(Platform):
    """A group on QQ."""

    title: ClassVar[str] = "QQ"
    longest: ClassVar[int] = 1500
    labels: ClassVar[str] = "hint_"
    sends_itself: ClassVar[bool] = False

    def __init__(self, chat: TeamChat, base_url: str) -> None:
        super().__init__(chat)
        self._endpoint = f"{base_url}{ONEBOT_PATH}"
        self.connections: OneBotConnections | None = None
        """None: in another process than the daemon."""

    @staticmethod
    def escape(text: str) -> str:
        return break_links(text)

    async def post(self, content: MessageContent, delivery: int) -> str:
        said = await self._call("send_group_msg", _to_group(self.chat.channel, _describe(content)), f"post {delivery}")
        number = said.get("message_id")
        return str(number) if isinstance(number, int | str) and len(str(number)) <= _LONGEST_ID else ""

    async def edit(self, remote_id: str, content: MessageContent) -> None:
        await self._call("send_group_msg", _to_group(self.chat.channel, _describe(content), remote_id), "")

    async def write_to(self, account_id: str, text: str) -> None:
        try:
            await self._call("send_private_msg", {"user_id": _number(account_id), "message": _segments(text)}, "")
        except PermanentFailure:
            raise Drop("the person takes no messages from the account") from None

    async def _call(self, action: str, fields: Mapping[str, Any], key: str) -> dict[str, Any]:
        if self.connections is None:
            raise TemporaryFailure("OneBot: only the daemon is connected")
        try:
            return await self.connections.call(action, fields, key)
        except PermanentFailure as error:
            if action != "send_group_msg":
                raise
            raise TemporaryFailure(str(error)) from None  # such as an account that was muted: no application is lost

    async def find_problems(self, now: datetime) -> list[str]:
        """Return what the daemon answers at the address to which implementations connect."""
        from regsvc.core.http_client import HttpClient

        headers = {"Authorization": f"Bearer {self.chat.token}"}
        with HttpClient(_TIMEOUT / 4) as client:
            try:
                response = await client.get(self._endpoint, headers)
            except NoResponse as error:
                return [f"{self._endpoint} does not lead here from this machine ({error}): check your proxy"]
        if not response.is_success:
            return [f"{self._endpoint} does not lead here ({response.describe()}): check your proxy, or restart"]
        try:
            found = msgspec.convert(decode_json(response.body), dict[str, str])
        except (ValueError, RecursionError):
            found = {}
        problem = found.get(self.chat.channel, "the daemon does not know it yet: restart the companion")
        return [f"QQ group {self.chat.channel}: {problem}"] if problem else []


class OneBotConnections:
    """Connections of implementations with one access token, and what people do there. Use on the event loop."""

    def __init__(
        self, groups: Sequence[OneBot], receiver: ChatReceiver, hasten: Callable[[Sequence[str]], None]
    ) -> None:
        """`hasten` makes messages to these recipients due: chats, or people of the platform; blocking."""
        self._groups = {group.chat.channel: group for group in groups}
        self._token = groups[0].chat.token
        self._receiver = receiver
        self._hasten = hasten
        self._open = list[OneBotConnection]()
        self._waiting = dict[str, asyncio.Future[dict[str, Any]]]()
        self._late = dict[str, dict[str, Any]]()
        """Answers for which nobody waited any more, by key: their message is not sent again."""
        self._numbers = itertools.count(1)
        self._tasks = set[asyncio.Task[None]]()
        self._problems = dict[str, str]()
        self._has_warned = False
        self._has_told_odd = False
        self._words = {
            receiver.text(key, language, number="").split()[0].lower(): verb
            for language in receiver.translations.available
            for verb, key in _HINTS.items()
        }
        for group in groups:
            group.connections = self

    @property
    def states(self) -> dict[str, str]:
        """The problem of each group, by its id; "" if it can be used."""
        if not any(it.role != "event" for it in self._open):
            address = f"ws://…{ONEBOT_PATH}"
            problem = f"no OneBot implementation is connected: enter {address} and the token there (reverse WebSocket)"
            return dict.fromkeys(self._groups, problem)
        return {name: self._problems.get(name, "") for name in self._groups}

    def accepts(self, token: str) -> bool:
        """Return whether this is the access token."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def connect(self, connection: OneBotConnection) -> None:
        """Use a connection; it replaces an earlier one of the account."""
        for old in [it for it in self._open if (it.account, it.role) == (connection.account, connection.role)]:
            self.disconnect(old)
            old.close()
        self._open.append(connection)
        log.info("OneBot: account %s is connected (%s)", connection.account[:20], connection.role)
        if connection.role != "event":
            self._start(self._begin(connection))

    def disconnect(self, connection: OneBotConnection) -> None:
        """Use a connection no longer; does nothing if it is not used."""
        if connection in self._open:
            self._open.remove(connection)
            log.info("OneBot: account %s is no longer connected", connection.account[:20])

    def close(self) -> None:
        """End all connections."""
        for connection in self._open:
            connection.close()

    def hasten(self) -> None:
        """Make due what waited for a connection, if there is one. Blocking: for a worker thread."""
        if any(it.role != "event" for it in self._open):
            self._hasten([_PLATFORM, *(group.chat.name for group in self._groups.values())])

    async def call(self, action: str, fields: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """Call an action and return its data. Raises `TemporaryFailure`, or `PermanentFailure` if it is refused.

        With a `key`, an answer that came too late for the last call is returned instead of calling again.
        """
        if key in self._late:
            return self._late.pop(key)
        connection = next((it for it in reversed(self._open) if it.role != "event"), None)
        if connection is None:
            raise TemporaryFailure("OneBot: no implementation is connected", _UNCONNECTED_PAUSE)
        echo = key or f"call {next(self._numbers)}"
        waiting = self._waiting[echo] = asyncio.get_running_loop().create_future()
        try:
            await connection.send(json.dumps({"action": action, "params": fields, "echo": echo}, ensure_ascii=False))
            reply = await asyncio.wait_for(waiting, _TIMEOUT.total_seconds())
        except (OSError, TimeoutError):
            raise TemporaryFailure("OneBot: no answer") from None
        finally:
            self._waiting.pop(echo, None)
        if reply.get("status") not in ("ok", "async"):
            words = one_line(str(reply.get("wording") or reply.get("message") or ""), 100)
            raise PermanentFailure(f"OneBot: {action} was refused, retcode {reply.get('retcode')} {words}".rstrip())
        return _data_of(reply)

    def receive(self, connection: OneBotConnection, written: str | bytes) -> None:
        """Take an answer or an event."""
        try:
            frame = decode_json(written)
        except ValueError:
            return
        if not isinstance(frame, dict):
            return
        if frame.get("post_type") == "message":
            event = _read_event(frame)
            if event is None or connection.account not in ("", str(event.self_id)):
                self._note_odd(connection)
            else:
                self._start(self._act(connection, event))
        elif isinstance(echo := frame.get("echo"), str):
            waiting = self._waiting.get(echo)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)
            elif echo.startswith("post ") and frame.get("status") == "ok":
                self._late[echo] = _data_of(frame)

    def refuse(self) -> None:
        """Say in the log, once until a connection succeeds, that an access token was wrong."""
        if not self._has_warned:
            log.warning("OneBot: a connection with a wrong access token was refused; see docs/team-chat.md")
        self._has_warned = True

    def _note_odd(self, connection: OneBotConnection) -> None:
        """Say in the log, once, that an event is ignored."""
        if not self._has_told_odd:
            told = "OneBot: account %s: an event of another shape than documented, or of another account, is ignored"
            log.warning(told, connection.account[:20])
        self._has_told_odd = True

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: OneBotConnection) -> None:
        """Send what has waited, and find out whether the account may write into the groups."""
        self._has_warned = False
        with suppress(Refusal):  # the database is away; the outbox's job does it later
            await self._receiver.worker.run(self.hasten)
        self._receiver.on_decided()
        for channel in self._groups:
            self._problems[channel] = await self._find_problem(connection.account, channel)
            if self._problems[channel]:
                log.warning("QQ group %s: %s", channel, self._problems[channel])

    async def _find_problem(self, account: str, channel: str) -> str:
        named = {"group_id": _number(channel), "user_id": _number(account), "no_cache": True}
        try:
            member = await self.call("get_group_member_info", named)
        except TemporaryFailure:
            return ""  # it is told as an answer that is missing, if that goes on
        except PermanentFailure as error:
            return f"the account {account[:20]} is not in the group, or channel is wrong ({error})"
        muted_until = member.get("shut_up_timestamp")
        is_muted = isinstance(muted_until, int) and muted_until > self._receiver.now().timestamp()
        return f"the account {account[:20]} is muted there" if is_muted else ""

    async def _act(self, connection: OneBotConnection, event: _Event) -> None:
        """Do what a message wants, if it wants anything of us."""
        sender, name = str(event.user_id), event.sender or _Sender()
        if sender == connection.account:
            return
        person = Person(_PLATFORM, OneBot.title, sender, name.card or name.nickname or "")
        text, replied = _read(event.message)
        group = self._groups.get(str(event.group_id))
        try:
            if event.message_type == "private":
                await self._link(event, person, text)
            elif event.message_type == "group":
                is_command = _LINK.fullmatch(text) is not None
                if await self._receiver.void_codes(person, text, is_command=is_command):
                    await self._tell_void(event, group)
                elif group is not None:
                    await self._decide(event, group.chat, person, text, replied)
        except Unauthorized:  # received before
            pass
        except (Drop, TemporaryFailure, PermanentFailure) as error:
            log.info("OneBot: an answer was not taken: %s", error)

    async def _tell_void(self, event: _Event, group: OneBot | None) -> None:
        chat = (group or next(iter(self._groups.values()))).chat
        said = self._receiver.text("code_void", self._receiver.language_of(chat))
        await self.call("send_group_msg", _to_group(str(event.group_id), said, str(event.message_id)))

    async def _link(self, event: _Event, person: Person, text: str) -> None:
        receiver, found = self._receiver, _LINK.fullmatch(text)
        if found is None:
            return
        language = receiver.language_of(next(iter(self._groups.values())).chat)
        try:
            username = await receiver.run(_PLATFORM, event.key, receiver.decisions.link, person, found[1])
            said = receiver.text("linked", language, username=username)
        except Unauthorized:
            raise
        except Refusal as refusal:
            said = receiver.translations.refusal(refusal, language)
        await self._whisper(person, said)

    async def _decide(self, event: _Event, chat: TeamChat, person: Person, text: str, replied: str | None) -> None:
        receiver, named = self._receiver, _COMMAND.fullmatch(text)
        verb = self._words.get(named[1].lower()) if named is not None else None
        if named is None or verb is None or (named[2] is None and replied is None):
            return  # people talk
        if named[2] is None and named[3] and verb not in _WITH_TEXT:
            return  # as in a reply "approve or wait?"
        language = receiver.language_of(chat)
        click = Click(chat, person, verb, int(named[2] or 0), text=(named[3] or "").strip()[:_MAX_REASON])
        try:
            if _is_late(event, receiver.now()):
                said = receiver.text("too_late", language)
            else:
                said = await receiver.run(_PLATFORM, event.key, self._run, click, replied, language)
        except Unauthorized:
            raise
        except ChatPersonUnknown:
            await self._whisper(person, receiver.text("how_to_link", language))
            return
        except Refusal as refusal:
            if isinstance(refusal, ChatMessageUnknown) and named[2] is None:
                return  # a reply to another message than ours
            said = receiver.translations.refusal(refusal, language)
        await self.call("send_group_msg", _to_group(chat.channel, said, str(event.message_id)))

    def _run(self, click: Click, replied: str | None, language: str) -> str:
        """Do what a command wants; return what is said. Blocking: for a worker thread."""
        receiver, decisions = self._receiver, self._receiver.decisions
        if not click.number:
            click = decisions.find_click(click, replied or "")
        if click.verb == TEST:
            return receiver.text("tested", language, username=decisions.answer_test(click))
        key, username = decisions.decide(click)
        return receiver.text(key, language, username=break_links(username))

    async def _whisper(self, person: Person, text: str) -> None:
        await self.call("send_private_msg", {"user_id": _number(person.account_id), "message": _segments(text)})


def _describe(content: MessageContent) -> str:
    """Return the text of a message: what it tells, the commands, and the address."""
    commands = " · ".join(content.labels.values())
    return "\n".join(filter(None, (content.title, *content.lines, commands, content.url)))


def _segments(text: str, about: str | None = None) -> list[dict[str, Any]]:
    """Return a message as an array, in which no text is read as a CQ code; `about`: the message that it replies to."""
    reply = [{"type": "reply", "data": {"id": about}}] if about else []
    return [*reply, {"type": "text", "data": {"text": text}}]


def _to_group(group: str, text: str, about: str | None = None) -> dict[str, Any]:
    return {"group_id": _number(group), "message": _segments(text, about)}


def _number(id: str) -> int | str:
    """Return an id as the specification has it, a number; some implementations have others."""
    return int(id) if re.fullmatch(r"-?\d{1,18}", id) else id


def _data_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    data = reply.get("data")
    return data if isinstance(data, dict) else {}


def _read_event(frame: Mapping[str, Any]) -> _Event | None:
    """Return the event of a message, or None for another shape."""
    try:
        return msgspec.convert(frame, _Event)
    except (msgspec.ValidationError, RecursionError):
        return None


def _is_late(event: _Event, now: datetime) -> bool:
    return abs(now.timestamp() - event.time) > _MAX_AGE.total_seconds()


def _read(message: object) -> tuple[str, str | None]:
    """Return the text of a message, and the id of the message that it replies to, whatever form it has."""
    if isinstance(message, str):
        return _read_codes(message)
    text, replied = "", None
    for segment in message if isinstance(message, list) else ():
        data = segment.get("data") if isinstance(segment, dict) else None
        if not isinstance(data, dict):
            continue
        if segment.get("type") == "text":
            text += str(data.get("text", ""))
        elif segment.get("type") == "reply":
            replied = str(data.get("id"))
    return text.strip(), replied


def _read_codes(message: str) -> tuple[str, str | None]:
    """Return what `_read` does of a message with CQ codes."""
    replied = next((re.search(r",id=([^,]*)", it[2]) for it in _CQ.finditer(message) if it[1] == "reply"), None)
    text = _CQ.sub("", message)
    for code, character in _ENTITIES:
        text = text.replace(code, character)
    return text.strip(), replied[1] if replied is not None else None


# --- WebSocket to which OneBot implementations connect, with the access token in a header or in the query ---


_MAX_MESSAGE: Final = 1024 * 1024

_PING_INTERVAL: Final = 30.0

_ROLES: Final = ("universal", "api", "event")


class OneBotHandler(BaseHandler, WebSocketHandler):
    """Connection of one implementation. A plain GET with the token tells the doctor about the groups."""

    _connections: OneBotConnections
    _connection: OneBotConnection | None = None

    @property
    def max_message_size(self) -> int:
        return _MAX_MESSAGE

    @property
    def ping_interval(self) -> float:
        return _PING_INTERVAL

    def check_origin(self, origin: str) -> bool:
        """Accept any: the token is no cookie, which pages of others could use."""
        return True

    def initialize(self, connections: Sequence[OneBotConnections]) -> None:
        self._all_connections = connections

    async def get(self, *args: Any, **kwargs: Any) -> None:
        all_connections, token = self._all_connections, _find_token(self.request)
        found = next((it for it in all_connections if it.accepts(token)), None)
        if found is None:
            for connections in all_connections:
                connections.refuse()
            self.set_status(401)
            self.finish()
        elif "Upgrade" not in self.request.headers:
            self.set_header("Content-Type", "application/json")
            self.finish(msgspec.json.encode(found.states))
        else:
            self._connections = found
            await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        self.application.begin(self)
        headers = self.request.headers
        role = headers.get("X-Client-Role", "").lower()
        account = headers.get("X-Self-ID", "")
        self._connection = OneBotConnection(account, role if role in _ROLES else _ROLES[0], self._send, self.close)
        self._connections.connect(self._connection)

    def on_message(self, message: str | bytes) -> None:
        if self._connection is not None:
            self._connections.receive(self._connection, message)

    def on_connection_close(self) -> None:
        """Let Tornado call `on_close`; the base class for requests only counts."""
        WebSocketHandler.on_connection_close(self)

    def on_close(self) -> None:
        if self._connection is not None:
            self._connections.disconnect(self._connection)
        self.application.end(self)

    async def _send(self, text: str) -> None:
        try:
            await self.write_message(text)
        except WebSocketClosedError:
            raise OSError("closed") from None


def _find_token(request: HTTPServerRequest) -> str:
    """Return the access token; some implementations can send it only in the query, which is never logged."""
    written = re.fullmatch(r"(?:Bearer|Token)\s+(\S+)", request.headers.get("Authorization", "").strip(), re.IGNORECASE)
    if written is not None:
        return written[1]
    return request.query_arguments.get("access_token", [b""])[-1].decode("utf-8", "replace")
