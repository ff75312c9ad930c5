"""Wiring of the webhook."""

from regsvc.app.context import AppContext
from regsvc.app.runtime import RuntimeParts
from regsvc.notifications.delivery import DeliveryWorker
from regsvc.notifications.outbox import Outbox, OutboxStore
from regsvc.notifications.webhook.queue import NoWebhookQueue, WebhookQueue
from regsvc.notifications.webhook.transport import (
    WEBHOOK_RETRY_POLICY,
    NoWebhookTransport,
    WebhookRenderer,
    WebhookTransport,
)


def wire_webhook(context: AppContext, runtime: RuntimeParts) -> WebhookQueue:
    """Return the webhook, whose calls leave with `runtime.delivery_workers`."""
    config = context.config
    outbox = Outbox(context.now, "webhook", WEBHOOK_RETRY_POLICY)
    store = OutboxStore(context.location.database, outbox, on_finished=runtime.metrics.count_webhook_call)
    if not config.webhook.url:
        runtime.delivery_workers.add(DeliveryWorker(runtime.worker, store, NoWebhookTransport()), is_on=lambda: False)
        return NoWebhookQueue()
    transport = WebhookTransport(
        config.webhook.url,
        config.webhook.secret,
        WebhookRenderer(runtime.translations, config.server.name),
        context.now,
        allows_private=config.webhook.allow_private,
    )
    runtime.delivery_workers.add(DeliveryWorker(runtime.worker, store, transport))
    return WebhookQueue(outbox, config.server.language, context.now)
