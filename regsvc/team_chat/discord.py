"""Discord: interactions that it posts to us, and messages by its REST API; no gateway connection.

Sources: discord.com/developers/docs, interactions/receiving-and-responding, resources/message, topics/rate-limits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial, reduce
from hashlib import sha256
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import quote

import msgspec

from plugin_bridge.text import decode_json, one_line
from regsvc import __version__, allow_cryptography
from regsvc.auth.team_accounts import find_codes
from regsvc.config.host_sections import TeamChat
from regsvc.core.errors import (
    ChatCodeInvalid,
    ChatMessageUnknown,
    ChatPersonUnknown,
    MalformedBody,
    Refusal,
    Unauthorized,
)
from regsvc.core.http_response import NoResponse, Response
from regsvc.core.text import MAX_ANSWER, shorten, whole
from regsvc.core.units import format_roughly
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.notifications.webhook import escape_markdown
from regsvc.team_chat.decisions import ChatReceiver, Click, Person
from regsvc.team_chat.messages import TEST
from regsvc.team_chat.platform import MessageContent, MessageGone, Platform, is_public_address

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

log = logging.getLogger(__name__)

INTERACTIONS_PATH: Final = "/api/team-chat/discord"
_API: Final = "https://discord.com/api/v10"
_TIMEOUT: Final = timedelta(seconds=10)
_REFUSED_PAUSE: Final = timedelta(minutes=5)
"""Pause after 401, 403 and 404: Discord bans addresses that go on."""
_LONGEST_PAUSE: Final = 2.0
"""Seconds to wait for a rate limit without giving the message back."""
_LONGEST_WAIT: Final = 3600.0
"""Seconds that a rate limit may ask for; more is no limit of Discord."""
_LONGEST_ANSWER: Final = 2.0
"""Seconds to decide within the request; Discord waits for three."""
_MAX_AGE: Final = timedelta(minutes=5)

_PING, _COMPONENT, _MODAL_SUBMIT = 1, 3, 5
_PONG, _MESSAGE, _DEFERRED, _MODAL = 1, 4, 5, 9
_EPHEMERAL: Final = 64
_ADMINISTRATOR: Final = 1 << 3
_NEEDED_RIGHTS: Final = {"View Channel": 1 << 10, "Send Messages": 1 << 11, "Embed Links": 1 << 14}
_UNKNOWN_MESSAGE, _CANNOT_MESSAGE = 10008, 50007
_GREEN, _RED, _GREY, _LINK = 3, 4, 2, 5
_STYLES: Final = {"approve": _GREEN, "reject": _RED, "ask": _GREY, TEST: _GREEN}
_LINK_VERB: Final = "link"
_FORMS: Final = ("reject", "ask", _LINK_VERB)
"""Verbs that need a text."""
_CUSTOM_ID: Final = re.compile(r"(approve|reject|ask|test|link):(\d{1,18}):([0-9a-f]{0,12})")
_MAX_TEXT: Final = 1000
_MAX_CONTENT: Final = 2000

_Id = Annotated[str, msgspec.Meta(pattern=whole("[0-9]{1,20}"))]
_Bits = Annotated[str, msgspec.Meta(pattern=whole("[0-9]{1,40}"))]
T = TypeVar("T")


class _Account(msgspec.Struct):
    id: _Id
    username: str = ""
    global_name: str | None = None


class _Member(msgspec.Struct):
    user: _Account | None = None
    roles: list[str] = []


class _Identified(msgspec.Struct):
    id: _Id


class _Component(msgspec.Struct):
    value: Any = None
    component: _Component | None = None
    components: list[_Component] = []


class _Data(msgspec.Struct):
    custom_id: str = ""
    components: list[_Component] = []


class _Interaction(msgspec.Struct):
    """Fields of an interaction that we use; `member` only in a server, `message` for buttons and their forms."""

    id: _Id
    type: int
    application_id: _Id = "0"
    token: str = ""
    channel_id: _Id | None = None
    locale: str = ""
    member: _Member | None = None
    message: _Identified | None = None
    data: _Data | None = None


class _Application(msgspec.Struct):
    id: _Id
    verify_key: str = ""
    interactions_endpoint_url: str | None = None
    bot: _Account | None = None


class _Overwrite(msgspec.Struct):
    id: str
    allow: _Bits
    deny: _Bits


class _Channel(msgspec.Struct):
    guild_id: _Id
    permission_overwrites: list[_Overwrite] = []


class _Role(msgspec.Struct):
    id: str
    permissions: _Bits


class Discord(Platform):
    """A channel on Discord."""

    title: ClassVar[str] = "Discord"
    longest: ClassVar[int] = 4000

    def __init__(self, chat: TeamChat, base_url: str) -> None:
        super().__init__(chat)
        self._api = chat.api_url or _API
        self._endpoint = f"{base_url}{INTERACTIONS_PATH}"
        self._public_only = is_public_address(self._api)
        self._headers = {
            "Authorization": f"Bot {chat.token}",
            "User-Agent": f"DiscordBot ({base_url}, {__version__})",
            "Content-Type": "application/json",
        }
        self._free_at: dict[str, float] = {}
        """By kind of request, when the rate limit allows the next one, in the event loop's time."""

    @staticmethod
    def escape(text: str) -> str:
        return escape_markdown(one_line(text, MAX_ANSWER))

    async def post(self, content: MessageContent, delivery: int) -> str:
        nonce = sha256(f"{self._endpoint} {delivery}".encode()).hexdigest()[:25]
        body = {**_message(content), "nonce": nonce, "enforce_nonce": True}
        sent = await self.call("POST", f"/channels/{self.chat.channel}/messages", body)
        return _convert(sent, _Identified).id

    async def edit(self, remote_id: str, content: MessageContent) -> None:
        await self.call("PATCH", f"/channels/{self.chat.channel}/messages/{remote_id}", _message(content))

    async def write_to(self, account_id: str, text: str) -> None:
        channel = await self.call("POST", "/users/@me/channels", {"recipient_id": account_id})
        body = {"content": text[:_MAX_CONTENT], "allowed_mentions": {"parse": []}}
        await self.call("POST", f"/channels/{_convert(channel, _Identified).id}/messages", body)

    async def find_problems(self, now: datetime) -> list[str]:
        application = await self._request("GET", "/applications/@me")
        if not application.is_success:
            return [f"{_describe(application)}: check the token (Bot, Reset Token)"]
        problems, found = _find_clock_problems(application, now), _convert(_decode_reply(application), _Application)
        if found.verify_key.lower() != self.chat.public_key.lower():
            problems.append("public_key is another one than Discord shows (General Information, Public Key)")
        if found.interactions_endpoint_url != self._endpoint:
            problems.append(f"enter {self._endpoint} at Discord (General Information, Interactions Endpoint URL)")
        elif (answer := await self._try_endpoint()) is not None:
            problems.append(f"{self._endpoint} does not lead here from this machine ({answer}): check your proxy")
        return problems + await self._find_missing_rights((found.bot or found).id)

    async def _try_endpoint(self) -> str | None:
        """Return what our own address answers, if that is not our refusal of a request that nobody signed."""
        from regsvc.core.http_client import HttpClient

        with HttpClient(_TIMEOUT) as client:
            try:
                response = await client.post(self._endpoint, {"Content-Type": "application/json"}, b"{}")
            except NoResponse as error:
                return str(error)
        return None if response.status == 401 else response.describe()

    async def _find_missing_rights(self, bot_id: str) -> list[str]:
        """Return which rights the bot lacks in the channel, by the rules that Discord documents."""
        response = await self._request("GET", f"/channels/{self.chat.channel}")
        if not response.is_success:
            return [f"{_describe(response)}: the bot does not see the channel; invite it, and let it view the channel"]
        channel = _convert(_decode_reply(response), _Channel)
        guild = channel.guild_id
        member = _convert(_decode_reply(await self._request("GET", f"/guilds/{guild}/members/{bot_id}")), _Member)
        roles = await self._request("GET", f"/guilds/{guild}/roles")
        granted = _convert(_decode(roles.body), list[_Role]) if roles.is_success else []
        own = {guild, *member.roles}
        rights = reduce(or_, (int(role.permissions) for role in granted if role.id in own), 0)
        if not rights & _ADMINISTRATOR:
            rights = _overwrite(rights, channel.permission_overwrites, guild, own - {guild}, bot_id)
            missing = [name for name, bit in _NEEDED_RIGHTS.items() if not rights & bit]
            return [f"the bot lacks in the channel: {', '.join(missing)}"] if missing else []
        return []

    async def follow_up(self, application_id: str, token: str, data: Mapping[str, Any]) -> None:
        """Replace the deferred answer to an interaction. Its token is all that is needed."""
        headers = {name: value for name, value in self._headers.items() if name != "Authorization"}
        path = f"/webhooks/{application_id}/{quote(token, safe='')}/messages/@original"
        await self.call("PATCH", path, data, headers=headers, limited_as="follow-up")

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        limited_as: str = "",
    ) -> dict[str, Any]:
        """Send a request as rate limits allow, and return the object in the response."""
        bucket = limited_as or f"{method} {path.rpartition('/messages/')[0] or path}"
        await self._wait_for(bucket)
        response = await self._request(method, path, body, headers)
        self._note_limit(bucket, response)
        return _read(response)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        from regsvc.core.http_client import HttpClient

        text = None if body is None else json.dumps(body).encode()
        with HttpClient(_TIMEOUT, public_only=self._public_only) as client:
            try:
                return await client.send(method, f"{self._api}{path}", headers or self._headers, text)
            except NoResponse as error:
                raise TemporaryFailure(f"Discord: {error}") from None

    async def _wait_for(self, bucket: str) -> None:
        """Wait until the rate limit allows a request, or raise `TemporaryFailure`."""
        wait = self._free_at.pop(bucket, 0) - asyncio.get_running_loop().time()
        if wait > _LONGEST_PAUSE:
            self._free_at[bucket] = asyncio.get_running_loop().time() + wait
            raise TemporaryFailure("Discord limits our requests", timedelta(seconds=wait))
        if wait > 0:
            await asyncio.sleep(wait)

    def _note_limit(self, bucket: str, response: Response) -> None:
        headers = response.headers
        is_used_up = headers.get("X-RateLimit-Remaining") == "0"
        wait = _seconds(headers.get("Retry-After" if response.status == 429 else "X-RateLimit-Reset-After"))
        if wait and (is_used_up or response.status == 429):
            self._free_at[bucket] = asyncio.get_running_loop().time() + wait


