"""Everything about the webhook, wired."""

from regsvc.app.context import AppContext
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import Delivery, DeliveryWorkers
from regsvc.notifications.outbox import Outbox, OutboxStore
from regsvc.notifications.webhook.events import NoWebhook, Webhook
from regsvc.notifications.webhook.message import WebhookMessages
from regsvc.notifications.webhook.transport import PATIENCE, NoWebhookTransport, WebhookTransport
from regsvc.runtime.metrics import Metrics


def wire_webhook(
    context: AppContext, worker: Worker, translations: Translations, metrics: Metrics, deliveries: DeliveryWorkers
) -> Webhook:
    """What events are told to; they leave with `deliveries`."""
    config = context.config
    outbox = Outbox(context.now, "webhook", PATIENCE)
    auth_parts = OutboxStore(context.location.database, outbox, on_finished=metrics.count_webhook_call)
    if not config.webhook.url:
        deliveries.add(Delivery(worker, auth_parts, NoWebhookTransport()))
        return NoWebhook()
    carrier = WebhookTransport(
        config.webhook.url,
        config.webhook.secret,
        WebhookMessages(translations, config.server.name),
        context.now,
        allows_private=config.webhook.allow_private,
    )
    deliveries.add(Delivery(worker, auth_parts, carrier))
    return Webhook(outbox, config.server.language, context.now)
