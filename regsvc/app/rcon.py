"""Everything about the game's remote console, wired."""

from collections.abc import Callable
from functools import partial

from regsvc.app.context import AppContext
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import DeliveryWorker, DeliveryWorkers
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.rcon.address import find_rcon_address
from regsvc.notifications.rcon.queue import KIND, RconQueue
from regsvc.notifications.rcon.transport import RCON_RETRY_POLICY, RconStore, RconTransport
from regsvc.runtime.metrics import Metrics


def wire_rcon(
    context: AppContext,
    worker: Worker,
    translations: Translations,
    metrics: Metrics,
    delivery_workers: DeliveryWorkers,
    reconcile: Callable[[str], object],
) -> RconQueue:
    """Wire commands to the game server. `reconcile` reconciles the account with this lower-case name."""
    config, now = context.config, context.now
    find_address = partial(find_rcon_address, config.game)
    outbox = Outbox(now, KIND, RCON_RETRY_POLICY)
    store = RconStore(context.location.database, outbox, reconcile, metrics.count_console_command)
    delivery_workers.add(
        DeliveryWorker(worker, store, RconTransport(find_address, translations, config.server.name, now))
    )
    return RconQueue(outbox, find_address, config.game.on_ban, config.server.language, now)
