"""Settings of the running server: whether registration is open, and the announcement."""

import signal
import time

from tests.api.test_team import with_role
from tests.support.command_line import companion
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.watching import ask_until

# GET /api/admin/server: what is set on the running server, for those who may read it.


def test_nothing_is_set_at_first(stack: Stack) -> None:
    reply = stack.get("/api/admin/server", token=stack.olivia()).json
    assert (reply["isOpen"], reply["mayOpen"], reply["opensAt"], reply["announcements"]) == (True, True, None, {})
    assert (reply["registrationChanged"], reply["announcementChanged"]) == (None, None)


def test_reviewers_do_not_see_it(stack: Stack) -> None:
    _rita, token = with_role(stack, "reviewer")
    assert_refused(stack.get("/api/admin/server", token=token), 403, "forbidden")


# POST /api/admin/server/registration: closed and opened on the running server, by those who may.


HOUR = 3_600_000


def set_open(stack: Stack, is_open: bool, opens_at: int | None = None) -> None:
    body = {"open": is_open, "opensAt": opens_at}
    reply = stack.post("/api/admin/server/registration", body, token=stack.olivia())
    assert reply.status == 200, reply.json


def is_open(stack: Stack) -> bool:
    return bool(stack.get("/api/config").json["config"]["registration"]["open"])


def test_olivia_closes_until_tomorrow_and_opens_again(stack: Stack) -> None:
    tomorrow = round(time.time() * 1000) + 14 * HOUR
    alice = stack.newcomer("alice")

    set_open(stack, False, tomorrow)

    config = stack.get("/api/config").json["config"]["registration"]
    assert (config["open"], config["opensAt"]) == (False, tomorrow)
    refused = stack.post("/api/verify/send", {"email": alice.email})
    assert assert_refused(refused, 409, "registration_closed")["opensAt"] == tomorrow
    page = stack.get("/api/admin/server", token=stack.olivia()).json
    assert (page["isOpen"], page["mayOpen"], page["opensAt"]) == (False, True, tomorrow)
    assert page["registrationChanged"]["by"] == "Olivia"
    set_open(stack, True)
    assert stack.register(alice).status == 201
    entries = stack.get("/api/admin/audits", {"action": "settings.changed"}, token=stack.olivia()).json["audits"]
    assert [entry["detail"]["open"] for entry in entries[:2]] == [True, False]


def test_it_opens_by_itself(stack: Stack) -> None:
    set_open(stack, False, round(time.time() * 1000) + 3000)
    assert not is_open(stack)
    ask_until(lambda: is_open(stack), bool)


def test_a_time_in_the_past_is_refused(stack: Stack) -> None:
    body = {"open": False, "opensAt": 1_000_000_000_000}
    reply = stack.post("/api/admin/server/registration", body, token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="opensAt")
    assert is_open(stack)


def test_rita_may_not(stack: Stack) -> None:
    _rita, token = with_role(stack, "moderator")
    reply = stack.post("/api/admin/server/registration", {"open": False}, token=token)
    assert assert_refused(reply, 403, "forbidden")["permission"] == "settings.write"


def test_the_daemon_follows_the_command_line(stack: Stack) -> None:
    config = stack.daemon.config_file
    done = companion("registration", "close", "--for", "12 hours", config=config)
    assert done.output.startswith("registration: closed, opens at ")
    assert done.errors == "a running daemon follows within 15 seconds\n"
    stack.daemon.send(signal.SIGHUP)  # else within 15 seconds
    ask_until(lambda: is_open(stack), lambda known: not known)
    assert companion("registration", "open", config=config).output.strip() == "registration: open"
    stack.daemon.send(signal.SIGHUP)
    ask_until(lambda: is_open(stack), bool)


def test_a_value_typed_in_sql_that_is_none_counts_for_nothing(stack: Stack) -> None:
    set_open(stack, False)
    our_database(stack).execute("UPDATE regsvc_setting SET value = 'yes' WHERE name = 'registration'")
    stack.daemon.send(signal.SIGHUP)
    ask_until(lambda: is_open(stack), bool)
    far = '{"open": false, "opensAt": ' + "9" * 30 + "}"
    our_database(stack).execute("UPDATE regsvc_setting SET value = ? WHERE name = 'registration'", (far,))
    stack.daemon.send(signal.SIGHUP)
    ask_until(lambda: is_open(stack), lambda shown: not shown)


