"""The daemon: opens the database, serves requests, runs jobs, reloads its config, and stops gracefully."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from importlib import import_module
from itertools import count
from ssl import SSLError
from typing import TYPE_CHECKING

from peewee import PeeweeException
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.accounts.chat.guild_roles import LOOK_INTERVAL
from regsvc.app.app import App
from regsvc.app.context import DatabaseUnusable, open_context
from regsvc.app.routes import TABLES, probe_rules
from regsvc.cli.given_config import read_config
from regsvc.config.sections import Config
from regsvc.core import clock
from regsvc.core.backoff import backoff_delay
from regsvc.core.errors import Refusal
from regsvc.core.exceptions import EX_CONFIG, EX_TEMPFAIL, StartupError
from regsvc.core.units import format_duration
from regsvc.database.engine import ReadCommittedMySQL, Worker, error_sentence, explain_refused_write
from regsvc.database.location import describe_login, keep_authme, read_password
from regsvc.database.migrator import MigrationRunning, remove_old_copies
from regsvc.doctor.abandonable import await_call
from regsvc.http.server import ApiApplication, make_server
from regsvc.legacy.event_socket import socket_rule
from regsvc.notifications.delivery import CHECK_INTERVAL, wake_if_due
from regsvc.runtime.game_status import PING_INTERVAL
from regsvc.runtime.health import BridgeState, count_pending
from regsvc.runtime.jobs import Job, JobRunner
from regsvc.runtime.logs import print_error, print_line, set_up_logging
from regsvc.runtime.reload import POLL_INTERVAL, GameFileWatcher, Reloader
from regsvc.runtime.replaced_state import finish_interrupted, state_lock
from regsvc.runtime.updates import POLL_INTERVAL as UPDATE_INTERVAL
from regsvc.team_chat.platform import ONEBOT_PATH
from regsvc.users.retention import Retention
from regsvc.users.signals import copy_addresses
from regsvc.web.host_front_end import front_end_rules
from regsvc.web.pages import CHAT_PAGE, DOCS, OWN_PAGES, PAGES

if TYPE_CHECKING:
    from regsvc.doctor.checkup import Checkup

log = logging.getLogger(__name__)
_DRAIN = timedelta(seconds=8)
_FIRST_REOPENING = timedelta(seconds=2)
_LONGEST_REOPENING = timedelta(minutes=1)
_STATUS_INTERVAL = timedelta(minutes=1)
_BATCH_PAUSE = timedelta(milliseconds=50)  # between two batches of a job, so that requests do not queue behind it
_SPREAD = timedelta(minutes=10)  # of what many daemons that start together should not do together
_ADDRESSES_EVERY = timedelta(minutes=5)
_OWN_LOOK_EVERY = timedelta(seconds=5)
_STORE_HOPS = "hops"
_DATABASE_LOOK = "settings and outbox"
_UNWRITABLE = "the database cannot be written: its disk is full or read-only"
PRELOADED = ("email_validator", "regsvc.core.http_client")
"""What the event loop would be the first to import."""
_SWITCH_INTERVAL = 0.0005
"""Seconds for which a working thread keeps the event loop waiting; Python's default is ten times as long."""
_GARBAGE = 10_000
"""Objects after which the garbage collector looks for cycles among the new ones; Python's default is 700."""
_BACKLOG = 1024
"""Connections that wait to be accepted: a client whose connection is one too many tries again after a second."""


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send `READY=1`, `WATCHDOG=1`, `STOPPING=1`, `STATUS=…` or several of them, one per line.

    Returns False if nothing was sent: there is no NOTIFY_SOCKET, or its owner is gone, which must not stop us.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # A full queue must not block the event loop.
        sender.setblocking(False)
        try:
            sender.sendto(state.encode("utf-8"), address)
        except OSError:
            return False
    return True


