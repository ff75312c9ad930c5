"""What is kept of the team's chats, and for how long; on both kinds of database."""

import asyncio
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey
from peewee import OperationalError

from regsvc.app.app import App
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.config.host_sections import TeamChat
from regsvc.core.email_address import parse_email
from regsvc.core.errors import ChatCodeInvalid, InternalServerError, RateLimited, Unauthorized
from regsvc.database.audit import Actor
from regsvc.database.models import Invitation, OutboxEntry, Reader, TeamChatEvent, TeamChatLink, TeamChatMessage
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import Submitter
from regsvc.registration.registration import RegistrationRequest
from regsvc.team_chat.decisions import ChatReceiver, Click, Person, TeamDecisions
from regsvc.team_chat.discord import Discord, DiscordInteractions
from regsvc.team_chat.messages import MessageRenderer, TeamChatQueue
from regsvc.team_chat.onebot import _UNCONNECTED_PAUSE
from tests.support.manual_clock import ManualClock
from tests.support.peers.telegram import GROUP, TOKEN, Telegram, callbacks
from tests.support.questions import asking
from tests.support.services import CALLER, OLIVIA, PASSWORD, MakeServices, ServiceHarness
from tests.support.watching import ask_until

pytestmark = pytest.mark.every_database


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services()


def test_messages_about_which_nothing_is_to_be_decided_are_forgotten(
    services: ServiceHarness, clock: ManualClock
) -> None:
    user = services.approved("Alice")
    for chat, is_open in (("discord:1", True), ("discord:2", False)):
        TeamChatMessage.create(
            chat=chat,
            user_id=user.id,
            username_key="alice",
            remote_id="1",
            shown="",
            version="",
            is_open=is_open,
            changed_at=clock(),
        )
    TeamChatEvent.create(id="discord:1", received_at=clock())
    clock.advance(minutes=16)
    services.app.notes.read("Alice", Actor("Olivia"))
    services.app.invitations.create(1, timedelta(days=1), (), Actor("cli:root"), None)
    clock.advance(minutes=1)
    services.app.worker.run_here(services.app.purge_expired)
    assert (Reader.select().count(), Invitation.select().count()) == (0, 1)
    assert (TeamChatEvent.select().count(), TeamChatMessage.select().count()) == (0, 2)
    clock.advance(days=31)
    services.app.worker.run_here(services.app.purge_expired)
    assert [row.chat for row in TeamChatMessage.select()] == ["discord:1"]
    clock.advance(days=731)
    services.app.worker.run_here(services.app.purge_expired)
    assert Invitation.select().count() == 0


def make_decisions(services: ServiceHarness, clock: ManualClock) -> TeamDecisions:
    app = services.app
    renderer = MessageRenderer(app.users, app.questionnaire_results.find_of, app.translations, "")
    return TeamDecisions(
        app.team_accounts, app.team, app.decisions, renderer, app.team_chat_queue, clock, app.membership_changes
    )


def make_receiver(services: ServiceHarness, count: Callable[[str, str], None]) -> ChatReceiver:
    app = services.app
    renderer = MessageRenderer(app.users, app.questionnaire_results.find_of, app.translations, "")
    told = app.team_chat_queue, services.clock, app.membership_changes
    decisions = TeamDecisions(app.team_accounts, app.team, app.decisions, renderer, *told)
    return ChatReceiver(decisions, app.worker, app.translations, lambda: None, count, services.clock)


def test_a_click_that_lost_a_race_is_done_once(services: ServiceHarness) -> None:
    """The worker repeats it, by when it is remembered as received."""
    run, tried = make_receiver(services, lambda *_: None).run, list[int]()

    def decide() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise OperationalError("database is locked")
        return "done"

    assert asyncio.run(run("discord", "7", decide)) == "done"
    with pytest.raises(Unauthorized):
        asyncio.run(run("discord", "7", decide))
    assert len(tried) == 2