def _seconds(written: str | None) -> float:
    """Return a wait in seconds, an hour at most; 0 for none, or one that is no number."""
    try:
        wait = float(written or 0)
    except ValueError:
        return 0.0
    return min(max(wait, 0.0), _LONGEST_WAIT) if math.isfinite(wait) else 0.0


def _decode_reply(response: Response) -> dict[str, Any]:
    """Return the object in a response; {} for anything else."""
    fields = _decode(response.body)
    return fields if isinstance(fields, dict) else {}


def _decode(body: bytes) -> object:
    """Return the JSON value of a body, or None."""
    try:
        return decode_json(body)
    except ValueError:
        return None


def _convert(fields: object, kind: type[T]) -> T:
    """Return a decoded reply as what it should be. Raises `TemporaryFailure` for another shape."""
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.ValidationError, RecursionError):
        raise TemporaryFailure("Discord: a reply of another shape than documented") from None


def _describe(response: Response) -> str:
    code = _decode_reply(response).get("code")
    return f"Discord: {response.describe()}" + (f", code {code}" if isinstance(code, int) and code else "")


def _read(response: Response) -> dict[str, Any]:
    """Return the object in a response. Raises what says how to go on."""
    fields = _decode_reply(response)
    if response.is_success:
        return fields
    code, told = fields.get("code"), _describe(response)
    if code == _CANNOT_MESSAGE:
        raise Drop("the person takes no messages from the bot")
    if code == _UNKNOWN_MESSAGE:
        raise MessageGone
    if response.status == 429:
        raise TemporaryFailure(told, timedelta(seconds=_seconds(response.headers.get("Retry-After"))))
    if response.status in (401, 403, 404):
        raise TemporaryFailure(f"{told}; see companion doctor", _REFUSED_PAUSE)
    if response.is_temporary:
        raise TemporaryFailure(told)
    raise PermanentFailure(told)


