"""`companion status` and `companion doctor`: an installation on one screen, and all that is wrong with it.

`doctor` works with a broken config, too.
"""

import argparse
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from plugin_bridge.text import decode_text
from regsvc import __version__
from regsvc.cli.given_config import ForeignInstallation
from regsvc.config.places import SystemPlaces, is_installation, list_installations
from regsvc.config.sections import Config, ConfigError
from regsvc.core.clock import now
from regsvc.core.exceptions import locate_exception
from regsvc.core.i18n import FALLBACK_LANGUAGE
from regsvc.core.units import format_duration
from regsvc.doctor.facts.facts import Facts, FactUnavailable
from regsvc.doctor.facts.host import Host, PortClosed, fetch_own, find_lock_holder, find_start
from regsvc.runtime.backups import OLD, find_backups
from regsvc.runtime.replaced_state import find_unfinished_restore


def run_doctor(read_config: Callable[[], Config], *, is_json: bool, language: str | None = None) -> int:
    """Run all checks, print the report and return the exit status: 0 fine, 1 risky, 2 broken.

    The text is in `language`, else in the host's (`server.language`); the JSON is in English. Raises
    `ForeignInstallation`.
    """
    from regsvc.doctor.checkup import EXIT_STATUS, as_json, as_text, examine, in_language

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
    print(as_json(checkup, places) if is_json else as_text(checkup, places, has_colours=has_colours))
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
                told[places.name] = {"error": decode_text(done.stderr).strip()}
    if args.is_json:
        print(json.dumps(told, indent=2))
    return max(statuses)


T = TypeVar("T")

RUNNING: Final = "running"
NOT_READY: Final = "not ready"
STOPPED: Final = "stopped"
EXIT_STATUS: Final[Mapping[str, int]] = {RUNNING: 0, NOT_READY: 1, STOPPED: 3}
"""By state; 3 is that of `systemctl status`."""
_MEBIBYTE: Final = 1024 * 1024
_VERSION: Final = re.compile(rb'^companion_build_info\{.*?version="([^"]+)"', re.MULTILINE)


def run_status(config: Config, *, is_json: bool) -> int:
    """Print the status of the installation, and return the exit status."""
    logging.disable()  # what is worth knowing is for the doctor to tell
    try:
        status = inspect(Facts(config, Host()))
    finally:
        logging.disable(logging.NOTSET)
    print(json.dumps(status, indent=2) if is_json else "\n".join(_describe(status)))
    return EXIT_STATUS[status["state"]]


def inspect(facts: Facts) -> dict[str, Any]:
    """Return the status, in the form of --json. What cannot be seen is None, and `unknown` says why. Blocking."""
    config, shown, unknown = facts.config, facts.list_places(), list[str]()

    def known(look: Callable[[], T]) -> T | None:
        return _look(look, unknown)

    places = SystemPlaces.of_config(config.file) if config.file is not None else None
    backups = known(lambda: find_backups(config.file, config.server.state_dir))
    backup_at = backups and backups.newest_at
    tables = known(lambda: facts.own_tables)
    return {
        **_inspect_daemon(facts, places.unit if places is not None else None),
        "config": shown["config"],
        "stateDirectory": shown["state directory"],
        "database": shown["database"],
        "address": config.address(),
        "baseUrl": config.base_url(),
        "users": tables and dict(tables.users),
        "mail": {
            "isOn": known(lambda: facts.sends_mail),
            "waiting": tables and tables.waiting_mails,
            "failed": tables and tables.failed.get("mail", 0),
            "lastError": tables and next(iter(tables.refusals), None),
        },
        "freeBytes": known(lambda: facts.host.free_bytes(config.server.state_dir)),
        "backups": places and str(places.backups),
        "lastBackupAt": backup_at and backup_at.isoformat(),
        "unknown": list(dict.fromkeys(unknown)),
    }


def _look(look: Callable[[], T], unknown: list[str]) -> T | None:
    """Return what a look shows; None if it fails, with the reason in `unknown`."""
    try:
        return look()
    except FactUnavailable as reason:
        unknown.extend([str(reason)] if str(reason) else [])
    except FileNotFoundError:  # nothing to be unknown
        pass
    except OSError as error:
        unknown.append(f"{error.filename}: {error.strerror}")
    except Exception as error:  # of a database that is not as ours: the doctor tells more
        unknown.append(locate_exception(error))
    return None


def _inspect_daemon(facts: Facts, unit: str | None) -> dict[str, Any]:
    daemon, process_id = facts.running_daemon, find_lock_holder(facts.config.server.state_dir)
    state, problem = _find_state(facts, process_id)
    started_at = find_start(process_id) if process_id is not None else None
    return {
        "state": state,
        "problem": problem,
        "unit": unit,
        "processId": process_id,
        "startedAt": started_at and started_at.isoformat(timespec="seconds"),
        "version": __version__,
        "runningVersion": _find_version(facts) if daemon is not None and daemon.health else None,
        "health": dict(daemon.health) or None if daemon is not None else None,
    }


