"""Decisions on Telegram, against `telegram-test-api` behind a front that checks every body."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from regsvc.config.host_sections import TeamChat
from regsvc.core import clock
from regsvc.team_chat.telegram import Telegram as TelegramPlatform
from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import companion
from tests.support.our_tables import ago, our_database
from tests.support.peers.telegram import GROUP, TOKEN, Telegram, callbacks
from tests.support.questions import TALK, WORDS, applies, asking, token_for
from tests.support.stack import MakeStack, Person, Stack
from tests.support.watching import ask_until, scrape

OLIVIA, STRANGER, RITA, ALICE, SHUT, READER = 7001, 7002, 7003, 7004, 7005, 7006
DECIDED = "This cannot be done while the user’s status is approved."
JOINER = "\u2060"


KEYS = {"installation_key": "the installation key that all share", "signing_key": "the signing key that all share too"}


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def kind(request: pytest.FixtureRequest) -> DatabaseKind:
    return cast(DatabaseKind, request.param)


@pytest.fixture(scope="module")
def telegram(kind: DatabaseKind) -> Iterator[Telegram]:
    with Telegram() as made:
        yield made


@pytest.fixture(scope="module")
def stack(
    kind: DatabaseKind, make_stack: MakeStack, telegram: Telegram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    chat = {"platform": "telegram", "token": TOKEN, "channel": str(GROUP), "api_url": telegram.address}
    told = {"tells": ["name", "score", "answers", "signals"]}
    questions = asking(tmp_path_factory.mktemp("questions"))
    made = make_stack(kind, config={"team_chat": [{**chat, **told}], "auth": KEYS, **questions})
    link(made, telegram, made.olivia(), OLIVIA)
    yield made
    made.daemon.stop()


def link(stack: Stack, telegram: Telegram, admin_token: str, account: int) -> None:
    """Link an account as its person does: by a code in a private message."""
    code = stack.chat_code(admin_token)
    telegram.write(f"/link {code.lower()}", account)
    telegram.wait_for(lambda it: it["chat_id"] == str(account) and "From now on you decide here as" in it["text"])


def private(telegram: Telegram, account: int, part: str) -> None:
    """Wait for a private message to this person."""
    telegram.wait_for(lambda it: it["chat_id"] == str(account) and part in it["text"])


def new_applicant(stack: Stack, name: str = "alice") -> Person:
    person = stack.newcomer(name)
    reply = applies(stack, person, token_for(stack))
    assert reply.status == 201, reply.text
    return person


def open_message(telegram: Telegram, person: Person) -> int:
    return telegram.wait_for(lambda it: person.name in it["text"] and bool(callbacks(it)))


def said(telegram: Telegram, click: str) -> str:
    text: str = telegram.answer_to(click)["text"]
    return text


def asked_for(telegram: Telegram, verb: str, person: Person) -> int:
    """Return the message that asks for a text about this person."""
    return telegram.wait_for(
        lambda it: (
            "force_reply" in it.get("reply_markup", {}) and person.name in it["text"] and f"\n{verb}:" in it["text"]
        )
    )


def wait_for_text(telegram: Telegram, text: str) -> None:
    telegram.wait_for(lambda it: it["text"] == text)


def give_account(stack: Stack, person: Person, account: int) -> None:
    """Link an account as players do."""
    ours = our_database(stack)
    [row] = ours.query("SELECT id FROM regsvc_user WHERE username = ?", (person.name,))
    ours.execute(
        "INSERT INTO regsvc_chat_link"
        " (user_id, claimed_account, platform, account_id, username, discriminator, token_hash, linked_at)"
        " VALUES (?, ?, 'telegram', ?, 'alice', '0', ?, ?)",
        (row["id"], f"telegram:{account}", str(account), f"no token {account}", ago(minutes=1)),
    )


@pytest.mark.every_database
def test_applied_told_asked_answered_approved_in_chat_and_in_the_game(stack: Stack, telegram: Telegram) -> None:
    alice = stack.newcomer("alice")
    headers = {"X-Application-Token": applies(stack, alice, token_for(stack, TALK | WORDS)).json["applicationToken"]}
    number = open_message(telegram, alice)
    told = telegram.messages[number]
    assert told["chat_id"] == str(GROUP)
    assert f"{alice.name} wants to join." in told["text"]
    assert "50 of" in told["text"]
    assert "I like it." in told["text"]
    assert alice.email not in told["text"]
    assert told["text"].endswith(f"/admin#queue?name={alice.name}")
    give_account(stack, alice, ALICE)

    telegram.click(number, "ask", OLIVIA)
    telegram.reply(asked_for(telegram, "ask", alice), "Who sent you?", OLIVIA)
    wait_for_text(telegram, f"You asked {alice.name}.")
    assert stack.post("/api/application/answer", {"text": "Bob"}, headers=headers).status == 200
    first = number
    number = telegram.wait_for(lambda it: "Answer: Bob" in it["text"] and it is not telegram.messages[first])
    assert not callbacks(telegram.messages[first])

    clicks = [telegram.click(number, "approve", OLIVIA) for _ in range(2)]
    replies = Counter(said(telegram, click) for click in clicks)
    assert replies == {f"You approved {alice.name}.": 1, DECIDED: 1}
    telegram.wait_for(lambda it: it is telegram.messages[number] and "Approved by Olivia (Telegram)." in it["text"])
    assert not callbacks(telegram.messages[number])
    assert stack.authme.login(alice.name, alice.password)
    [audit] = stack.audits(alice, "user.approved")
    assert audit["operator"] == "Olivia (Telegram)"
    private(telegram, ALICE, "your application was approved")
    body = {"currentPassword": alice.password, "newPassword": "a-newer-secret"}
    assert stack.post("/api/user/password", body, token=stack.user_token(alice)).status == 200
    private(telegram, ALICE, "your password was changed (on the website; ")


def test_rejected_by_a_reply(stack: Stack, telegram: Telegram) -> None:
    bob, carla = new_applicant(stack, "bob"), new_applicant(stack, "carla")
    for person, written in ((bob, "Too *young*"), (carla, "-")):
        number = open_message(telegram, person)
        assert said(telegram, telegram.click(number, "reject", OLIVIA)) == ""
        question = asked_for(telegram, "reject", person)
        assert telegram.messages[question]["reply_parameters"]["message_id"] == number
        assert telegram.messages[question]["entities"][0]["user"] == {"id": OLIVIA}
        telegram.reply(question, written, OLIVIA)
        wait_for_text(telegram, f"You rejected {person.name}.")
    telegram.wait_for(lambda it: bob.name in it["text"] and "Rejected by Olivia (Telegram). Too *young*" in it["text"])
    assert stack.user(bob)["reason"] == "Too *young*"
    assert stack.user(carla)["reason"] is None
    stack.decides("reopen", bob)
    assert callbacks(telegram.messages[open_message(telegram, bob)])


def test_what_has_no_effect(stack: Stack, telegram: Telegram) -> None:
    """Strangers, people without the right, other groups, what is late or replayed, and forged forms."""
    alice, rita = new_applicant(stack), new_applicant(stack, "rita")
    stack.decides("approve", rita)
    stack.decides("role", rita, role="reviewer")
    link(stack, telegram, stack.admin_token(rita.name, rita.password), RITA)
    number = open_message(telegram, alice)
    first = telegram.click(number, "reject", RITA)
    question = asked_for(telegram, "reject", alice)
    stack.decides("role", rita, role="none")

    unlinked = telegram.answer_to(telegram.click(number, "approve", STRANGER))
    assert unlinked["show_alert"]
    assert "/link CODE" in unlinked["text"]
    assert "/link CODE" in said(telegram, telegram.click(number, "approve", RITA))
    unknown = "No application that can be decided here belongs to this message."
    assert said(telegram, telegram.click(number, "approve", OLIVIA, chat=-100999)) == unknown
    assert said(telegram, telegram.send_callback("approve:999999:", number, OLIVIA)) == unknown
    assert said(telegram, telegram.send_callback("no such button", number, OLIVIA)) == unknown
    [approve] = [data for data in callbacks(telegram.messages[number]) if data.startswith("approve")]
    assert said(telegram, telegram.send_callback(approve, question, OLIVIA)) == unknown  # under another message
    telegram.reply(question, "no", STRANGER)
    private(telegram, STRANGER, "/link CODE")
    telegram.reply(question, "no", OLIVIA, age=310)
    telegram.wait_for(lambda it: it["chat_id"] == str(GROUP) and it["text"].startswith("This came too late"))
    telegram.reply(number, "reject", OLIVIA)  # a reply to no question
    for _number in range(6):
        telegram.write("/link WRONGCOD", STRANGER)
    private(telegram, STRANGER, "This code is wrong")
    private(telegram, STRANGER, "Too many attempts.")
    telegram.write("/start", STRANGER)

    telegram.answers.clear()
    telegram.replay(lambda update: update.get("callback_query", {}).get("id") == first)
    assert "/link CODE" in said(telegram, telegram.click(number, "approve", STRANGER))  # the replay came before
    assert first not in telegram.answers
    assert [it["action"] for it in stack.audits(alice)] == ["user.registered"]
    assert not our_database(stack).query("SELECT 1 FROM regsvc_team_chat_link WHERE account LIKE ?", (f"%{STRANGER}",))


@pytest.mark.every_database
def test_a_code_in_the_group_is_void(stack: Stack, telegram: Telegram) -> None:
    """Whoever reads it is too late, wherever it was written."""
    for written, group in (("/link {}", GROUP), ("/start@our_bot {}", -100555), ("here is my code: {}!", GROUP)):
        code = stack.chat_code(stack.olivia())
        known = set(telegram.messages)
        telegram.write(written.format(code), OLIVIA, {"id": group, "type": "supergroup"})
        wait_for_new(telegram, known, group, "A code that others can read is void now")
        telegram.write(f"/link {code}", READER)
        wait_for_new(telegram, known, READER, "This code is wrong")
    assert not our_database(stack).query("SELECT 1 FROM regsvc_team_chat_link WHERE account LIKE ?", (f"%{READER}",))


def wait_for_new(telegram: Telegram, known: set[int], chat: int, part: str) -> None:
    """Wait for a message beside those that are known."""
    found = {number: telegram.messages[number] for number in known}
    telegram.wait_for(
        lambda it: (
            str(it["chat_id"]) == str(chat) and part in it["text"] and all(it is not old for old in found.values())
        )
    )


HOSTILE = (
    "@everyone #tag /start https://evil.example tg://resolve?domain=x [CQ:at,qq=all] **b** \u202e\u200fabc\nreject:1:"
)


def test_hostile_texts_look_harmless(stack: Stack, telegram: Telegram) -> None:
    alice = new_applicant(stack)
    open_message(telegram, alice)
    stack.decides("reject", alice, reason=(HOSTILE + "y" * 4000)[:4000])
    number = telegram.wait_for(lambda it: alice.name in it["text"] and "Rejected by Olivia" in it["text"])
    message = telegram.messages[number]
    assert "parse_mode" not in message
    [line] = [line for line in message["text"].splitlines() if "everyone" in line]
    assert not set(line) & set("\u202e\u200f")
    assert not re.search(rf"[@#/.:][^\s{JOINER}]", line)
    assert len(message["text"]) < 1500
    assert not telegram.refused


@pytest.mark.every_database
def test_changed_answers_are_told_before_they_are_decided_about(stack: Stack, telegram: Telegram) -> None:
    alice = stack.newcomer("alice")
    headers = {"X-Application-Token": applies(stack, alice, token_for(stack)).json["applicationToken"]}
    number = open_message(telegram, alice)
    [outdated] = [data for data in callbacks(telegram.messages[number]) if data.startswith("approve")]
    assert stack.post("/api/application/answers", {"answers": TALK | WORDS}, headers=headers).status == 200
    assert said(telegram, telegram.send_callback(outdated, number, OLIVIA)).startswith("The answers have changed")
    telegram.wait_for(lambda it: alice.name in it["text"] and "I like it" in it["text"])
    assert said(telegram, telegram.click(number, "approve", OLIVIA)).startswith("You approved")


def test_limits_and_deleted_messages(stack: Stack, telegram: Telegram) -> None:
    """A limit delays a message, a deleted one is sent anew, and people who take none are left alone."""
    limit = {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": 1}}
    telegram.refusals.append(limit)
    alice = new_applicant(stack)
    number = open_message(telegram, alice)
    del telegram.messages[number]
    give_account(stack, alice, SHUT)
    telegram.closed_doors.add(str(SHUT))
    stack.decides("reject", alice)
    query = "SELECT outcome FROM regsvc_outbox WHERE template = 'told_rejected' AND payload LIKE ?"
    ask_until(lambda: our_database(stack).query(query, (f"%{SHUT}%",)), lambda rows: rows == [{"outcome": "dropped"}])
    stack.decides("reopen", alice)
    assert callbacks(telegram.messages[open_message(telegram, alice)])


def test_clicks_of_a_pause_are_answered_as_too_late(stack: Stack, telegram: Telegram) -> None:
    alice = new_applicant(stack)
    number = open_message(telegram, alice)
    stack.daemon.stop()
    click = telegram.click(number, "approve", OLIVIA)
    stack.daemon.start()
    assert said(telegram, click).startswith("This came too late")
    assert said(telegram, telegram.click(number, "approve", OLIVIA)).startswith("You approved")


@pytest.mark.long
@pytest.mark.one_database("mariadb")
def test_of_two_daemons_one_receives_until_it_dies(stack: Stack, telegram: Telegram, tmp_path: Path) -> None:
    """Nothing is received twice; what nobody received is answered as too late by the other, which decides then."""
    numbers = [open_message(telegram, new_applicant(stack, name)) for name in ("alice", "bob")]
    conflicts, other = telegram.conflicts, stack.make_another_daemon(tmp_path).start()
    try:
        assert said(telegram, telegram.click(numbers[0], "approve", OLIVIA)).startswith("You approved")
        assert telegram.conflicts == conflicts
        stack.daemon.kill()
        click = telegram.click(numbers[1], "approve", OLIVIA)
        lapse = "UPDATE regsvc_lease SET expires_at = ? WHERE name LIKE ?"
        our_database(stack).execute(lapse, (ago(seconds=1), "telegram:%"))
        assert said(telegram, click).startswith("This came too late")
        assert said(telegram, telegram.click(numbers[1], "approve", OLIVIA)).startswith("You approved")
    finally:
        other.stop()
        stack.daemon.start()


@pytest.mark.one_database("sqlite")  # on a server, the mark of a daemon that ended stays for a quarter of an hour
def test_another_program_with_the_same_bot(stack: Stack, telegram: Telegram) -> None:
    """It is left alone for minutes, and told with what to do; nothing else suffers."""
    telegram.begin_conflict()
    assert stack.daemon.wait_for_log("another program receives the updates of this bot: stop it, or make a bot for")
    polls, alice = telegram.polls, new_applicant(stack)
    number = open_message(telegram, alice)
    stack.decides("reject", alice)
    telegram.wait_for(lambda it: it is telegram.messages[number] and "Rejected by Olivia" in it["text"])
    assert telegram.polls == polls
    found = "is also used by another program."
    assert found in companion("doctor", config=stack.daemon.config_file).output
    stack.daemon.stop()
    telegram.is_conflicting = False
    stack.daemon.start()
    telegram.wait_for_polls(2)  # the second one waits
    bob = new_applicant(stack, "bob")
    assert said(telegram, telegram.click(open_message(telegram, bob), "approve", OLIVIA)).startswith("You approved")
    ask_until(lambda: companion("doctor", config=stack.daemon.config_file).output, lambda output: found not in output)


def test_the_host_tries_it(stack: Stack, telegram: Telegram) -> None:
    with ThreadPoolExecutor(1) as pool:
        command = pool.submit(companion, "team-chat", "test", config=stack.daemon.config_file)
        number = telegram.wait_for(lambda it: any(data.startswith("test") for data in callbacks(it)))
        assert said(telegram, telegram.click(number, "test", OLIVIA)).startswith("It works")
        done = command.result()
    assert (done.status, "answered by Olivia" in done.output) == (0, True), done
    assert telegram.messages[number]["text"] == "The test worked: Olivia answered."


def problems(telegram: Telegram, **changes: Any) -> str:
    keys = {"platform": "telegram", "token": TOKEN, "channel": str(GROUP), "api_url": telegram.address, **changes}
    return " | ".join(asyncio.run(TelegramPlatform(TeamChat(**keys), "").find_problems(clock.now())))


def test_what_the_doctor_finds(telegram: Telegram, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(telegram) == ""
    assert problems(telegram, token="666:another") == "Telegram: 401 Unauthorized: check the token (@BotFather, /token)"
    assert "400 Bad Request: chat not found" in problems(telegram, channel="-5")
    monkeypatch.setattr(telegram, "webhook", "https://other.example")
    monkeypatch.setattr(telegram, "member", {"status": "kicked"})
    monkeypatch.setattr(telegram, "group_type", "channel")
    found = problems(telegram)
    assert "another program has set a webhook" in found
    assert "the bot may not write into the group" in found
    assert "channel is no group" in found


def test_no_secret_is_logged_and_all_is_counted(stack: Stack, telegram: Telegram) -> None:
    number = open_message(telegram, new_applicant(stack))
    assert said(telegram, telegram.click(number, "approve", OLIVIA)).startswith("You approved")
    metrics = scrape(stack.daemon)
    assert metrics.of("companion_team_chat_actions_total", platform="telegram", outcome="done") >= 1
    assert TOKEN not in "\n".join(stack.daemon.log)
