"""Everything about the webhook, wired."""

from regsvc.app.context import AppContext
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import DeliveryWorker, DeliveryWorkers
from regsvc.notifications.outbox import Outbox, OutboxStore
from regsvc.notifications.webhook.queue import NoWebhookQueue, WebhookQueue
from regsvc.notifications.webhook.renderer import WebhookRenderer
from regsvc.notifications.webhook.transport import WEBHOOK_RETRY_POLICY, NoWebhookTransport, WebhookTransport
from regsvc.runtime.metrics import Metrics


def wire_webhook(
    context: AppContext, worker: Worker, translations: Translations, metrics: Metrics, delivery_workers: DeliveryWorkers
) -> WebhookQueue:
    """What events are told to; they leave with `delivery_workers`."""
    config = context.config
    outbox = Outbox(context.now, "webhook", WEBHOOK_RETRY_POLICY)
    store = OutboxStore(context.location.database, outbox, on_finished=metrics.count_webhook_call)
    if not config.webhook.url:
        delivery_workers.add(DeliveryWorker(worker, store, NoWebhookTransport()))
        return NoWebhookQueue()
    transport = WebhookTransport(
        config.webhook.url,
        config.webhook.secret,
        WebhookRenderer(translations, config.server.name),
        context.now,
        allows_private=config.webhook.allow_private,
    )
    delivery_workers.add(DeliveryWorker(worker, store, transport))
    return WebhookQueue(outbox, config.server.language, context.now)
