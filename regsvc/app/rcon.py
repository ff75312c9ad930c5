"""Everything about the game's remote console, wired."""

from collections.abc import Callable
from functools import partial

from regsvc.app.context import AppContext
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import Delivery, DeliveryWorkers
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.rcon.address import find_rcon_address
from regsvc.notifications.rcon.console import KIND, GameConsole
from regsvc.notifications.rcon.transport import PATIENCE, RconStore, RconTransport
from regsvc.runtime.metrics import Metrics


def wire_rcon(
    context: AppContext,
    worker: Worker,
    translations: Translations,
    metrics: Metrics,
    deliveries: DeliveryWorkers,
    reconcile: Callable[[str], object],
) -> GameConsole:
    """What the game is told; it leaves with `deliveries`. `settle` closes the difference for a lower-case name."""
    config, now = context.config, context.now
    find_address = partial(find_rcon_address, config.game)
    outbox = Outbox(now, KIND, PATIENCE)
    auth_parts = RconStore(context.location.database, outbox, reconcile, metrics.count_console_command)
    deliveries.add(Delivery(worker, auth_parts, RconTransport(find_address, translations, config.server.name, now)))
    return GameConsole(outbox, find_address, config.game.on_ban, config.server.language, now)
