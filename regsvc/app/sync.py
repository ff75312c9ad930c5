"""Wiring of transitions, the reconciler and the sync."""

from collections.abc import Callable
from dataclasses import dataclass

from regsvc.app.auth import AuthParts
from regsvc.app.context import AppContext
from regsvc.app.rcon import wire_rcon
from regsvc.app.runtime import RuntimeParts
from regsvc.app.webhook import wire_webhook
from regsvc.database.lease import instance_id
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.sync.lease import SyncLease
from regsvc.sync.reconciler import Reconciler, UnlockAll
from regsvc.sync.report import SyncReport
from regsvc.sync.run import Sync
from regsvc.sync.service import SyncService
from regsvc.sync.step_context import StepContext
from regsvc.users.transitions import Transitions


@dataclass(frozen=True)
class SyncParts:
    """Transitions of our users, the reconciler of both sides, the console, and the sync runs."""

    transitions: Transitions
    console: RconQueue
    reconciler: Reconciler
    service: SyncService
    unlock_all: UnlockAll


def wire_sync(
    context: AppContext,
    runtime: RuntimeParts,
    auth: AuthParts,
    mail_queue: MailQueue,
    on_finished: Callable[[SyncReport], None],
) -> SyncParts:
    """`on_finished` is called on the event loop with the report of each run."""
    config, now, location = context.config, context.now, context.location
    database, players = location.database, location.players

    def reconcile_after_kick(key: str) -> None:
        reconciler.reconcile(key, may_adopt=False)

    console = wire_rcon(context, runtime, reconcile_after_kick)
    transitions = Transitions(auth.audit, mail_queue, wire_webhook(context, runtime), console, now)

    steps = StepContext(database, players, transitions, auth.audit, now, context.uuids.find, console)
    reconciler = Reconciler(steps, runtime.live, context.ops.names)
    service = SyncService(
        runtime.sync_worker,
        Sync(database, players, reconciler, auth.audit, config.sync.max_changes, now),
        SyncLease(database, instance_id(config.server.state_dir, config.server.instance)),
    )
    service.on_finished = on_finished
    return SyncParts(transitions, console, reconciler, service, UnlockAll(players))