def _find_clock_problems(response: Response, now: datetime) -> list[str]:
    """Return a sentence if our clock differs so much from Discord's that clicks are refused as late."""
    try:
        ahead = now - parsedate_to_datetime(response.headers.get("Date", ""))
    except (ValueError, TypeError, OverflowError):
        return []
    if abs(ahead) <= _MAX_AGE:
        return []
    return [
        f"this machine's clock is {format_roughly(abs(ahead))} {'ahead' if ahead > timedelta() else 'behind'}: set it"
    ]


def _overwrite(rights: int, overwrites: Sequence[_Overwrite], guild: str, roles: set[str], bot_id: str) -> int:
    """Return the rights in a channel: its overwrites for everyone, then for the roles, then for the member."""
    for concerned in ({guild}, roles, {bot_id}):
        found = [it for it in overwrites if it.id in concerned]
        rights &= ~reduce(or_, (int(it.deny) for it in found), 0)
        rights |= reduce(or_, (int(it.allow) for it in found), 0)
    return rights


def _message(content: MessageContent) -> dict[str, Any]:
    """Return the body of a message: no mention in it notifies anybody."""
    buttons: list[dict[str, Any]] = [
        {
            "type": 2,
            "style": _STYLES[verb],
            "label": label[:80],
            "custom_id": f"{verb}:{content.number}:{content.version}",
        }
        for verb, label in content.labels.items()
    ]
    if content.url and len(content.url) <= 512:
        buttons.append({"type": 2, "style": _LINK, "label": "/admin", "url": content.url})
    return {
        "content": content.title[:_MAX_CONTENT],
        "embeds": [{"description": "\n".join(content.lines)}] if content.lines else [],
        "components": [{"type": 1, "components": buttons}] if buttons else [],
        "allowed_mentions": {"parse": []},
    }


