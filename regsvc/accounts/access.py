"""Access to accounts by admins, the command line and users: load, check, change, let the row follow, and warn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, ParamSpec, TypeVar

from msgspec import Meta
from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.auth.entitlement import Principal
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.core.rights import RightsHolder, Team
from regsvc.core.text import name_key
from regsvc.database.models import APPROVED, User
from regsvc.notifications.rcon import RconQueue
from regsvc.sync.actions import ReclaimRow
from regsvc.sync.effects import NOTHING, Effects
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, UserRecord

PLAYER_PENDING: Final = "player_pending"
"""AuthMe's table is busy or unavailable; the intent is committed, and the sync carries it out."""
PLAYER_LOCKED: Final = "player_locked"
"""The user may play, but the name's row is another player's, or locked because the user has no password."""
STILL_ONLINE_RCON_OFF: Final = "still_online_rcon_off"
"""AuthMe's row says that the player is in the game, and without RCON the player cannot be kicked."""
NOT_MAILED: Final = "not_mailed"
"""The user has no address, or gave one without proof, or players are mailed nothing: our pages alone tell them."""
MEMBERSHIP_ENDED: Final = "membership_ended"
"""The ban is lifted, and the user stays out of the game: the membership has ended."""
AUTHME_CACHE_ON: Final = "authme_cache_on"
"""AuthMe may use a cached row, also an old password, for up to 15 minutes after it last looked the player up.

`DataSource.caching` is true in its config.
"""

MEANINGS: Final[Mapping[str, str]] = {
    PLAYER_PENDING: "AuthMe's table is busy or unavailable; the game follows with the next sync",
    PLAYER_LOCKED: "the user cannot log in to the game yet: the name's row there is locked, or another player's; "
    "a locked one opens once a password is set (`companion users password`, or a mailed link)",
    STILL_ONLINE_RCON_OFF: "the player seems to be in the game and stays there: RCON is off (see `companion doctor`)",
    NOT_MAILED: "no mail could be sent: they see it on the page of their application",
    MEMBERSHIP_ENDED: "the membership has ended, so they stay out of the game; `companion users membership` renews it",
    AUTHME_CACHE_ON: "AuthMe may use old data, also an old password, for up to 15 minutes after it last looked the "
    "player up (see `companion doctor`)",
}
"""Each warning in a sentence, for the command line."""

Warnings = Annotated[
    tuple[str, ...],
    Meta(
        description="The request succeeded, but not everything has taken effect yet. player_pending: AuthMe's table is "
        "busy; the change is saved and will be applied. player_locked: the user may play, but the name's row in "
        "AuthMe's table is another player's, or locked; a locked one opens once a password is set. "
        "still_online_rcon_off: the player seems to be in the game and cannot be kicked. authme_cache_on: AuthMe may "
        "use old data, also an old password, for up to 15 minutes after it last looked the player up. not_mailed: no "
        "mail could be sent, as the user has no address, or gave one without proof. membership_ended: the ban is "
        "lifted, and the user stays out, as the membership has ended.",
        examples=[["player_pending"]],
    ),
]

P = ParamSpec("P")
T = TypeVar("T")

_ENDS_PLAY: Final = frozenset({"ban", "reopen", "delete"})
_ACCOUNT: Final = frozenset({"password", "session"})
_LETS_IN: Final = frozenset({"approve", "unban", "reopen"})
_LEAVES_ROWS_ALONE: Final = frozenset({"reject"})


def follow_with_row(step: Callable[P, ReconcileResult | None], *args: P.args, **kwargs: P.kwargs) -> set[str]:
    """Run the last step on the player's row; returns a warning if a user who may play cannot log in to the game yet."""
    try:
        done = step(*args, **kwargs)
    except PlayersUnavailable:
        return {PLAYER_PENDING}
    if done is not None and done.refused is not None:
        return {PLAYER_PENDING}
    account = None if done is None else done.account
    if account is None or account.user is None or account.user.access != APPROVED or account.player is None:
        return set()
    known = account.sync_record
    return set() if known is not None and known.is_playable(account.player) else {PLAYER_LOCKED}


@dataclass
class AccountForUpdate:
    """A user that the current transaction has locked, and the account as it has changed so far."""

    user: User
    account: Account
    intended: Effects = NOTHING
    """What is to be written to the sync record, together with the first change that follows from it."""
    is_opened: bool = False
    """Whether the user got the row just now, by what was due for the account before this change."""

    def take_user(self) -> None:
        """Take the user's columns into the account, after they were changed."""
        self.account = replace(self.account, user=UserRecord.from_row(self.user))


