"""Thousands of players are adopted by one companion while people register at all of them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.cluster.companions import Companion, Place
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.watching import ask_until

PLAYERS = 30_000


def test_no_player_is_left_out(place: Place, companions: Sequence[Companion]) -> None:
    def count_adopted() -> int:
        query = "SELECT COUNT(*) AS n FROM regsvc_user WHERE username_key LIKE ?"
        return int(place.query(place.nodes[0], query, ("player%",))[0]["n"])

    with registering(companions) as registrants:
        registrants.wait_for_more(1, *companions)
        insert_player_rows(place.table, make_player_rows(PLAYERS, lambda: datetime.now(UTC)))
        ask_until(count_adopted, lambda number: number == PLAYERS)
        registrants.wait_for_more(1, *companions)
    check_nothing_is_lost(place, registrants)
