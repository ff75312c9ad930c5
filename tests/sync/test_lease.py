"""The lease that lets one of the processes sharing a database run the sync."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regsvc.database import lease as module
from regsvc.database.lease import instance_id
from regsvc.database.models import Lease
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.service import SyncLease
from tests.support.meanwhile import meanwhile
from tests.support.services import PASSWORD, ServiceHarness


def pass_lease_time(services: ServiceHarness, seconds: int) -> None:
    """Age the lease by so many seconds."""
    lease = Lease.get_by_id("sync")
    Lease.update(expires_at=lease.expires_at - timedelta(seconds=seconds)).where(Lease.name == "sync").execute()


def test_one_process_at_a_time_has_the_lease(services: ServiceHarness) -> None:
    database = services.app.context.location.database
    mine, other = SyncLease(database, "here", 1), SyncLease(database, "elsewhere", 1)
    assert mine.acquire()
    assert mine.acquire()
    assert not other.acquire()
    pass_lease_time(services, 29)
    assert not other.acquire()
    assert mine.renew(), "it was taken less than ten seconds ago by the clock of this machine"
    pass_lease_time(services, 2)
    assert other.acquire()
    assert not mine.acquire()
    other.release(is_done=False)
    assert mine.acquire()


def test_a_long_run_keeps_the_lease(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page takes eleven seconds."""
    passed = 0
    monkeypatch.setattr("regsvc.sync.service.time.monotonic", lambda: float(passed))
    database = services.app.context.location.database
    mine, other = SyncLease(database, "here", 1), SyncLease(database, "elsewhere", 1)
    assert mine.acquire()
    for _page in range(4):
        pass_lease_time(services, 11)
        passed += 11
        assert not other.acquire()
        assert mine.renew()


def test_a_daemon_whose_lease_expired_does_not_end_that_of_another(services: ServiceHarness) -> None:
    database = services.app.context.location.database
    mine, other = SyncLease(database, "here", 1), SyncLease(database, "elsewhere", 1)
    assert mine.acquire()
    pass_lease_time(services, 31)
    assert other.acquire()
    mine.release(is_done=True)
    assert not mine.acquire()


@pytest.mark.parametrize("is_done", [True, False])
def test_a_clock_that_was_set_back_stops_no_run(services: ServiceHarness, *, is_done: bool) -> None:
    """Whether the other daemon completed its run two hours ahead of now, or died in it."""
    database = services.app.context.location.database
    other, mine = SyncLease(database, "elsewhere", 1), SyncLease(database, "here", 1)
    assert other.acquire()
    if is_done:
        other.release(is_done=True)
    pass_lease_time(services, -7200)
    assert not mine.may_skip(timedelta(seconds=30))
    assert mine.acquire()
    assert Lease.get_by_id("sync").expires_at - datetime.now(UTC) < timedelta(seconds=40)


def test_the_lease_goes_by_the_clock_of_the_database(services: ServiceHarness) -> None:
    """The clocks of two machines may differ, and that of this one is years ahead."""
    lease = SyncLease(services.app.context.location.database, "here", 1)
    assert lease.acquire()
    left = Lease.get_by_id("sync").expires_at - datetime.now(UTC)
    assert timedelta(seconds=20) < left <= timedelta(seconds=31)


def test_a_restarted_daemon_takes_the_lease_of_its_own_dead_predecessor(services: ServiceHarness) -> None:
    database = services.app.context.location.database
    gone = 2**22 + 1  # above any process id there can be
    assert SyncLease(database, "here", gone).acquire()
    assert not SyncLease(database, "elsewhere", 1).acquire()
    assert SyncLease(database, "here", 1).acquire()


def test_of_two_successors_one_takes_the_lease_of_the_dead(services: ServiceHarness) -> None:
    """Both have found that its holder is gone before one of them takes it."""
    database = services.app.context.location.database
    dead, first, second = (SyncLease(database, "here", process) for process in (2**22 + 1, os.getpid(), 1))
    assert dead.acquire()
    with meanwhile(second, "_is_dead", first.acquire):
        assert not second.acquire()


