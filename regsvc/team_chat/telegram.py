"""Telegram: updates by long polling, and messages by its Bot API, in plain text without a parse mode.

Source: core.telegram.org/bots/api.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import quote

import msgspec

from plugin_bridge.text import decode_json, one_line
from regsvc.config.host_sections import TeamChat
from regsvc.core.backoff import Backoff
from regsvc.core.errors import ChatMessageUnknown, ChatPersonUnknown, Refusal, Unauthorized
from regsvc.core.exceptions import describe_exception
from regsvc.core.http_response import NoResponse
from regsvc.core.text import shorten
from regsvc.database.lease import TaskLease
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.team_chat.decisions import ChatReceiver, Click, Person
from regsvc.team_chat.messages import TEST
from regsvc.team_chat.platform import MessageContent, MessageGone, Platform, break_links, is_public_address

log = logging.getLogger(__name__)

_API: Final = "https://api.telegram.org"
_TIMEOUT: Final = timedelta(seconds=10)
_POLL: Final = timedelta(seconds=25)
_TAKEOVER: Final = timedelta(seconds=15)
"""Interval at which a daemon tests whether the one that receives has gone."""
_MAX_UPDATES: Final = 20
_MAX_BODY: Final = 4 * 1024 * 1024
"""Of a reply with so many updates, each with two messages at most."""
_SHORTEST_POLL: Final = 0.3
"""Seconds between two requests for updates that are answered at once with none."""
_REFUSED_PAUSE: Final = timedelta(minutes=5)
_LONGEST_PAUSE: Final = 2.0
"""Seconds to wait for a rate limit without giving the message back."""
_MAX_AGE: Final = timedelta(minutes=5)
_PLATFORM: Final = "telegram"
_CALLBACK: Final = re.compile(r"(approve|reject|ask|test):(\d{1,18}):([0-9a-f]{0,12})")
_COMMAND: Final = re.compile(r"/(?:link|start)(?:@\w+)?(?:\s+(\S{1,64}))?\s*", re.IGNORECASE)
_FORMS: Final = ("reject", "ask")
"""Verbs that need a text, which is the reply to a message that asks for it."""
_NO_TEXT: Final = ("-", "–", "—")
_MAX_TEXT: Final = 4096
_MAX_ANSWER: Final = 200
_MAX_REASON: Final = 1000
_SEE_DOCTOR: Final = "; see companion doctor"
_NOT_MODIFIED: Final = "message is not modified"
_CONFLICT: Final = 409
"""Of a request for updates, that another program made one since, or has set a webhook."""
_GONE: Final = ("message to edit not found", "message can't be edited", "message_id_invalid")

_LONGEST_WAIT: Final = 3600.0
"""Seconds that a rate limit may ask for; more is no limit of Telegram."""
_LONGEST_INT: Final = 2**52
"""Of all ids: the documentation promises that they have at most 52 significant bits."""

Answered = TypeVar("Answered")
_Id = Annotated[int, msgspec.Meta(ge=-_LONGEST_INT, le=_LONGEST_INT)]


class _User(msgspec.Struct):
    id: _Id
    first_name: str = ""
    username: str = ""
    language_code: str = ""


class _Chat(msgspec.Struct):
    id: _Id
    type: str = ""
    username: str = ""


class _Message(msgspec.Struct):
    chat: _Chat
    message_id: _Id = 0
    date: _Id = 0
    sender: _User | None = msgspec.field(name="from", default=None)
    text: str = ""
    reply_to_message: _Message | None = None


class _CallbackQuery(msgspec.Struct):
    id: str
    sender: _User = msgspec.field(name="from")
    message: _Message | None = None
    data: str = ""


class _AnyUpdate(msgspec.Struct):
    update_id: _Id


class _Update(msgspec.Struct):
    update_id: _Id
    message: _Message | None = None
    callback_query: _CallbackQuery | None = None


class Telegram(Platform):
    """A group on Telegram."""

    title: ClassVar[str] = "Telegram"
    longest: ClassVar[int] = 2800

    def __init__(self, chat: TeamChat, base_url: str) -> None:
        super().__init__(chat)
        api = (chat.api_url or _API).rstrip("/")
        self._api = f"{api}/bot{quote(chat.token, safe=':')}"
        self._public_only = is_public_address(api)
        self._free_at = 0.0
        """When the rate limit allows the next message, in the event loop's time."""
        self.bot_id = chat.token.partition(":")[0]

    @staticmethod
    def escape(text: str) -> str:
        return break_links(text)

    async def post(self, content: MessageContent, delivery: int) -> str:
        sent = await self.call("sendMessage", {"chat_id": self.chat.channel, **_message(content)})
        number = sent.get("message_id")
        if not isinstance(number, int) or abs(number) > _LONGEST_INT:
            raise TemporaryFailure("Telegram: a reply of another shape than documented")
        return str(number)

    async def edit(self, remote_id: str, content: MessageContent) -> None:
        named = {"chat_id": self.chat.channel, "message_id": int(remote_id)}
        await self.call("editMessageText", {**named, **_message(content)})

    async def write_to(self, account_id: str, text: str) -> None:
        await self.call("sendMessage", {"chat_id": account_id, "text": text[:_MAX_TEXT]}, is_private=True)

    async def find_problems(self, now: datetime) -> list[str]:
        try:
            me = await self.call("getMe", {})
        except (TemporaryFailure, PermanentFailure) as error:
            return [f"{str(error).removesuffix(_SEE_DOCTOR)}: check the token (@BotFather, /token)"]
        hook = await self.call("getWebhookInfo", {})
        problems = ["another program has set a webhook for this bot, so that its updates go there: use a bot alone"]
        problems = problems if hook.get("url") else []
        try:
            chat = await self.call("getChat", {"chat_id": self.chat.channel})
            named = {"chat_id": self.chat.channel, "user_id": me.get("id")}
            member = await self.call("getChatMember", named)
        except (TemporaryFailure, PermanentFailure) as error:
            return [*problems, f"{str(error).removesuffix(_SEE_DOCTOR)}: add the bot to the group, and check channel"]
        if member.get("status") in ("left", "kicked") or member.get("can_send_messages") is False:
            problems.append("the bot may not write into the group: add it again, or let it send messages")
        if chat.get("type") not in ("group", "supergroup"):
            problems.append("channel is no group: reasons and questions are replies, which only groups have")
        return problems

    async def call(self, method: str, fields: Mapping[str, Any], *, is_private: bool = False) -> dict[str, Any]:
        """Call a method as rate limits allow, and return the object in the reply; {} for another value.

        `is_private`: to a person, whose refusal is final. Raises what says how to go on.
        """
        await self._wait()
        found = await self.request(method, fields, _TIMEOUT)
        if found.get("ok") is True:
            result = found.get("result")
            return result if isinstance(result, dict) else {}
        self.raise_refusal(found, is_private=is_private)
        return {}

    async def request(self, method: str, fields: Mapping[str, Any], within: timedelta) -> dict[str, Any]:
        """Return the whole reply to a request, whatever it says. Raises `TemporaryFailure` if there is none."""
        from regsvc.core.http_client import HttpClient

        body, headers = json.dumps(fields).encode(), {"Content-Type": "application/json"}
        with HttpClient(within, max_body=_MAX_BODY, public_only=self._public_only) as client:
            try:
                response = await client.post(f"{self._api}/{method}", headers, body)
            except NoResponse as error:
                raise TemporaryFailure(f"Telegram: {error}") from None
        try:
            found = decode_json(response.body)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"ok": False, "error_code": response.status}

    async def _wait(self) -> None:
        wait = self._free_at - asyncio.get_running_loop().time()
        if wait > _LONGEST_PAUSE:
            raise TemporaryFailure("Telegram limits our requests", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)

    def raise_refusal(self, found: Mapping[str, Any], *, is_private: bool) -> None:
        """Raise what a refusal means; nothing for a message that shows already what it should."""
        code, words = found.get("error_code"), str(found.get("description") or "")
        parameters = found.get("parameters")
        told = f"Telegram: {code} {one_line(words.replace(self.chat.token, '…'), 200)}".rstrip()
        if _NOT_MODIFIED in words:
            return
        if any(it in words.lower() for it in _GONE):
            raise MessageGone
        if code == 429:
            asked = parameters.get("retry_after") if isinstance(parameters, dict) else None
            wait = float(min(max(asked, 0), _LONGEST_WAIT)) if isinstance(asked, int | float) else 1.0
            self._free_at = asyncio.get_running_loop().time() + wait
            raise TemporaryFailure(told, timedelta(seconds=wait))
        if is_private and code in (400, 403):
            raise Drop("the person takes no messages from the bot")
        if isinstance(parameters, dict) and "migrate_to_chat_id" in parameters:
            moved = f'the group is another one now: set channel = "{parameters["migrate_to_chat_id"]}"'
            raise TemporaryFailure(f"Telegram: {moved}", _REFUSED_PAUSE)
        if code == _CONFLICT:
            advice = "another program receives the updates of this bot: stop it, or make a bot for the companion alone"
            raise TemporaryFailure(f"{told}; {advice}", _REFUSED_PAUSE)
        if code in (401, 403, 404) or "chat not found" in words:
            raise TemporaryFailure(told + _SEE_DOCTOR, _REFUSED_PAUSE)
        if isinstance(code, int) and 400 <= code < 500:
            raise PermanentFailure(told)
        raise TemporaryFailure(told)


