"""A host's machine in one process: the product, the game with AuthMe, mail, and the database, by one seed.

A world has one process of the product after another: a kill ends one in the middle of what it does. The daemon's jobs
run as `Daemon` lists them, its deliveries as `App.deliver` does; only sockets and HTTP are left out.
"""

import asyncio
import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import datetime, timedelta
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

from peewee import SQL

from regsvc.accounts.chat.guild_roles import Guild
from regsvc.app.app import App
from regsvc.cli.serve import Daemon
from regsvc.config.host_sections import TeamChat
from regsvc.core.email_address import EmailAddress
from regsvc.database.lease import TaskLease
from regsvc.notifications.delivery import TransportUnavailable
from regsvc.notifications.mail.transport import MailBackend
from regsvc.runtime.jobs import Job, JobRunner
from regsvc.team_chat.platform import MessageContent, Platform
from tests.simulation.faults import Faults, hook
from tests.simulation.scheduler import Killed, Scheduler, SimulatedClock, SimulatedLoop, Trace, simulate_with
from tests.support.authme import bukkit_server
from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.bukkit_server import BukkitServer
from tests.support.authme.game_server import write_game_server
from tests.support.peers.mariadb import MariaDBServer
from tests.support.services import ServiceHarness, open_app, open_services

T = TypeVar("T")
NO_LIMIT: Final = ["1000000 per minute"]
LIMITS: Final = ("limits_per_address", "limits_per_client", "limits_total", "tries_per_client")
NO_JOBS: Final = ("game status", "updates", "hops", "installation")
"""Jobs that need a network, a web server, or the real machine."""


AWAY: Final = ("the database is away", "without the database", "the database cannot be written")
"""Errors that are told as such."""
GIVEN_UP: Final = re.compile(r"\w+ \d+ \(\w+\) given up after ")
"""Errors of deliveries, of which `Peers` checks that each was too late, or refused."""


class Mailbox(MailBackend):
    """The mail servers of the world: they may be away, and may take a mail without saying so."""

    def __init__(self, chance: random.Random) -> None:
        self.sender = "companion@example.org"
        self.is_away = False
        self.letters: list[tuple[str, str]] = []
        self._chance = chance

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        await asyncio.sleep(self._chance.choice([0.0, 0.05, 2.0]))
        if self.is_away:
            raise TransportUnavailable("nobody answers")
        body = message.get_body(("plain",))
        assert body is not None
        self.letters.append((recipient.key, str(body.get_content())))

    def find(self, address: str, pattern: re.Pattern[str]) -> str | None:
        """Return what the newest of the last letters to this address has, or None."""
        found = (pattern.search(text) for to, text in reversed(self.letters[-40:]) if to == address)
        return next((match[1] for match in found if match is not None), None)


class Chat(Platform):
    """The channel in which the team reads of applications: it may be away."""

    title, longest, sends_itself = "Chat", 2000, True
    is_away = False
    posted = 0

    @staticmethod
    def escape(text: str) -> str:
        return text

    async def post(self, content: MessageContent, delivery: int) -> str:
        self._require_there()
        Chat.posted += 1
        return str(Chat.posted)

    async def edit(self, remote_id: str, content: MessageContent) -> None:
        self._require_there()

    async def write_to(self, account_id: str, text: str) -> None:
        self._require_there()

    async def find_problems(self, now: datetime) -> list[str]:
        return []

    def _require_there(self) -> None:
        if self.is_away:
            raise TransportUnavailable("nobody answers")


