"""The second factor in AuthMe's row of a player, read and written beside our own."""

import logging
from dataclasses import dataclass

from plugin_bridge.authme.players import PlayerRefused, Players, PlayersUnavailable
from regsvc.accounts.password_checker import find_players_totp
from regsvc.core import errors
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlayerTotp:
    """AuthMe's column for secrets. Writes are by compare-and-set, outside of our transactions."""

    players: Players
    reconciler: Reconciler

    def load(self, key: str) -> Account:
        """Return the account of this name. Raises `AuthMeUnavailable`."""
        try:
            return self.reconciler.load(key)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error

    def give(self, key: str, secret: str) -> bool:
        """Write the secret to the player's own row, if there is one without a secret; return whether it holds it."""
        try:
            player = self.reconciler.load(key).own_player
            if player is None:
                return False
            if (player.totp or "").strip():
                return player.totp == secret  # by an earlier try
            self.players.update(player, {"totp": secret})
            return find_players_totp(self.reconciler.load(key)) == secret
        except (PlayersUnavailable, PlayerRefused) as error:
            log.warning("a second factor counts on the web only; AuthMe's table did not take it: %s", error)
            return False

    def remove(self, account: Account) -> None:
        """Empty the column of the player's row as it was seen. Raises `AuthMeUnavailable`."""
        assert account.player is not None
        try:
            is_written = self.players.update(account.player, {"totp": None})
        except (PlayersUnavailable, PlayerRefused) as error:
            raise errors.AuthMeUnavailable from error
        if not is_written:  # the row has changed since
            raise errors.AuthMeUnavailable
