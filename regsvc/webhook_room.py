"""Everything about the webhook, wired."""

from regsvc.db import Worker
from regsvc.delivery import Deliveries, Delivery
from regsvc.ground import Ground
from regsvc.i18n import Translations
from regsvc.metrics import Metrics
from regsvc.outbox import Outbox
from regsvc.outbox_desk import OutboxDesk
from regsvc.webhook import NoWebhook, Webhook
from regsvc.webhook_carrier import PATIENCE, NoWebhookCarrier, WebhookCarrier
from regsvc.webhook_message import WebhookMessages


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