def watchdog_interval(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the seconds between two `WATCHDOG=1`, half of what systemd allows; None if there is no watchdog."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    watched_pid = environment.get("WATCHDOG_PID", "")
    is_for_us = not watched_pid or watched_pid == str(os.getpid())
    if not microseconds.isdecimal() or int(microseconds) == 0 or not is_for_us:
        return None
    return int(microseconds) / 2_000_000


def _read_again(read_config: Callable[[], Config]) -> Config:
    """Read the config on SIGHUP; systemd shows the unit as reloading meanwhile."""
    notify("RELOADING=1")
    try:
        return read_config()
    finally:
        notify("READY=1")


def _announce(address: str) -> None:
    """Tell people and systemd that we are ready. A panel shows the server as running by this line."""
    print_line(f"companion ready on {address}", sys.stdout)
    notify("STATUS=ready")


async def apply_retention(worker: Worker, retention: Retention) -> None:
    """Delete what is older than `retention.*`, in batches; what was deleted is recorded, also when it is cancelled."""
    purge_run = await worker.run(retention.start_unattended)
    try:
        while await worker.run(purge_run.run_batch):  # noqa: ASYNC110 - the condition does the work
            await asyncio.sleep(_BATCH_PAUSE.total_seconds())
    finally:
        await worker.run(retention.record, purge_run, "retention")


class Daemon:
    """The daemon, which runs on the event loop until a signal stops it."""

    def __init__(self, app: App, read_config: Callable[[], Config]) -> None:
        """`read_config` reads the config again on SIGHUP."""
        self._app = app
        pages = [socket_rule(app.live), *probe_rules(app.features), *PAGES, *DOCS, *CHAT_PAGE]
        if app.team_chat.onebot:
            from regsvc.team_chat.onebot import OneBotHandler

            pages.append((ONEBOT_PATH, OneBotHandler, {"connections": app.team_chat.onebot}))
        pages += front_end_rules(app.context.config.http.web_root) or OWN_PAGES  # matched last
        self._application = ApiApplication(app.features, TABLES, pages)
        context, pending_restart = app.context, app.pending_restart
        if isinstance(context.location.database, ReadCommittedMySQL):
            context.location.database.read_password = partial(read_password, read_config, context.location)

        read_again = partial(_read_again, read_config)
        self._reloader = Reloader(context.config, read_again, self._apply_config, pending_restart)
        self._game_files = GameFileWatcher(
            context.config,
            context.authme,
            context.properties_files,
            context.uuids,
            self._apply_authme,
            app.live.apply_other_authmes,
            pending_restart,
        )
        self._has_synced = asyncio.Event()
        self._jobs = JobRunner(self._list_jobs())
        self._stop = asyncio.Event()
        self._fatal_error: Exception | None = None
        self._away_reason = ""

    async def run(self, sockets: list[socket.socket], address: str) -> None:
        """Serve on these sockets until stopped.

        Raises `StartupError` and `SSLError`, also later, when the database is reachable and proves to be another's.
        """
        self._listen_to_signals()
        reloading = asyncio.create_task(self._reloader.run(), name="reload")
        is_open = await self._open_database()
        self._application.hops.recall(self._app.context.config.server.state_dir)
        server = make_server(self._application, self._app.context.config)
        server.add_sockets(sockets)
        _favour_event_loop()
        notify("READY=1")  # a unit must not fail because its database starts later
        if is_open:
            _announce(address)
        delivery = asyncio.create_task(self._app.deliver(), name="deliveries")
        opening = None if is_open else asyncio.create_task(self._keep_opening(address), name="open")
        preloading = asyncio.create_task(asyncio.to_thread(list, map(import_module, PRELOADED)), name="preload")
        findings = asyncio.create_task(self._log_findings(), name="findings")
        self._app.loop_lag.start()
        self._jobs.start()
        self._application.hops.on_news = partial(self._jobs.run_now, _STORE_HOPS)
        await self._stop.wait()

        notify("STOPPING=1\nSTATUS=stopping")
        self._app.end_streams()
        for task in filter(None, (reloading, opening, findings)):
            task.cancel()
        self._app.loop_lag.stop()
        self._app.stop_delivering()
        await asyncio.gather(self._drain(server), self._app.sync.stop(), self._jobs.stop(), delivery, preloading)
        if self._fatal_error is not None:
            raise self._fatal_error

    async def _log_findings(self) -> None:
        """Log what the doctor finds, once the first sync run has ended: it may leave something to decide."""
        await self._has_synced.wait()
        checkup, _made_at = await self._app.doctor.get()
        await await_call(partial(_log_summary, checkup))

    def _listen_to_signals(self) -> None:
        # closing a terminal sends SIGHUP too, and means stop
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        on_hang_up = self._stop.set if has_terminal else self._reload
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, on_hang_up)

    def _reload(self) -> None:
        self._reloader.request_reload()
        self._jobs.run_now(_DATABASE_LOOK)

    def _apply_config(self, config: Config) -> None:
        set_up_logging(config.log, config.server.instance, is_daemon=True)
        self._app.live.apply(config)

    def _apply_authme(self, authme: AuthMeConfig) -> None:
        self._app.live.apply_authme(authme)
        self._app.context.operators.follow(authme)

    async def _open_database(self) -> bool:
        """Migrate and open the database; returns False while it is unavailable."""
        try:
            await asyncio.to_thread(self._prepare)
        except (PeeweeException, MigrationRunning) as error:
            location = self._app.context.location
            write_problem = await asyncio.to_thread(explain_refused_write, error, location.database)
            if write_problem is not None:
                self._app.worker.outage_log.refuse_write(write_problem)
                notify(f"STATUS={_UNWRITABLE}")
                return False
            reason = f"{location.shown}: {error_sentence(error)}"
            if login := describe_login(self._app.context.config, error.args[0] if error.args else 0):
                reason = f"{reason}; check {login}"
            is_new = self._app.worker.outage_log.begin(reason)
            if not is_new and reason != self._away_reason:
                log.warning("the database is still away (%s)", reason)
            self._away_reason = reason
            notify(f"STATUS=waiting for the database: {' '.join(reason.split())}")
            return False
        self._app.worker.outage_log.end()
        self._app.worker.outage_log.allow_write()
        self._app.open()
        return True

    def _prepare(self) -> None:
        context = self._app.context
        try:
            context.prepare()
            context.note_signing_key()
            self._app.installation.open()
            if context.location.file is not None:
                remove_old_copies(context.location.file)
            self._app.start_clock()
            keep_authme(context.config)
        finally:
            context.location.database.close()

    async def _keep_opening(self, address: str) -> None:
        """Retry until the database is open, then announce that."""
        for failures in count(1):
            pause = backoff_delay(failures, _FIRST_REOPENING, _LONGEST_REOPENING)
            log.info("the database is tried again in %s", format_duration(pause))
            await asyncio.sleep(pause.total_seconds())
            try:
                if await self._open_database():
                    self._jobs.run_now(_DATABASE_LOOK)
                    _announce(address)
                    return
            except DatabaseUnusable as error:  # the host may fix it while we retry
                log.error("%s", error)
            except (StartupError, SSLError) as error:
                self._fatal_error = error
                self._stop.set()
                return

    def _list_jobs(self) -> list[Job]:
        app = self._app
        run, retain = partial(partial, app.worker.run), partial(apply_retention, app.worker, app.retention)

        players, addresses = app.context.location.players, app.context.config.retention.addresses
        copy = partial(app.sync_worker.run, copy_addresses, players, addresses, clock.now)

        async def sync() -> None:
            try:
                await app.sync.run_if_due(app.context.config.sync.every)
            finally:
                self._has_synced.set()

        store_hops = partial(self._application.hops.store, app.context.config.server.state_dir)

        def has_installation_changed() -> bool:
            return app.installation.has_changed(app.worker.is_open)

        async def watchdog() -> None:
            notify("WATCHDOG=1")

        in_game = partial(Job, every=POLL_INTERVAL, look_thread="game look")
        jobs = [
            # in one call: an idle daemon wakes once for all that other processes may have stored
            Job(
                _DATABASE_LOOK,
                CHECK_INTERVAL,
                partial(wake_if_due, app.worker, app.outbox, app.deliveries, app.follow_database),
                runs_at_start=True,
            ),
            Job("purge", timedelta(hours=1), run(app.purge_expired), spread=_SPREAD),
            Job("addresses", _ADDRESSES_EVERY, copy),
            Job("retention", timedelta(hours=6), retain, cancel_on_stop=True, spread=_SPREAD),
            Job("digest", min(app.context.config.mail.admin_digest, timedelta(minutes=1)), run(app.admin_digest.run)),
            Job("questions", timedelta(minutes=1), run(self._reject_unanswered)),
            Job("sync", app.context.config.sync.every, sync, runs_at_start=True),  # the longest, after the short ones
            # threads look for what they have to do, and wait for as long as a folder does not answer:
            # the game's may be on another machine; ours need one thread, since each costs the idle daemon wake-ups
            Job("clock", _OWN_LOOK_EVERY, run(app.follow_clock), look=app.clock.find_step, runs_at_start=True),
            Job("installation", _OWN_LOOK_EVERY, app.follow_installation, look=has_installation_changed),
            Job(_STORE_HOPS, timedelta(hours=1), partial(await_call, store_hops), runs_at_start=True),
            Job("opening", _OWN_LOOK_EVERY, run(app.settings.follow), look=app.settings.has_time_come),
            in_game("rights", run=run(app.lost_rights.end), look=app.lost_rights.have_changed, runs_at_start=True),
            in_game("game files", run=self._game_files.apply, look=self._game_files.look),
        ]
        if app.guild_roles.guild.is_used:
            jobs.append(Job("roles", LOOK_INTERVAL, app.guild_roles.look, runs_at_start=True, cancel_on_stop=True))
        if app.updates.is_enabled:
            check, spread = app.updates.check_if_due, min(_SPREAD, app.context.config.updates.every)
            jobs.append(Job("updates", UPDATE_INTERVAL, check, runs_at_start=True, cancel_on_stop=True, spread=spread))
        for name, status in (app.game_servers.network or {"": app.game_servers.main}).items():
            if status is not app.game_servers.main or app.context.config.game.is_known:
                label = f"game status {name}".rstrip()
                jobs.append(Job(label, PING_INTERVAL, status.refresh, runs_at_start=True, cancel_on_stop=True))
        if "NOTIFY_SOCKET" in os.environ:
            jobs.append(Job("status", _STATUS_INTERVAL, self._tell_status, runs_at_start=True, cancel_on_stop=True))
        interval = watchdog_interval()
        if interval is not None:
            jobs.append(Job("watchdog", timedelta(seconds=interval), watchdog))
        return jobs

    def _reject_unanswered(self) -> int:
        app = self._app
        return app.decisions.reject_unanswered(app.live.current.registration.ask_expires)

    async def _tell_status(self) -> None:
        await self._has_synced.wait()
        if self._app.worker.is_open:  # before that `_open_database` tells it
            notify(f"STATUS={await self._describe_status()}")

    async def _describe_status(self) -> str:
        """Return a line for `systemctl status`, with one short query."""
        try:
            pending = await self._app.worker.run(count_pending)
        except (Refusal, PeeweeException):
            return "the database is away; requests get 503 until it is back"
        if self._app.worker.outage_log.write_problem is not None:
            return _UNWRITABLE
        health = self._app.health
        states = {"AuthMe": health.find_bridge_state(is_ready=True), "allowlist": health.find_list_state()}
        gates = [f", {gate} {state}" for gate, state in states.items() if state is not BridgeState.OFF]
        return f"ready, {pending:,} waiting for review" + ("".join(gates) or ", no gate: approvals let nobody in")

    async def _drain(self, server: HTTPServer) -> None:
        """Let requests in flight finish; connections still open after `_DRAIN` are closed."""
        self._application.is_stopping = True
        server.stop()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._application.wait_until_idle(), _DRAIN.total_seconds())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.close_all_connections(), 1)


