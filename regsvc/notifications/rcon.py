"""Console commands for the running game: enqueued in the transaction of their cause, sent after it over RCON.

A kick matters at once or not at all and is given up after a minute. A change to the game's own ban list is lasting and
is retried for a day. A row is inserted for a name only after a kick for that very row: AuthMe would log in whichever
player is online under an unregistered name and types `/register` at the wrong moment.

Where several game servers share AuthMe's table, each gets every command as an outbox message of its own, so that one
that is down neither holds up the others nor makes them repeat anything. A row waits for the kicks of all of them.

Commands of the host's own follow decisions (`game.commands`). Those about one player keep their order on each server,
and are retried for a day. Their replies are kept for operators to read, and prove nothing.

Neither the password nor the game's replies appear in the log.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from msgspec import Meta

from plugin_bridge.authme.players import PlayersUnavailable
from plugin_bridge.server.files import PropertiesFile, ServerProperties
from plugin_bridge.server.rcon import (
    LIST,
    RconAddress,
    RconError,
    UnsafeName,
    ban,
    fill,
    is_surely_offline,
    kick,
    one_line,
    open_rcon,
    pardon,
)
from regsvc.config.host_sections import COMMAND_EVENTS, GameSection, GameServer
from regsvc.core.addresses import connect_host
from regsvc.core.clock import Clock, is_over
from regsvc.core.i18n import Translations
from regsvc.core.shapes import Moment, Output
from regsvc.core.text import name_key
from regsvc.database.bulk import select_rows
from regsvc.database.models import OutboxEntry, User
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure, Transport
from regsvc.notifications.outbox import MAX_COUNT, Fate, Outbox, Recipient, RetryPolicy

log = logging.getLogger(__name__)

FindUuids = Callable[[Mapping[str, str | None]], Mapping[str, str]]
"""Function that returns the UUIDs that are known of these players, with their platforms, as `Profiles.find_uuids`."""
FindAddress = Callable[[], RconAddress | None]
"""Function that returns the address of one console, or None while it is off."""


def find_rcon_address(game: GameServer, properties: ServerProperties | None) -> RconAddress | None:
    """Return the console's address; None where `rcon` is off, or "auto" and the server does not enable RCON.

    `properties` None: the file is missing or unreadable, and the server's own defaults count, with RCON off. A
    server that listens on all interfaces is contacted on loopback: it runs on this machine.
    """
    known = properties or ServerProperties()
    if not game.uses_rcon(properties):
        return None
    return RconAddress(
        game.rcon_host or connect_host(known.rcon_ip or known.server_ip),
        game.rcon_port or known.rcon_port,
        game.rcon_password or known.rcon_password,
    )


KIND: Final = "rcon"

Command = Literal["kick", "kick_first", "ban", "pardon", "host"]
"""Command of an outbox entry. After `kick_first`, whatever its outcome, the player's row is inserted.

