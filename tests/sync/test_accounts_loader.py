"""Loading of accounts by names that the database equates with others."""

import pytest

from tests.support.services import ServiceHarness


@pytest.mark.parametrize("name", ["elm ", "ELM", "elm\u0301"])
def test_a_user_with_a_similar_name_is_not_the_one(services: ServiceHarness, name: str) -> None:
    services.approved("Elm")
    accounts = services.app.reconciler.accounts

    def find(key: str) -> bool:
        return accounts.lock_user(key, lambda: None) is not None

    assert services.app.worker.run_here(find, "elm")
    assert not services.app.worker.run_here(find, name)
    assert services.app.worker.run_here(accounts.load, [name], {})[0].user is None
