"""The process: command line, signals, start, stop."""

import argparse
import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from ssl import SSLError

from peewee import PeeweeException
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from regsvc import commands
from regsvc.api.application import ApiApplication, InFlight, make_application, make_server
from regsvc.api.health_handlers import HEALTH
from regsvc.api.metrics_handlers import METRICS
from regsvc.api.pages import PAGES
from regsvc.app import App, Ground, lay_ground
from regsvc.config import Config, ConfigError
from regsvc.config_loader import find_config_file, load_config
from regsvc.db import is_away
from regsvc.home import WrongHome
from regsvc.jobs import Job, JobRunner
from regsvc.keys import UnusableKey
from regsvc.logs import set_up_logging
from regsvc.mail_templates import BrokenTemplate
from regsvc.migrator import SchemaTooNew
from regsvc.reload import Reloader
from regsvc.sdnotify import notify, watchdog_interval

log = logging.getLogger("companion")

EX_CONFIG = 78
EX_PORT_IN_USE = 75


class DatabaseUnusable(Exception):
    """The database is there, but does not let us work; `str()` says why."""


CANNOT_START = (ConfigError, UnusableKey, WrongHome, SchemaTooNew, BrokenTemplate, DatabaseUnusable, SSLError)
"""What has to be mended before a start can succeed; each is a sentence."""
_DRAIN = timedelta(seconds=8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = commands.parse(arguments)
    try:
        config = _read_config(given)
        set_up_logging(config.log)
        if given.command == "serve":
            return asyncio.run(serve(config, partial(_read_config, given)))
        return commands.run(given, config, lay_ground, App)
    except CANNOT_START as error:
        print(f"companion: {error}", file=sys.stderr)
        return EX_CONFIG
    except KeyboardInterrupt:
        return 130


def _read_config(given: argparse.Namespace) -> Config:
    overrides = {"game.directory": given.game_dir} if given.game_dir else {}
    return load_config(find_config_file(given.config), os.environ, overrides)


async def serve(config: Config, read_config: Callable[[], Config]) -> int:
    """Be the daemon until a signal says stop. `read_config` reads the config again, when a signal says so."""
    for warning in config.warnings:
        log.warning(warning)
    if os.geteuid() == 0:
        log.warning("running as root: give the companion a user of its own (systemd/companion.service does)")
    ground = lay_ground(config)
    try:
        sockets = bind_sockets(config.server.port, config.server.host)
    except OSError as error:
        print(f"companion: cannot listen on {config.server.host}:{config.server.port}: {error}", file=sys.stderr)
        return EX_PORT_IN_USE if error.errno == errno.EADDRINUSE else EX_CONFIG
    port = sockets[0].getsockname()[1]
    app = App(ground, config.base_url(port))
    try:
        return await _run(app, sockets, config.address(port), read_config)
    finally:
        app.close()


async def _run(app: App, sockets: list[socket.socket], address: str, read_config: Callable[[], Config]) -> int:
    stop = _stop_on_signals()
    application = make_application(app.services, pages=[*HEALTH, *METRICS, *PAGES])
    reloading = _reload_on_hang_up(app, application, read_config)
    is_open = await _open_database(app)
    server = make_server(application, app.ground.config)
    server.add_sockets(sockets)
    print(f"companion ready on {address}", flush=True)
    notify("READY=1")
    jobs = JobRunner(_jobs(app))
    delivery = asyncio.create_task(app.mail_room.delivery.run(), name="mail")
    opening = None if is_open else asyncio.create_task(_keep_opening(app, stop))
    jobs.start()
    app.loop_lag.start()
    await stop.wait()

    notify("STOPPING=1")
    application.is_stopping = True
    server.stop()
    if opening is not None:
        opening.cancel()
    reloading.cancel()
    app.loop_lag.stop()
    app.mail_room.delivery.stop()
    await asyncio.gather(_drain(server, application.in_flight), app.sync.stop(), jobs.stop(), delivery)
    return EX_CONFIG if stop.is_refusal else 0


class _Stop(asyncio.Event):
    """Set by a signal, or by a database that turns out to be none of ours (`is_refusal`)."""

    is_refusal = False


def _stop_on_signals() -> _Stop:
    stop = _Stop()
    # a closed terminal hangs up too, and means that its user has left
    hang_up = (signal.SIGHUP,) if _has_terminal() else ()
    for number in (signal.SIGTERM, signal.SIGINT, *hang_up):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _reload_on_hang_up(app: App, application: ApiApplication, read_config: Callable[[], Config]) -> asyncio.Task[None]:
    """Read the config again at every SIGHUP, until the task is cancelled."""

    def take_over(config: Config) -> None:
        set_up_logging(config.log)
        app.take_over(config)
        application.services = app.services

    reloader = Reloader(app.ground.config, read_config, take_over)
    if not _has_terminal():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.tell)
    return asyncio.create_task(reloader.run(), name="reload")


async def _open_database(app: App) -> bool:
    """Migrate and settle in; False while the database is away."""
    try:
        await asyncio.to_thread(_prepare, app.ground)
    except PeeweeException as error:
        if not is_away(error):
            raise DatabaseUnusable(f"The database cannot be used: {error}.") from error
        log.warning("the database is away; requests are answered with 503 until it is there")
        return False
    app.open()
    return True


def _prepare(ground: Ground) -> None:
    try:
        ground.prepare()
    finally:
        ground.home.database.close()


async def _keep_opening(app: App, stop: _Stop) -> None:
    while True:
        await asyncio.sleep(2)
        try:
            if await _open_database(app):
                log.info("the database is there")
                return
        except DatabaseUnusable as error:  # it may be mended while we wait
            log.error("%s", error)
        except CANNOT_START as error:
            print(f"companion: {error}", file=sys.stderr)
            stop.is_refusal = True
            stop.set()
            return


def _jobs(app: App) -> list[Job]:
    async def purge() -> None:
        await app.worker.run(app.purge_expired)

    async def watchdog() -> None:
        notify("WATCHDOG=1")

    jobs = [
        Job("sync", app.ground.config.sync.every, app.sync.run, is_due_at_start=True),
        Job("purge", timedelta(hours=1), purge),
    ]
    interval = watchdog_interval()
    if interval is not None:
        jobs.append(Job("watchdog", timedelta(seconds=interval), watchdog))
    return jobs


async def _drain(server: HTTPServer, in_flight: InFlight) -> None:
    """Let requests under way be answered; what takes longer is cut."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(in_flight.wait_until_empty(), _DRAIN.total_seconds())
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), 1)


if __name__ == "__main__":
    sys.exit(main())