`host` is one of the host's own, in the payload.
"""
Cause = Literal["approved", "banned", "deleted", "locked"]

KICK_FIRST: Final = "kick_first"
HOST: Final = "host"
_UUID: Final = "{uuid}"
_NO_UUID: Final = "the player's UUID is not known yet; it will be once they have joined the game"
_MAX_REPLY_LENGTH: Final = 500  # characters; what is kept of a reply
_KICK_HOLDS_FOR: Final = timedelta(minutes=1)  # a player kicked earlier than this may have joined again


class Decided(NamedTuple):
    """A decision that was made: one of `COMMAND_EVENTS`, and whom it is about. `language`, `platform` None: unknown."""

    event: str
    username: str
    user_id: int | None
    language: str | None
    platform: str | None


class RconQueue:
    """Queue that puts console commands into the outbox; every method runs inside the caller's transaction.

    Without consoles nothing is enqueued, and no row waits.
    """

    def __init__(
        self,
        outbox: Outbox,
        consoles: Mapping[str, FindAddress],
        game: GameSection,
        language: str,
        find_uuids: FindUuids,
        now: Clock,
    ) -> None:
        """`consoles` return the last known addresses, by server (`Config.game_servers`), without blocking."""
        self._outbox = outbox
        self._consoles = consoles
        self._on_ban = game.on_ban
        self._commands = game.commands
        self._names_uuids = any(_UUID in command for commands in game.commands.values() for command in commands)
        self._language = language
        self._now = now
        self._find_uuids = find_uuids

    @property
    def is_on(self) -> bool:
        """Return whether commands can be sent to any game server."""
        return bool(self._servers())

    @property
    def is_on_everywhere(self) -> bool:
        """Return whether commands can be sent to every game server."""
        return self.is_on and len(self._servers()) == len(self._consoles)

    def on_bans(self, users: Sequence[User]) -> None:
        """Kick the players or put them on the game's ban list, as `game.on_ban` says."""
        if self._on_ban == "kick":
            self._kick((user.username, user.id, "banned", user.reason) for user in users)
        elif self._on_ban == "ban":
            with self._outbox.batched():
                for user, server in product(users, self._servers()):
                    self._put("ban", user.username, user.id, "banned", user.reason, server=server)

    def on_reopenings(self, users: Sequence[User]) -> None:
        """Kick players who may not play until they are approved again."""
        self._kick((user.username, user.id, "locked", None) for user in users)

    def on_unbans(self, user_ids: Mapping[str, int | None]) -> None:
        """Take the players of these names off the game's ban list, if `game.on_ban` puts players there."""
        if self._on_ban == "ban":
            with self._outbox.batched():
                for (username, user_id), server in product(user_ids.items(), self._servers()):
                    self._put("pardon", username, user_id, "banned", server=server)

    def on_deletions(self, user_ids: Mapping[str, int | None], banned: Collection[str]) -> None:
        """Kick the players of these names; take the banned off the game's list: the names' next users are not."""
        self._kick((username, user_id, "deleted", None) for username, user_id in user_ids.items())
        self.on_unbans({username: user_ids[username] for username in banned})

    def on_decisions(self, decided: Sequence[Decided]) -> None:
        """Enqueue the host's commands, each once for every server; while all consoles are off, they wait for them."""
        due = [(one, command) for one in decided for command in self._commands.get(one.event, ())]
        if not due:
            return
        uuids = self._find_uuids({one.username: one.platform for one, command in due if _UUID in command})
        with self._outbox.batched():
            for (one, command), server in product(due, self._servers() or list(self._consoles)):
                given = {"event": one.event, "command": command, "server": server}
                details = {**given, "uuid": uuids.get(one.username), "platform": one.platform}
                self._outbox.put(
                    HOST,
                    Recipient(one.username, _key_of(HOST, one.username, server)),
                    one.language or self._language,
                    user_id=one.user_id,
                    payload=json.dumps(details, ensure_ascii=False),
                )

    def hasten(self) -> None:
        """Make the commands due that wait for a UUID which has become known."""
        waits: Any = OutboxEntry.select(OutboxEntry.id, OutboxEntry.recipient, OutboxEntry.payload).where(
            OutboxEntry.template == HOST,
            OutboxEntry.last_error == _NO_UUID,
            # none that another daemon, whose clock may be ahead, is trying now
            OutboxEntry.next_attempt_at > self._now() + 2 * RCON_RETRY_POLICY.claim,
        )
        rows = list(waits.limit(MAX_COUNT).tuples()) if self._names_uuids else []
        known = self._find_uuids({name: json.loads(payload)["platform"] for _id, name, payload in rows})
        if ids := [entry_id for entry_id, name, _payload in rows if name in known]:
            is_late = OutboxEntry.next_attempt_at > self._now() + 2 * RCON_RETRY_POLICY.claim
            OutboxEntry.update(next_attempt_at=self._now()).where(OutboxEntry.id.in_(ids), is_late).execute()

    def on_row_changes(self, players: Sequence[tuple[str, int | None, Cause]]) -> None:
        """Kick players who may be online under a row that has just been locked, or given back to its owner.

        As well as those who were taken off the game's allowlist. Each player has a name, a user id and a cause. Those
        who are banned read the reason of the ban.
        """
        is_kept = self._on_ban == "none"
        kicked = [(name, user_id, cause) for name, user_id, cause in players if cause != "banned" or not is_kept]
        keys = [name_key(name) for name, _id, cause in kicked if cause == "banned"] if self._servers() else []
        fields: list[Any] = [User.username_key, User.reason]
        reasons: dict[str, str | None] = dict(select_rows(User._meta.database, User, fields, User.username_key, keys))
        self._kick(
            (name, user_id, cause, reasons.get(name_key(name)) if cause == "banned" else None)
            for name, user_id, cause in kicked
        )

    def may_insert(self, username: str, user_id: int, regdate: int) -> bool:
        """Return whether the row of this name and `regdate` may be inserted now: on each server, its kick is done.

        Missing kicks are enqueued; the delivery of the last one inserts the row.
        """
        unkicked = self.list_unkicked(username, regdate)
        for server, is_enqueued in unkicked.items():
            if not is_enqueued:
                self._put(KICK_FIRST, username, user_id, "approved", server=server, row_id=regdate)
        return not unkicked

    def list_unkicked(self, username: str, regdate: int) -> dict[str, bool]:
        """Return, of the servers whose RCON is on, those without a kick that is done for this row.

        The value of each is whether a kick is enqueued.
        """
        servers = self._servers()
        if not servers:
            return {}
        keys = {_key_of(KICK_FIRST, username, server): server for server in servers}
        kicks = (
            OutboxEntry.select(OutboxEntry.recipient_key, OutboxEntry.done_at)
            .where(
                OutboxEntry.recipient_key.in_(list(keys)),
                OutboxEntry.kind == KIND,
                OutboxEntry.row_id == regdate,
            )
            .order_by(OutboxEntry.id)
        )
        done_at = {kick.recipient_key: kick.done_at for kick in kicks}  # of the latest for each server
        now, unkicked = self._now(), {}
        for key, server in keys.items():
            done = done_at.get(key)
            if done is None or is_over(done, _KICK_HOLDS_FOR, now):
                unkicked[server] = done is None and key in done_at
        return unkicked

    def _servers(self) -> list[str]:
        """Return the servers whose console is on."""
        return [server for server, find_address in self._consoles.items() if find_address() is not None]

    def _kick(self, kicks: Iterable[tuple[str, int | None, Cause, str | None]]) -> None:
        """Enqueue kicks by name, user id, cause and reason; none for a player whose last one was not attempted yet."""
        servers = self._servers()
        wanted = {_key_of("kick", kick[0], server): (kick, server) for kick in kicks for server in servers}
        if not wanted:
            return
        is_untried = (OutboxEntry.attempts == 0) & OutboxEntry.next_attempt_at.is_null(False)
        is_same = OutboxEntry.recipient_key.in_(list(wanted)) & (OutboxEntry.kind == KIND)
        enqueued = {
            row.recipient_key for row in OutboxEntry.select(OutboxEntry.recipient_key).where(is_same, is_untried)
        }
        with self._outbox.batched():
            for key, (kick, server) in wanted.items():
                if key not in enqueued:
                    self._put("kick", *kick, server=server)

    def _put(
        self,
        command: Command,
        username: str,
        user_id: int | None,
        cause: Cause,
        reason: str | None = None,
        *,
        server: str,
        row_id: int | None = None,
    ) -> None:
        details = {"cause": cause, "reason": reason} | ({"server": server} if server else {})
        payload = json.dumps(details, ensure_ascii=False)
        player = Recipient(username, _key_of(command, username, server))
        self._outbox.put(command, player, self._language, user_id=user_id, row_id=row_id, payload=payload)


