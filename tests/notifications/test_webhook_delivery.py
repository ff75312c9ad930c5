"""Background delivery of webhook calls: signed, at least once, in order, and never to a private address."""

import asyncio
import base64
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from peewee import Database

from regsvc.config.host_sections import WebhookSection
from regsvc.core.i18n import load_translations
from regsvc.database.models import OutboxEntry
from regsvc.notifications.delivery import DeliveryWorker, Transport
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.webhook import WEBHOOK_RETRY_POLICY, WebhookQueue, WebhookTransport
from tests.support.certificate import Certificate
from tests.support.manual_clock import ManualClock
from tests.support.peers.webhook_receiver import PATH, Answer, WebhookReceiver
from tests.support.watched_worker import WAIT, WatchedWorker

pytestmark = pytest.mark.one_database("sqlite")


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with_port = WebhookReceiver()
    with_port.start()
    yield with_port
    with_port.stop()


class CountingOutbox(Outbox):
    """A real outbox that counts the recorded attempts."""

    recorded = 0

    def record_sent(self, message: OutboxEntry) -> None:
        super().record_sent(message)
        self.recorded += 1

    def record_failure(self, message: OutboxEntry, error: str, **how: Any) -> timedelta | None:
        wait = super().record_failure(message, error, **how)
        self.recorded += 1
        return wait

    def release(self, message: OutboxEntry, reason: str) -> None:
        super().release(message, reason)
        self.recorded += 1

    def drop(self, message: OutboxEntry, reason: str) -> None:
        super().drop(message, reason)
        self.recorded += 1


