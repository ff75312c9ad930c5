"""`companion doctor`: the only command that works with a broken config, too; and a command for every server."""

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from regsvc.cli.given_config import ForeignInstallation
from regsvc.config.places import list_installations
from regsvc.config.sections import Config, ConfigError
from regsvc.core.exceptions import locate_exception
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host


def run_doctor(read_config: Callable[[], Config], *, is_json: bool, language: str | None = None) -> int:
    """Run all checks, print the report and return the exit status: 0 fine, 1 risky, 2 broken.

    The text is in `language`, else in the host's (`server.language`); the JSON is in English. Raises
    `ForeignInstallation`.
    """
    from regsvc.doctor.checkup import examine
    from regsvc.doctor.report import EXIT_STATUS, as_json, as_text, in_language

    logging.disable()  # whatever is worth reporting is a finding
    try:
        config: Config | ConfigError
        try:
            config = read_config()
        except ForeignInstallation:
            raise
        except ConfigError as error:
            config = error
        except Exception as error:  # a folder that is gone, or a bug: it is reported, as one in a check
            config = ConfigError(f"the config cannot be read ({locate_exception(error)})")
        facts = Facts(config, Host())
        checkup, places = examine(facts), facts.list_places()
    finally:
        logging.disable(logging.NOTSET)
    if language is None:
        language = FALLBACK_LANGUAGE if isinstance(config, ConfigError) else config.server.language
    checkup = in_language(checkup, FALLBACK_LANGUAGE if is_json else language)
    has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print_report(as_json(checkup, places) if is_json else as_text(checkup, places, has_colours=has_colours))
    return EXIT_STATUS[checkup.verdict]


def run_for_all(args: argparse.Namespace, program: Sequence[str]) -> int:
    """Run this command for every server of the machine, each as a process of its own, which works as its owner.

    `program` is the command that started us. Prints each server's name as a heading, or an object of the JSON of each
    by name. Returns the worst exit status. Raises `ConfigError` if there is no server.
    """
    servers = list_installations()
    if not servers:
        raise ConfigError("there is no server on this machine: no /etc/companion or /etc/companion@NAME has a config")
    language = getattr(args, "language", None)
    options = ["--json"] if args.is_json else [] if language is None else ["--language", language]
    pipe, told = subprocess.PIPE if args.is_json else None, {}
    statuses: list[int] = []
    for places in servers:
        if not args.is_json:
            print(f"{'' if not statuses else chr(10)}--- {places.name} ---", flush=True)
        command = [*program, args.command, *options, "--config", str(places.config_file)]
        done = subprocess.run(command, stdout=pipe, stderr=pipe, check=False)  # noqa: S603 - ourselves
        statuses.append(done.returncode if done.returncode >= 0 else 128 - done.returncode)
        if args.is_json:
            try:
                told[places.name] = json.loads(done.stdout)
            except ValueError:  # it could not begin
                told[places.name] = {"error": done.stderr.decode(errors="replace").strip()}
    if args.is_json:
        print(json.dumps(told, indent=2))
    return max(statuses)


def print_report(text: str) -> None:
    """Print a text; characters that the terminal's encoding lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
