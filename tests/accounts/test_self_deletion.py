"""A user deletes their account: the order of the writes."""

import asyncio

import pytest

from regsvc.database.models import OutboxEntry, Review
from regsvc.sync.records import Account
from tests.support.services import CALLER, PASSWORD, ServiceHarness


def test_authmes_row_is_written_last(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    services.approved("Ada")
    session = services.app.sessions.authenticate(services.login("Ada", PASSWORD).token)
    written = []

    def look(account: Account, *_intended: object) -> None:
        key = account.key
        mails = OutboxEntry.select().where(OutboxEntry.template == "account_deleted").count()
        addresses = Review.select().where(Review.username_key == key, Review.email_key.is_null(False)).count()
        written.append((key, mails, addresses))

    monkeypatch.setattr(services.app.reconciler, "reconcile_in_transaction", look)
    asyncio.run(services.app.self_deletion.delete(session, PASSWORD, None, CALLER))
    assert written == [("ada", 1, 0)], "the game waits for AuthMe's row, so the rest is written before"