class WebhookHarness:
    """A webhook's queue and its delivery, on whatever database is open."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self._database = database
        self._clock = clock
        self.outbox = CountingOutbox(clock, "webhook", WEBHOOK_RETRY_POLICY)
        self.webhook = WebhookQueue(self.outbox, "en", clock, hooks=[WebhookSection("https://hooks.example.org")])

    def transport(self, url: str, secret: str = "", *, allows_private: bool = True) -> WebhookTransport:
        config = WebhookSection(url, secret, allows_private)
        return WebhookTransport([config], load_translations(), "Example Craft", "", self._clock)

    @asynccontextmanager
    async def delivering(self, transport: Transport) -> AsyncIterator["WatchedWorker"]:
        """Runs until the block ends, and has finished the attempts under way when it returns."""
        worker = WatchedWorker(self._database)
        delivery = DeliveryWorker(
            worker,
            self.outbox,
            transport,
            first_pause=timedelta(milliseconds=20),
            shutdown_timeout=timedelta(seconds=1),
        )
        worker.wake = delivery.wake
        running = asyncio.create_task(delivery.run())
        try:
            yield worker
        finally:
            delivery.stop()
            async with asyncio.timeout(WAIT):
                await running
            await asyncio.to_thread(worker.close)

    def attempt(self, transport: Transport) -> OutboxEntry:
        """Makes one attempt at what is due; returns the only entry afterwards."""
        before = self.outbox.recorded

        async def story() -> None:
            async with self.delivering(transport) as worker:
                await worker.until(lambda: self.outbox.recorded > before)

        asyncio.run(story())
        return entry()


@pytest.fixture
def store(our_database: Database, clock: ManualClock) -> WebhookHarness:
    return WebhookHarness(our_database, clock)


def entry() -> OutboxEntry:
    """The only entry of the outbox."""
    [only] = OutboxEntry.select()
    return only


# --- what is posted ---


def test_an_event_is_posted_for_people_and_for_programs(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock
) -> None:
    store.webhook.enqueue("rejected", "Alice", "rejected", "too young")
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    [call] = receiver.calls
    assert call.path == PATH
    assert call.headers["content-type"] == "application/json"
    assert call.headers["user-agent"].startswith("companion/")
    delivery = call.headers["webhook-id"]
    assert call.json == {
        "content": "**Alice** was rejected.",
        "embeds": [{"description": "too young"}],
        "allowed_mentions": {"parse": []},
        "companion": {
            "server": "Example Craft",
            "event": "rejected",
            "delivery": delivery,
            "username": "Alice",
            "status": "rejected",
            "reason": "too young",
            "at": round(clock().timestamp() * 1000),
        },
    }


def test_a_built_in_reason_is_posted_in_words_and_as_its_code(store: WebhookHarness, receiver: WebhookReceiver) -> None:
    store.webhook.enqueue("rejected", "Alice", "rejected", "reject.has_account")
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    [call] = receiver.calls
    event = call.json["companion"]
    assert (event["reason"], event["reasonCode"]) == ("You already have an account here.", "reject.has_account")
    assert call.json["embeds"] == [{"description": r"You already have an account here\."}]


def test_no_name_and_no_reason_can_ping_format_or_link(store: WebhookHarness, receiver: WebhookReceiver) -> None:
    """R34"""
    nasty = "@everyone <@80351110224678912> **_`~|\u202e\x1b[1m\r\n# https://evil.example [x](y)"
    store.webhook.enqueue("banned", nasty, "banned", nasty + "x" * 5000)
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    message = receiver.calls[0].json
    shown = message["embeds"][0]["description"]
    assert message["allowed_mentions"] == {"parse": []}
    assert message["content"].startswith(r"**\@everyone \<\@80351110224678912\> \*\*\_\`\~\|\[1m \# https\:\/\/evil")
    assert shown.startswith(
        r"\@everyone \<\@80351110224678912\> \*\*\_\`\~\|\[1m \# https\:\/\/evil\.example \[x\]\(y\)"
    )
    assert len(shown) <= 4096
    assert len(message["content"]) <= 2000
    assert message["companion"]["username"] == nasty, "programs get what it is"


def test_it_speaks_the_hosts_language(store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock) -> None:
    hooks = [WebhookSection("https://hooks.example.org")]
    WebhookQueue(store.outbox, "zh", clock, hooks=hooks).enqueue("approved", "Alice", "approved")
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    assert receiver.calls[0].json["content"] == "**Alice** 已通过审核。"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("a secret as people write it: ä", "a secret as people write it: ä".encode()),
        (f"whsec_{base64.b64encode(bytes(range(32))).decode()}", bytes(range(32))),
    ],
    ids=["text", "whsec"],
)
def test_a_call_is_signed(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, secret: str, key: bytes
) -> None:
    store.webhook.enqueue("registered", "Алиса", "pending")
    assert store.attempt(store.transport(receiver.url, secret)).outcome == "sent"
    [call] = receiver.calls
    assert call.headers["webhook-timestamp"] == str(int(clock().timestamp()))
    assert call.is_signed_with(key)
    assert not call.is_signed_with(key + b"x")


def test_without_a_secret_nothing_is_signed(store: WebhookHarness, receiver: WebhookReceiver) -> None:
    store.webhook.enqueue("registered", "Alice", "pending")
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    assert "webhook-signature" not in receiver.calls[0].headers


# --- when it is difficult ---


@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429])
def test_what_comes_again_is_tried_again_with_the_same_id(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, status: int
) -> None:
    """R42"""
    receiver.answer(Answer(status))
    store.webhook.enqueue("approved", "Alice", "approved")
    transport = store.transport(receiver.url, "secret")
    waiting = store.attempt(transport)
    assert str(waiting.last_error).startswith(f"HTTP {status} ")
    assert timedelta(seconds=0.8) <= waiting.next_attempt_at - clock() <= timedelta(seconds=1.2)
    clock.advance(seconds=2)
    assert store.attempt(transport).outcome == "sent"
    first, second = receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert second.is_signed_with(b"secret")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("120", 120),
        ("0.5", 1),
        ("1000000", 3600),
        ("Sun, 04 May 2031 12:10:00 GMT", 600),
        ("Sun, 04 May 2031 12:10:00 +99999999999999", 1),
        ("soon", 1),
        ("-5", 1),
    ],
)
def test_who_asks_to_be_left_alone_is(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, written: str, seconds: int
) -> None:
    receiver.answer(Answer(429, {"Retry-After": written}))
    store.webhook.enqueue("approved", "Alice", "approved")
    wait = (store.attempt(store.transport(receiver.url)).next_attempt_at - clock()).total_seconds()
    assert wait == pytest.approx(seconds, rel=0.2)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 301, 307])
def test_a_refusal_is_believed_the_third_time(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, status: int
) -> None:
    """Discord replies 404 for a deleted webhook; redirects are not followed."""
    receiver.always_answer(Answer(status, {"Location": f"{receiver.url}/elsewhere"}))
    store.webhook.enqueue("approved", "Alice", "approved")
    for usual in (None, None, "failed"):
        assert store.attempt(store.transport(receiver.url)).outcome == usual
        clock.advance(minutes=1)
    assert [call.path for call in receiver.calls] == [PATH] * 3
    assert str(status) in str(entry().last_error)


@pytest.mark.every_database
async def test_a_receiver_that_is_away_for_an_hour_gets_everything_in_order(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """R42"""
    caplog.set_level(logging.INFO, "regsvc")
    receiver.stop()
    names = [f"Player{number}" for number in range(4)]
    for name in names:
        store.webhook.enqueue("registered", name, "pending")
    async with store.delivering(store.transport(receiver.url)) as worker:
        await worker.until(lambda: OutboxEntry.get().last_error is not None)
        clock.advance(hours=1)
        receiver.start()
        worker.wake()
        await worker.until(lambda: store.outbox.backlog().count == 0)
    assert [call.event for call in receiver.calls] == [("registered", name) for name in names]
    assert {row.attempts for row in OutboxEntry.select()} == {1}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_after_a_day_it_is_given_up_and_seen(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.stop()
    store.webhook.enqueue("registered", "Alice", "pending")
    clock.advance(days=1)
    store.webhook.enqueue("registered", "Bob", "pending")
    async with store.delivering(store.transport(receiver.url)) as worker:
        await worker.until(lambda: OutboxEntry.get().outcome == "failed")
    alices, bobs = OutboxEntry.select().order_by(OutboxEntry.id)
    assert (alices.outcome, bobs.outcome) == ("failed", None)
    assert "ConnectionRefusedError" in str(alices.last_error)
    assert "given up after" in caplog.text


def test_a_receiver_that_never_answers_is_left_alone_after_a_while(
    store: WebhookHarness, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regsvc.notifications.webhook._TIMEOUT", timedelta(milliseconds=300))
    receiver.hold()
    store.webhook.enqueue("registered", "Alice", "pending")
    waiting = store.attempt(store.transport(receiver.url))
    assert (waiting.outcome, waiting.last_error) == (None, "it took too long to answer")


def test_a_head_without_end_is_no_answer(
    store: WebhookHarness, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer(Answer(200, {"X-Much": "x" * 200_000}))
    store.webhook.enqueue("registered", "Alice", "pending")
    waiting = store.attempt(store.transport(receiver.url))
    assert (waiting.outcome, waiting.last_error) == (None, "UnsatisfiableReadError")
    assert "bug" not in caplog.text


def test_the_status_decides_however_long_the_answer_is(store: WebhookHarness, receiver: WebhookReceiver) -> None:
    receiver.answer(Answer(200, body=b"x" * 10_000_000))
    store.webhook.enqueue("registered", "Alice", "pending")
    assert store.attempt(store.transport(receiver.url)).outcome == "sent"
    assert len(receiver.calls) == 1


def test_a_receiver_with_a_foreign_certificate_gets_nothing(
    store: WebhookHarness, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    impostor = WebhookReceiver(certificate.server_context())
    impostor.start()
    store.webhook.enqueue("registered", "Alice", "pending")
    waiting = store.attempt(store.transport(impostor.url))
    impostor.stop()
    assert impostor.calls == []
    assert waiting.last_error == "its certificate is not valid: self-signed certificate"


def test_what_was_promised_before_it_was_switched_off_is_dropped(store: WebhookHarness) -> None:
    store.webhook.enqueue("registered", "Alice", "pending")
    assert store.attempt(store.transport("")).outcome == "dropped"


def test_the_address_stands_nowhere(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """R23: anyone who knows the URL can post there."""
    caplog.set_level(logging.DEBUG)
    receiver.answer(Answer(500, body=receiver.url.encode()), Answer(301, {"Location": receiver.url}), Answer(200))
    transport = store.transport(receiver.url)
    store.webhook.enqueue("registered", "Alice", "pending")
    for _attempt in range(2):
        store.attempt(transport)
        clock.advance(minutes=1)
    receiver.stop()
    store.attempt(transport)
    seen = caplog.text + repr(list(OutboxEntry.select().dicts())) + repr(transport)
    assert "a-secret-token" not in seen
    assert str(receiver.port) not in seen


# --- Private addresses ---


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.0.0.1"])
def test_a_private_address_is_refused(
    store: WebhookHarness, receiver: WebhookReceiver, clock: ManualClock, host: str
) -> None:
    store.webhook.enqueue("registered", "Alice", "pending")
    transport = store.transport(f"http://{host}:{receiver.port}{PATH}", allows_private=False)
    for usual in (None, None, "failed"):
        assert store.attempt(transport).outcome == usual
        clock.advance(minutes=1)
    assert receiver.calls == []
    assert entry().last_error == "it leads to no public address; see webhook.allow_private"


def test_a_name_is_looked_up_once_so_that_what_was_judged_is_what_is_used(
    store: WebhookHarness, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may resolve to a public address first and a private one next; 127.0.0.2 stands for the public one."""
    lookups: list[str] = []
    really_look_up = socket.getaddrinfo

    def look_up(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if host != "rebinding.example":
            return really_look_up(host, port, *args, **kwargs)
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{3 - len(lookups)}", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("regsvc.core.http_client.is_public", lambda address: address == "127.0.0.2")
    store.webhook.enqueue("registered", "Alice", "pending")
    waiting = store.attempt(store.transport(f"http://rebinding.example:{receiver.port}{PATH}", allows_private=False))
    assert "ConnectionRefusedError" in str(waiting.last_error)
    assert lookups == ["rebinding.example"]
    assert receiver.calls == []
