"""What a caller is told when the game does not follow at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from plugin_bridge.authme.players import Players, PlayersUnavailable
from regsvc.config.live import LiveConfig
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.sync.reconciler import ReconcileResult

PLAYER_PENDING: Final = "player_pending"
"""AuthMe's table is busy or away, the wish is committed, and the sync fulfils it."""
STILL_ONLINE_RCON_OFF: Final = "still_online_rcon_off"
"""AuthMe's row says that the player is in the game, and nobody can throw him out."""
AUTHME_CACHE_ON: Final = "authme_cache_on"
"""AuthMe goes by what it remembers, for up to a quarter of an hour: DataSource.caching is true in its config."""

MEANINGS: Final[Mapping[str, str]] = {
    PLAYER_PENDING: "AuthMe's table is busy or away; the game follows with the next sync",
    STILL_ONLINE_RCON_OFF: "the player seems to be in the game, and stays there: RCON is off (see `companion doctor`)",
    AUTHME_CACHE_ON: "AuthMe may go by what it remembers for up to a quarter of an hour (see `companion doctor`)",
}
"""Each warning in a sentence, for the command line."""

_ENDS_PLAY: Final = frozenset({"ban", "delete"})
_LEAVES_ROWS_ALONE: Final = frozenset({"reject"})


@dataclass(frozen=True)
class PlayerWarnings:
    """Warnings known before a decision."""

    players: Players
    console: RconQueue
    live: LiveConfig

    def before(self, decision: str, key: str) -> set[str]:
        """`decision` is a transition or "password". Blocking, inside the transaction of the decision."""
        if not self.players.is_enabled or decision in _LEAVES_ROWS_ALONE:
            return set()
        warnings = {AUTHME_CACHE_ON} if self.live.authme.is_cached else set()
        if decision in _ENDS_PLAY and not self.console.is_on and self._is_marked_online(key):
            warnings.add(STILL_ONLINE_RCON_OFF)
        return warnings

    def _is_marked_online(self, key: str) -> bool:
        try:
            return self.players.is_marked_online(key)
        except PlayersUnavailable:
            return False  # which is told by whoever tries to write the row


def warn_if_players_away(step: Callable[[str], object], key: str) -> set[str]:
    """Do something about the player's row; AuthMe being away or refusing is a warning, the wish stays."""
    try:
        done = step(key)
    except PlayersUnavailable:
        return {PLAYER_PENDING}
    return {PLAYER_PENDING} if isinstance(done, ReconcileResult) and done.refused is not None else set()