def _key_of(command: Command, username: str, server: str) -> str:
    """Return the ordering key: a ban and its end keep their order, as do the host's commands; nothing else waits.

    Servers do not wait for each other. Keys of the main one, "", do not name it.
    """
    key = f"{command} {username.lower()}" if command in ("kick", KICK_FIRST, HOST) else username.lower()
    return f"{key} on {server}" if server else key


def find_consoles(
    servers: Mapping[str, GameServer], files: Mapping[str, PropertiesFile], *, may_block: bool
) -> dict[str, FindAddress]:
    """Return for each server a function that returns its console's address, as it is now or as it was last read.

    `files`: the server.properties of each server; they are read again only by functions that `may_block`.
    """

    def find(server: str) -> RconAddress | None:
        file = files[server]
        return find_rcon_address(servers[server], file.refresh() if may_block else file.current)

    return {server: partial(find, server) for server in servers}


RCON_RETRY_POLICY: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),
    longest_retry=timedelta(minutes=5),
    max_age=timedelta(days=1),  # for the game's ban list, and the host's commands
    claim=timedelta(seconds=20),
)

_MAX_KICK_AGE: Final = timedelta(minutes=1)
"""After that, a kick would hit a player who joined again for another reason."""
_MAX_KICK_ATTEMPTS: Final = 3
"""A few seconds; a server that is unreachable for longer mostly has no players online."""
_MAY_HAVE_RUN: Final = "the command was sent, and may have run: "
_UNANSWERED_RETRY: Final = timedelta(minutes=5)
"""Time after which a command of the host that got no answer is sent once more, and then no more.

A server that stands still carries all of them out later.
"""
_NEXT_PLACE: Final = timedelta(seconds=5)
"""How long an attempt at a server that hangs takes at most."""


