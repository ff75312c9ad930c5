"""`companion purge`: what is older than the host wants goes, and nothing else."""

import json

import pytest
from peewee import DatabaseError

from regsvc.cli.commands import parse
from regsvc.cli.data import run_data_command
from regsvc.database.models import AuditEntry, KnownClient, OutboxEntry, Session, User
from regsvc.users import retention
from tests.support.services import House

Captured = pytest.CaptureFixture[str]


def run(house: House, *arguments: str) -> int:
    return run_data_command(parse(arguments), house.app)


@pytest.fixture
def old_house(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """Alice came long ago and was mailed; Bob came today."""
    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    house.restart(auth__user_token="3650 days")
    for name in ("Alice", "Carol", "Dora"):
        house.approved(name)
        house.login(name, "the-web-password")
    OutboxEntry.update(done_at=house.clock(), next_attempt_at=None, outcome="sent").execute()
    house.clock.advance(days=100)
    house.approved("Bob")
    house.login("Bob", "the-web-password")
    return house


def test_a_rehearsal_tells_and_changes_nothing(old_house: House, capsys: Captured) -> None:
    before = AuditEntry.select().count()
    assert run(old_house, "purge", "--dry-run") == 0
    told = capsys.readouterr().out
    assert "3 addresses of clients: registrations are due" in told
    assert "3 mails and calls that are over are due" in told
    assert (AuditEntry.select().count(), User.get(User.username == "Alice").registration_ip) == (before, "198.51.100.7")


def test_addresses_go_and_people_stay(old_house: House, capsys: Captured) -> None:
    assert run(old_house, "purge") == 0
    assert "3 addresses of clients: registrations" in capsys.readouterr().out
    addresses = {user.username: user.registration_ip for user in User.select()}
    assert addresses == {"Alice": None, "Carol": None, "Dora": None, "Bob": "198.51.100.7"}
    assert sorted(session.ip or "" for session in Session.select()) == ["", "", "", "198.51.100.7"]
    assert [client.user.username for client in KnownClient.select()] == ["Bob"]
    assert {entry.target for entry in AuditEntry.select().where(AuditEntry.ip.is_null(False))} == {"Bob"}
    assert {entry.user_id for entry in OutboxEntry.select()} == {old_house.user("Bob").id}
    [entry] = old_house.audits("data.purged")
    assert json.loads(entry.detail or "")["addresses of clients: registrations"] == 3
    assert run(old_house, "purge") == 0
    assert run(old_house, "purge", "--dry-run") == 0
    assert capsys.readouterr().out == "nothing is due\n" * 2


def test_old_audit_entries_go_by_the_purge_alone(old_house: House) -> None:
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.delete().execute()
    newest = AuditEntry.select().where(AuditEntry.target == "Bob").count()
    old_house.clock.advance(days=2 * 365 - 50)
    assert run(old_house, "purge") == 0
    assert AuditEntry.select().where(AuditEntry.action != "data.purged").count() == newest
    with pytest.raises(DatabaseError, match="append-only"):
        AuditEntry.delete().execute()
