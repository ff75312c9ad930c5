"""POST /api/admin/server/announcement: a text per language, above players' pages."""

import signal

from tests.support.command_line import companion
from tests.support.refusals import assert_refused
from tests.support.stack import Stack
from tests.support.watching import ask_until

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


def test_the_daemon_follows_the_command_line(stack: Stack) -> None:
    config = stack.daemon.config_file
    done = companion("announcement", "set", "Back soon", config=config)
    assert (done.output, done.errors) == ("Back soon\n", "a running daemon follows within 15 seconds\n")
    shown = lambda: stack.get("/api/config").json["config"]["announcement"]  # noqa: E731
    stack.daemon.send(signal.SIGHUP)  # else within 15 seconds
    ask_until(shown, lambda text: text == "Back soon")
    assert companion("announcement", "clear", config=config).output.strip() == "no announcement"
    stack.daemon.send(signal.SIGHUP)
    ask_until(shown, lambda text: text == "")
