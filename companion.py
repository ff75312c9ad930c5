"""The process: command line, signals, start, stop."""

import argparse
import asyncio
import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from tornado.netutil import bind_sockets

from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.cli import commands
from regsvc.cli.doctor import run_doctor
from regsvc.cli.serve import STARTUP_ERRORS, Daemon
from regsvc.config.loader import find_config_file, load_config
from regsvc.config.sections import Config
from regsvc.runtime.logs import set_up_logging
from regsvc.runtime.state_lock import shared_state_lock

log = logging.getLogger("companion")

EX_CONFIG = 78
EX_PORT_IN_USE = 75
EX_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = commands.parse(arguments)
    try:
        if given.command == "doctor":
            return run_doctor(partial(_read_config, given), is_json=given.is_json)
        config = _read_config(given)
        set_up_logging(config.log)
        if given.command == "serve":
            return asyncio.run(serve(config, partial(_read_config, given)))
        status = commands.run(given, config, open_context, App)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read what we print has enough, as in `companion export | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return EX_PIPE
    except STARTUP_ERRORS as error:
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
    context = open_context(config)
    try:
        sockets = bind_sockets(config.server.port, config.server.host)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        why = "another program listens there, or this one already; server.port names another"
        if not is_taken:
            why = f"{error.strerror}; server.host and server.port say where"
        print(f"companion: cannot listen on {config.server.host}:{config.server.port}: {why}", file=sys.stderr)
        return EX_PORT_IN_USE if is_taken else EX_CONFIG
    port = sockets[0].getsockname()[1]
    with shared_state_lock(config.server.state_dir):
        app = App(context, config.base_url(port))
        try:
            await Daemon(app, read_config).run(sockets, config.address(port))
        finally:
            app.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