class DiscordInteractions:
    """Interactions: clicks and forms, which Discord posts to us. Use on the event loop."""

    def __init__(self, channels: Sequence[Discord], receiver: ChatReceiver) -> None:
        self._channels = {channel.chat.channel: channel for channel in channels}
        self._keys = {key: _public_key(key) for key in sorted({_key_of(channel) for channel in channels})}
        self._receiver = receiver
        self._late: set[asyncio.Future[Any]] = set()
        self._has_warned = False

    async def receive(self, signature: str, timestamp: str, body: bytes) -> dict[str, Any]:
        """Return the response to an interaction.

        Raises `Unauthorized` unless it is Discord's, new, and in time, and `MalformedBody` for another shape.
        """
        key = self._verify(signature, timestamp, body)
        interaction = _read_interaction(body)
        if interaction.type == _PING:
            return {"type": _PONG}
        channel = self._channels.get(interaction.channel_id or "")
        of_key = [it for it in self._channels.values() if _key_of(it) == key]
        chat = channel.chat if channel in of_key else None  # an application decides in its own channels alone
        task = asyncio.create_task(self._respond(interaction, chat, of_key[0]))
        await asyncio.wait({task}, timeout=_LONGEST_ANSWER)
        if task.done():
            return task.result()
        self._late.add(task)
        form = self._late_form(interaction, chat)
        task.add_done_callback(partial(self._end_late, interaction, of_key[0], is_answered=form is not None))
        return form or {"type": _DEFERRED, "data": {"flags": _EPHEMERAL}}

    def _verify(self, signature: str, timestamp: str, body: bytes) -> str:
        """Return the configured key that signed this within five minutes. Raises `Unauthorized` if none did."""
        try:
            written, age = bytes.fromhex(signature), abs(self._receiver.now().timestamp() - int(timestamp))
        except (ValueError, OverflowError):
            raise Unauthorized from None
        signed = timestamp.encode("ascii", "replace") + body
        found = next((name for name, key in self._keys.items() if _is_signed(key, written, signed)), None)
        if found is None:
            raise Unauthorized
        if age > _MAX_AGE.total_seconds():
            log.warning("Discord: an interaction was signed %.0f seconds ago or ahead: is the clock right?", age)
            raise Unauthorized
        return found

    async def _respond(self, interaction: _Interaction, chat: TeamChat | None, of_key: Discord) -> dict[str, Any]:
        """Return the response to a click or a form."""
        receiver = self._receiver
        language = receiver.language_of(chat or of_key.chat, interaction.locale)
        try:
            return await receiver.run("discord", interaction.id, self._handle, interaction, chat, language)
        except Unauthorized:
            raise
        except Refusal as refusal:
            return self._refuse(refusal, language)

    def _handle(self, interaction: _Interaction, chat: TeamChat | None, language: str) -> dict[str, Any]:
        """Do what the person wants. Blocking: for a worker thread."""
        click, is_form = self._read_click(interaction, chat), interaction.type == _MODAL_SUBMIT
        text, decisions = self._receiver.text, self._receiver.decisions
        if click.verb == _LINK_VERB and is_form:
            return _private(text("linked", language, username=Discord.escape(decisions.link(click.person, click.text))))
        if decisions.void_codes(click.person, find_codes(click.text), is_command=False):
            return _private(text("code_in_text", language))
        if click.verb == TEST:
            return _private(text("tested", language, username=Discord.escape(decisions.answer_test(click))))
        if click.verb in _FORMS and not is_form:
            username = "" if click.verb == _LINK_VERB else decisions.check(click)
            return self._form(click, text(f"{click.verb}_title", language, username=username), language)
        key, username = decisions.decide(click)
        return _private(text(key, language, username=Discord.escape(username)))

    def _read_click(self, interaction: _Interaction, chat: TeamChat | None) -> Click:
        """Return what the interaction wants.

        Raises `ChatMessageUnknown`, also outside of the channels of the application that it is from.
        """
        data, sender = interaction.data or _Data(), interaction.member.user if interaction.member else None
        named = _CUSTOM_ID.fullmatch(data.custom_id)
        if named is None and not self._has_warned:
            self._has_warned = True
            log.warning("Discord: a button is none of ours; does another program use the application of this bot?")
        if named is None or chat is None or sender is None:
            raise ChatMessageUnknown
        person = Person("discord", Discord.title, sender.id, sender.global_name or sender.username)
        about = interaction.message.id if interaction.message else ""
        remote_id = None if named[1] == _LINK_VERB else about
        return Click(chat, person, named[1], int(named[2]), named[3], _find_text(data), remote_id)

    def _refuse(self, refusal: Refusal, language: str) -> dict[str, Any]:
        """Return a private answer; to people who are not linked, with a button to do that."""
        response = _private(self._receiver.translations.refusal(refusal, language))
        if isinstance(refusal, ChatPersonUnknown | ChatCodeInvalid):
            label = self._receiver.text("link", language)
            button = {"type": 2, "style": _GREY, "label": label, "custom_id": f"{_LINK_VERB}:0:"}
            response["data"]["components"] = [{"type": 1, "components": [button]}]
        return response

    def _form(self, click: Click, title: str, language: str) -> dict[str, Any]:
        field = {"type": 4, "custom_id": "text", "style": 1 if click.verb == _LINK_VERB else 2, "max_length": _MAX_TEXT}
        label = shorten(self._receiver.text(f"{click.verb}_label", language), 45)
        labelled = {"type": 18, "label": label, "component": {**field, "required": click.verb != "reject"}}
        custom_id = f"{click.verb}:{click.number}:{click.version}"
        return {"type": _MODAL, "data": {"custom_id": custom_id, "title": shorten(title, 45), "components": [labelled]}}

    def _late_form(self, interaction: _Interaction, chat: TeamChat | None) -> dict[str, Any] | None:
        """Return the form of a click whose check takes too long: a form cannot follow, and what it sends is checked."""
        if interaction.type != _COMPONENT or chat is None:
            return None
        try:
            click = self._read_click(interaction, chat)
        except ChatMessageUnknown:  # which follows as the answer
            return None
        language = self._receiver.language_of(chat, interaction.locale)
        title = self._receiver.text(f"{click.verb}_label", language) if click.verb in _FORMS else ""
        return self._form(click, title, language) if title else None

    def _end_late(
        self, interaction: _Interaction, of_key: Discord, task: asyncio.Future[dict[str, Any]], *, is_answered: bool
    ) -> None:
        """Send the response that came too late for the request, unless a form was; none if it was received before."""
        self._late.discard(task)
        if task.cancelled() or isinstance(task.exception(), Unauthorized) or is_answered:
            return
        sending = asyncio.ensure_future(self._send_late(interaction, of_key, task.result()["data"]))
        self._late.add(sending)
        sending.add_done_callback(self._late.discard)

    async def _send_late(self, interaction: _Interaction, of_key: Discord, data: Mapping[str, Any]) -> None:
        try:
            await of_key.follow_up(interaction.application_id, interaction.token, data)
        except (Drop, TemporaryFailure, PermanentFailure, MessageGone) as error:
            log.info("Discord: an answer came too late: %s", error)


def _key_of(channel: Discord) -> str:
    return channel.chat.public_key.lower()


def _read_interaction(body: bytes) -> _Interaction:
    try:
        return msgspec.convert(decode_json(body), _Interaction)
    except (ValueError, RecursionError):
        raise MalformedBody from None


def _find_text(data: _Data) -> str:
    """Return what was typed into the form; "" where there is none, as in a click."""
    for row in data.components:
        for field in filter(None, (row.component, *row.components[:1])):
            if isinstance(field.value, str):
                return field.value.strip()[:_MAX_TEXT]
    return ""


def _private(text: str) -> dict[str, Any]:
    data = {"content": text[:_MAX_CONTENT], "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
    return {"type": _MESSAGE, "data": data}


def _public_key(written: str) -> Ed25519PublicKey:
    """Return the key. Only here is the library needed, which `regsvc` keeps others from importing."""
    allow_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(written))


def _is_signed(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True
