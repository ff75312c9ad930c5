"""The services that sync steps act on."""

from collections.abc import Callable
from dataclasses import dataclass, field

from plugin_bridge.authme.players import Players
from regsvc.core.clock import Clock
from regsvc.database.audit import Audit
from regsvc.notifications.rcon.queue import NoRconQueue, RconQueue
from regsvc.sync.sync_records import SyncRecords
from regsvc.users.transitions import Transitions


@dataclass(frozen=True)
class StepContext:
    """Everything a step reads and writes.

    `find_uuid` returns the game's UUID for a Java player of this name, or None if it is unknown. `console` kicks
    players and sends game commands.
    """

    players: Players
    sync_records: SyncRecords
    transitions: Transitions
    audit: Audit
    now: Clock
    find_uuid: Callable[[str], str | None] = lambda name: None
    console: RconQueue = field(default_factory=NoRconQueue)
