"""Which of the processes that share a database may run the sync."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from regsvc.database.models import Lease
from regsvc.sync.lease import SyncLease, place_of
from tests.support.services import ServiceHarness


def pass_lease_time(services: ServiceHarness, seconds: int) -> None:
    """As if it had been taken so long ago."""
    lease = Lease.get_by_id("sync")
    Lease.update(expires_at=lease.expires_at - timedelta(seconds=seconds)).where(Lease.name == "sync").execute()


def test_one_process_at_a_time_has_the_lease(services: ServiceHarness) -> None:
    database = services.app.context.location.database
    mine, other = SyncLease(database, "here", 1), SyncLease(database, "elsewhere", 1)
    assert mine.take()
    assert mine.take()
    assert not other.take()
    pass_lease_time(services, 29)
    assert not other.take()
    assert mine.renew(), "it was taken less than ten seconds ago by the clock of this machine"
    pass_lease_time(services, 2)
    assert other.take()
    assert not mine.take()
    other.give_back()
    assert mine.take()


def test_the_lease_goes_by_the_clock_of_the_database(services: ServiceHarness) -> None:
    """Two machines need not agree on the time, and the clock of this one is years ahead."""
    lease = SyncLease(services.app.context.location.database, "here", 1)
    assert lease.take()
    left = Lease.get_by_id("sync").expires_at - datetime.now(UTC)
    assert timedelta(seconds=20) < left <= timedelta(seconds=31)


def test_a_restarted_daemon_takes_the_lease_of_its_own_dead_predecessor(services: ServiceHarness) -> None:
    database = services.app.context.location.database
    gone = 2**22 + 1  # above any process id there can be
    assert SyncLease(database, "here", gone).take()
    assert not SyncLease(database, "elsewhere", 1).take()
    assert SyncLease(database, "here", 1).take()


def test_a_state_directory_is_a_place_of_its_own(tmp_path: Path) -> None:
    assert place_of(tmp_path) == place_of(tmp_path / "x" / "..")
    assert place_of(tmp_path) != place_of(tmp_path / "x")
    assert len(f"{place_of(tmp_path)}:{2**64}") <= 80
