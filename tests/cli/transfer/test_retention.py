"""`companion purge`: data older than the limits is deleted, and nothing else."""

import asyncio
import json

import pytest
from peewee import DatabaseError

from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.cli.serve import apply_retention
from regsvc.database.models import AuditEntry, KnownClient, OutboxEntry, Session, User
from regsvc.users import retention
from tests.support.services import ServiceHarness
from tests.support.watched_worker import WatchedWorker

Captured = pytest.CaptureFixture[str]


def run(services: ServiceHarness, *arguments: str) -> int:
    return run_data_command(parse(arguments), services.app)


@pytest.fixture
def old_services(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> ServiceHarness:
    """Alice registered long ago and got a mail; Bob registered today."""
    monkeypatch.setattr(retention, "_BATCH_SIZE", 2)
    services.restart(auth__user_token="3650 days", auth__user_idle="3650 days")
    for name in ("Alice", "Carol", "Dora"):
        services.approved(name)
        services.login(name, "the-web-password")
    OutboxEntry.update(done_at=services.clock(), next_attempt_at=None, outcome="sent").execute()
    services.clock.advance(days=100)
    services.approved("Bob")
    services.login("Bob", "the-web-password")
    return services


def test_a_rehearsal_tells_and_changes_nothing(old_services: ServiceHarness, capsys: Captured) -> None:
    before = AuditEntry.select().count()
    assert run(old_services, "purge", "--dry-run") == 0
    told = capsys.readouterr().out
    assert "3 addresses of clients: registrations are due" in told
    assert "6 mails and calls that are over are due" in told
    assert (AuditEntry.select().count(), User.get(User.username == "Alice").registration_ip) == (before, "198.51.100.7")


def test_addresses_go_and_people_stay(old_services: ServiceHarness, capsys: Captured) -> None:
    assert run(old_services, "purge") == 0
    assert "3 addresses of clients: registrations" in capsys.readouterr().out
    addresses = {user.username: user.registration_ip for user in User.select()}
    assert addresses == {"Alice": None, "Carol": None, "Dora": None, "Bob": "198.51.100.7"}
    assert sorted(session.ip or "" for session in Session.select()) == ["", "", "", "198.51.100.7"]
    assert [client.user.username for client in KnownClient.select()] == ["Bob"]
    assert {entry.target for entry in AuditEntry.select().where(AuditEntry.ip.is_null(False))} == {"Bob"}
    assert {entry.user_id for entry in OutboxEntry.select()} == {old_services.user("Bob").id}
    [entry] = old_services.audits("data.purged")
    assert json.loads(entry.detail or "")["addresses of clients: registrations"] == 3
    assert run(old_services, "purge") == 0
    assert run(old_services, "purge", "--dry-run") == 0
    assert capsys.readouterr().out == "nothing is due\n" * 2


async def test_what_a_stop_cut_short_is_recorded(old_services: ServiceHarness) -> None:
    worker = WatchedWorker(old_services.app.context.location.database)
    old_services.clock.advance(days=8)
    job = asyncio.create_task(apply_retention(worker, old_services.app.retention))
    await worker.until(User.select().where(User.registration_ip.is_null()).exists)
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    worker.close()
    assert OutboxEntry.select().count() > 6, "it was cut short"
    [entry] = old_services.audits("data.purged")
    assert json.loads(entry.detail or "")["addresses of clients: registrations"] == 2


def test_old_audit_entries_go_by_the_purge_alone(old_services: ServiceHarness) -> None:
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.delete().execute()
    newest = AuditEntry.select().where(AuditEntry.target == "Bob").count()
    old_services.clock.advance(days=2 * 365 - 50)
    assert run(old_services, "purge") == 0
    assert AuditEntry.select().where(AuditEntry.action != "data.purged").count() == newest
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.delete().execute()
