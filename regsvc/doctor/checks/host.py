"""Checks of the machine: user, writable folders, disk space, clock."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import Backend
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, Symptom, check

_MIN_FREE: Final = 256 * 1024 * 1024
_MEBIBYTE: Final = 1024 * 1024
_RELEASED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE: Final = timedelta(minutes=5)


@check(
    "machine.root",
    Severity.RISKY,
    means="The doctor, and so most likely the companion, runs as root.",
    why="A vulnerability would expose the whole machine. And since root can read everything, files that the "
    "companion's own user cannot read go unnoticed.",
    do="Run both as the companion's user (User= in the unit; sudo -u USER companion doctor).",
    where=FixLocation(Source.MACHINE, "companion.service, User="),
)
def process_is_root(facts: Facts) -> Iterator[Sentence]:
    if facts.host.user_id() == 0:
        yield Sentence("The doctor runs as root.")


@check(
    "machine.state_dir",
    Severity.BROKEN,
    means="The state directory, or our database in it, cannot be written.",
    why="Our keys and our SQLite database are stored there.",
    do="Let the companion's user write there, or choose another folder.",
    where=FixLocation(Source.OURS, "[server] state_dir"),
)
def state_dir_is_read_only(facts: Facts) -> Iterator[Sentence]:
    state_dir = facts.config.server.state_dir
    existing = _nearest_existing(state_dir)
    if not existing.is_dir():
        yield Sentence("The state directory cannot be created, because {path} is not a folder.", path=existing)
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        yield Sentence("We may not write to {path}.", path=existing)
    else:
        yield from _unwritable_database(facts)


@check(
    "machine.state_lost",
    Severity.BROKEN,
    means="The state directory or our SQLite file was removed or replaced while the companion uses it.",
    why="It refuses all requests (503): what it would write to the removed files would be lost at its end.",
    do="Stop it, restore a backup (companion restore), and start it again.",
    where=FixLocation(Source.OURS, "[server] state_dir"),
)
def state_is_lost(facts: Facts) -> Iterator[Sentence]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and running_daemon.is_state_lost:
        yield Sentence(
            "The companion at {address} uses files that are not in {folder}.",
            address=running_daemon.address,
            folder=facts.config.server.state_dir,
        )


@check(
    "machine.disk_low",
    Severity.RISKY,
    means="A disk that we write to has less than 256 MiB left.",
    why="On a full disk neither our tables nor AuthMe's table can be written.",
    do="Free some space.",
    where=FixLocation(Source.MACHINE),
)
def disk_is_almost_full(facts: Facts) -> Iterator[Symptom]:
    folders = [facts.config.server.state_dir]
    if facts.authme_problem is None and facts.has_authme and facts.authme.backend == Backend.SQLITE:
        folders.append(facts.authme.sqlite_file.parent)
    disks = {_nearest_existing(folder).stat().st_dev: _nearest_existing(folder) for folder in reversed(folders)}
    for folder in disks.values():
        free = facts.host.free_bytes(folder)
        if free < _MIN_FREE:
            title = Sentence("The disk of {folder} has {free} MiB left.", folder=folder, free=free // _MEBIBYTE)
            yield Symptom(title, where=str(folder))


@check(
    "machine.clock",
    Severity.BROKEN,
    means="The machine's clock is wrong: earlier than the release of this program, or than entries in our audit log.",
    why="Codes, sessions, bans and the dates of players depend on it, and TLS connections fail.",
    do="Synchronise the clock with NTP: timedatectl set-ntp true",
    where=FixLocation(Source.MACHINE, "timedatectl"),
)
def clock_is_wrong(facts: Facts) -> Iterator[Sentence]:
    now = facts.host.now()
    if now < _RELEASED_AT:
        yield Sentence("The clock says {now:%Y-%m-%d %H:%M} UTC.", now=now)
        return
    newest = facts.own_tables.newest_entry_at
    if newest is not None and newest > now + _TOLERANCE:
        yield Sentence(
            "The clock says {now:%Y-%m-%d %H:%M} UTC, but our audit log has an entry of {newest:%Y-%m-%d %H:%M}.",
            now=now,
            newest=newest,
        )


CHECKS: Final[tuple[Check, ...]] = (
    *(process_is_root, state_dir_is_read_only, state_is_lost, disk_is_almost_full, clock_is_wrong),
)


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or the nearest existing path above it."""
    path = folder.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _unwritable_database(facts: Facts) -> Iterator[Sentence]:
    try:
        file = facts.own_sqlite_file
    except FactUnavailable:
        return
    if not file.parent.is_dir() and file.parent.absolute() != facts.config.server.state_dir.absolute():
        # only the state directory is created automatically
        yield Sentence("There is no folder {folder} for our database.", folder=file.parent)
    elif os.access(file, os.R_OK) and not os.access(file, os.W_OK):
        yield Sentence("We may not write to {path}.", path=file)
