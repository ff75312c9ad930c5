"""The webhook of a daemon that runs: told what happens, also after a crash, and in nobody's way."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from regsvc.database.failpoints import VARIABLE
from tests.support.mariadb import MariaDBServer
from tests.support.our_tables import ago, our_database
from tests.support.stack import Person, Village
from tests.support.watching import ask_until, scrape
from tests.support.webhook_receiver import Answer, Call, WebhookReceiver

SECRET = "what-the-receiver-knows-too"

MakeTold = Callable[..., Village]


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    made = WebhookReceiver()
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=["sqlite", "mariadb"])
def make_told(request: pytest.FixtureRequest, tmp_path: Path, receiver: WebhookReceiver) -> Iterator[MakeTold]:
    """A village whose daemon tells the receiver; keys of `webhook` may be given."""
    server: MariaDBServer | None = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    villages: list[Village] = []

    def make(**webhook: object) -> Village:
        keys = {"url": receiver.url, "secret": SECRET, "allow_private": True, **webhook}
        environment = {VARIABLE: str(tmp_path / "kill-at")}
        village = Village(request.param, tmp_path, server, config={"webhook": keys}, environment=environment)
        villages.append(village.__enter__())
        return village

    yield make
    for village in villages:
        village.__exit__(None, None, None)


def about(person: Person) -> Callable[[Call], bool]:
    return lambda call: call.told["username"] == person.name


def events_of(receiver: WebhookReceiver, person: Person, count: int) -> list[str]:
    """What was told of somebody, once so many calls came."""
    return [call.told["event"] for call in receiver.wait_for(count, counts=about(person))]


def calls_in_database(village: Village) -> list[dict[str, Any]]:
    return our_database(village).query("SELECT * FROM regsvc_outbox WHERE kind = 'webhook' ORDER BY id")


def let_claims_run_out(village: Village) -> None:
    """Some time passes in which a dead process says nothing of what it was delivering."""
    our_database(village).execute(
        "UPDATE regsvc_outbox SET next_attempt_at = ? WHERE next_attempt_at IS NOT NULL", (ago(seconds=1),)
    )


def ban_until_it_dies(village: Village, person: Person) -> None:
    """For one reason after the other: the first commits may be those of a delivery."""
    for reason in range(20):
        try:
            village.decide("ban", person, reason=str(reason))
        except (OSError, HTTPException):
            break
    village.daemon.wait_for_end()


def is_port_open(village: Village) -> bool:
    try:
        village.get("/health/alive")
    except OSError:
        return False
    return True


def test_a_registration_and_every_decision_is_told_and_signed(make_told: MakeTold, receiver: WebhookReceiver) -> None:
    village = make_told()
    alice = village.pending("alice")
    village.decides("reject", alice, reason="too young")
    village.decides("approve", alice, silent=True)
    for transition in ("ban", "unban", "delete"):
        village.decides(transition, alice)
    events = ["registered", "rejected", "approved", "banned", "unbanned", "deleted"]
    assert events_of(receiver, alice, 6) == events
    assert all(call.is_signed_with(SECRET.encode()) for call in receiver.calls)
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == len(receiver.calls)
    assert alice.email not in "".join(call.body.decode() for call in receiver.calls)
    ask_until(lambda: scrape(village.daemon).of("companion_webhook_calls_total", outcome="sent"), lambda n: n >= 6)


def test_a_receiver_that_is_away_is_in_nobodys_way(make_told: MakeTold, receiver: WebhookReceiver) -> None:
    """R4, R42: mails leave meanwhile, and everything is told in order once it is back."""
    village = make_told()
    receiver.stop()
    alice = village.pending("alice")
    village.decides("reject", alice)
    village.smtp.wait_for(alice.email, 2)
    assert village.daemon.wait_for_log("webhook calls wait, none gets out: ConnectionRefusedError")
    receiver.start()
    assert events_of(receiver, alice, 2) == ["registered", "rejected"]
    assert village.daemon.wait_for_log("webhook calls get out again")


def test_a_receiver_that_never_answers_holds_up_no_request_and_no_mail(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    village = make_told()
    receiver.hold()
    alice = village.pending("alice")
    receiver.wait_for(1)
    village.decides("reject", alice)
    village.smtp.wait_for(alice.email, 2)
    receiver.release()
    assert events_of(receiver, alice, 2) == ["registered", "rejected"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_between_the_commit_and_the_call_loses_nothing(
    make_told: MakeTold, receiver: WebhookReceiver, tmp_path: Path, number: int
) -> None:
    """R42: what was committed is told after the restart."""
    village = make_told()
    alice = village.pending("alice")
    receiver.wait_for(1)
    ask_until(partial(calls_in_database, village), lambda calls: calls[-1]["outcome"] == "sent")
    village.olivia()
    (tmp_path / "kill-at").write_text(f"after commit:{number}", "utf-8")
    ban_until_it_dies(village, alice)
    (tmp_path / "kill-at").unlink()
    banned = len([call for call in calls_in_database(village) if call["template"] == "banned"])
    let_claims_run_out(village)
    village.daemon.start()
    ask_until(partial(calls_in_database, village), lambda calls: all(call["outcome"] == "sent" for call in calls))
    told = {call.headers["webhook-id"] for call in receiver.calls if call.told["event"] == "banned"}
    assert len(told) == banned
    reviews = our_database(village).query("SELECT COUNT(*) AS n FROM regsvc_review WHERE transition = 'ban'")
    assert int(reviews[0]["n"]) == banned, "an event for each ban that happened, and for none that did not"


def test_a_kill_in_the_middle_of_a_call_repeats_it_with_the_same_id(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    """R42: at least once, and whoever gets it twice can tell."""
    village = make_told()
    receiver.hold()
    village.pending("alice")
    receiver.wait_for(1)
    village.daemon.kill()
    receiver.release()
    let_claims_run_out(village)
    village.daemon.start()
    first, second = receiver.wait_for(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_a_stop_lets_the_call_under_way_end(make_told: MakeTold, receiver: WebhookReceiver) -> None:
    village = make_told()
    receiver.hold()
    village.pending("alice")
    receiver.wait_for(1)
    village.daemon.send(signal.SIGTERM)
    ask_until(partial(is_port_open, village), lambda is_open: not is_open)
    receiver.release()
    assert village.daemon.wait_for_end() == 0
    assert [call["outcome"] for call in calls_in_database(village)] == ["sent"]
    assert len(receiver.calls) == 1


def test_a_private_address_is_not_called_unless_the_host_says_so(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    village = make_told(allow_private=False)
    village.pending("alice")
    [call] = ask_until(partial(calls_in_database, village), lambda calls: calls[0]["last_error"] is not None)
    assert call["last_error"] == "it leads to no public address; see webhook.allow_private"
    assert receiver.calls == []
    village.restart_with({"webhook": {"allow_private": True}})
    let_claims_run_out(village)
    receiver.wait_for(1)


def test_the_address_and_the_secret_stand_in_no_log_and_no_table(
    make_told: MakeTold, receiver: WebhookReceiver
) -> None:
    """R23"""
    village = make_told()
    receiver.answer(Answer(500), Answer(404))
    alice = village.pending("alice")
    receiver.wait_for(1)
    ask_until(partial(calls_in_database, village), lambda calls: calls[0]["last_error"] is not None)
    receiver.stop()
    let_claims_run_out(village)
    village.decides("approve", alice)
    village.daemon.stop()
    seen = "\n".join([*village.daemon.log, *village.daemon.output, str(calls_in_database(village))])
    assert "a-secret-token" not in seen
    assert SECRET not in seen


def test_who_is_asked_to_slow_down_goes_on_soon(make_told: MakeTold, receiver: WebhookReceiver) -> None:
    """Chat services take a few calls in a second; a hundred decisions at once must not take hours."""
    village = make_told()
    slow_down = Answer(429, {"Retry-After": "0.1"})
    receiver.answer(Answer(), slow_down, slow_down)
    alice = village.pending("alice")
    village.decides("reject", alice)
    village.decides("approve", alice)
    assert events_of(receiver, alice, 5) == ["registered", "rejected", "rejected", "rejected", "approved"]
