"""Warnings to the caller when a decision does not reach the game at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.config.live import LiveConfig
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.records import Account

PLAYER_PENDING: Final = "player_pending"
"""AuthMe's table is busy or unavailable; the intent is committed, and the sync carries it out."""
STILL_ONLINE_RCON_OFF: Final = "still_online_rcon_off"
"""AuthMe's row says that the player is in the game, and without RCON the player cannot be kicked."""
AUTHME_CACHE_ON: Final = "authme_cache_on"
"""AuthMe may use cached rows for up to 15 minutes: `DataSource.caching` is true in its config."""

MEANINGS: Final[Mapping[str, str]] = {
    PLAYER_PENDING: "AuthMe's table is busy or unavailable; the game follows with the next sync",
    STILL_ONLINE_RCON_OFF: "the player seems to be in the game and stays there: RCON is off (see `companion doctor`)",
    AUTHME_CACHE_ON: "AuthMe may use cached data for up to 15 minutes (see `companion doctor`)",
}
"""Each warning in a sentence, for the command line."""

_ENDS_PLAY: Final = frozenset({"ban", "delete"})
_LEAVES_ROWS_ALONE: Final = frozenset({"reject"})


@dataclass(frozen=True)
class PlayerWarnings:
    """Warnings known before a decision."""

    is_bridge_on: bool
    console: RconQueue
    live: LiveConfig

    def before(self, decision: str, account: Account) -> set[str]:
        """Return the warnings of a transition or of "password" for this account as it is before."""
        if not self.is_bridge_on or decision in _LEAVES_ROWS_ALONE:
            return set()
        warnings = {AUTHME_CACHE_ON} if self.live.authme.is_cached else set()
        is_marked_online = account.player is not None and account.player.is_logged == 1
        if decision in _ENDS_PLAY and is_marked_online and not self.console.is_on:
            warnings.add(STILL_ONLINE_RCON_OFF)
        return warnings


def warn_if_players_away(step: Callable[[], ReconcileResult | None]) -> set[str]:
    """Run a step on the player's row; returns a warning if AuthMe is unavailable or refuses, and the intent stays."""
    try:
        done = step()
    except PlayersUnavailable:
        return {PLAYER_PENDING}
    return {PLAYER_PENDING} if done is not None and done.refused is not None else set()
