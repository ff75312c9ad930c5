"""Process entry point: command line, signals, start and stop."""

import argparse
import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from tornado.netutil import bind_sockets

from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.cli import commands
from regsvc.cli.doctor import run_doctor
from regsvc.cli.install.options import INSTALL_COMMANDS, run_install_command
from regsvc.cli.serve import STARTUP_ERRORS, Daemon
from regsvc.cli.shipped import print_shipped
from regsvc.cli.state_owner import read_as_owner, work_as_owner
from regsvc.config.layers import ENVIRONMENT_PREFIX
from regsvc.config.loader import load_config
from regsvc.config.places import find_config_file
from regsvc.config.sections import Config
from regsvc.core.abandonable import wait_for_calls
from regsvc.doctor.facts.host import Host
from regsvc.doctor.facts.running_daemon import find_running_daemon
from regsvc.runtime.logs import print_error, set_up_logging
from regsvc.runtime.state_lock import shared_state_lock

log = logging.getLogger("companion")

EX_CONFIG = 78
EX_PORT_IN_USE = 75
EX_PIPE = 141
_GRACE_SECONDS = 1.0
"""For abandoned calls at the end of the process."""
_PRIVATE = 0o077
"""Umask: whatever we create is for our user only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    args = commands.parse(arguments)
    if args.command == "version":
        print(commands.VERSION)
        return 0
    umask = os.umask(_PRIVATE)
    try:
        if args.command == "docs":
            return print_shipped(args.file)
        if args.command == "doctor":
            return run_doctor(partial(_read_config_as_owner, args), is_json=args.is_json)
        if args.command in INSTALL_COMMANDS:
            return run_install_command(args)
        if args.command == "serve":
            return _serve(args)
        config = _read_config_as_owner(args)
        set_up_logging(config.log)
        status = commands.run(args, config, open_context, App)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe, as in `companion export | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return EX_PIPE
    except STARTUP_ERRORS as error:
        print_error(str(error))
        return EX_CONFIG
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(umask)


def _find_config_file(args: argparse.Namespace) -> Path | None:
    return find_config_file(args.config, args.instance, os.environ)


def _read_config(args: argparse.Namespace) -> Config:
    overrides = {"game.directory": args.game_dir} if args.game_dir else {}
    return load_config(_find_config_file(args), os.environ, overrides)


def _read_config_as_owner(args: argparse.Namespace) -> Config:
    read_as_owner(_find_config_file(args))
    config = _read_config(args)
    work_as_owner(config, creates_state=commands.creates_state(args))
    return config


def _serve(args: argparse.Namespace) -> int:
    def read_config() -> Config:
        config = _read_config(args)
        config.require_secrets()
        return config

    config = read_config()
    set_up_logging(config.log)
    if config.file is None and not any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ):
        log.info("there is no config, so the defaults are used; the state is in %s", config.server.state_dir)
    return asyncio.run(serve(config, read_config))


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
        return (
            "server.host is no address of this machine; 127.0.0.1 is right behind a web server on this machine, "
            "0.0.0.0 listens on all addresses"
        )
    return f"{error.strerror}; check server.host and server.port"


async def serve(config: Config, read_config: Callable[[], Config]) -> int:
    """Run the daemon until a signal stops it. `read_config` is called again when a signal requests a reload."""
    for warning in config.warnings:
        log.warning(warning)
    if os.geteuid() == 0:
        log.warning("running as root: run the companion as a user of its own, as companion.service does")
    context = open_context(config)
    try:
        sockets = bind_sockets(config.server.port, config.server.host)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        reason = await asyncio.to_thread(_explain_bind_failure, error, config)
        print_error(f"cannot listen on {config.server.host}:{config.server.port}: {reason}")
        return EX_PORT_IN_USE if is_taken else EX_CONFIG
    port = sockets[0].getsockname()[1]
    with shared_state_lock(config.server.state_dir):
        app = App(context, config.base_url(port))
        try:
            await Daemon(app, read_config).run(sockets, config.address(port))
        finally:
            app.close()
    return 0


def _describe_listener(config: Config) -> str:
    """Return a sentence about the program that has our port."""
    running = find_running_daemon(config, Host())
    if running is None or not running.is_companion:
        return "another program listens there; choose another port with server.port"
    if running.is_other:
        return (
            "the companion of another installation listens there (another server's?); "
            f"the one in {config.server.state_dir} needs a port of its own (server.port)"
        )
    return f"the companion of this installation ({config.server.state_dir}) is running already"


def run_and_exit() -> NoReturn:
    """Run a command and end the process.

    A call that was abandoned (a database that does not answer) may still run. The interpreter must not be torn down
    under it: libraries in C have crashed then (SIGSEGV instead of the exit status).
    """
    status = main()
    if wait_for_calls(_GRACE_SECONDS):
        sys.exit(status)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run_and_exit()
