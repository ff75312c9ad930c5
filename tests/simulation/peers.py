"""Those to whom the product sends: the game's console, webhooks, chats and mail servers, and what arrived.

Each may be away, slow, or take what it is sent and lose the answer. What is in the outbox arrives at least once; twice
only where something went wrong meanwhile.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from peewee import fn

from plugin_bridge.server.rcon import RELOAD_ALLOWED, RconAddress, RconError
from regsvc.allowlist.run import AllowlistRunner
from regsvc.core.http_client import HttpClient
from regsvc.core.http_response import LostAnswer, NoResponse, Response
from regsvc.database.models import APPROVED, OutboxEntry, User
from regsvc.notifications.mail.transport import MailTransport
from regsvc.notifications.rcon import RconTransport
from regsvc.notifications.webhook import WebhookTransport
from regsvc.team_chat.messages import TeamChatTransport
from tests.simulation.oracle import OPERATOR_KEYS
from tests.simulation.world import World

MOODS: Final = ("there", "there", "there", "away", "slow", "loses answers", "does it twice", "errors")
_SHORTEST_AGE: Final = timedelta(days=1)
"""Age before which no kind of message is given up, unless the other side refuses it."""
_MAY_FAIL: Final = ("the command was sent, and may have run: ", "the row is inserted without a kick")
SETTINGS: Final = {
    "webhook__url": "https://hooks.example.org/in",
    "webhook__secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "game__commands": {
        "approved": ["lp user {username} parent add member"],
        "ended": ["lp user {username} parent remove member"],
        "renewed": ["lp user {username} parent add member"],
        "banned": ["lp user {username} clear"],
    },
}


class Console:
    """The game's remote console, and its allowlist in memory, which it reads and writes as `AllowlistServer` does."""

    def __init__(self, world: World) -> None:
        self.mood = "there"
        self.has_missed = False
        """Whether it may have left out a command since the last time at which all was settled."""
        self.listed: dict[str, str] = {}
        self._world = world

    @property
    def file(self) -> Any:
        return self._world.services.game.directory / "whitelist.json"

    def load(self) -> None:
        """`whitelist reload`, or a start: a broken file is an empty list."""
        try:
            self.listed = {it["uuid"]: it["name"] for it in json.loads(self.file.read_text(encoding="utf-8"))}
        except ValueError:
            self.listed = {}

    def save(self) -> None:
        """Write the whole list over what is in the file."""
        entries = [{"uuid": uuid, "name": name} for uuid, name in self.listed.items()]
        self._world.write_in_place(self.file, json.dumps(entries))

    def begin(self) -> float:
        """Return how long a connection takes. Raises `RconError`."""
        if self.mood == "away" or not self._world.bukkit.is_running:
            raise RconError("it cannot be reached")
        return 3.0 if self.mood == "slow" else 0.0

    def run(self, command: str) -> str:
        """Run a command, perhaps twice. Raises `RconError` where its answer is lost."""
        bukkit = self._world.bukkit
        self._world.trace.note(f"console: {command}")
        if self.mood == "errors" and command != RELOAD_ALLOWED:  # the game has that one itself (read)
            return "Unknown or incomplete command"
        for _time in range(2 if self.mood == "does it twice" else 1):
            verb, _space, rest = command.partition(" ")
            if command == RELOAD_ALLOWED:
                self.load()
            elif verb in ("kick", "ban") and (name := rest.split()[0].strip('"')).lower() in bukkit.online:
                bukkit.quit(name)
        if self.mood == "loses answers":
            raise RconError("it did not answer in time")
        names = ", ".join(bukkit.online.values())
        return f"There are {len(bukkit.online)} of a max of 20 players online: {names}" if command == "list" else ""

    @asynccontextmanager
    async def open(self, address: RconAddress, max_seconds: float = 5.0) -> AsyncIterator[Any]:
        """Connect as `open_rcon` does."""
        await asyncio.sleep(self.begin())

        async def execute(command: str) -> str:
            await asyncio.sleep(0.02)
            return self.run(command)

        yield SimpleNamespace(execute=execute)

    def reload_on_thread(self, address: RconAddress) -> Callable[[], None]:
        """Return what reloads the list, on the thread of the list's runner."""

        def reload() -> None:
            self._world.scheduler.hand_over("console", 0.01 + self.begin())
            self.run(RELOAD_ALLOWED)

        return reload


class WebhookReceiver:
    """The receiver of the host's webhook."""

    mood = "there"

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()

    async def answer(self, client: HttpClient, url: str, headers: Any, body: bytes) -> Response:
        """Answer a call."""
        if self.mood == "slow":
            await asyncio.sleep(8)
        if self.mood == "away":
            raise NoResponse("nobody answers")
        if self.mood == "errors":
            return Response(503, {"Retry-After": "7"}, b"")
        self.received[json.loads(body)["companion"]["delivery"]] += 1
        if self.mood == "loses answers":
            raise LostAnswer("it took too long")
        return Response(204, {}, b"")


