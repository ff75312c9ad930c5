"""Wiring of the game servers' remote consoles."""

from collections.abc import Callable
from functools import partial

from plugin_bridge.server.rcon import RconAddress
from regsvc.app.context import AppContext
from regsvc.app.runtime import RuntimeParts
from regsvc.notifications.delivery import DeliveryWorker
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.rcon.queue import KIND, RconQueue, find_rcon_address
from regsvc.notifications.rcon.transport import RCON_RETRY_POLICY, RconStore, RconTransport


def wire_rcon(context: AppContext, runtime: RuntimeParts, reconcile: Callable[[str], object]) -> RconQueue:
    """Return the console, whose commands leave with `runtime.delivery_workers`.

    `reconcile` is called with the lower-case name of a player once the player was kicked.
    """
    config, now = context.config, context.now
    files, servers = context.properties_files, config.game_servers

    def find_current(server: str) -> RconAddress | None:
        return find_rcon_address(servers[server], files[server].refresh())

    def find_known(server: str) -> RconAddress | None:
        return find_rcon_address(servers[server], files[server].current)

    outbox = Outbox(now, KIND, RCON_RETRY_POLICY)
    store = RconStore(context.location.database, outbox, reconcile, runtime.metrics.count_console_command)
    current = {server: partial(find_current, server) for server in servers}
    transport = RconTransport(current, runtime.translations, config.server.name, now)
    known = {server: partial(find_known, server) for server in servers}
    queue = RconQueue(outbox, known, config.game.on_ban, config.server.language, now)
    runtime.delivery_workers.add(DeliveryWorker(runtime.worker, store, transport), is_on=lambda: queue.is_on)
    return queue
