"""`companion serve`: the start of the daemon, and its end."""

import argparse
import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable

from tornado.netutil import bind_sockets

from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.cli.command_line import EX_CONFIG
from regsvc.cli.given_config import read_config
from regsvc.cli.serve import Daemon
from regsvc.config.layers import ENVIRONMENT_PREFIX
from regsvc.config.sections import Config
from regsvc.doctor.facts.host import Host
from regsvc.doctor.facts.running_daemon import find_running_daemon
from regsvc.runtime.logs import print_error, set_up_logging
from regsvc.runtime.state_lock import shared_state_lock

log = logging.getLogger("companion")

EX_PORT_IN_USE = 75

_BACKLOG = 1024
"""Connections that wait to be accepted: a client whose connection is one too many tries again after a second."""


def run_serve(args: argparse.Namespace) -> int:
    """Run the daemon until a signal stops it; return the exit status. Raises `StartupError` and `SSLError`."""

    def read_whole_config() -> Config:
        config = read_config(args)
        config.require_secrets()
        return config

    config = read_whole_config()
    set_up_logging(config.log, config.server.instance)
    if config.file is None and not any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ):
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
        sockets = bind_sockets(config.server.port, config.server.host, backlog=_BACKLOG)
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
