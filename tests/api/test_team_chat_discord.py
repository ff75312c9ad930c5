"""Decisions on Discord, against a stand-in for its API and with clicks signed by PyNaCl."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import pytest
from nacl.signing import SigningKey

from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import companion
from tests.support.our_tables import our_busy, our_database
from tests.support.peers.discord import TOKEN, Discord, custom_ids, text_of
from tests.support.questions import TALK, WORDS, applies, asking, token_for
from tests.support.stack import MakeStack, Person
from tests.support.team_chat import BASE_URL, OLIVIA_ON_DISCORD, TeamChatStack, make_team_chat_stack, say
from tests.support.together import at_once
from tests.support.watching import ask_until, scrape

RITA, ALICE_ON_DISCORD, STRANGER = "6000000000000000002", "6000000000000000003", "6000000000000000009"
RITA_AS_PLAYER, SHUT, READER = "6000000000000000004", "6000000000000000005", "6000000000000000006"
UNKNOWN = "No application that can be decided here belongs to this message."
DECIDED = "This cannot be done while the user’s status is approved."


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def kind(request: pytest.FixtureRequest) -> DatabaseKind:
    return cast(DatabaseKind, request.param)


@pytest.fixture(scope="module")
def discord(kind: DatabaseKind) -> Iterator[Discord]:
    with Discord() as made:
        yield made


@pytest.fixture(scope="module")
def chat(
    kind: DatabaseKind, make_stack: MakeStack, discord: Discord, tmp_path_factory: pytest.TempPathFactory
) -> TeamChatStack:
    more = {**asking(tmp_path_factory.mktemp("questions")), "membership": {"renew": "ask"}}
    told = ["name", "score", "answers", "signals"]
    made = make_team_chat_stack(make_stack, discord, more, kind=kind, tells=told)
    made.link_olivia()
    return made


def escaped(person: Person) -> str:
    return person.name.replace("_", r"\_")


def new_applicant(chat: TeamChatStack, name: str = "alice") -> Person:
    person = chat.stack.newcomer(name)
    reply = applies(chat.stack, person, token_for(chat.stack))
    assert reply.status == 201, reply.text
    return person


def test_ping(chat: TeamChatStack) -> None:
    """Discord posts one when the address is saved, and later ones with a wrong signature."""
    ping = {"id": "1", "type": 1}
    reply = chat.send(ping)
    assert (reply.status, reply.json) == (200, {"type": 1})
    assert reply.headers["Content-Type"].startswith("application/json")
    assert chat.send(ping, key=SigningKey.generate()).status == 401
    headers = {"X-Signature-Ed25519": "", "X-Signature-Timestamp": "9" * 400, "Content-Type": "application/json"}
    assert chat.stack.daemon.post("/api/team-chat/discord", body=b"{}", headers=headers).status == 401


def test_applied_told_asked_answered_approved_and_in_the_game(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, chat.stack.newcomer("alice")
    applied = applies(stack, alice, token_for(stack, TALK | WORDS))
    assert applied.status == 201
    told = chat.open_message(alice)
    text = text_of(told)
    assert "wants to join" in text
    assert "50 of" in text
    assert r"I like it\." in text
    assert alice.email not in text
    [row] = told["components"]
    assert row["components"][-1]["url"] == f"{BASE_URL}/admin#queue?name={alice.name}"
    chat.give_discord_account(alice, ALICE_ON_DISCORD)

    form = chat.click(alice, "ask").json
    assert say(chat.send(discord.form(form, "Who *are* you?", OLIVIA_ON_DISCORD))) == f"You asked {escaped(alice)}."
    chat.message_about(alice, r"Asked by Olivia \(Discord\): Who \*are\* you\?")
    headers = {"X-Application-Token": applied.json["applicationToken"]}
    answered = stack.post("/api/application/answer", {"text": "A friend of Bob"}, headers=headers)
    assert answered.status == 200, answered.text
    chat.message_about(alice, "There is a newer message about this application.")
    discord.wait_for(lambda it: "Answer: A friend of Bob" in text_of(it) and bool(custom_ids(it)))

    assert say(chat.click(alice, "approve")) == f"You approved {escaped(alice)}."
    closed = chat.message_about(alice, "Approved by Olivia")
    assert not custom_ids(closed)
    assert stack.authme.login(alice.name, alice.password)
    [audit] = stack.audits(alice, "user.approved")
    assert audit["operator"] == "Olivia (Discord)"
    discord.wait_for(lambda it: "your application was approved" in it["content"])

    assert say(chat.send(discord.interaction(3, custom_ids(told)[0], OLIVIA_ON_DISCORD, message=told))) == UNKNOWN
    again = discord.interaction(3, f"approve:{custom_ids(told)[0].split(':')[1]}:", OLIVIA_ON_DISCORD, message=closed)
    assert say(chat.send(again)) == DECIDED


def test_the_team_is_told_who_asks_to_stay_and_lets_them(chat: TeamChatStack, discord: Discord) -> None:
    stack, dora = chat.stack, new_applicant(chat, "dora")
    chat.click(dora, "approve")
    chat.message_about(dora, "Approved by Olivia")

    def ask() -> dict[str, Any]:
        assert stack.post("/api/user/membership/ask", {}, token=stack.user_token(dora)).status == 200
        number, asked = discord.wait_for(
            lambda it: f"{escaped(dora)} asks to stay." in text_of(it) and bool(custom_ids(it))
        )
        chat.wait_until_known(number)
        return asked

    membership = {"username": dora.name, "for": "2 days"}
    assert stack.post("/api/admin/user/membership", membership, token=stack.olivia()).status == 200
    asked = ask()
    [row] = asked["components"]
    assert [it["label"] for it in row["components"][:-1]] == ["Approve"]
    assert row["components"][-1]["url"] == f"{BASE_URL}/admin#users?membership=asked"
    number = custom_ids(asked)[0].split(":")[1]
    for verb in ("reject", "ask"):  # which is not offered
        forged = discord.interaction(3, f"{verb}:{number}:", OLIVIA_ON_DISCORD, message=asked)
        assert say(chat.send(forged)) == DECIDED
    click = discord.interaction(3, custom_ids(asked)[0], OLIVIA_ON_DISCORD, message=asked)
    assert say(chat.send(click)) == f"You approved {escaped(dora)}."
    chat.message_about(dora, "This is decided.")
    audit, *_ = stack.audits(dora, "membership.set")
    assert (audit["operator"], stack.user(dora)["membership"]["endsAt"]) == ("Olivia (Discord)", None)
    late = discord.interaction(3, custom_ids(asked)[0], OLIVIA_ON_DISCORD, message=asked)
    assert say(chat.send(late)) == DECIDED

    assert stack.post("/api/admin/user/membership", membership, token=stack.olivia()).status == 200
    again = ask()
    declined = {"username": dora.name, "decline": True}
    assert stack.post("/api/admin/user/membership", declined, token=stack.olivia()).status == 200
    discord.wait_for(lambda it: it["id"] == again["id"] and "This is decided." in text_of(it) and not custom_ids(it))


def test_rejected_by_a_form_and_reopened_elsewhere(chat: TeamChatStack, discord: Discord) -> None:
    stack, bob = chat.stack, new_applicant(chat, "bob")
    rivals = [discord.click(chat.open_message(bob), verb, OLIVIA_ON_DISCORD) for verb in ("approve", "ask")]
    shown = chat.click(bob, "reject")
    assert (shown.status, shown.json["type"]) == (200, 9)
    assert len(shown.json["data"]["title"]) <= 45
    assert say(chat.send(discord.form(shown.json, "Too *young*", OLIVIA_ON_DISCORD))).startswith("You rejected")
    chat.message_about(bob, r"Rejected by Olivia \(Discord\).", r"Too \*young\*")
    assert stack.user(bob)["reason"] == "Too *young*"
    for rival in rivals:  # of two decisions the first counts, though at /admin the rejected can be approved
        assert say(chat.send(rival)) == DECIDED.replace("approved", "rejected")
    stack.decides("reopen", bob)
    assert custom_ids(chat.open_message(bob))  # a new message: nobody notices an edited one
    stack.decides("approve", bob)
    chat.message_about(bob, "Approved by Olivia.")
    chat.message_about(bob, "Rejected by Olivia")


def test_deleted_and_registered_anew(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, new_applicant(chat)
    first = discord.wait_for(lambda it: escaped(alice) in text_of(it))[0]
    stack.decides("delete", alice)
    discord.wait_for(lambda it: it is discord.messages[first] and "The application is gone." in text_of(it))
    assert not custom_ids(discord.messages[first])
    assert applies(stack, alice, token_for(stack)).status == 201
    assert custom_ids(chat.open_message(alice))


def test_changed_answers_are_told_before_they_are_decided_about(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, chat.stack.newcomer("alice")
    application = applies(stack, alice, token_for(stack)).json["applicationToken"]
    seen = chat.open_message(alice)
    headers = {"X-Application-Token": application}
    changed = stack.post("/api/application/answers", {"answers": TALK | WORDS}, headers=headers)
    assert changed.status == 200, changed.text
    outdated = discord.click(seen, "approve", OLIVIA_ON_DISCORD)
    assert say(chat.send(outdated)).startswith("The answers have changed since this message.")
    assert stack.status(alice) == "pending"
    chat.message_about(alice, "I like it")
    assert say(chat.click(alice, "approve")).startswith("You approved")


def test_what_has_no_effect(chat: TeamChatStack, discord: Discord) -> None:
    """Forged, late and replayed clicks are refused as such; people who may not decide are told privately why."""
    stack, alice, rita = chat.stack, new_applicant(chat), new_applicant(chat, "rita")
    stack.decides("approve", rita)
    stack.decides("role", rita, role="reviewer")
    chat.link(stack.admin_token(rita.name, rita.password), RITA)
    message = chat.open_message(alice)
    forged = chat.send(discord.click(message, "approve", OLIVIA_ON_DISCORD), key=SigningKey.generate())
    late = chat.send(discord.click(message, "approve", OLIVIA_ON_DISCORD), age=310)
    early = chat.send(discord.click(message, "approve", OLIVIA_ON_DISCORD), age=-310)
    click = discord.click(message, "reject", RITA)
    assert chat.send(click).json["type"] == 9
    assert [reply.status for reply in (forged, late, early, chat.send(click))] == [401, 401, 401, 401]

    unlinked = chat.send(discord.click(message, "approve", STRANGER))
    assert "not linked to a member of the team" in say(unlinked)
    assert custom_ids(unlinked.json["data"]) == ["link:0:"]
    elsewhere = discord.click(message, "approve", OLIVIA_ON_DISCORD, channel_id="4000000000000000009")
    unknown = discord.interaction(3, "approve:999999:", OLIVIA_ON_DISCORD)
    odd = discord.interaction(3, "no such button", OLIVIA_ON_DISCORD)
    assert {say(chat.send(it)) for it in (elsewhere, unknown, odd)} == {UNKNOWN}
    form = chat.send(discord.interaction(3, "link:0:", STRANGER)).json
    tries = [say(chat.send(discord.form(form, "WRONGCOD", STRANGER))) for _number in range(6)]
    assert [it.startswith("This code is wrong") for it in tries] == [True] * 5 + [False]
    assert tries[-1].startswith("Too many attempts.")

    chat.give_discord_account(rita, RITA_AS_PLAYER)
    stack.decides("role", rita, role="none")
    assert "not linked" in say(chat.send(discord.click(message, "approve", RITA)))
    assert "not linked" in say(chat.send(discord.click(message, "approve", RITA_AS_PLAYER)))
    stack.decides("role", rita, role="reviewer")  # the right is back, the link by a code is not
    assert "not linked" in say(chat.send(discord.click(message, "approve", RITA)))
    assert "not linked" in say(chat.send(discord.click(message, "approve", RITA_AS_PLAYER)))  # nor the player's own
    assert [it["action"] for it in stack.audits(alice)] == ["user.registered"]


def test_a_button_counts_below_our_own_message(chat: TeamChatStack, discord: Discord) -> None:
    """Who has the bot's token can write the same buttons below other words."""
    alice = new_applicant(chat)
    ours, forged = chat.open_message(alice), {"id": discord.next_id()}
    for custom_id in custom_ids(ours):
        assert say(chat.send(discord.interaction(3, custom_id, OLIVIA_ON_DISCORD, message=forged))) == UNKNOWN
    form = chat.click(alice, "reject").json
    assert say(chat.send(discord.form(form, "No", OLIVIA_ON_DISCORD, message=forged))) == UNKNOWN
    assert [it["action"] for it in chat.stack.audits(alice)] == ["user.registered"]