class Errors(logging.Handler):
    """What the product logs as an error, beside that its database is away; warnings are noted."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._trace.note(f"  log: {text}")
        is_known = any(known in text for known in AWAY) or GIVEN_UP.match(text)
        if record.levelno >= logging.ERROR and not is_known:
            self.found.append(text)


class World:
    """`live` runs it. `people` is asked for what happens in each process, until it returns."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        mariadb: MariaDBServer | None = None,
        choose_settings: Callable[[random.Random], dict[str, Any]] = lambda chance: {},
    ) -> None:
        """`choose_settings` returns keys of the config, with two underscores for the dot."""
        self.chance = random.Random(seed)
        self._settings = choose_settings(self.chance)
        self.guild: Any = None
        """Answers in place of Discord."""
        self.clock = SimulatedClock()
        self.trace = Trace(self.clock)
        self.faults = Faults(self.chance, self.trace)
        self.mail = Mailbox(self.chance)
        self.chat = Chat(TeamChat(platform="discord", channel="1"))
        self.errors = Errors(self.trace)
        self.kills = 0
        self._others: list[App] = []
        self.follow_clock: Callable[[], None] = lambda: None
        """Called once a process has started."""
        self._directory = directory
        self._mariadb = mariadb
        self._open = ExitStack()
        self.scheduler: Scheduler
        self.services: ServiceHarness
        self.bukkit: BukkitServer

    def __enter__(self) -> "World":
        random.seed(self.chance.random())
        with ExitStack() as stack:
            self._renew_scheduler()
            stack.enter_context(mock.patch("regsvc.app.app.make_mail_backend", return_value=self.mail))
            chats = {self.chat.chat.name: self.chat}
            stack.enter_context(mock.patch("regsvc.app.app.make_platforms", return_value=chats))
            stack.enter_context(mock.patch.object(bukkit_server, "write_in_place", self.write_in_place))
            stack.enter_context(mock.patch.object(Guild, "_send", lambda *asked: self.guild.answer(*asked)))
            logging.getLogger("regsvc").addHandler(self.errors)
            stack.callback(logging.getLogger("regsvc").removeHandler, self.errors)
            game = write_game_server(self._directory / "game")
            game.write_properties(white_list="true", enable_rcon="true", rcon_password="secret")
            (game.directory / "whitelist.json").write_text("[]")
            game.authme_directory.mkdir(parents=True)
            place: AuthMeDatabase = SqliteFile(game.authme_directory / "authme.db")
            if self._mariadb is not None:
                place = MariaDBSchema(stack.enter_context(self._mariadb.fresh_database()))
            table = AuthMeTable(place)
            create_table(table)
            game.install_authme(table)
            place.execute("CREATE TABLE other_plugin (id INTEGER PRIMARY KEY, name VARCHAR(20))")
            place.execute("INSERT INTO other_plugin VALUES (1, 'Alice')")
            given: dict[str, Any] = {f"verification__{limit}": NO_LIMIT for limit in LIMITS}
            chat = {"platform": "discord", "token": "t", "public_key": "0" * 64, "channel": "1"}
            given |= {"team_chat": [chat], "server__base_url": "https://play.example.org", **self._settings}
            state = self._directory / "state"
            stack.enter_context(mock.patch.object(TaskLease, "_in", lambda *asked: self._in(*asked)))
            self.services = open_services(game, table, self.clock, state, **given)
            stack.callback(lambda: self.services.close())
            self._open_others()
            stack.callback(self._close_others)
            self.bukkit = BukkitServer(game, self.services.authme, self.clock, (6, 0))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    @property
    def app(self) -> Any:
        """One of the daemons: people come to any."""
        return self.chance.choice(self.apps) if len(self.apps) > 1 else self.services.app

    @property
    def apps(self) -> list[App]:
        """All daemons on this database; on SQLite there is one."""
        return [self.services.app, *self._others]

    def _open_others(self) -> None:
        """Open a second daemon on a database server: it has a state directory of its own, and the same keys."""
        if self._mariadb is None:
            return
        services, location = self.services, self.services.app.context.location
        state = services.directory.with_name("state-b")
        state.mkdir(exist_ok=True)
        for file in services.directory.iterdir():
            if file.name.endswith(("key", ".pem")):
                shutil.copy2(file, state / file.name)
        given = {**services.given, "server.instance": "b"}
        with mock.patch("regsvc.app.context.resolve_location", return_value=location):
            self._others = [open_app(services.game, state, self.clock, given)]

    def _close_others(self) -> None:
        for app in self._others:
            app.worker.close_here()
            app.sync_worker.close_here()
            app.close()

    def _in(self, lease: TaskLease, seconds: int) -> SQL:
        """Return SQL for a moment by the database's clock, which is the world's."""
        moment = self.clock() + timedelta(seconds=seconds)
        return SQL(f"'{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}'")

    # --- one process after another ---

    def live(self, people: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run until `people` returns."""
        while not self._run_process(people):
            self.kills += 1
            self.trace.note("the process was killed and starts again")
            self._renew_scheduler()
            self._close_others()
            self.services.restart()
            self._open_others()
            self.follow_clock()

    def _renew_scheduler(self) -> None:
        self.scheduler = Scheduler(self.chance, self.clock, self.trace)
        self.scheduler.meet_fault = lambda point, database: self.faults.meet(point, database, self.scheduler)
        simulate_with(self.scheduler)

    def _run_process(self, people: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run one process; return whether `people` has returned, and not the process died."""
        loop = SimulatedLoop(self.scheduler)
        loop.set_exception_handler(self._note_unhandled)
        asyncio.set_event_loop(loop)
        with ExitStack() as stack:
            for context in hook(self.scheduler):
                stack.enter_context(context)
            main = loop.create_task(self._main(people))
            try:
                loop.run_until_complete(main)
                return True
            except (RuntimeError, Killed):
                if not self.scheduler.is_dead:
                    raise
                return False
            finally:
                self.faults.is_on = False
                self._bury(loop)

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note what no task handles, but for the end of the process itself."""
        if not isinstance(context.get("exception"), Killed) and not self.scheduler.is_dead:
            self.errors.found.append(f"{context['message']}: {context.get('exception')!r}")

    def _bury(self, loop: SimulatedLoop) -> None:
        self.scheduler.end(lambda: self.app.worker.close_here())
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
        asyncio.set_event_loop(None)

    async def _main(self, people: Callable[[], Coroutine[Any, Any, None]]) -> None:
        apps, background = self.apps, list[asyncio.Task[None]]()
        deliveries = [asyncio.create_task(app.deliver()) for app in apps]
        for app in apps:
            for job in Daemon(app, partial(getattr, app.context, "config"))._list_jobs():
                if not job.name.startswith(NO_JOBS):
                    background.append(asyncio.create_task(self._run_job(job)))
        await people()
        for app in apps:
            app.stop_delivering()
            await app.sync.stop()
        await asyncio.gather(*deliveries)
        for task in background:
            task.cancel()

    async def _run_job(self, job: Job) -> None:
        runner = JobRunner([job])
        if not job.runs_at_start:
            await asyncio.sleep(job.every.total_seconds())
        while True:
            if job.look is None or job.look():
                await runner._tick(job)
            await asyncio.sleep(job.every.total_seconds())

    # --- for those who live in it ---

    async def on_thread(self, pool: str, work: Callable[[], T]) -> T:
        """Run this on a thread of its own, beside the product's."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.scheduler.submit(pool, 1, work, outcome)
        return await outcome

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await self.scheduler.quiet()

    def write_in_place(self, file: Path, text: str, pause: Callable[[], None] = lambda: None) -> None:
        """Write as the game does, in simulated time."""
        with file.open("w", encoding="utf-8") as opened:
            pause()
            opened.write(text[: len(text) // 2])
            opened.flush()
            pause()
            opened.write(text[len(text) // 2 :])
        self.stamp(file)

    def stamp(self, file: Path) -> None:
        """Give the file a time of its own: the machine's has too few, at the speed of this world."""
        moment = int(self.clock().timestamp() * 1e9) + self.chance.randrange(10**6)
        os.utime(file, ns=(moment, moment))