def test_a_bug_is_logged_counted_and_told(services: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    counted = list[tuple[str, str]]()
    receiver = make_receiver(services, lambda *what: counted.append(what))

    def fail() -> None:
        raise KeyError("something secret")

    with pytest.raises(InternalServerError) as raised:
        asyncio.run(receiver.run("telegram", "666:7", fail))
    assert "report this number to the administrator: 666:7" in receiver.translations.refusal(raised.value, "en")
    assert counted == [("telegram", "internal")]
    assert "telegram: what it sent as 666:7 failed: KeyError at" in caplog.text
    assert "secret" not in caplog.text


def test_a_signal_names_nobody_where_names_are_not_told(services: ServiceHarness) -> None:
    """Of an earlier ban the name is the applicant's own."""
    services.approved("Alice")
    for transition in ("ban", "delete"):
        services.decide(transition, "Alice")
    services.register("Alice")
    app, alice = services.app, services.user("Alice")
    renderer = MessageRenderer(app.users, app.questionnaire_results.find_of, app.translations, "")
    shown = {}
    for tells in (("name", "signals"), ("signals",)):
        platform = Discord(TeamChat(platform="discord", channel="1", tells=tells), "")
        content = renderer.render(alice, 1, platform, "en")
        text = " ".join((content.title, *content.lines))
        assert "banned" in text
        shown[tells] = "Alice" in text
    assert list(shown.values()) == [True, False]


def test_an_answer_names_nobody_where_names_are_not_told(services: ServiceHarness, clock: ManualClock) -> None:
    """All of a group read on Telegram and QQ what a command or a reply is answered."""
    decisions, rita = make_decisions(services, clock), Person("telegram", "Telegram", "61", "rita")
    member = services.approved("Rita")
    services.app.team_roles.give("Rita", "reviewer", OLIVIA)
    decisions.link(rita, decisions.accounts.issue_code(member.id))
    services.register("Alice")
    alice, said = services.user("Alice"), list[str]()
    for tells in (("name", "score"), ("score",)):
        chat = TeamChat(platform="telegram", channel="1", tells=tells)
        TeamChatMessage.delete().execute()
        version = decisions.renderer.version_of(alice)
        columns = {"user_id": alice.id, "username_key": "alice", "shown": "", "version": version}
        row = TeamChatMessage.create(chat=chat.name, is_open=True, changed_at=clock(), **columns)
        click = Click(chat, rita, "ask", row.id, text=f"Who is Bob, {len(said)}?")
        said += [name.replace(str(row.id), "83") for name in (decisions.check(click), decisions.decide(click)[1])]
    assert said == ["Alice", "Alice", "#83", "#83"]


def test_what_waits_for_a_connection_is_hastened_and_what_is_being_sent_is_left(
    services: ServiceHarness, clock: ManualClock
) -> None:
    """To send an entry may take calls of twenty seconds each: a message that is closed, a new one, those of before."""
    chats = [TeamChat(platform="onebot", token="t", channel=channel) for channel in ("1", "2")]
    queue = TeamChatQueue(chats, "en", clock)
    queue.enqueue("registered", "Alice")
    waiting, being_sent = queue.outbox.claim_due(2)
    clock.advance(seconds=5 * 20)
    assert queue.outbox.claim_due(2) == []
    queue.outbox.record_failure(waiting, "not connected", retry_after=_UNCONNECTED_PAUSE)
    queue.hasten([chat.name for chat in chats])
    assert [entry.id for entry in queue.outbox.claim_due(2)] == [waiting.id]
    assert being_sent.id != waiting.id


def test_a_code_works_once_and_for_ten_minutes(services: ServiceHarness, clock: ManualClock) -> None:
    accounts, rita = services.app.team_accounts, services.approved("Rita")
    services.app.team_roles.give("Rita", "reviewer", OLIVIA)
    code = accounts.issue_code(rita.id)
    assert accounts.redeem(code, "discord", "61", "rita\u202e") == "Rita"
    for wrong in (code, "ABCDEFGH"):
        with pytest.raises(ChatCodeInvalid):
            accounts.redeem(wrong, "discord", "62", "mallory")
    assert [(it.username, it.account_name) for it in accounts.list_accounts()] == [("Rita", "rita")]
    late = accounts.issue_code(rita.id)
    clock.advance(minutes=11)
    with pytest.raises(ChatCodeInvalid):
        accounts.redeem(late, "telegram", "63", "rita")
    services.app.worker.run_here(services.app.purge_expired)
    assert TeamChatLink.select().count() == 1
    member = accounts.find_member("discord", "61")
    assert member is not None
    accounts.end([it.id for it in accounts.list_open("rita")])
    assert accounts.find_member("discord", "61") is None


@contextmanager
def receiving(app: App, telegram: Telegram) -> Iterator[None]:
    """Let the app deliver to the team's chats, and receive from them, on a thread; at the end Telegram goes away."""
    started, [updates] = threading.Event(), app.team_chat.telegram
    delivery, loops = app.deliveries[-1], list[asyncio.AbstractEventLoop]()

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        started.set()
        await asyncio.gather(delivery.run(), updates.run())
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)  # the connection of a request that was given up

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, run())
        started.wait()
        try:
            yield
        finally:
            for stop in (delivery.stop, updates.stop):
                loops[0].call_soon_threadsafe(stop)
            telegram.go_away()
            running.result()


