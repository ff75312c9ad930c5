"""Warnings to the caller when a decision does not reach the game at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.config.live import LiveConfig
from regsvc.database.models import APPROVED
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.records import Account

PLAYER_PENDING: Final = "player_pending"
"""AuthMe's table is busy or unavailable; the intent is committed, and the sync carries it out."""
PLAYER_LOCKED: Final = "player_locked"
"""The user may play, but the name's row is another player's, or locked because the user has no password."""
STILL_ONLINE_RCON_OFF: Final = "still_online_rcon_off"
"""AuthMe's row says that the player is in the game, and without RCON the player cannot be kicked."""
AUTHME_CACHE_ON: Final = "authme_cache_on"
"""AuthMe may use a cached row, also an old password, for up to 15 minutes after it last looked the player up.

`DataSource.caching` is true in its config.
"""

MEANINGS: Final[Mapping[str, str]] = {
    PLAYER_PENDING: "AuthMe's table is busy or unavailable; the game follows with the next sync",
    PLAYER_LOCKED: "the user cannot log in to the game yet: the name's row there is locked, or another player's; "
    "a locked one opens once a password is set (`companion users password`, or a mailed link)",
    STILL_ONLINE_RCON_OFF: "the player seems to be in the game and stays there: RCON is off (see `companion doctor`)",
    AUTHME_CACHE_ON: "AuthMe may use old data, also an old password, for up to 15 minutes after it last looked the "
    "player up (see `companion doctor`)",
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
        warnings = {AUTHME_CACHE_ON} if self.live.is_cached else set()
        is_marked_online = account.player is not None and account.player.is_logged == 1
        if decision in _ENDS_PLAY and is_marked_online and not self.console.is_on_everywhere:
            warnings.add(STILL_ONLINE_RCON_OFF)
        return warnings


def warn_of_row(step: Callable[[], ReconcileResult | None]) -> set[str]:
    """Run the last step on the player's row; returns a warning if a user who may play cannot log in to the game yet."""
    try:
        done = step()
    except PlayersUnavailable:
        return {PLAYER_PENDING}
    if done is None:
        return set()
    if done.refused is not None:
        return {PLAYER_PENDING}
    return {PLAYER_LOCKED} if done.account is not None and _is_kept_out(done.account) else set()


def _is_kept_out(account: Account) -> bool:
    """Return whether the name's row does not let the approved user in."""
    user, sync_record, player = account.user, account.sync_record, account.player
    if user is None or user.status != APPROVED or player is None:
        return False
    return sync_record is None or not sync_record.is_playable(player)
