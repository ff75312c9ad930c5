"""Process entry point: runs a command and ends with its exit status.

What a command needs is imported when it is given: `companion version` needs next to nothing, and importing the daemon
would take most of the time of many others.
"""

import argparse
import io
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from regsvc.cli.command_line import CONFIG, INSTALL_COMMANDS, VERSION, parse
from regsvc.core.exceptions import EX_CONFIG, StartupError
from regsvc.doctor.abandonable import wait_for_calls

EX_PIPE = 141
_GRACE_SECONDS = 1.0
"""For abandoned calls at the end of the process."""
_PRIVATE = 0o077
"""Umask: whatever we create is for our user only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    _take_any_text()
    args = parse(arguments)
    if args.command == "version":
        print(VERSION)
        return 0
    umask = os.umask(_PRIVATE)
    try:
        status = _run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe, as in `companion export | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return EX_PIPE
    except Exception as error:
        from ssl import SSLError

        from regsvc.runtime.logs import print_error

        if not isinstance(error, StartupError | SSLError):
            raise
        print_error(str(error))
        return error.exit_status if isinstance(error, StartupError) else EX_CONFIG
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(umask)


def _take_any_text() -> None:
    """Let names be printed that have characters that the locale lacks, and what is typed be refused by name."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def _run(args: argparse.Namespace) -> int:
    if args.command == "docs":
        from regsvc.cli.shipped_files import print_shipped

        return print_shipped(args.file)
    if args.command in INSTALL_COMMANDS:
        from regsvc.cli.install.installing import run_install_command

        return run_install_command(args)
    if args.command in ("doctor", "status"):
        return _run_report(args)
    if args.command == CONFIG:
        from regsvc.cli.config_command import run_config_command

        return run_config_command(args)
    if args.command == "serve":
        from regsvc.cli.serve import run_serve

        return run_serve(args)
    from regsvc.cli.commands import run_command

    return run_command(args)


def _run_report(args: argparse.Namespace) -> int:
    from regsvc.cli.given_config import read_config_as_owner

    if args.is_for_all:
        from regsvc.cli.install.installing import program_command
        from regsvc.cli.status import run_for_all

        return run_for_all(args, program_command())
    if args.command == "doctor":
        from regsvc.cli.status import run_doctor

        return run_doctor(partial(read_config_as_owner, args), is_json=args.is_json, language=args.language)
    from regsvc.cli.status import run_status

    return run_status(read_config_as_owner(args), is_json=args.is_json)


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
