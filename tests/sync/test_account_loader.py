"""Loading of accounts: by names that the database equates with others, and with locks."""

from functools import partial

import pytest

from regsvc.auth.hashing import StoredPassword
from tests.support.meanwhile import assert_locked, meanwhile
from tests.support.services import ServiceHarness


@pytest.mark.parametrize("name", ["elm ", "ELM", "elm\u0301"])
def test_a_user_with_a_similar_name_is_not_the_one(services: ServiceHarness, name: str) -> None:
    services.approved("Elm")
    accounts = services.app.reconciler.loader

    def find(key: str) -> bool:
        return accounts.load_user_for_update(key, lambda: None) is not None

    assert services.app.worker.run_here(find, "elm")
    assert not services.app.worker.run_here(find, name)
    assert services.app.worker.run_here(accounts.load, [name], {})[0].user is None


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize("table", ["regsvc_user", "regsvc_sync_record"])
@pytest.mark.parametrize("lock", ["lock", "lock_user", "rehash"])
def test_nobody_changes_an_account_that_is_locked(services: ServiceHarness, lock: str, table: str) -> None:
    """Else what was read of it would overwrite a password, a ban or an address that somebody else has just set."""
    services.approved("Alice")
    context, reconciler = services.app.context, services.app.reconciler
    try_to_change = partial(assert_locked, services.ours, table, "username_key = 'alice'")
    if lock == "rehash":
        stored = StoredPassword(str(services.row("alice")["password"]), None, None)
        with meanwhile(context.location.players, "update", try_to_change):
            assert reconciler.rehash("alice", stored, StoredPassword("$SHA$a$b", None, "SHA256"))
        return
    with context.location.database.atomic():
        found = (
            reconciler.loader.load_for_update(["alice"])
            if lock == "lock"
            else reconciler.loader.load_user_for_update("alice", dict)
        )
        assert found
        try_to_change()


@pytest.mark.parametrize("lock", ["lock", "lock_user"])
def test_the_row_of_a_locked_account_is_not_older_than_the_lock(services: ServiceHarness, lock: str) -> None:
    """Alice changes her password in the game while we wait for the lock on her user."""
    services.approved("Alice")
    accounts, reconciler = services.app.reconciler.loader, services.app.reconciler
    change = partial(services.authme.set_password, "Alice", "changed-in-game")
    with meanwhile(accounts, "_select_users", change, after=True):
        if lock == "lock":
            [account] = accounts.load_for_update(["alice"])
        else:
            found = accounts.load_user_for_update("alice", lambda: reconciler._find_rows(["alice"]))
            assert found is not None
            account = found[1]
    assert account.player is not None
    assert account.player.hash == services.row("alice")["password"]