def test_an_hour_without_telegram(
    make_services: MakeServices, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages follow, as the applications are now; what was clicked meanwhile is too late, and old buttons are."""
    with Telegram() as telegram:
        chat = {"platform": "telegram", "token": TOKEN, "channel": str(GROUP), "api_url": telegram.address}
        services = make_services(team_chat=[chat])
        app, rita = services.app, services.approved("Rita")
        app.team_roles.give("Rita", "reviewer", OLIVIA)

        def told(name: str, part: str) -> int:
            return telegram.wait_for(lambda it: it["text"].startswith(name) and part in it["text"])

        with receiving(app, telegram):
            telegram.write(f"/link {app.team_accounts.issue_code(rita.id)}", 1)
            telegram.wait_for(lambda it: "you decide here as" in it["text"])
            for name in ("Alice", "Bob"):
                services.register(name)
            alice, bob = told("Alice", "wants to join"), told("Bob", "wants to join")
            [approve] = [data for data in callbacks(telegram.messages[alice]) if data.startswith("approve")]
            telegram.go_away()
            services.decide("reject", "Alice", reason="Too young")
            services.register("Carla")
            clicks = [telegram.send_callback(approve, alice, 1), telegram.click(bob, "approve", 1)]
            ask_until(lambda: "no updates are received at the moment" in caplog.text, bool)
            ask_until(lambda: OutboxEntry.select().where(OutboxEntry.last_error.is_null(False)).count(), bool)
            clock.advance(hours=1)
            telegram.come_back()
            app.deliveries[-1].wake()  # not before: an attempt that fails again waits for the clock
            for click in clicks:
                assert telegram.answer_to(click)["text"].startswith("This came too late")
            assert told("Alice", "Rejected by Olivia. Too young") == alice
            assert not callbacks(telegram.messages[alice])
            assert callbacks(telegram.messages[told("Carla", "wants to join")])
            again = telegram.answer_to(telegram.send_callback(approve, alice, 1))["text"]
            assert again == "This cannot be done while the user’s status is rejected."
            assert telegram.answer_to(telegram.click(bob, "approve", 1))["text"] == "You approved Bob."
            told("Bob", "Approved by Rita (Telegram).")
        assert [services.user(name).status for name in ("Alice", "Bob", "Carla")] == ["rejected", "approved", "pending"]


def test_the_team_is_told_that_registration_is_paused(make_services: MakeServices, clock: ManualClock) -> None:
    with Telegram() as telegram:
        chat = {"platform": "telegram", "token": TOKEN, "channel": str(GROUP), "api_url": telegram.address}
        services = make_services(team_chat=[chat], registration__pause_after="3 days")
        services.register("Alice")
        clock.advance(days=3)
        with receiving(services.app, telegram):
            for _look in range(2):
                services.app.worker.run_here(services.app.follow_database)
            services.app.deliveries[-1].wake()
            telegram.wait_for(lambda it: "applications have waited for too long" in it["text"])
            ask_until(lambda: OutboxEntry.select().where(OutboxEntry.template == "registration_paused"), _are_sent)
    assert len([it for it in telegram.messages.values() if "waited for too long" in it["text"]]) == 1


def _are_sent(rows: Any) -> bool:
    return [row.outcome for row in rows] == ["sent"]


def test_answers_that_change_again_and_again_are_one_update_a_minute(
    make_services: MakeServices, clock: ManualClock, tmp_path: Path
) -> None:
    """The first at once, the last of the others a minute later; nobody else's application waits for it."""
    with Telegram() as telegram:
        chat = {"platform": "telegram", "token": TOKEN, "channel": str(GROUP), "api_url": telegram.address}
        questionnaire = named_keys(asking(tmp_path)["questionnaire"])
        services = make_services(team_chat=[{**chat, "tells": ["name", "answers"]}], **questionnaire)
        app, wake = services.app, services.app.deliveries[-1].wake
        token = apply_with_answers(services, "Alice")

        def change(words: str) -> None:
            answers = {"1": Answer(selected_option_ids=(0,)), "9": Answer(text=words)}
            asyncio.run(app.application_changes.change_answers(token, answers, CALLER))
            wake()

        def told(*parts: str) -> int:
            return telegram.wait_for(lambda it: all(part in it["text"] for part in ("wants to join", *parts)))

        def waiting() -> list[timedelta]:
            rows = OutboxEntry.select().where(OutboxEntry.template == "update", OutboxEntry.done_at.is_null())
            return [row.next_attempt_at - clock() for row in rows]

        with receiving(app, telegram):
            alice = told("Alice")
            change("First words")
            assert told("Alice", "First words") == alice
            ask_until(waiting, lambda rows: rows == [])
            for words in ("Second words", "Third words", "Fourth words"):
                change(words)
                assert waiting() == [timedelta(minutes=1)]
            apply_with_answers(services, "Bob")
            wake()
            told("Bob")
            assert telegram.edits == [alice]
            clock.advance(minutes=1)
            wake()
            assert told("Alice", "Fourth words") == alice
            assert telegram.edits == [alice] * 2
            for number in range(6):
                clock.advance(seconds=59)
                change(f"Words {number}")
            clock.advance(minutes=1)
            wake()
            told("Alice", "Words 5")
            with pytest.raises(RateLimited) as refused:
                change("Too many")
            assert refused.value.retry_after == 3600 - (60 + 6 * 59 + 60)
            services.decide("approve", "Alice")
            wake()
            telegram.wait_for(lambda it: "Approved by Olivia" in it["text"])
            assert not callbacks(telegram.messages[alice])


def named_keys(section: Mapping[str, Any]) -> dict[str, Any]:
    return {f"questionnaire__{name}": value for name, value in section.items()}


def apply_with_answers(services: ServiceHarness, name: str) -> str:
    """Register with a questionnaire that was passed; return the token of the application."""
    app, address = services.app, parse_email(f"{name.lower()}@example.org")
    answers = {"1": Answer(selected_option_ids=(0,)), "7": Answer(selected_option_ids=(0,))}
    passed = asyncio.run(app.questionnaires.submit(answers, Submitter(CALLER)))
    issued = app.codes.find_sendable(app.codes.issue(address.key, "register", CALLER))
    assert issued is not None
    proven, mailed = (name, address.display, CodeOrProof(app.codes.code_of(issued))), (PASSWORD, "java", "en")
    request = RegistrationRequest(*proven, *mailed, questionnaire_token=passed.token)
    return asyncio.run(app.registration.register(request, CALLER)).application_token


def test_an_application_on_discord_decides_in_its_own_channel(services: ServiceHarness, clock: ManualClock) -> None:
    """Two teams have an application and a channel each; whoever runs one cannot decide in the other's."""
    app, rita = services.app, services.approved("Rita")
    app.team_roles.give("Rita", "reviewer", OLIVIA)
    services.register("Alice")
    alice, keys, channels = services.user("Alice"), [SigningKey.generate() for _ in range(2)], ["41", "42"]
    rows = []
    for channel in channels:
        columns = {"user_id": alice.id, "username_key": "alice", "shown": "", "version": "", "remote_id": f"9{channel}"}
        rows.append(TeamChatMessage.create(chat=f"discord:{channel}", is_open=True, changed_at=clock(), **columns))
    receiver = make_receiver(services, lambda *_what: None)
    receiver.decisions.link(Person("discord", "Discord", "61", "rita"), app.team_accounts.issue_code(rita.id))
    chats = [
        TeamChat(platform="discord", token="t", channel=channel, public_key=key.verify_key.encode().hex().upper())
        for channel, key in zip(channels, keys, strict=True)
    ]
    interactions, numbers = DiscordInteractions([Discord(chat, "") for chat in chats], receiver), itertools.count(1)
    version = receiver.decisions.renderer.version_of(alice)

    def click(key: SigningKey, row: TeamChatMessage, channel: str) -> str:
        interaction = {
            "id": str(next(numbers)),
            "application_id": "1",
            "type": 3,
            "channel_id": channel,
            "member": {"user": {"id": "61", "username": "rita"}},
            "message": {"id": row.remote_id},
            "data": {"custom_id": f"approve:{row.id}:{version}"},
        }
        body, timestamp = json.dumps(interaction).encode(), str(int(clock().timestamp()))
        signature = key.sign(timestamp.encode() + body).signature.hex()
        reply = asyncio.run(interactions.receive(signature, timestamp, body))
        said: str = reply["data"]["content"]
        return said

    for key, row, channel in ((keys[1], rows[0], "41"), (keys[0], rows[1], "42"), (keys[0], rows[0], "42")):
        assert click(key, row, channel).startswith("No application that can be decided here")
    assert services.user("Alice").status == "pending"
    assert click(keys[0], rows[0], "41") == "You approved Alice."


def enter(services: ServiceHarness, *tries: tuple[str, str]) -> list[str | BaseException]:
    """Let these accounts enter these codes at the same moment; return the members' names, or the refusals."""
    run, redeem = services.app.worker.run, services.app.team_accounts.redeem

    async def enter_all() -> list[str | BaseException]:
        calls = (run(redeem, code, "telegram", account, "someone") for account, code in tries)
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(enter_all())


def test_codes_that_are_entered_at_the_same_moment(services: ServiceHarness) -> None:
    """An account acts for one member, a code links one account, as if one had been entered after the other."""
    app, users = services.app, [services.approved(name) for name in ("Rita", "Rob")]
    for user in users:
        app.team_roles.give(user.username, "reviewer", OLIVIA)
    for number in range(10):
        codes = [app.team_accounts.issue_code(user.id) for user in users]
        assert enter(services, *((str(number), code) for code in codes)) == ["Rita", "Rob"]
        assert len(app.team_accounts.list_accounts()) == 1
        code, accounts = app.team_accounts.issue_code(users[0].id), (f"{number}a", f"{number}b")
        outcomes = enter(services, *((account, code) for account in accounts))
        assert sorted(map(str, outcomes)) == ["Rita", "chat_code_invalid"]
        linked = app.team_accounts.find_member("telegram", accounts[outcomes.index("Rita")])
        assert linked == users[0]


def test_codes_cannot_be_guessed(services: ServiceHarness, clock: ManualClock) -> None:
    """Five tries in ten minutes for an account; many accounts leave tries to those that have had none."""
    accounts, rita = services.app.team_accounts, services.approved("Rita")
    services.app.team_roles.give("Rita", "reviewer", OLIVIA)
    outcomes = [*enter(services, *[("1", "ABCDEFGH")] * 6), *enter(services, ("1", accounts.issue_code(rita.id)))]
    assert Counter(map(str, outcomes)) == {"chat_code_invalid": 5, "rate_limited": 2}
    for other in range(2, 41):
        for _ in range(5):
            with pytest.raises(ChatCodeInvalid):
                accounts.redeem("ABCDEFGH", "telegram", str(other), "mallory")
    with pytest.raises(ChatCodeInvalid):
        accounts.redeem("ABCDEFGH", "telegram", "41", "mallory")
    with pytest.raises(RateLimited):
        accounts.redeem("ABCDEFGH", "telegram", "41", "mallory")
    assert accounts.redeem(accounts.issue_code(rita.id), "telegram", "42", "rita") == "Rita"
    clock.advance(minutes=11)
    assert accounts.redeem(accounts.issue_code(rita.id), "telegram", "1", "rita") == "Rita"
