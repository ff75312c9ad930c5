"""The checkup inside the running daemon, which it must not disturb."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from regsvc.core.shared_lookup import CachedCall
from regsvc.doctor.abandonable import await_call
from regsvc.doctor.checkup import Checkup, examine
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host, RunningDaemon
from tests.support.authme.authme_database import SqliteFile
from tests.support.doctor_case import NOT_DURABLE, DoctorCase

FINE = Checkup((), ())
WRITES = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


class SlowLook:
    """A checkup that ends when the test allows it."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def __call__(self) -> Checkup:
        self.begun += 1
        assert self.may_end.wait(10)
        return Checkup((), ())


def cached(look: Callable[[], Checkup], max_age: timedelta = timedelta(minutes=1)) -> CachedCall[Checkup]:
    return CachedCall(partial(await_call, look), max_age, "doctor")


def gather(doctor_case: DoctorCase, *, has_held_back_changes: bool = False) -> Facts:
    return Facts(
        doctor_case.read_config(),
        doctor_case.host,
        RunningDaemon("http://127.0.0.1:1", True, False, has_held_back_changes),
    )


async def test_one_checkup_is_enough_for_all_who_ask_meanwhile() -> None:
    look = SlowLook()
    doctor = cached(look)
    asking = [asyncio.create_task(doctor.get(force=bool(number % 2))) for number in range(6)]
    asking[0].cancel()  # a cancelled caller does not cancel it for the others
    await asyncio.sleep(0)
    look.may_end.set()
    told = await asyncio.gather(*asking[1:])
    told.append(await doctor.get())
    assert look.begun == 1
    told.append(await doctor.get(force=True))
    assert look.begun == 2
    assert len({id(examined) for examined in told[:-1]}) == 1
    assert told[-1] is not told[0]


async def test_an_old_one_is_not_good_enough() -> None:
    look = SlowLook()
    look.may_end.set()
    doctor = cached(look, timedelta(0))
    await doctor.get()
    await doctor.get()
    assert look.begun == 2


async def test_one_that_fails_is_forgotten() -> None:
    outcomes: list[Checkup | Exception] = [FINE, ZeroDivisionError(), FINE]

    def stumble() -> Checkup:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    doctor = cached(stumble)
    await doctor.get()
    with pytest.raises(ZeroDivisionError):
        await doctor.get(force=True)
    await doctor.get()
    assert outcomes == []


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_locks_of_the_process_survive_a_look_at_the_files(doctor_case: DoctorCase, mode: str) -> None:
    """Closing a file that was opened without SQLite would release every lock the process holds on it."""
    doctor_case.start_once()
    assert isinstance(doctor_case.table.database, SqliteFile)
    for file in (doctor_case.table.database.path, doctor_case.state_dir / "companion.db"):
        with closing(sqlite3.connect(file, isolation_level=None)) as ours:
            ours.execute(f"PRAGMA journal_mode = {mode}")
            ours.execute("BEGIN IMMEDIATE")
            assert not another_process_writes(file)
            assert examine(gather(doctor_case)).not_examined == ()
            assert not another_process_writes(file), f"{file} was let go of"
            ours.execute("ROLLBACK")
            assert another_process_writes(file)


def another_process_writes(file: Path) -> bool:
    """Return whether another process gets the write lock."""
    done = subprocess.run([sys.executable, "-c", WRITES, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "database is locked" in done.stderr, done.stderr
    return done.returncode == 0


def test_it_knows_what_stands_in_no_table(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    usual = {finding.id for finding in examine(gather(doctor_case)).findings}
    braked = {finding.id for finding in examine(gather(doctor_case, has_held_back_changes=True)).findings}
    assert (usual - {NOT_DURABLE}, braked - usual) == (set(), {"sync.braked"})


def test_it_finds_what_the_command_finds(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    doctor_case.game.change_authme({"DataSource.caching": True})
    doctor_case.change("server", base_url="")
    assert examine(gather(doctor_case)) == doctor_case.examine_durability()
    as_root = examine(Facts(doctor_case.read_config(), Host(), RunningDaemon("", True)))
    assert ("machine.root" in {finding.id for finding in as_root.findings}) == (os.geteuid() == 0)
