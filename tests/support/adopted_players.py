"""Services with three hundred adopted players, for tests of what a sync run looks at."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from plugin_bridge.authme.players import PlayerRow
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

MANY = 300


def synced_players(make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock) -> ServiceHarness:
    """Return services whose players are all adopted, and whose last run had nothing to do."""
    insert_player_rows(authme_table, make_player_rows(MANY, clock))
    services = make_services()
    reconcile(services)
    return services


def reconcile(services: ServiceHarness) -> None:
    """Run the sync until nothing is left; a run looks once more at what the previous one wrote."""
    for _run in range(2):
        services.sync()
    services.clock.advance(minutes=1)
    services.sync()


@contextmanager
def watched(services: ServiceHarness) -> Iterator[set[str]]:
    """Collect the names whose rows are fetched in the meantime."""
    players = services.app.context.location.players
    find_many, pages, looked_at = players.find_many, players.pages, set[str]()

    def finding(keys: Iterable[str]) -> dict[str, PlayerRow]:
        found = find_many(keys)
        looked_at.update(found)
        return found

    def paging(size: int) -> Iterator[list[PlayerRow]]:
        for page in pages(size):
            looked_at.update(row.username for row in page)
            yield page

    players.find_many, players.pages = finding, paging  # type: ignore[method-assign]
    try:
        yield looked_at
    finally:
        players.find_many, players.pages = find_many, pages  # type: ignore[method-assign]
