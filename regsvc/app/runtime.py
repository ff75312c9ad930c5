"""Wiring of what the whole process shares: live config, worker threads, translations, metrics, delivery_workers."""

from dataclasses import dataclass

from regsvc.app.context import AppContext
from regsvc.config.live import LiveConfig
from regsvc.core.i18n.translations import Translations, load_translations
from regsvc.database.engine import Worker
from regsvc.database.location import read_other_authmes
from regsvc.notifications.delivery import DeliveryWorkers
from regsvc.runtime.metrics import LoopLag, Metrics
from regsvc.runtime.reload import PendingRestart


@dataclass(frozen=True)
class RuntimeParts:
    """Shared by every feature."""

    live: LiveConfig
    worker: Worker
    sync_worker: Worker
    translations: Translations
    metrics: Metrics
    loop_lag: LoopLag
    delivery_workers: DeliveryWorkers
    pending_restart: PendingRestart

    def open(self) -> None:
        """Let the workers run: the database has our tables."""
        self.worker.is_open = self.sync_worker.is_open = True

    def pause(self) -> None:
        """Keep the workers from beginning new work; clients get 503."""
        self.worker.is_open = self.sync_worker.is_open = False

    def close(self) -> None:
        """Let running work finish, then close every connection. Blocking."""
        self.worker.close()
        self.sync_worker.close()


def wire_runtime(context: AppContext) -> RuntimeParts:
    """Create workers, translations, metrics and delivery.

    Raises `ConfigError` for hashing settings of AuthMe that cannot be used.
    """
    config, database, players = context.config, context.location.database, context.location.players
    folder = config.server.translations
    worker = Worker(database, config.database.threads, also_close=players.close)
    translations = load_translations(
        *([folder] if folder else []), offered=config.server.languages, default=config.server.language
    )
    live = LiveConfig(config, context.authme)
    live.apply_other_authmes(read_other_authmes(config).values())
    return RuntimeParts(
        live=live,
        worker=worker,
        sync_worker=Worker(database, 1, "sync", also_close=players.close, outage_log=worker.outage_log),
        translations=translations,
        metrics=Metrics(config.server.instance),
        loop_lag=LoopLag(),
        delivery_workers=DeliveryWorkers(),
        pending_restart=PendingRestart(),
    )
