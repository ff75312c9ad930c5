"""A town of three hundred adopted players, for what a run of the sync looks at and what it does not."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from plugin_bridge.authme.players import PlayerRow
from tests.support.authme_tables import AuthMeTable
from tests.support.crowd import crowd, insert_crowd
from tests.support.manual_clock import StandingClock
from tests.support.services import House, MakeHouse

MANY = 300


def settled_town(make_house: MakeHouse, authme_table: AuthMeTable, clock: StandingClock) -> House:
    """Everybody is adopted, and the last run had nothing to do."""
    insert_crowd(authme_table, crowd(MANY, clock))
    house = make_house()
    reconcile(house)
    return house


def reconcile(house: House) -> None:
    """What a run wrote itself, the next one looks at once more."""
    for _run in range(2):
        house.sync()
    house.clock.advance(minutes=1)
    house.sync()


@contextmanager
def watched(house: House) -> Iterator[set[str]]:
    """The names whose rows were brought over."""
    players = house.app.context.location.players
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