class Peers:
    """All of them, and the ledger."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.console = Console(world)
        self.webhook = WebhookReceiver()
        self._sent: dict[int, tuple[int, ...]] = {}
        """What had gone wrong when the entry with this id first arrived."""
        self._new: list[int] = []
        self._twice: list[str] = []
        self._seen = 0
        self._left_in: set[str] = set()
        """Who stayed in the game since the console did not carry out a kick: nobody repeats it."""

    def change(self) -> None:
        """Let each be away, or otherwise, or come back."""
        chance = self.world.chance
        self.console.mood, self.webhook.mood = chance.choice(MOODS), chance.choice(MOODS)
        self.console.has_missed |= self.console.mood in ("away", "errors", "loses answers")
        self.world.trace.note(f"console: {self.console.mood}, webhook: {self.webhook.mood}")

    def check_players(self, users: Mapping[str, User]) -> None:
        """Nobody plays who may not, since the console kicks them."""
        authme, console, online = self.world.services.authme, self.console, self.world.bukkit.online
        self._left_in &= set(online)
        for key, name in online.items():
            row, user = authme.find(name), users.get(key)
            may_play = user is not None and user.status == APPROVED and user.ended_because is None
            if row is not None and row["isLogged"] and not may_play and key not in OPERATOR_KEYS | self._left_in:
                assert console.has_missed, f"{name} plays, and may not"
                self._left_in.add(key)
        console.has_missed = False

    def come_back(self) -> None:
        """Let all be there."""
        self.console.mood = self.webhook.mood = "there"

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Let the product send to these."""
        with ExitStack() as stack:
            patch = mock.patch
            stack.enter_context(patch("regsvc.notifications.rcon.open_rcon", self.console.open))
            stack.enter_context(patch("regsvc.allowlist.run._reload", self.console.reload_on_thread))
            stack.enter_context(patch("regsvc.allowlist.run.asyncio", SimpleNamespace(run=lambda call: call())))
            is_up = lambda runner: self.world.bukkit.is_running  # noqa: E731 - a method
            stack.enter_context(patch.object(AllowlistRunner, "_is_server_up", is_up))
            receive = self.webhook.answer
            stack.enter_context(patch.object(HttpClient, "post_for_head", lambda *call: receive(*call)))
            for transport in (MailTransport, WebhookTransport, RconTransport, TeamChatTransport):
                stack.enter_context(patch.object(transport, "send", self._noting(transport.send)))
            yield

    def _noting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def send_and_note(transport: Any, message: OutboxEntry, prepared: Any) -> None:
            await send(transport, message, prepared)
            self._note(message)

        return send_and_note

    def _note(self, message: OutboxEntry) -> None:
        wrong = self._count_wrong()
        before = self._sent.setdefault(message.id, wrong)
        if before is wrong:
            self._new.append(message.id)
        elif before == wrong:
            self._twice.append(f"{message.kind} {message.id} ({message.template})")

    def _count_wrong(self) -> tuple[int, ...]:
        """Return how much went wrong by now: what was sent before may not be recorded."""
        return self.world.faults.count, self.world.kills

    # --- what is true ---

    def check(self) -> None:
        """Nothing is sent that nothing has caused, nor twice without a reason."""
        assert not self._twice, f"sent twice, though nothing went wrong: {self._twice}"
        there = {row.id for row in OutboxEntry.select(OutboxEntry.id).where(OutboxEntry.id.in_(self._new))}
        assert there >= set(self._new), f"sent, and caused by nothing: {sorted(set(self._new) - there)}"
        self._new.clear()

    def check_settled(self) -> None:
        """What is marked as sent has arrived; what was given up was too old, or refused; nobody plays who may not."""
        now = self.world.clock()
        for row in OutboxEntry.select().where(OutboxEntry.id > self._seen, OutboxEntry.done_at.is_null(False)):
            told = f"{row.kind} {row.id} ({row.template}): {row.outcome}, {row.last_error}"
            if row.outcome == "sent":
                assert row.id in self._sent, f"{told}, and never arrived"
            elif row.outcome == "failed":
                is_old = (row.done_at or now) - row.created_at >= _SHORTEST_AGE
                assert is_old or str(row.last_error).startswith(_MAY_FAIL), told
        waiting, last = OutboxEntry.select(fn.MIN(OutboxEntry.id)), OutboxEntry.select(fn.MAX(OutboxEntry.id))
        oldest = waiting.where(OutboxEntry.done_at.is_null()).scalar()
        self._seen = int(last.scalar() or 0) if oldest is None else int(oldest) - 1
        self._sent = {number: wrong for number, wrong in self._sent.items() if number > self._seen}