def _log_summary(checkup: Checkup) -> None:
    from regsvc.doctor.checkup import log_summary

    log_summary(checkup)


def _favour_event_loop() -> None:
    """Keep threads that work in Python, such as a sync run over every player, from holding up the event loop.

    What the start created stays to the end: the garbage collector, which stops all threads, need not search it again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    sys.setswitchinterval(_SWITCH_INTERVAL)


def run_serve(args: argparse.Namespace) -> int:
    """Run the daemon until a signal stops it; return the exit status. Raises `StartupError` and `SSLError`."""

    def read_whole_config() -> Config:
        config = read_config(args)
        config.require_secrets()
        return config

    config = read_whole_config()
    set_up_logging(config.log, config.server.instance, is_daemon=True)
    if config.file is None and not config.variables:
        log.info("there is no config, so the defaults are used; the state is in %s", config.server.state_dir)
    return asyncio.run(serve(config, read_whole_config))


def _explain_bind_failure(error: OSError, config: Config) -> str:
    """Return a sentence about why we cannot listen. Blocking."""
    if error.errno == errno.EADDRINUSE:
        return _describe_listener(config)
    if error.errno == errno.EACCES:
        return (
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one with server.port, and put a web "
            "server in front of it"
        )
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        reason = "cannot be looked up" if isinstance(error, socket.gaierror) else "is no address of this machine"
        return (
            f"server.host {reason}; 127.0.0.1 is right behind a web server on this machine, 0.0.0.0 listens on all "
            "addresses"
        )
    return f"{error.strerror}; check server.host and server.port"


async def serve(config: Config, read_config: Callable[[], Config]) -> int:
    """Run the daemon until a signal stops it. `read_config` is called again when a signal requests a reload."""
    for warning in config.warnings:
        log.warning(warning)
    if os.geteuid() == 0:
        log.warning("running as root: run the companion as a user of its own, as companion.service does")
    finish_interrupted(config.server.state_dir)
    context = open_context(config)
    if context.gate_problem is not None:
        log.warning("%s", context.gate_problem)
    try:
        sockets = bind_sockets(config.server.port, config.server.host, backlog=_BACKLOG)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        reason = await asyncio.to_thread(_explain_bind_failure, error, config)
        print_error(f"cannot listen on {config.server.host}:{config.server.port}: {reason}")
        return EX_TEMPFAIL if is_taken else EX_CONFIG
    port = sockets[0].getsockname()[1]
    with state_lock(config.server.state_dir):
        app = App(context, config.base_url(port))
        try:
            await Daemon(app, read_config).run(sockets, config.address(port))
        finally:
            app.close()
    return 0


def _describe_listener(config: Config) -> str:
    """Return a sentence about the program that has our port. Blocking."""
    from regsvc.doctor.facts.host import Host, find_running_daemon

    running = find_running_daemon(config, Host())
    if running is None or not running.is_companion:
        return "another program listens there; choose another port with server.port"
    if running.is_other:
        return (
            "the companion of another installation listens there (another server's?); "
            f"the one in {config.server.state_dir} needs a port of its own (server.port)"
        )
    return f"the companion of this installation ({config.server.state_dir}) is running already"
