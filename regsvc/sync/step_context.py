"""Cases, which steps are applied to, and the services that steps act on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

from peewee import Database

from plugin_bridge.authme.players import PlayerRow, Players, RowWrite, WriteResult
from regsvc.core.clock import Clock
from regsvc.database.audit import Audit
from regsvc.notifications.rcon import RconQueue
from regsvc.sync.actions import SyncAction
from regsvc.sync.effects import NOTHING, Effects
from regsvc.sync.records import Account, UserRecord
from regsvc.users.transitions import Transitions

A = TypeVar("A", bound=SyncAction)
_WRITTEN: Final = WriteResult(is_written=True)


@dataclass(frozen=True)
class StepContext:
    """Everything a step reads and writes.

    `find_uuid` returns the game's UUID for a Java player of this name, or None if it is unknown. `console` kicks
    players and sends game commands.
    """

    database: Database
    players: Players
    transitions: Transitions
    audit: Audit
    now: Clock
    find_uuid: Callable[[str], str | None]
    console: RconQueue


@dataclass(slots=True)
class Case(Generic[A]):
    """An account, the action decided for it, and how far that is done."""

    account: Account
    """The account as it is so far, with the effects that are not written yet."""
    action: A
    stored: Account
    """The account as our tables have it."""
    effects: Effects = NOTHING
    """Effects that are not written yet."""
    write: RowWrite | None = None
    """The write to AuthMe's row, or None if it needs none."""
    result: WriteResult = _WRITTEN
    """The result of that write."""
    next: Literal["decide", "load", "nothing"] = "decide"
    """Whether the account is decided on as it is now, or after it is loaded again, or needs nothing any more."""

    @property
    def key(self) -> str:
        """The lower-case name."""
        return self.account.key

    @property
    def user(self) -> UserRecord:
        """The account's user, where the action is for an account that has one."""
        assert self.account.user is not None
        return self.account.user

    @property
    def row(self) -> PlayerRow:
        """AuthMe's row, where the action leaves one."""
        assert self.account.player is not None
        return self.account.player

    def after(self, stored: Account, effects: Effects = NOTHING) -> "Case[A]":
        """Return the case after our tables were changed, with effects that are to be written next."""
        return replace(self, account=stored, stored=stored, effects=effects)

    def take_row(self, row: PlayerRow | None) -> None:
        """Take AuthMe's row as it is now into the accounts."""
        if row is not self.account.player:
            self.account, self.stored = replace(self.account, player=row), replace(self.stored, player=row)


Cases = Sequence[Case[A]]