@pytest.mark.every_database
def test_a_code_in_a_text_for_others_is_void(chat: TeamChatStack, discord: Discord) -> None:
    alice = new_applicant(chat)
    code = chat.stack.chat_code(chat.stack.olivia())
    form = chat.click(alice, "ask").json
    said = say(chat.send(discord.form(form, f"What is {code.lower()}?", OLIVIA_ON_DISCORD)))
    assert "the code is void now" in said
    assert [it["action"] for it in chat.stack.audits(alice)] == ["user.registered"]
    link = chat.send(discord.interaction(3, "link:0:", READER)).json
    assert say(chat.send(discord.form(link, code, READER))).startswith("This code is wrong")


@pytest.mark.every_database
def test_two_hundred_clicks_are_one_decision(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, new_applicant(chat)
    message, already = chat.open_message(alice), len(discord.late)
    clicks = [discord.click(message, "approve", OLIVIA_ON_DISCORD) for _ in range(200)]
    replies = at_once([partial(chat.send, click) for click in clicks])
    deferred = [reply for reply in replies if reply.json["type"] == 5]
    said = Counter(say(reply) for reply in replies if reply.json["type"] == 4)
    said.update(data["content"] for data in discord.wait_for_late(already + len(deferred))[already:])
    assert said == {f"You approved {escaped(alice)}.": 1, DECIDED: 199}
    assert len(stack.audits(alice, "user.approved")) == 1


@pytest.mark.one_database("sqlite")  # whose file is held
def test_a_slow_database_defers_the_answer(chat: TeamChatStack, discord: Discord) -> None:
    alice = new_applicant(chat)
    message, already = chat.open_message(alice), len(discord.late)
    clicks = [discord.click(message, verb, OLIVIA_ON_DISCORD) for verb in ("approve", "reject")]
    clicks.append(discord.interaction(3, "no such button", OLIVIA_ON_DISCORD))
    with our_busy(chat.stack):
        approved, form, unknown = at_once([partial(chat.send, click) for click in clicks])
    assert approved.json == unknown.json == {"type": 5, "data": {"flags": 64}}
    assert form.json["type"] == 9  # no form can follow later: what it sends is checked
    said = sorted(data["content"] for data in discord.wait_for_late(already + 2)[already:])
    assert said == [UNKNOWN, f"You approved {escaped(alice)}."]
    assert chat.stack.status(alice) == "approved"
    assert sum("a button is none of ours" in line for line in chat.stack.daemon.log) == 1


HOSTILE = (
    "@everyone <@&1> [x](http://evil.example) **b** `c` \u202e\u200fabc <#1> https://evil.example\n# big ||z|| "
    + "y" * 4000
)


def test_hostile_texts_look_harmless(chat: TeamChatStack, discord: Discord) -> None:
    alice = new_applicant(chat)
    chat.open_message(alice)
    chat.stack.decides("reject", alice, reason=HOSTILE[:4000])
    message = chat.message_about(alice, "Rejected by Olivia")
    text = text_of(message)
    assert message["allowed_mentions"] == {"parse": []}
    line = next(line for line in text.splitlines() if "everyone" in line)
    assert not set(re.sub(r"\\.", "", line)) & set("@<>[]*`|#:/~_\u202e\u200f")
    assert len(text) < 1500


def test_an_outage_delays_messages_and_keeps_their_order(chat: TeamChatStack, discord: Discord) -> None:
    """A reply that is lost makes no second message; mails and decisions do not wait."""
    stack, before = chat.stack, set(discord.messages)
    discord.stop()
    alice, bob, carla = (new_applicant(chat, name) for name in ("alice", "bob", "carla"))
    stack.decides("approve", bob)
    stack.smtp.wait_for(bob.email, 2)
    discord.lost_replies = 1
    discord.start()
    for person in (alice, carla):
        chat.open_message(person)
    new = [text_of(message) for number, message in discord.messages.items() if number not in before]
    assert len(new) == 2
    assert escaped(alice) in new[0]
    assert escaped(carla) in new[1]


def test_people_who_take_no_messages_are_left_alone(chat: TeamChatStack, discord: Discord) -> None:
    stack, alice = chat.stack, new_applicant(chat)
    chat.give_discord_account(alice, SHUT)
    discord.closed_doors.add(SHUT)
    stack.decides("approve", alice)
    query = "SELECT outcome FROM regsvc_outbox WHERE template = 'told_approved' AND payload LIKE ?"
    ask_until(lambda: our_database(stack).query(query, (f"%{SHUT}%",)), lambda rows: rows == [{"outcome": "dropped"}])


def test_the_host_tries_it(chat: TeamChatStack, discord: Discord) -> None:
    with ThreadPoolExecutor(1) as pool:
        command = pool.submit(companion, "team-chat", "test", config=chat.stack.daemon.config_file)
        number, message = discord.wait_for(lambda it: any(id.startswith("test") for id in custom_ids(it)))
        assert "not linked" in say(chat.send(discord.click(message, "test", STRANGER)))
        assert say(chat.send(discord.click(message, "test", OLIVIA_ON_DISCORD))).startswith("It works")
        done = command.result()
    assert (done.status, "answered by Olivia" in done.output) == (0, True), done
    assert discord.messages[number]["content"] == "The test worked: Olivia answered."


def test_no_secret_is_logged_and_all_is_counted(chat: TeamChatStack) -> None:
    assert say(chat.click(new_applicant(chat), "approve")).startswith("You approved")
    sent = "companion_team_chat_messages_total"
    metrics = ask_until(lambda: scrape(chat.stack.daemon), lambda found: found.of(sent, outcome="sent") >= 1)
    assert metrics.of("companion_team_chat_actions_total", platform="discord", outcome="done") >= 1
    log = "\n".join(chat.stack.daemon.log)
    assert TOKEN not in log
    assert "interaction-token" not in log