def insert_row_after_kick(message: OutboxEntry, reconcile: Callable[[str], object]) -> None:
    """Insert the player's row once a `kick_first` has ended on each server, whatever its outcome: none waits for ever.

    `reconcile` reconciles the account with this lower-case name, as the sync would.
    """
    if message.template != KICK_FIRST:
        return
    try:
        reconcile(message.recipient.lower())
    except PlayersUnavailable as error:
        log.warning("the player will be added by the next sync: %s", error)


def keep_reply(message: OutboxEntry) -> None:
    """Store what the game replied to a command of the host, as `RconTransport.send` left it in the payload."""
    if message.template == HOST:
        OutboxEntry.update(payload=message.payload).where(OutboxEntry.id == message.id).execute()


class CommandFields(Output, frozen=True):
    """A console command of the host's own, which follows a decision about the user (`game.commands`)."""

    event: Annotated[str, Meta(extra_json_schema={"enum": list(COMMAND_EVENTS)}, examples=["approved"])]
    command: Annotated[
        str,
        Meta(
            description="As it was sent; `{uuid}` while that is not known.",
            examples=["lp user 5627dd98-e6be-3c21-b8a8-e92344183641 parent add member"],
        ),
    ]
    server: Annotated[str, Meta(description='The game server; "" is the main one.', examples=[""])]
    state: Fate
    created_at: Moment
    done_at: Moment | None
    reply: Annotated[str, Meta(description="What the console replied, which proves nothing.", examples=[""])] | None
    last_error: Annotated[str, Meta(description="Why the last attempt failed.")] | None


def list_commands(user: User, limit: int) -> list[CommandFields]:
    """Return the host's commands about this very user, newest first."""
    is_own = (OutboxEntry.user_id == user.id) & (OutboxEntry.kind == KIND) & (OutboxEntry.template == HOST)
    rows: Any = OutboxEntry.select().where(is_own).order_by(OutboxEntry.id.desc()).limit(limit)
    return [_command_record(row, json.loads(row.payload)) for row in rows]


def _command_record(row: OutboxEntry, payload: Mapping[str, Any]) -> CommandFields:
    command = payload["command"]
    with suppress(UnsafeName):  # it is refused, and shown as the host wrote it
        command = _fill_in(row, payload, payload["uuid"])
    return CommandFields(
        event=payload["event"],
        command=command,
        server=payload["server"],
        state=row.outcome or "waiting",
        created_at=row.created_at,
        done_at=row.done_at,
        reply=payload.get("reply"),
        last_error=row.last_error,
    )


def _fill_in(message: OutboxEntry, payload: Mapping[str, Any], uuid: str | None) -> str:
    """Return the host's command about this player. Raises `UnsafeName`."""
    return fill(payload["command"], {"username": message.recipient, "uuid": uuid, "language": message.language})


@dataclass(slots=True)
class _Console:
    """The console of one game server."""

    find_address: FindAddress
    is_unreachable: bool = False
    under_way: int = 0
    """Commands that wait for its answer."""


