"""Everything about the game's remote console, wired."""

from collections.abc import Callable
from functools import partial

from regsvc.app.context import Ground
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import Deliveries, Delivery
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.rcon.address import find_rcon_address
from regsvc.notifications.rcon.console import KIND, GameConsole
from regsvc.notifications.rcon.transport import PATIENCE, RconCarrier, RconDesk
from regsvc.runtime.metrics import Metrics


def open_rcon(
    ground: Ground,
    worker: Worker,
    translations: Translations,
    metrics: Metrics,
    deliveries: Deliveries,
    settle: Callable[[str], object],
) -> GameConsole:
    """What the game is told; it leaves with `deliveries`. `settle` closes the difference for a lower-case name."""
    config, now = ground.config, ground.now
    find_address = partial(find_rcon_address, config.game)
    outbox = Outbox(now, KIND, PATIENCE)
    desk = RconDesk(ground.home.database, outbox, settle, metrics.count_console_command)
    deliveries.add(Delivery(worker, desk, RconCarrier(find_address, translations, config.server.name, now)))
    return GameConsole(outbox, find_address, config.game.on_ban, config.server.language, now)
