"""Delivery of console commands without a daemon."""

import asyncio
from functools import partial

from plugin_bridge.server.rcon import RconAddress
from regsvc.core.i18n import load_translations
from regsvc.database.models import OutboxEntry
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.rcon import (
    KIND,
    RCON_RETRY_POLICY,
    RconTransport,
    find_rcon_address,
    insert_row_after_kick,
    keep_reply,
)
from tests.support.services import ServiceHarness


class ManualDelivery:
    """Delivers RCON messages one after the other, when the test says so."""

    def __init__(self, services: ServiceHarness) -> None:
        self._services = services
        context = services.app.context

        def find_address(server: str) -> RconAddress | None:
            game, properties = context.config.game_servers[server], context.properties_files[server]
            return find_rcon_address(game, properties.refresh())

        consoles = {server: partial(find_address, server) for server in context.config.game_servers}
        self._transport = RconTransport(
            consoles, load_translations(), "Oakvale", services.app.profiles.find_uuids, services.clock
        )
        reconcile = partial(services.app.reconciler.reconcile, may_adopt=False)
        self._outbox = Outbox(
            services.clock,
            KIND,
            RCON_RETRY_POLICY,
            on_sent=keep_reply,
            on_finished=lambda message, _outcome: insert_row_after_kick(message, reconcile),
        )

    def deliver_due(self) -> list[str]:
        """Deliver everything due now, once; return how each delivery ended."""
        return [self.deliver(message) for message in self.claim()]

    def claim(self) -> list[OutboxEntry]:
        return self._outbox.claim_due(100)

    def deliver(self, message: OutboxEntry) -> str:
        try:
            asyncio.run(self._transport.send(message, self._transport.prepare(message)))
        except Drop as reason:
            self._outbox.drop(message, str(reason))
            return "dropped"
        except (TemporaryFailure, PermanentFailure) as reason:
            wait = self._outbox.record_failure(message, str(reason), is_final=isinstance(reason, PermanentFailure))
            return "failed" if wait is None else "later"
        self._outbox.record_sent(message)
        return "sent"