class RconTransport(Transport):
    """Transport that sends each command over a connection of its own."""

    noun: ClassVar[str] = "console command"

    def __init__(
        self,
        consoles: Mapping[str, FindAddress],
        translations: Translations,
        server_name: str,
        find_uuids: FindUuids,
        now: Clock,
    ) -> None:
        """`consoles` return addresses by server (`Config.game_servers`), and are called on a thread for every command.

        `server_name` is what players read.
        """
        self._consoles = {server: _Console(find_address) for server, find_address in consoles.items()}
        self._translations = translations
        self._server_name = server_name
        self._now = now
        self._find_uuids = find_uuids

    def prepare(self, message: OutboxEntry) -> str | None:
        """Return the player's UUID for a command that names it; None: it is not known, or not needed."""
        payload = json.loads(message.payload or "{}")
        if message.template != HOST or _UUID not in payload["command"]:
            return None
        return payload["uuid"] or self._find_uuids({message.recipient: payload["platform"]}).get(message.recipient)

    async def send(self, message: OutboxEntry, prepared: Any) -> None:
        payload = json.loads(message.payload or "{}")
        server = payload.get("server", "")
        age = self._now() - message.created_at
        if message.template == "kick" and age >= _MAX_KICK_AGE:
            raise Drop("the kick could not be sent while it mattered")
        console = self._consoles.get(server)
        if console is None:
            raise Drop(f"the config has no game server {server} any more")
        try:
            commands = self._compose(message, payload, prepared)
        except UnsafeName as error:
            raise PermanentFailure(str(error)) from None
        if message.template == HOST and prepared is None and _UUID in commands[-1]:
            raise TemporaryFailure(_NO_UUID)
        address = await asyncio.to_thread(console.find_address)
        if address is None and message.template == HOST:
            raise TemporaryFailure("RCON is disabled")
        if address is None:
            raise Drop("RCON is disabled")
        if console.is_unreachable and console.under_way and len(self._consoles) > 1:
            # commands to other servers would have to wait for one that hangs
            raise _failure(message, "the server did not answer, and another command waits for it", _NEXT_PLACE)
        console.under_way += 1
        try:
            reply = await _execute(address, message, commands)
        except RconError as error:
            if not console.is_unreachable:
                log.warning("%s cannot be used: %s", _noun_of(server), error)
            console.is_unreachable = True
            raise _failure(message, str(error)) from None
        finally:
            console.under_way -= 1
        if console.is_unreachable:
            log.info("%s can be used again", _noun_of(server))
        console.is_unreachable = False
        if message.template == HOST:
            known = {"uuid": prepared, "reply": one_line(reply, _MAX_REPLY_LENGTH)}
            message.payload = json.dumps(payload | known, ensure_ascii=False)

    def _compose(self, message: OutboxEntry, payload: Mapping[str, Any], uuid: str | None) -> list[str]:
        """Return the console commands. Raises `UnsafeName`.

        A ban kicks, too, but the player reads no reason then: the game shows it only to those who join again. So the
        player is kicked just before.
        """
        if message.template == HOST:
            return [_fill_in(message, payload, uuid)]
        if message.template == "pardon":
            return [pardon(message.recipient)]
        given = " ".join((self._translations.reason(payload["reason"], message.language) or "").split())
        key = f"game.{payload['cause']}_because" if given else f"game.{payload['cause']}"
        reason = self._translations.text(key, message.language, server=self._server_name, reason=given)
        reason = reason.replace("\n", " – ")  # before the line about the contact: the game shows one
        kicked = kick(message.recipient, reason)
        return [kicked, ban(message.recipient, reason)] if message.template == "ban" else [kicked]


async def _execute(address: RconAddress, message: OutboxEntry, commands: Sequence[str]) -> str:
    """Send the commands, and return the last reply; "" where none was needed. Raises `RconError`."""
    is_sent, reply = False, ""
    try:
        async with open_rcon(address) as connection:
            # for a player who is offline many plugins kick one whose name begins alike: kick only who may be online
            is_kick = message.template in ("kick", KICK_FIRST, "ban")
            if is_kick and is_surely_offline(message.recipient, await connection.execute(LIST)):
                commands = commands[1:]
            for command in commands:
                is_sent = True
                reply = await connection.execute(command)
            return reply
    except RconError as error:
        raise RconError(f"{_MAY_HAVE_RUN}{error}" if is_sent and message.template == HOST else str(error)) from None


def _failure(
    message: OutboxEntry, reason: str, retry_after: timedelta | None = None
) -> PermanentFailure | TemporaryFailure:
    if message.template == KICK_FIRST and message.attempts >= _MAX_KICK_ATTEMPTS:
        return PermanentFailure(f"the row is inserted without a kick: {reason}")
    if reason.startswith(_MAY_HAVE_RUN):
        if message.last_error == reason:
            return PermanentFailure(reason)
        retry_after = _UNANSWERED_RETRY
    return TemporaryFailure(reason, retry_after)


def _noun_of(server: str) -> str:
    return f"the RCON console of {server}" if server else "the game's RCON console"
