"""The webhook of a running daemon: events are posted, also after a crash, and nothing is delayed by it."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from regsvc.database.failpoints import VARIABLE
from tests.support.our_tables import ago, our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.webhook_receiver import Call, WebhookReceiver
from tests.support.questions import TALK, WORDS, applies, asking, token_for
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until, scrape

pytestmark = pytest.mark.one_database("sqlite")

SECRET = "what-the-receiver-knows-too"

MakeTold = Callable[..., Stack]


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    made = WebhookReceiver()
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=["sqlite", "mariadb"])
def make_told(request: pytest.FixtureRequest, tmp_path: Path, receiver: WebhookReceiver) -> Iterator[MakeTold]:
    """Starts a stack whose daemon posts to the receiver; keys of `webhook`, and other sections, may be given."""
    server: MariaDBServer | None = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    stacks: list[Stack] = []

    def make(more: Mapping[str, Mapping[str, Any]] | None = None, /, **webhook: object) -> Stack:
        keys = {"url": receiver.url, "secret": SECRET, "allow_private": True, **webhook}
        environment = {VARIABLE: str(tmp_path / "kill-at")}
        config = {"webhook": keys, **(more or {})}
        stack = Stack(request.param, tmp_path, server, config=config, environment=environment)
        stacks.append(stack.__enter__())
        return stack

    yield make
    for stack in stacks:
        stack.__exit__(None, None, None)


def about(person: Person) -> Callable[[Call], bool]:
    return lambda call: call.payload["username"] == person.name


def events_of(receiver: WebhookReceiver, person: Person, count: int) -> list[str]:
    """The events about a user, once so many calls have arrived."""
    return [call.payload["event"] for call in receiver.wait_for(count, counts=about(person))]


def calls_in_database(stack: Stack) -> list[dict[str, Any]]:
    return our_database(stack).query("SELECT * FROM regsvc_outbox WHERE kind = 'webhook' ORDER BY id")


def let_claims_run_out(stack: Stack) -> None:
    """Lets some time pass in which a dead process reports nothing of what it was delivering."""
    our_database(stack).execute(
        "UPDATE regsvc_outbox SET next_attempt_at = ? WHERE next_attempt_at IS NOT NULL", (ago(seconds=1),)
    )


def ban_until_it_dies(stack: Stack, person: Person) -> None:
    """Rejects a player for one reason after the other: the first commits may be those of a delivery."""
    for reason in range(20):
        try:
            stack.decide("ban", person, reason=str(reason))
        except (OSError, HTTPException):
            break
    stack.daemon.wait_for_end()


def test_a_registration_and_every_decision_is_told_and_signed(make_told: MakeTold, receiver: WebhookReceiver) -> None:
    stack = make_told()
    alice = stack.pending("alice")
    stack.decides("reject", alice, reason="too young")
    stack.decides("approve", alice, silent=True)
    for transition in ("ban", "unban", "delete"):
        stack.decides(transition, alice)
    events = ["registered", "rejected", "approved", "banned", "unbanned", "deleted"]
    assert events_of(receiver, alice, 6) == events
    assert all(call.is_signed_with(SECRET.encode()) for call in receiver.calls)
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == len(receiver.calls)
    assert alice.email not in "".join(call.body.decode() for call in receiver.calls)
    ask_until(lambda: scrape(stack.daemon).of("companion_webhook_calls_total", outcome="sent"), lambda n: n >= 6)


def test_what_else_happens_is_told_with_chat_account_and_page(
    make_told: MakeTold, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    stack = make_told(asking(tmp_path))
    alice = stack.newcomer("alice")
    token = applies(stack, alice, token_for(stack)).json["applicationToken"]
    changed = stack.post("/api/application/answers", {"answers": TALK | WORDS}, headers={"X-Application-Token": token})
    assert changed.status == 200, changed.text
    stack.decides("approve", alice)
    [row] = our_database(stack).query("SELECT id FROM regsvc_user WHERE username = ?", (alice.name,))
    our_database(stack).execute(
        "INSERT INTO regsvc_chat_link"
        " (user_id, claimed_account, platform, account_id, username, discriminator, token_hash, linked_at)"
        " VALUES (?, 'discord:4711', 'discord', '4711', 'alice', '0', 'no token', ?)",
        (row["id"], ago(minutes=1)),
    )
    stack.decides("role", alice, role="reviewer")
    receiver.wait_for(4, counts=about(alice))  # of her account no call can tell once it is deleted
    stack.decides("delete", alice)
    events = ["registered", "answers_changed", "approved", "role_changed", "deleted"]
    assert events_of(receiver, alice, 5) == events
    role, deleted = (call.payload for call in receiver.calls[-2:])
    account = {"platform": "discord", "id": "4711", "username": "alice"}
    assert (role["chatAccount"], deleted["chatAccount"]) == (account, account)
    assert role["adminUrl"].endswith(f"/admin#user?name={alice.name}")
    assert "adminUrl" not in deleted
    assert "chatAccount" not in receiver.calls[0].payload


def test_a_receiver_that_never_answers_holds_up_no_request_and_no_mail(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    stack = make_told()
    receiver.hold()
    alice = stack.pending("alice")
    receiver.wait_for(1)
    stack.decides("reject", alice)
    stack.smtp.wait_for(alice.email, 2)
    receiver.release()
    assert events_of(receiver, alice, 2) == ["registered", "rejected"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_between_the_commit_and_the_call_loses_nothing(
    make_told: MakeTold, receiver: WebhookReceiver, tmp_path: Path, number: int
) -> None:
    """R42: committed events are posted after the restart."""
    stack = make_told()
    alice = stack.pending("alice")
    receiver.wait_for(1)
    ask_until(partial(calls_in_database, stack), lambda calls: calls[-1]["outcome"] == "sent")
    stack.olivia()
    (tmp_path / "kill-at").write_text(f"after commit:{number}", "utf-8")
    ban_until_it_dies(stack, alice)
    (tmp_path / "kill-at").unlink()
    banned = len([call for call in calls_in_database(stack) if call["template"] == "banned"])
    let_claims_run_out(stack)
    stack.daemon.start()
    ask_until(partial(calls_in_database, stack), lambda calls: all(call["outcome"] == "sent" for call in calls))
    deliveries = {call.headers["webhook-id"] for call in receiver.calls if call.payload["event"] == "banned"}
    assert len(deliveries) == banned
    reviews = our_database(stack).query("SELECT COUNT(*) AS n FROM regsvc_review WHERE transition = 'ban'")
    assert int(reviews[0]["n"]) == banned, "an event for each ban that happened, and for none that did not"


def test_a_kill_in_the_middle_of_a_call_repeats_it_with_the_same_id(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    """R42: at least once, and receivers can detect duplicates."""
    stack = make_told()
    receiver.hold()
    stack.pending("alice")
    receiver.wait_for(1)
    stack.daemon.kill()
    receiver.release()
    let_claims_run_out(stack)
    stack.daemon.start()
    first, second = receiver.wait_for(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_each_receiver_gets_its_events_whatever_happens_to_the_other(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    """Two webhooks: the first wants bans alone, and is down; the second, with a key of its own, hears everything."""
    key, gone = "another-secret", WebhookReceiver()  # not started: nobody listens there
    first = {"url": gone.url, "secret": SECRET, "allow_private": True, "events": ["banned"]}
    second = {"url": receiver.url, "secret": key, "allow_private": True}
    stack = make_told({"webhook": [first, second]})
    bob = stack.approved("bob")
    stack.decides("ban", bob)

    assert events_of(receiver, bob, 3) == ["registered", "approved", "banned"]
    assert all(call.is_signed_with(key.encode()) for call in receiver.calls)
    waiting = "SELECT template FROM regsvc_outbox WHERE recipient = ? AND outcome IS NULL"
    assert [row["template"] for row in our_database(stack).query(waiting, ("webhook",))] == ["banned"]
