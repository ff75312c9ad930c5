"""AuthMeReReloaded deletes players who registered by e-mail and did not log in, which is no mass change of ours."""

import pytest

from regsvc.core.clock import epoch_ms
from regsvc.sync.actions import MarkMissing, MarkUnverifiedMissing
from regsvc.sync.rules import decide
from tests.support.accounts import account, ago, policy, synced, user
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness


@pytest.fixture
def services(
    game_server: GameServer, make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> ServiceHarness:
    """A hundred adopted players, thirty who registered by e-mail, and have ten minutes to log in."""
    email = "settings.registration.email"
    game_server.change_authme(
        {
            "settings.registration.enabled": True,
            "settings.registration.type": "EMAIL",
            f"{email}.unregisterOnEmailVerificationFailure": True,
            f"{email}.unregisterAfterMinutes": 10,
        }
    )
    insert_player_rows(authme_table, make_player_rows(100, clock))
    services = make_services(sync__new_players="approved")
    services.sync()
    for number in range(30):
        services.authme.register(f"Bot{number:02}", "mailed-to-nobody", f"bot{number:02}@example.org")
    assert services.sync().adopted == 30
    return services


def delete_rows(services: ServiceHarness, pattern: str) -> int:
    return services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username LIKE ?", (pattern,))


def test_unverified_players_whom_authme_deletes_by_itself_are_believed_gone(services: ServiceHarness) -> None:
    services.clock.advance(minutes=11)
    assert delete_rows(services, "bot%") == 30
    assert services.plan().changes["missing"].count == 30
    report = services.sync()
    assert (report.removed, report.held_back) == (30, None)
    assert services.player("bot29").presence == "gone"


@pytest.mark.parametrize("minutes", [5, 24 * 60])
def test_rows_that_are_younger_or_older_are_held_back(services: ServiceHarness, minutes: int) -> None:
    services.clock.advance(minutes=minutes)
    delete_rows(services, "bot%")
    held_back = services.sync().held_back
    assert held_back is not None
    assert (held_back.removed, held_back.missing) == (30, 30)


def test_they_are_held_back_with_others_that_are_too_many(services: ServiceHarness) -> None:
    services.clock.advance(minutes=11)
    delete_rows(services, "bot%")
    assert [delete_rows(services, f"player00{digit}%") for digit in range(3)] == [10, 10, 10]
    held_back = services.sync().held_back
    assert held_back is not None
    assert held_back.missing == 60


def test_they_are_not_believed_gone_from_an_empty_table(services: ServiceHarness) -> None:
    delete_rows(services, "player%")
    assert services.sync(allow_mass_changes=True).removed == 100
    services.clock.advance(minutes=11)
    delete_rows(services, "bot%")
    held_back = services.sync().held_back
    assert held_back is not None
    assert held_back.missing == 30


@pytest.mark.parametrize(("minutes", "expected"), [(8, False), (10, True), (25, True), (26, False)])
def test_authme_deletes_unverified_players_by_itself(minutes: int, expected: bool) -> None:
    known = synced(base_regdate=epoch_ms(ago(minutes=minutes)))
    missing = MarkUnverifiedMissing() if expected else MarkMissing()
    assert decide(account(user(password=None), known), policy(unverified_minutes=10)) == missing
    assert decide(account(user(password=None), known), policy()) == MarkMissing()
    assert decide(account(user(), known), policy(unverified_minutes=10)) == MarkMissing(), "registered on the web"
