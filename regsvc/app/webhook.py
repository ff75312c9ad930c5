"""Everything about the webhook, wired."""

from regsvc.app.context import Ground
from regsvc.core.i18n import Translations
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import Deliveries, Delivery
from regsvc.notifications.outbox import Outbox, OutboxDesk
from regsvc.notifications.webhook.events import NoWebhook, Webhook
from regsvc.notifications.webhook.message import WebhookMessages
from regsvc.notifications.webhook.transport import PATIENCE, NoWebhookCarrier, WebhookCarrier
from regsvc.runtime.metrics import Metrics


def open_webhook(
    ground: Ground, worker: Worker, translations: Translations, metrics: Metrics, deliveries: Deliveries
) -> Webhook:
    """What events are told to; they leave with `deliveries`."""
    config = ground.config
    outbox = Outbox(ground.now, "webhook", PATIENCE)
    desk = OutboxDesk(ground.home.database, outbox, on_finished=metrics.count_webhook_call)
    if not config.webhook.url:
        deliveries.add(Delivery(worker, desk, NoWebhookCarrier()))
        return NoWebhook()
    carrier = WebhookCarrier(
        config.webhook.url,
        config.webhook.secret,
        WebhookMessages(translations, config.server.name),
        ground.now,
        allows_private=config.webhook.allow_private,
    )
    deliveries.add(Delivery(worker, desk, carrier))
    return Webhook(outbox, config.server.language, ground.now)
