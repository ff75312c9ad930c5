"""A second factor is set up while our database goes away."""

import asyncio
from functools import partial

import pytest
from peewee import OperationalError

from regsvc.accounts.second_factor import SecondFactorSetup
from regsvc.core.errors import TotpAlreadyOn
from tests.support.authenticator import Authenticator
from tests.support.services import CALLER, PASSWORD, ServiceHarness

pytestmark = pytest.mark.one_database("mariadb")


def test_its_recovery_codes_are_shown_all_the_same(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_connection(store: SecondFactorSetup, key: str, secret: str) -> bool:
        raise OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(SecondFactorSetup, "give", lose_connection)
    services.approved("Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    setup = services.app.second_factor
    entry = asyncio.run(setup.begin(session, PASSWORD, CALLER))
    app = Authenticator(entry.secret, services.clock)
    enabled = asyncio.run(setup.confirm(session, PASSWORD, app.code(), CALLER))
    assert (len(enabled.recovery_codes), enabled.in_game) == (10, False)


def test_the_row_is_written_once(services: ServiceHarness) -> None:
    services.approved("Alice")
    give = partial(services.app.second_factor.give, "alice")
    assert [give("JBSWY3DPEHPK3PXP"), give("JBSWY3DPEHPK3PXP"), give("KRSXG5CTMVRXEZLU")] == [True, True, False]
    assert services.row("alice")["totp"] == "JBSWY3DPEHPK3PXP"


def test_a_second_factor_that_another_request_has_switched_on_stays(services: ServiceHarness) -> None:
    """Both looked while it was off; the app of the first one must not become worthless."""
    services.approved("Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    checker, store = services.app.checker, services.app.second_factor
    run = services.app.worker.run_here
    late = run(checker.find_identity, "Alice", CALLER)
    app = Authenticator(run(store._store_nonce, late), services.clock)
    run(store._switch_on, late, session, app.code(), CALLER)
    was = services.user("Alice").totp_nonce
    services.clock.advance(minutes=1)
    now = run(checker.find_identity, "Alice", CALLER)
    with pytest.raises(TotpAlreadyOn):
        run(store._store_nonce, late)
    with pytest.raises(TotpAlreadyOn):
        run(store._switch_on, now, session, app.code(), CALLER)
    assert services.user("Alice").totp_nonce == was