@dataclass(frozen=True)
class AccountAccess:
    """Transactions that change one account, and the principal's permission to do so.

    Blocking: for a worker thread.
    """

    database: Database
    reconciler: Reconciler
    console: RconQueue
    live: LiveConfig
    team: Team

    def change(
        self,
        key: str,
        work: Callable[[AccountForUpdate], T],
        *,
        reconciles_first: bool = False,
        if_missing: type[Refusal] = errors.UserNotFound,
    ) -> tuple[T, set[str]]:
        """Run `work` on the locked account in a transaction, and let the player's row follow.

        Returns its result, and warnings about the row. `reconciles_first`: what is due for the account is done before,
        and a player without a user is adopted; mass changes that are held back wait for a sync run. Raises `if_missing`
        for a name without a user. `work` may be run again if the transaction loses a deadlock.
        """
        warnings, is_opened = set[str](), False
        while True:
            find_rows = self.reconciler.row_reader(key)
            with self.database.atomic():
                found = self.reconciler.loader.load_user_for_update(key, find_rows)
                if found is None and not reconciles_first:
                    raise if_missing
                if found is not None and not (reconciles_first and self.reconciler.is_due(found[1])):
                    locked = AccountForUpdate(*found, is_opened=is_opened)
                    if not locked.account.is_player_known:
                        warnings.add(PLAYER_PENDING)
                    result = work(locked)
                    # last in the transaction: the game waits for the lock on AuthMe's row
                    step = self.reconciler.reconcile_in_transaction
                    warnings |= follow_with_row(step, locked.account, locked.intended)
                    break
            is_opened, reconciles_first = self._reconcile_first(key, warnings), False
        warnings |= follow_with_row(self.reconciler.reconcile_after_commit, locked.account, locked.intended)
        return result, warnings

    def get_user(self, username: str, action: str, by: Principal) -> UserRecord:
        """Return the user of this name, to whom the principal is about to do this action.

        What is due for the account is done before; a player without a user is adopted. Raises `UserNotFound` and
        `ProtectedOperator`.
        """
        key = name_key(username)
        try:
            account = self.reconciler.reconcile(key, is_guarded=True).account or self.reconciler.load(key)
        except PlayersUnavailable:
            account = self.reconciler.loader.load([key], None)[0]
        if account.user is None:
            raise errors.UserNotFound
        self.require_permission(account.user, action, by)
        return account.user

    def find_warnings(self, decision: str, account: Account) -> set[str]:
        """Return the warnings of a transition or of "password" that are known before, from the account as it is."""
        if not self.reconciler.is_enabled or decision in _LEAVES_ROWS_ALONE:
            return set()
        warnings = {AUTHME_CACHE_ON} if self.live.authme.is_cached or self.live.is_cached_elsewhere else set()
        is_marked_online = account.player is not None and account.player.is_logged == 1
        if decision in _ENDS_PLAY and is_marked_online and not self.console.is_on_everywhere:
            warnings.add(STILL_ONLINE_RCON_OFF)
        return warnings

    def require_permission(self, user: RightsHolder, action: str, by: Principal) -> None:
        """Raise `ProtectedOperator` where members of the team would harm themselves, their equals or their superiors.

        Raises `Unauthorized` or `Forbidden` if what they act with has ended.

        Operators may approve and unban all but their superiors, so that none gives a player more rights than they have.
        An API token lets in nobody who has a rank.
        `action` is a transition, "password", "session", "role" or another name of what is done.
        """
        by.require_current()
        rank = self.team.rank_of(user)
        is_self = name_key(user.username) == name_key(by.username)
        if action in _LETS_IN and by.is_token:
            is_refused = rank > 0  # whom a bot lets in could be an impostor under the name of an operator
        elif action in ("approve", "unban") and by.rights.is_operator:
            is_refused = rank > by.rights.rank
        else:
            is_refused = is_self or (rank > 0 and (rank >= by.rights.rank or (by.is_token and action in _ACCOUNT)))
        if is_refused:
            raise errors.ProtectedOperator

    def has_rank(self, user: RightsHolder) -> bool:
        """Return whether the user is a member of the team."""
        return self.team.rank_of(user) > 0

    def _reconcile_first(self, key: str, warnings: set[str]) -> bool:
        """Do what is due for the account; returns whether its user got the row by it."""
        try:
            before = self.reconciler.reconcile(key, is_guarded=True)
        except PlayersUnavailable:
            warnings.add(PLAYER_PENDING)
            return False
        if before.refused is not None:
            warnings.add(PLAYER_PENDING)
        return any(isinstance(action, ReclaimRow) for action in before.applied)
