"""Decisions on QQ, against an implementation of OneBot v11 that NoneBot's adapter accepts as real."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from regsvc.config.host_sections import TeamChat
from regsvc.core import clock
from regsvc.notifications.delivery import TemporaryFailure
from regsvc.team_chat.onebot import OneBot as OneBotPlatform
from regsvc.team_chat.onebot import OneBotConnection, OneBotConnections
from regsvc.team_chat.platform import MessageContent
from tests.support.command_line import companion
from tests.support.our_tables import our_database
from tests.support.peers.onebot import ACCOUNT, GROUP, TOKEN, OneBot
from tests.support.questions import TALK, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.watching import ask_until, scrape

OLIVIA, STRANGER, RITA, READER, GUESSER = 7001, 7002, 7003, 7008, 7009
DECIDED = "This cannot be done while the user’s status is approved."
JOINER = "\u2060"


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def stack(request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    chat = {"platform": "onebot", "token": TOKEN, "channel": str(GROUP), "tells": ["name", "answers"]}
    return make_stack(request.param, config={"team_chat": [chat], **asking(tmp_path_factory.mktemp("questions"))})


@pytest.fixture(scope="module")
def onebot(stack: Stack) -> Iterator[OneBot]:
    with OneBot(lambda: stack.daemon.port) as made:
        made.connect()
        link(stack, made, stack.olivia(), OLIVIA)
        yield made


def link(stack: Stack, onebot: OneBot, admin_token: str, account: int) -> None:
    code = stack.chat_code(admin_token)
    before = onebot.say(f"/link {code.lower()}", account, group=None)
    onebot.wait_for("From now on you decide here as", recipient=account, after=before)


def new_applicant(stack: Stack, name: str = "alice") -> Person:
    person = stack.newcomer(name)
    reply = applies(stack, person, token_for(stack))
    assert reply.status == 201, reply.text
    return person


def told_about(stack: Stack, onebot: OneBot, person: Person, part: str = "") -> tuple[int, int]:
    """Return the index of the message about an applicant, and the number that commands name.

    Waits until it is known to have been sent: a person reads for longer than that takes.
    """
    index = onebot.wait_for(f"{person.name} wants to join.", part)
    found = re.search(r"approve (\d+)", onebot.sent[index][2])
    assert found is not None, onebot.sent[index]
    number, query = int(found[1]), "SELECT remote_id FROM regsvc_team_chat_message WHERE id = ?"

    def find_known() -> int:
        [row] = our_database(stack).query(query, (number,))
        known = onebot.ids.index(row["remote_id"]) if row["remote_id"] in onebot.ids else -1
        return known if part in onebot.sent[known][2] else -1

    return ask_until(find_known, lambda known: known >= 0), number


@pytest.mark.every_database
def test_applied_told_asked_answered_approved_and_in_the_game(stack: Stack, onebot: OneBot) -> None:
    alice = stack.newcomer("alice")
    headers = {"X-Application-Token": applies(stack, alice, token_for(stack, TALK | WORDS)).json["applicationToken"]}
    index, number = told_about(stack, onebot, alice)
    text = onebot.sent[index][2]
    assert "I like it." in text
    assert f"approve {number} · reject {number} reason · ask {number} question" in text
    assert alice.email not in text

    before = onebot.say(f"提问 {number} Who sent you?", OLIVIA)
    onebot.wait_for(f"You asked {alice.name}.", after=before)
    answered = stack.post("/api/application/answer", {"text": "Bob"}, headers=headers)
    assert answered.status == 200, answered.text
    index, number = told_about(stack, onebot, alice, "Bob")

    reply = [{"type": "reply", "data": {"id": onebot.ids[index]}}, {"type": "text", "data": {"text": " 通过"}}]
    before = onebot.say(reply, OLIVIA)
    onebot.say(f"approve {number}", OLIVIA)
    onebot.wait_for(f"You approved {alice.name}.", after=before)
    onebot.wait_for(DECIDED, after=before)
    closed = onebot.wait_for("Approved by Olivia (QQ).", after=before)
    assert onebot.sent[closed][3] == onebot.ids[index]
    assert stack.authme.login(alice.name, alice.password)
    [audit] = stack.audits(alice, "user.approved")
    assert audit["operator"] == "Olivia (QQ)"


def test_forms_of_messages_and_words_of_languages(stack: Stack, onebot: OneBot) -> None:
    for written in ("拒绝{n} 太年轻", "Ablehnen {n} 太年轻", "[CQ:at,qq=1] /reject #{n} 太年轻&#91;&#93;"):
        bob = new_applicant(stack, "bob")
        number = told_about(stack, onebot, bob)[1]
        message = written.format(n=number)
        is_codes = "[CQ" in written
        ids: dict[str, Any] = {"user_id": str(OLIVIA), "group_id": str(GROUP)} if is_codes else {}
        before = onebot.say(message, OLIVIA, is_codes=is_codes, **ids)
        onebot.wait_for(f"You rejected {bob.name}.", after=before)
        assert stack.user(bob)["reason"] == ("太年轻[]" if is_codes else "太年轻")


def test_what_has_no_effect(stack: Stack, onebot: OneBot) -> None:
    alice, rita = new_applicant(stack), new_applicant(stack, "rita")
    stack.decides("approve", rita)
    stack.decides("role", rita, role="reviewer")
    link(stack, onebot, stack.admin_token(rita.name, rita.password), RITA)
    stack.decides("role", rita, role="none")
    index, number = told_about(stack, onebot, alice)
    command = f"approve {number}"
    for person in (STRANGER, RITA):
        before = onebot.say(command, person)
        onebot.wait_for("/link CODE", recipient=person, after=before)
    before = onebot.say(command, OLIVIA, time=int(time.time()) - 310)
    onebot.wait_for("This came too late", after=before)
    before = onebot.say("approve 999999", OLIVIA, message_id=555)
    onebot.wait_for("No application that can be decided here", after=before)
    before = onebot.say(command, OLIVIA, message_id=555)  # replayed
    for group in (None, 30001):
        onebot.say(command, OLIVIA, group=group)
    onebot.say(command, ACCOUNT)
    onebot.say(command, OLIVIA, self_id=ACCOUNT + 1)
    onebot.say([{"type": "reply", "data": {"id": "1000"}}, {"type": "text", "data": {"text": "approve"}}], OLIVIA)
    onebot.say(f"approve of this {number}", OLIVIA)
    answered = {"type": "reply", "data": {"id": onebot.ids[index]}}
    onebot.say([answered, {"type": "text", "data": {"text": "approve or wait?"}}], OLIVIA)
    onebot.say("/link WRONGCOD", STRANGER, group=None)
    onebot.wait_for("This code is wrong", recipient=STRANGER, after=before)
    assert {it[0] for it in onebot.sent[before:]} == {"send_private_msg"}
    assert [it["action"] for it in stack.audits(alice)] == ["user.registered"]


@pytest.mark.every_database
def test_one_applicant_does_not_flood_the_group(stack: Stack, onebot: OneBot) -> None:
    """Forty changes from forty networks: ten are taken, and the group reads the last of them at most once a minute."""
    mallory = stack.newcomer("mallory")
    token = applies(stack, mallory, token_for(stack)).json["applicationToken"]
    told_about(stack, onebot, mallory)
    before, replies = len(onebot.sent), []
    for number in range(40):
        answers = TALK | {"9": {"type": "text", "textAnswer": f"Flood {number}"}}
        headers = {"X-Application-Token": token, "X-Forwarded-For": f"2001:db8:{number:x}::1"}
        replies.append(stack.post("/api/application/answers", {"answers": answers}, headers=headers))
    assert [reply.status for reply in replies] == [200] * 10 + [429] * 30
    assert_refused(replies[-1], 429, "rate_limited")
    assert 3500 < int(replies[-1].headers["Retry-After"]) <= 3600
    stack.decides("reject", mallory)
    onebot.wait_for("Rejected by Olivia.", after=before)
    about_mallory = [text for _action, _to, text, _replied in onebot.sent[before:] if mallory.name in text]
    assert [text for text in about_mallory if "Rejected" not in text][1:] == []


@pytest.mark.every_database
def test_a_code_in_the_group_is_void(stack: Stack, onebot: OneBot) -> None:
    """Whoever reads it is too late; the group is told, however it was written, and guesses are answered five times."""
    for written in ("/link {}", "my code is {}, right?", "我的代码{}", "reject 1 {}"):
        code = stack.chat_code(stack.olivia())
        before = onebot.say(written.format(code.lower()), OLIVIA, group=30001 if written == "/link {}" else GROUP)
        onebot.wait_for("is void now", recipient=30001 if written == "/link {}" else GROUP, after=before)
        before = onebot.say(f"/link {code}", READER, group=None)
        onebot.wait_for("This code is wrong", recipient=READER, after=before)
    assert not our_database(stack).query("SELECT 1 FROM regsvc_team_chat_link WHERE account LIKE ?", (f"%{READER}",))
    before = len(onebot.sent)
    for _try in range(5):
        said = onebot.say("/link WRONGCOD", GUESSER)
        onebot.wait_for("is void now", after=said)
    onebot.say("/link WRONGCOD", GUESSER)
    onebot.say("/link WRONGCOD", GUESSER, group=None)
    onebot.wait_for("Too many attempts.", recipient=GUESSER, after=before)
    assert [to for _action, to, _text, _replied in onebot.sent[before:]] == [str(GROUP)] * 5 + [str(GUESSER)]


def test_connections_need_the_token(stack: Stack, onebot: OneBot) -> None:
    """In the query as well, which is not logged; whoever has it reads what the doctor reads."""
    with OneBot(lambda: stack.daemon.port) as other:
        for in_query in (False, True):
            with pytest.raises(HTTPClientError, match="401"):
                other.connect(token="another", in_query=in_query)
    assert stack.get("/api/team-chat/onebot").status == 401
    assert stack.daemon.wait_for_log("a connection with a wrong access token was refused")
    onebot.disconnect()
    onebot.connect(in_query=True)
    assert "no-such-group" not in problems(stack)


def problems(stack: Stack, **changes: str) -> str:
    keys = {"platform": "onebot", "token": TOKEN, "channel": str(GROUP), **changes}
    found = OneBotPlatform(TeamChat(**keys), f"http://127.0.0.1:{stack.daemon.port}").find_problems(clock.now())  # type: ignore[arg-type]
    return " | ".join(asyncio.run(found))


def test_what_the_doctor_finds(stack: Stack, onebot: OneBot) -> None:
    ask_until(lambda: problems(stack), lambda found: found == "")
    assert "HTTP 401 Unauthorized" in problems(stack, token="another")
    assert "restart the companion" in problems(stack, channel="5")
    onebot.disconnect()
    ask_until(lambda: problems(stack), lambda found: "no OneBot implementation is connected" in found)
    onebot.member["shut_up_timestamp"] = int(time.time()) + 600
    onebot.connect()
    ask_until(lambda: problems(stack), lambda found: f"the account {ACCOUNT} is muted there" in found)
    onebot.member["shut_up_timestamp"] = 0


DORA = 7004


def link_player(stack: Stack, person: Person, account: int) -> None:
    """Link an account on QQ to a player, as a browser does."""
    columns = {"platform": "onebot", "account_id": str(account), "claimed_account": f"onebot:{account}"}
    texts = {**columns, "username": person.name, "discriminator": "0", "token_hash": str(account)}
    marks = ", ".join("?" * len(texts))
    found = f"SELECT id, '2026-01-01 00:00:00.000', {marks} FROM regsvc_user WHERE username = ?"
    into = f"INSERT INTO regsvc_chat_link (user_id, linked_at, {', '.join(texts)}) {found}"
    our_database(stack).execute(into, (*texts.values(), person.name))


@pytest.mark.every_database
def test_messages_wait_for_a_connection_and_are_sent_once(stack: Stack, onebot: OneBot) -> None:
    dora = new_applicant(stack, "dora")
    told_about(stack, onebot, dora)
    link_player(stack, dora, DORA)
    onebot.disconnect()
    before, people = len(onebot.sent), [new_applicant(stack, name) for name in ("alice", "bob", "carla")]
    stack.decides("approve", dora)
    query = "SELECT COUNT(DISTINCT recipient_key) AS n FROM regsvc_outbox WHERE last_error LIKE ? AND outcome IS NULL"
    problem = "OneBot: no implementation%"
    ask_until(lambda: our_database(stack).query(query, (problem,))[0]["n"], lambda count: count == 2)
    onebot.connect()
    onebot.wait_for("approved", recipient=DORA, after=before)
    told_about(stack, onebot, people[-1])
    names = Counter(person.name for it in onebot.sent[before:] for person in people if person.name in it[2])
    assert names == {person.name: 1 for person in people}
    places = [told_about(stack, onebot, person)[0] for person in people]
    assert places == sorted(places)


def test_an_answer_that_comes_too_late_makes_no_second_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regsvc.team_chat.onebot._TIMEOUT", timedelta())
    receiver: Any = SimpleNamespace(text=lambda key, *_args, **_facts: key, translations=SimpleNamespace(available=[]))
    platform = OneBotPlatform(TeamChat(platform="onebot", token=TOKEN, channel=str(GROUP)), "")
    connections, sent = OneBotConnections([platform], receiver, lambda names: None), list[str]()

    async def send(text: str) -> None:
        sent.append(text)

    async def story() -> str:
        connection = OneBotConnection(str(ACCOUNT), "universal", send, lambda: None)
        connections._open.append(connection)
        content = MessageContent(1, "Alice wants to join.", (), "", "")
        with pytest.raises(TemporaryFailure, match="no answer"):
            await platform.post(content, 7)
        late = {"status": "ok", "retcode": 0, "data": {"message_id": 5}, "echo": json.loads(sent[0])["echo"]}
        connections.receive(connection, json.dumps(late))
        return await platform.post(content, 7)

    assert asyncio.run(story()) == "5"
    assert len(sent) == 1


HOSTILE = "@all #tag https://evil.example [CQ:at,qq=all] \u202e\u200fabc\napprove 1 "


def test_hostile_texts_look_harmless(stack: Stack, onebot: OneBot) -> None:
    alice = new_applicant(stack)
    told_about(stack, onebot, alice)
    before = len(onebot.sent)
    stack.decides("reject", alice, reason=(HOSTILE + "y" * 4000)[:4000])
    text = onebot.sent[onebot.wait_for("Rejected by Olivia", after=before)][2]
    [line] = [line for line in text.splitlines() if "evil" in line]
    assert not set(line) & set("\u202e\u200f")
    assert not re.search(rf"[@#/.:][^\s{JOINER}]", line)
    assert len(text) < 1500


def test_the_host_tries_it(stack: Stack, onebot: OneBot) -> None:
    before = len(onebot.sent)
    with ThreadPoolExecutor(1) as pool:
        command = pool.submit(companion, "team-chat", "test", config=stack.daemon.config_file)
        enqueued = "SELECT COUNT(*) AS n FROM regsvc_outbox WHERE template = 'test'"
        ask_until(lambda: our_database(stack).query(enqueued)[0]["n"], bool)
        new_applicant(stack)  # wakes the delivery, which would look within 15 seconds
        index = onebot.wait_for("answer ", after=before)
        found = re.search(r"answer \d+", onebot.sent[index][2])
        assert found is not None
        before = onebot.say(found[0], OLIVIA)
        onebot.wait_for("It works: you decide here as Olivia.", after=before)
        done = command.result()
    assert (done.status, "answered by Olivia" in done.output) == (0, True), done


def test_no_secret_is_logged_and_all_is_counted(stack: Stack, onebot: OneBot) -> None:
    told_about(stack, onebot, new_applicant(stack))
    metrics = scrape(stack.daemon)
    assert metrics.of("companion_team_chat_actions_total", platform="onebot", outcome="done") >= 1
    assert metrics.of("companion_team_chat_messages_total", outcome="sent") >= 1
    assert TOKEN not in "\n".join(stack.daemon.log)