def _message(content: MessageContent) -> dict[str, Any]:
    """Return text and buttons of a message. Nothing in it is parsed, and links that we did not write are broken."""
    buttons = [
        {"text": label, "callback_data": f"{verb}:{content.number}:{content.version}"}
        for verb, label in content.labels.items()
    ]
    return {
        "text": "\n".join(filter(None, (content.title, *content.lines, content.url)))[:_MAX_TEXT],
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": [buttons] if buttons else []},
    }


class TelegramUpdates:
    """Updates of one bot: clicks, replies and private messages, which one daemon at a time asks for.

    Clicks have no time of their own. Those that waited while nothing was received are answered as too late.
    """

    def __init__(
        self, groups: Sequence[Telegram], receiver: ChatReceiver, lease: TaskLease, conflict: TaskLease
    ) -> None:
        """`groups` have the bot's token in common. `conflict` tells the doctor that another program receives."""
        self._groups = groups
        self._bot = groups[0]
        self._receiver = receiver
        self._lease = lease
        self._conflict = conflict
        self._stopped = asyncio.Event()
        self._offset = 0
        self._received_at: datetime | None = None
        """When updates were last received, if this daemon was the one to ask for them since."""
        self._is_caught_up = False
        self._may_conflict = True
        """Whether a conflict may be recorded, by this process or one before it."""
        self._backoff = Backoff(timedelta(seconds=1), timedelta(minutes=1), spread=0.2)

    async def run(self) -> None:
        """Receive until `stop`."""
        run = self._receiver.worker.run
        while not self._stopped.is_set():
            try:
                if await run(self._lease.acquire):
                    await self._poll()
                else:
                    self._received_at = None
                    await self._pause(_TAKEOVER.total_seconds())
            except Refusal:  # the database is away, which is reported elsewhere
                await self._pause(_LONGEST_PAUSE)
            except Exception as error:  # whatever went wrong, receiving must resume once it is over
                await self._note_failure(error)
        with suppress(Refusal):
            await run(self._lease.remove)

    def stop(self) -> None:
        """Let `run` return. Called on the event loop."""
        self._stopped.set()

    async def _poll(self) -> None:
        now = self._receiver.now
        self._is_caught_up &= self._received_at is not None and abs(now() - self._received_at) <= _MAX_AGE
        timeout = _POLL if self._is_caught_up else timedelta()
        fields = {
            "offset": self._offset,
            "limit": _MAX_UPDATES,
            "timeout": int(timeout.total_seconds()),
            "allowed_updates": ["message", "callback_query"],
        }
        asked_at = asyncio.get_running_loop().time()
        reply = await self._unless_stopped(self._bot.request("getUpdates", fields, timeout + _TIMEOUT))
        if reply is None:
            return
        updates = reply.get("result")
        if reply.get("ok") is not True or not isinstance(updates, list):
            if reply.get("error_code") == _CONFLICT:
                await self._note_conflict()
            self._bot.raise_refusal(reply, is_private=False)
            raise TemporaryFailure("Telegram: a reply without updates")
        await asyncio.gather(*(self._receive(it, is_late=not self._is_caught_up) for it in updates))
        numbers = [it.update_id for it in map(_read_any, updates) if it is not None]
        if updates and not numbers:  # they would come again at once
            raise TemporaryFailure("Telegram: updates of another shape than documented")
        self._offset = max([self._offset, *(number + 1 for number in numbers)])
        self._received_at = now()
        self._is_caught_up = len(updates) < _MAX_UPDATES or self._is_caught_up
        if timeout:  # a request that waits is what another program's would have ended
            await self._note_success()
        took = asyncio.get_running_loop().time() - asked_at
        if not updates and took < _SHORTEST_POLL:
            await self._pause(_SHORTEST_POLL - took)

    async def _note_success(self) -> None:
        if self._backoff.is_active:
            log.info("Telegram: updates are received again")
            self._backoff.reset()
        if self._may_conflict:
            run = self._receiver.worker.run
            if await run(self._conflict.acquire):
                await run(self._conflict.remove)
            self._may_conflict = False

    async def _note_conflict(self) -> None:
        """Record a conflict, unless the other program is a daemon of ours, which has taken the lease meanwhile."""
        run = self._receiver.worker.run
        if await run(self._lease.acquire):
            self._may_conflict = True
            await run(self._conflict.acquire)

    async def _note_failure(self, error: Exception) -> None:
        told = str(error) if isinstance(error, TemporaryFailure | PermanentFailure) else describe_exception(error)
        if not self._backoff.is_active:
            log.warning("Telegram: no updates are received at the moment: %s", told)
        asked = error.retry_after if isinstance(error, TemporaryFailure) else None
        self._backoff.extend(asked or timedelta())
        await self._pause(self._backoff.remaining())

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _unless_stopped(self, work: Awaitable[Answered]) -> Answered | None:
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            return task.result()
        task.cancel()
        return None

    async def _receive(self, written: object, *, is_late: bool) -> None:
        """Do what an update wants, whatever comes of it."""
        try:
            update = msgspec.convert(written, _Update)
        except (msgspec.ValidationError, RecursionError):  # of a kind that is none of ours
            return
        event_id = f"{self._bot.bot_id}:{update.update_id}"
        try:
            if update.callback_query is not None:
                await self._answer_click(event_id, update.callback_query, is_late=is_late)
            elif update.message is not None and update.message.sender is not None:
                await self._answer_message(event_id, update.message, update.message.sender)
        except Unauthorized:  # received before
            pass
        except (Drop, TemporaryFailure, PermanentFailure, MessageGone) as error:
            log.info("Telegram: an answer was not taken: %s", error)

    async def _answer_click(self, event_id: str, query: _CallbackQuery, *, is_late: bool) -> None:
        group = self._find_group(query.message)
        language = self._receiver.language_of((group or self._bot).chat, query.sender.language_code)
        prompt, is_alert = None, False
        try:
            text, prompt = await self._receiver.run(
                _PLATFORM, event_id, self._click, group, query, language, is_late=is_late
            )
        except Unauthorized:
            raise
        except Refusal as refusal:
            text, is_alert = self._describe(refusal, language), True
        answer = {"callback_query_id": query.id, "show_alert": is_alert, "text": shorten(text, _MAX_ANSWER)}
        await self._bot.call("answerCallbackQuery", answer)
        if prompt is not None:
            await self._bot.call("sendMessage", prompt)

    def _click(
        self, group: Telegram | None, query: _CallbackQuery, language: str, *, is_late: bool
    ) -> tuple[str, dict[str, Any] | None]:
        """Do what a click wants; return what is said, and the message that asks for a text. For a worker thread."""
        text, decisions, named = self._receiver.text, self._receiver.decisions, _CALLBACK.fullmatch(query.data)
        if group is None or named is None or query.message is None:
            raise ChatMessageUnknown
        if is_late:
            return text("too_late", language), None
        person, about = _person(query.sender), str(query.message.message_id)
        click = Click(group.chat, person, named[1], int(named[2]), named[3] or None, remote_id=about)
        if click.verb == TEST:
            return text("tested", language, username=decisions.answer_test(click)), None
        if click.verb in _FORMS:
            username = break_links(decisions.check(click))
            return "", self._make_prompt(click, query.message, username, language)
        key, username = decisions.decide(click)
        return text(key, language, username=username), None

    def _make_prompt(self, click: Click, about: _Message, username: str, language: str) -> dict[str, Any]:
        """Return a message for this person, whose replies are the text; its last line says for what.

        No text of an applicant can look like that line: colons in it are broken.
        """
        text, name = self._receiver.text, break_links(shorten(click.person.name, 64)) or "…"
        label = text(f"{click.verb}_label", language)
        asked = text(
            "reply_with", language, title=text(f"{click.verb}_title", language, username=username), label=label
        )
        asked += f" {text('no_reason', language)}" if click.verb == "reject" else ""
        mention = {"type": "text_mention", "offset": 0, "length": len(name.encode("utf-16-le")) // 2}
        return {
            "chat_id": click.chat.channel,
            "text": f"{name}: {asked}\n\n{click.verb}:{click.number}:{click.version or ''}",
            "entities": [{**mention, "user": {"id": int(click.person.account_id)}}],
            "reply_parameters": {"message_id": about.message_id, "allow_sending_without_reply": True},
            "reply_markup": {"force_reply": True, "selective": True, "input_field_placeholder": shorten(label, 64)},
        }

    async def _answer_message(self, event_id: str, message: _Message, sender: _User) -> None:
        """Answer a private command, a reply to a message that asked for a text, or a code for all to read."""
        group, asked, receiver = self._find_group(message), message.reply_to_message, self._receiver
        command = _COMMAND.fullmatch(message.text)
        is_command = command is not None and command[1] is not None
        if message.chat.type == "private":
            await self._answer_command(event_id, message, sender)
        elif await receiver.void_codes(_person(sender), message.text, is_command=is_command):
            chat = (group or self._bot).chat
            said = receiver.text("code_void", receiver.language_of(chat))
            about = {"message_id": message.message_id, "allow_sending_without_reply": True}
            await self._bot.call("sendMessage", {"chat_id": message.chat.id, "text": said, "reply_parameters": about})
        elif group is not None and asked is not None and str(asked.sender and asked.sender.id) == self._bot.bot_id:
            named = _CALLBACK.fullmatch(asked.text.rpartition("\n")[2])
            if named is not None and named[1] in _FORMS:
                written = message.text.strip()[:_MAX_REASON]
                click = Click(
                    group.chat,
                    _person(sender),
                    named[1],
                    int(named[2]),
                    named[3] or None,
                    "" if written in _NO_TEXT else written,
                )
                await self._answer_reply(event_id, click, message, sender)

    async def _answer_reply(self, event_id: str, click: Click, message: _Message, sender: _User) -> None:
        receiver, language = self._receiver, self._receiver.language_of(click.chat, sender.language_code)
        age = abs(receiver.now().timestamp() - message.date)
        try:
            if age > _MAX_AGE.total_seconds():
                said = receiver.text("too_late", language)
            else:
                key, username = await receiver.run(_PLATFORM, event_id, receiver.decisions.decide, click)
                said = receiver.text(key, language, username=break_links(username))
        except Unauthorized:
            raise
        except Refusal as refusal:
            said = self._describe(refusal, language)
            if isinstance(refusal, ChatPersonUnknown):  # it is nobody else's business
                await self._bot.write_to(str(sender.id), said)
                return
        about = {"reply_parameters": {"message_id": message.message_id, "allow_sending_without_reply": True}}
        await self._bot.call("sendMessage", {"chat_id": click.chat.channel, "text": said, **about})

    async def _answer_command(self, event_id: str, message: _Message, sender: _User) -> None:
        receiver, found = self._receiver, _COMMAND.fullmatch(message.text)
        if found is None or str(message.chat.id) != str(sender.id):
            return
        language = receiver.language_of(self._bot.chat, sender.language_code)
        try:
            if found[1] is None:
                said = receiver.text("how_to_link", language)
            else:
                username = await receiver.run(_PLATFORM, event_id, receiver.decisions.link, _person(sender), found[1])
                said = receiver.text("linked", language, username=username)
        except Unauthorized:
            raise
        except Refusal as refusal:
            said = self._describe(refusal, language)
        await self._bot.write_to(str(sender.id), said)

    def _find_group(self, message: _Message | None) -> Telegram | None:
        """Return the configured group of a message, which the config names by its id or its public name."""
        if message is None:
            return None
        names = (str(message.chat.id), f"@{message.chat.username}".lower())
        return next((it for it in self._groups if it.chat.channel.lower() in names), None)

    def _describe(self, refusal: Refusal, language: str) -> str:
        if isinstance(refusal, ChatPersonUnknown):
            return self._receiver.text("how_to_link", language)
        return self._receiver.translations.refusal(refusal, language)


def _read_any(update: object) -> _AnyUpdate | None:
    """Return the number of an update of any kind, or None if it has none."""
    try:
        return msgspec.convert(update, _AnyUpdate)
    except (msgspec.ValidationError, RecursionError):
        return None


def _person(user: _User) -> Person:
    return Person(_PLATFORM, Telegram.title, str(user.id), user.first_name or user.username)