def _find_state(facts: Facts, process_id: int | None) -> tuple[str, str | None]:
    """Return the state, and what keeps the companion from being ready, or from having been started."""
    daemon, address, state_dir = facts.running_daemon, facts.config.address(), facts.config.server.state_dir
    if daemon is not None and daemon.is_companion and not daemon.is_other:
        if daemon.health.get("status") == "ready":
            return RUNNING, None
        return NOT_READY, str(daemon.health.get("message", "its database does not answer in time"))
    if process_id is not None:
        return NOT_READY, f"process {process_id} works in {state_dir}, but does not answer at {address}"
    if daemon is not None:
        what = "a companion of another installation" if daemon.is_companion else "another program"
        return STOPPED, f"{what} listens at {address}"
    if state_dir.exists() and not os.access(state_dir, os.R_OK | os.X_OK):
        return STOPPED, "it does not answer; whether it runs, root alone sees (run this command with sudo)"
    if is_installation(state_dir):
        return STOPPED, None
    if find_unfinished_restore(state_dir):
        return STOPPED, "a restore was interrupted: run it again (companion restore --replace BACKUP)"
    return STOPPED, f"it was never started: {state_dir} is no installation; to set it up: companion install"


def _find_version(facts: Facts) -> str | None:
    """Return the version of a running daemon; None if its metrics are off, or not for this machine."""
    try:
        found = _VERSION.search(fetch_own(facts.config, facts.host, "/metrics") or b"")
    except PortClosed:
        return None
    return found[1].decode() if found is not None else None


def _describe(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the screen."""
    for label, parts in {**_describe_program(status), **_describe_work(status)}.items():
        if text := ", ".join(str(part) for part in parts if part):
            yield f"{label + ':':10} {text}"
    is_only = status["config"] in (str(SystemPlaces.of_instance(None).config_file), "none")
    yield "more:      companion doctor" + ("" if is_only else f" --config {shlex.quote(status['config'])}")


def _describe_program(status: Mapping[str, Any]) -> dict[str, Iterable[object]]:
    started_at, process_id, running = status["startedAt"], status["processId"], status["runningVersion"]
    return {
        "companion": (
            status["state"],
            started_at and f"since {datetime.fromisoformat(started_at):%Y-%m-%d %H:%M} UTC",
            process_id and f"process {process_id}",
            status["unit"],
        ),
        "problem": (status["problem"],),
        "version": (status["version"], running not in (None, status["version"]) and f"running {running}"),
        "address": (status["baseUrl"], f"listens at {status['address']}"),
        "config": (status["config"], f"state in {status['stateDirectory']}"),
    }


def _describe_work(status: Mapping[str, Any]) -> dict[str, Iterable[object]]:
    listed = (status["health"] or {}).get("allowlist", "unknown")
    health, mail, free = status["health"] or {}, status["mail"], status["freeBytes"]
    backup_at = status["lastBackupAt"] and datetime.fromisoformat(status["lastBackupAt"])
    oldest, synced, bridge = health.get("oldestMailSeconds"), health.get("syncSeconds"), health.get("bridge", "unknown")
    return {
        "database": (status["database"], health.get("writable") is False and "cannot be written"),
        "users": (f"{count} {name}" for name, count in (status["users"] or {}).items()),
        "mail": (
            {True: "on", False: "off", None: "unknown"}[mail["isOn"]],
            mail["waiting"] is not None and f"{mail['waiting']} waiting",
            oldest is not None and f"the oldest for {_span(oldest)}",
            mail["failed"] and f"{mail['failed']} failed",
            mail["lastError"] and f"last trouble: {mail['lastError']}",
        ),
        "AuthMe": (
            "none" if bridge == "off" else bridge,
            synced is not None and f"last sync {_span(synced)} ago",
            health.get("braked") and "changes are held back (companion sync --plan)",
        ),
        "allowlist": (listed != "off" and listed,),
        "gates": (bridge == listed == "off" and "none: approvals let nobody in, and bans keep nobody out",),
        "disk": (free is not None and f"{free // _MEBIBYTE:,} MiB free",),
        "backup": (
            backup_at and f"{_span((now() - backup_at).total_seconds())} ago",
            status["backups"] and f"{'in' if backup_at else 'none seen in'} {status['backups']}",
            backup_at and now() - backup_at > OLD and "which is old: see companion doctor",
        ),
        "unknown": ("; ".join(status["unknown"]),),
    }


def _span(seconds: float) -> str:
    """Return a duration to the unit of which there are two at least."""
    unit = next((unit for unit in (86400, 3600, 60) if seconds >= 2 * unit), 1)
    return format_duration(timedelta(seconds=max(0, int(seconds // unit * unit))))