def test_a_run_whose_lease_another_daemon_has_leaves_the_rest_to_it(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page took so long that the lease ended."""
    monkeypatch.setattr("regsvc.sync.service.RENEW", timedelta())
    other = SyncLease(services.app.context.location.database, "elsewhere", 1)

    def run_elsewhere() -> None:
        pass_lease_time(services, 31)
        assert other.acquire()

    services.authme.register("Alice", PASSWORD)
    with meanwhile(Reconciler, "reconcile_many", run_elsewhere):
        assert not services.sync().is_complete
    assert Lease.get_by_id("sync").holder == "elsewhere:1"


def test_a_daemon_that_stops_leaves_the_rest_to_the_next_run(services: ServiceHarness) -> None:
    services.authme.register("Alice", PASSWORD)
    with meanwhile(Reconciler, "reconcile_many", lambda: asyncio.run(services.app.sync.stop())):
        assert not services.sync().is_complete


async def test_who_shares_a_run_does_not_end_it_for_the_others(services: ServiceHarness) -> None:
    """The client who asked first closes the connection."""
    first, second = (asyncio.create_task(services.app.sync.run()) for _caller in range(2))
    await asyncio.sleep(0)  # both have begun to wait
    first.cancel()
    assert (await second).is_complete


def test_a_state_directory_is_an_instance_of_its_own(tmp_path: Path) -> None:
    assert instance_id(tmp_path) == instance_id(tmp_path / "x" / "..")
    assert instance_id(tmp_path) != instance_id(tmp_path / "x")
    assert instance_id(tmp_path, "east").startswith("east/")
    assert len(f"{instance_id(tmp_path, 'x' * 24)}:{2**64}") <= 80


def test_one_host_name_and_one_path_do_not_make_one_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each of two daemons would take the other for its own dead predecessor."""
    state_dir, other = tmp_path / "state", tmp_path / "machine-id"
    state_dir.mkdir()
    here = instance_id(state_dir)
    state_dir.rename(tmp_path / "state of another container")
    state_dir.mkdir()
    in_container = instance_id(state_dir)
    assert in_container != here
    other.write_text("0123456789abcdef0123456789abcdef\n", "ascii")
    monkeypatch.setattr(module, "_MACHINE_ID", other)
    assert instance_id(state_dir) != in_container


PERIOD = timedelta(seconds=30)


async def tick(services: ServiceHarness) -> bool:
    """Return whether the daemon ran at this tick."""
    return await services.app.sync.run_if_due(PERIOD) is not None


def run_elsewhere(services: ServiceHarness, *, is_done: bool = True) -> None:
    """Hold the lease as another daemon does during a run."""
    lease = SyncLease(services.app.context.location.database, "elsewhere", 1)
    assert lease.acquire()
    lease.release(is_done=is_done)


async def test_a_period_needs_the_run_of_one_daemon(services: ServiceHarness) -> None:
    """R67"""
    run_elsewhere(services)
    assert await tick(services), "the first run of a daemon is at its start"
    assert await tick(services), "its own run is not another's"
    run_elsewhere(services)
    assert not await tick(services)
    assert Lease.get_by_id("sync skipped").holder.startswith(instance_id(services.directory))
    pass_lease_time(services, 29)
    assert not await tick(services)
    pass_lease_time(services, 2)
    assert await tick(services)
    run_elsewhere(services, is_done=False)
    assert await tick(services), "the other one did not come to the end"


def test_a_daemon_that_leaves_the_runs_to_others_still_runs_now_and_then(services: ServiceHarness) -> None:
    """Its health and its metrics come from runs of its own."""

    async def story() -> list[bool]:
        await tick(services)
        run_elsewhere(services)
        return [await tick(services) for _number in range(10)]

    assert asyncio.run(story()) == [*[False] * 9, True]