def test_the_config_wins_where_it_says_closed(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"open": False}})
    reply = stack.post("/api/admin/server/registration", {"open": True}, token=stack.olivia())
    assert (reply.status, is_open(stack)) == (200, False)
    assert "registration.open" in reply.json["message"]
    page = stack.get("/api/admin/server", token=stack.olivia()).json
    assert (page["isOpen"], page["mayOpen"]) == (False, False)


def test_players_read_that_it_is_paused_until_olivia_decides(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"pause_after": "3 days"}})
    alice, bob = stack.pending("alice"), stack.newcomer("bob")
    long_ago = "2026-01-01 00:00:00.000"
    our_database(stack).execute("UPDATE regsvc_user SET created_at = ? WHERE status = 'pending'", (long_ago,))
    our_database(stack).execute("DELETE FROM regsvc_review")  # of Olivia, whom the stack approved just now

    stack.daemon.send(signal.SIGHUP)
    ask_until(lambda: is_open(stack), lambda shown: not shown)

    refused = stack.post("/api/verify/send", {"email": bob.email})
    paused = "Registration is paused until the team has decided on the waiting applications."
    assert assert_refused(refused, 409, "registration_closed")["fault"] == "paused"
    assert refused.json["message"] == paused
    assert paused in stack.get("/").text
    server = stack.get("/api/admin/server", token=stack.olivia()).json
    assert (server["isOpen"], server["isPaused"], server["mayOpen"]) == (False, True, True)
    told = companion("registration", "show", config=stack.daemon.config_file).output
    assert told == "registration: closed, paused until the team decides (registration.pause_after)\n"
    stack.decides("reject", alice)
    stack.daemon.send(signal.SIGHUP)
    ask_until(lambda: is_open(stack), bool)
    assert stack.register(bob).status == 201


# POST /api/admin/server/announcement: a text per language, above players' pages.


PATH = "/api/admin/server/announcement"


def test_everybody_reads_it_in_their_language(stack: Stack) -> None:
    texts = {"en": "We move on <b>Sunday</b>.", "zh": "周日搬家。", "de": " "}
    assert stack.post(PATH, {"texts": texts}, token=stack.olivia()).status == 200

    for language in ("en", "zh", "en"):
        told = stack.get("/api/config", {"language": language}).json["config"]["announcement"]
        assert told == texts[language], "a reply that was kept in another language"
    assert "We move on &lt;b&gt;Sunday&lt;/b&gt;." in stack.get("/register?language=en").text
    assert texts["zh"] in stack.get("/register?language=zh").text
    page = stack.get("/api/admin/server", token=stack.olivia()).json
    assert page["announcements"] == {"en": texts["en"], "zh": texts["zh"]}
    assert stack.post(PATH, {"texts": {}}, token=stack.olivia()).status == 200
    assert stack.get("/api/config").json["config"]["announcement"] == ""


def test_bad_texts_change_nothing(stack: Stack) -> None:
    for texts in ({"xx": "Hello"}, {"en": "x" * 2001}, {"en": 1}):
        reply = stack.post(PATH, {"texts": texts}, token=stack.olivia())
        assert_refused(reply, 422, "invalid_field", field="texts")
    assert stack.get("/api/config").json["config"]["announcement"] == ""


def test_an_announcement_follows_the_command_line(stack: Stack) -> None:
    config = stack.daemon.config_file
    done = companion("announcement", "set", "Back soon", config=config)
    assert (done.output, done.errors) == ("Back soon\n", "a running daemon follows within 15 seconds\n")
    shown = lambda: stack.get("/api/config").json["config"]["announcement"]  # noqa: E731
    stack.daemon.send(signal.SIGHUP)  # else within 15 seconds
    ask_until(shown, lambda text: text == "Back soon")
    assert companion("announcement", "clear", config=config).output.strip() == "no announcement"
    stack.daemon.send(signal.SIGHUP)
    ask_until(shown, lambda text: text == "")
