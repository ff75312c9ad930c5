"""The languages there are, and those a host adds by putting files into a folder."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeDaemon
from tests.support.command_line import companion
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

DUTCH = """
[message]
code_sent = "Er is een code onderweg."
[refusal]
username_taken = "Deze naam is al bezet."
"""
DUTCH_CODE = "Subject: Je code voor $server\nDit is de code:\n\n    $code\n\nHij is $minutes minuten geldig.\n"
DUTCH_APPROVED = "Subject: Welkom bij $server\nHallo $username, je kunt spelen.\n"


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    words, mails = tmp_path_factory.mktemp("words"), tmp_path_factory.mktemp("mails")
    (words / "nl.toml").write_text(DUTCH, encoding="utf-8")
    (mails / "verification_code.nl.txt").write_text(DUTCH_CODE, encoding="utf-8")
    (mails / "approved.nl.txt").write_text(DUTCH_APPROVED, encoding="utf-8")
    server = {"translations": str(words), "languages": ["nl", "zh", "en"]}
    config: dict[str, dict[str, Any]] = {"server": server, "mail": {"templates": str(mails)}}
    return make_stack(config=config)


def test_those_that_the_host_offers_stand_in_the_list(stack: Stack) -> None:
    assert stack.get("/api/config").json["config"]["languages"] == ["en", "nl", "zh"]


def test_a_code_may_be_asked_for_in_it(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = stack.post("/api/verify/send", {"email": alice.email, "language": "nl"})
    assert (reply.status, reply.json["message"]) == (200, "Er is een code onderweg.")
    assert stack.smtp.wait_for(alice.email, 1).subject == "Je code voor Game server"


def test_one_that_is_not_offered_is_refused(stack: Stack) -> None:
    for language in ("tlh", "fr"):  # French is built in, but not in server.languages
        reply = stack.post("/api/verify/send", {"email": "alice@example.org", "language": language})
        assert_refused(reply, 422, "invalid_field", field="language")


def test_refusals_are_told_in_it(stack: Stack) -> None:
    bob = stack.pending("bob")
    anne = stack.newcomer("anne")
    body = {"username": bob.name, "email": anne.email, "code": stack.code_for(anne.email), "language": "nl"}
    assert stack.post("/api/register", body).json["message"] == "Deze naam is al bezet."
    reply = stack.post("/api/register", body | {"username": "!"}, headers={"Accept-Language": "nl"})
    assert reply.json["message"]  # not a word of it in Dutch, so it is said in English
    assert reply.json["code"] == "invalid_username"


@pytest.mark.parametrize(
    ("language", "subject"), [("nl", "Welkom bij Game server"), ("zh", "Game server"), ("en", "Game server")]
)
def test_the_users_own_language_is_that_of_his_mails(stack: Stack, language: str, subject: str) -> None:
    """The operator's own language does not matter."""
    alice = stack.pending("alice", language=language)
    stack.decides("approve", alice, language="en")
    stack.decides("ban", alice, language="en", reason="griefing")
    letters = [stack.smtp.wait_for(alice.email, count) for count in (1, 2, 3)]
    approved, banned = letters[1], letters[2]
    assert subject in approved.subject
    chinese = [letter for letter in (approved, banned) if any("\u4e00" <= char <= "\u9fff" for char in letter.text)]
    assert len(chinese) == (2 if language == "zh" else 0)


def test_a_broken_file_stops_the_start_with_a_sentence(daemon: MakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "nl.toml").write_text('[message]\napproved = "{user}"', encoding="utf-8")
    place = daemon({"server": {"translations": str(tmp_path)}})
    for command in ("serve", "check-config"):
        finished = companion(command, config=place.config_file)
        assert finished.status == 78
        assert f"companion: {tmp_path}/nl.toml: " in finished.errors
        assert "{user} is not known in this text" in finished.errors
        assert "Traceback" not in finished.errors


@pytest.mark.parametrize(("section", "key"), [("server", "translations"), ("mail", "templates")])
def test_a_folder_that_is_not_there_stops_the_start(daemon: MakeDaemon, tmp_path: Path, section: str, key: str) -> None:
    place = daemon({section: {key: str(tmp_path / "gone")}})
    finished = companion("check-config", config=place.config_file)
    assert finished.status == 78
    assert f"[{section}] {key}" in finished.errors
    assert "Traceback" not in finished.errors
