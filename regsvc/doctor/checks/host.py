"""The machine: who we are, where we write, how much room there is, and what time it is."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import Backend
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
    why="A mistake in it is then everybody's. And root may read everything: what is unreadable to the companion's own "
    "user is not found.",
    do="Run both as the companion's user (User= in the unit; sudo -u USER companion doctor).",
    where=FixLocation(Source.MACHINE, "systemd/companion.service, User="),
)
def process_is_root(facts: Facts) -> Iterator[str]:
    if facts.host.user_id() == 0:
        yield "This runs as root."


@check(
    "machine.state_dir",
    Severity.BROKEN,
    means="The state directory, or our database in it, cannot be written.",
    why="Keys and our own SQLite database are kept there.",
    do="Let the companion's user write there, or name another folder.",
    where=FixLocation(Source.OURS, "[server] state_dir"),
)
def state_dir_is_read_only(facts: Facts) -> Iterator[str]:
    state_dir = facts.config.server.state_dir
    there = _nearest(state_dir)
    if not there.is_dir():
        yield f"{there} is in the way of the state directory: it is not a folder."
    elif not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        yield f"We may not write to {there}."
    else:
        yield from _unwritable_database(facts)


@check(
    "machine.disk_low",
    Severity.RISKY,
    means="There is less than 256 MiB left on a disk that we write to.",
    why="On a full disk nothing can be registered, and AuthMe's table cannot be written either.",
    do="Make room.",
    where=FixLocation(Source.MACHINE),
)
def disk_is_almost_full(facts: Facts) -> Iterator[Symptom]:
    folders = [facts.config.server.state_dir]
    if facts.authme_problem is None and facts.has_authme and facts.authme.backend == Backend.SQLITE:
        folders.append(facts.authme.sqlite_file.parent)
    disks = {_nearest(folder).stat().st_dev: _nearest(folder) for folder in reversed(folders)}
    for folder in disks.values():
        free = facts.host.free_bytes(folder)
        if free < _MIN_FREE:
            yield Symptom(f"{free // _MEBIBYTE} MiB are left where {folder} is.", where=str(folder))


@check(
    "machine.clock",
    Severity.BROKEN,
    means="This machine's clock is wrong: it is before this program was written, or before what stands in our log.",
    why="Codes, sessions, bans and the dates of players depend on it. TLS refuses to speak.",
    do="Let the machine keep its clock by NTP: timedatectl set-ntp true",
    where=FixLocation(Source.MACHINE, "timedatectl"),
)
def clock_is_wrong(facts: Facts) -> Iterator[str]:
    now = facts.host.now()
    if now < _RELEASED_AT:
        yield f"The clock says {now:%Y-%m-%d %H:%M} UTC."
        return
    newest = facts.own_tables.newest_entry_at
    if newest is not None and newest > now + _TOLERANCE:
        yield f"The clock says {now:%Y-%m-%d %H:%M} UTC, and our log has an entry of {newest:%Y-%m-%d %H:%M}."


CHECKS: Final[tuple[Check, ...]] = (process_is_root, state_dir_is_read_only, disk_is_almost_full, clock_is_wrong)


def _nearest(folder: Path) -> Path:
    """The folder, or what there is of the way to it."""
    path = folder.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _unwritable_database(facts: Facts) -> Iterator[str]:
    try:
        file = facts.own_sqlite_file
    except FactUnavailable:
        return
    if not file.parent.is_dir() and file.parent.absolute() != facts.config.server.state_dir.absolute():
        yield f"There is no folder {file.parent} for our database."  # the state directory we make, no other
    elif os.access(file, os.R_OK) and not os.access(file, os.W_OK):
        yield f"We may not write to {file}."
