"""The public config, and the languages there are."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.rules import NameRule, PasswordRule
from regsvc.config.host_sections import DatabaseSection, GameSection, HttpSection, ServerSection
from regsvc.config.live import LiveConfig
from regsvc.config.sections import (
    BedrockSection,
    CaptchaSection,
    ChatSection,
    Config,
    MembershipSection,
    QuestionnaireSection,
    RegistrationSection,
)
from regsvc.core.i18n import Translated, load_translations
from regsvc.http.route import Features
from regsvc.registration.public_config import PublicConfig
from tests.conftest import MakeDaemon
from tests.support.command_line import companion
from tests.support.live_api import LiveApi, make_features
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

# GET /api/config: the config that front ends need before a login.


def ask(features: Features) -> dict[str, Any]:
    with LiveApi(features) as api:
        reply = api.request("GET", "/api/config")
    assert reply.status == 200
    assert reply.json["success"] is True
    payload = reply.json["config"]
    assert isinstance(payload, dict)
    return payload


def test_the_defaults() -> None:
    assert ask(make_features(Config())) == {
        "theme": "default",
        "logoUrl": "",
        "bannerUrl": "",
        "favicon": "",
        "accent": "",
        "description": "",
        "links": {},
        "announcement": "",
        "contact": "",
        "webServerPrefix": "Game server",
        "gameAddress": None,
        "language": "en",
        "languages": load_translations().languages,
        "authMethods": ["email"],
        "usernameRegex": "^[a-zA-Z0-9_]{3,16}$",
        "registration": {
            "open": True,
            "opensAt": None,
            "approval": True,
            "email": "verified",
            "codeDigits": 6,
            "password": "optional",
            "passwordReset": "mail",
            "passwordRegex": "^[!-~]*$",
            "passwordMinLength": 5,
            "passwordMaxLength": 30,
        },
        "authme": {"enabled": False, "requirePassword": False, "passwordRegex": "^[!-~]*$"},
        "gates": [],
        "enableEmailDomainWhitelist": False,
        "enableEmailAliasLimit": False,
        "captcha": {"enabled": False, "emailEnabled": True, "type": "math", "withoutPicture": True, "requiredFor": []},
        "questionnaire": {"enabled": False, "passScore": 60, "hasTextQuestions": False},
        "chat": {"enabled": False, "required": False, "platform": None},
        "discord": {"enabled": False, "required": False, "platform": None},
        "bedrock": {"enabled": False, "prefix": ".", "usernameRegex": "^[a-zA-Z0-9._-]{3,16}$"},
        "wsPort": None,
    }


def test_the_hosts_own_words() -> None:
    looks = {
        "theme": "dark",
        "logo_url": "/logo.png",
        "banner_url": "/b.jpg",
        "favicon": "/i.png",
        "accent": "#123456",
    }
    server = ServerSection(name="Oakvale", language="zh", announcement=Translated({"zh": "欢迎\n!"}), **looks)  # type: ignore[arg-type]
    payload = ask(make_features(Config(server=server)))
    assert payload["webServerPrefix"] == "Oakvale"
    assert payload["language"] == "zh"
    keys = {"logo_url": "logoUrl", "banner_url": "bannerUrl"}
    assert {name: payload[keys.get(name, name)] for name in looks} == looks
    assert payload["announcement"] == "欢迎\n!"


def test_where_players_join_is_told_as_the_host_wrote_it() -> None:
    payload = ask(make_features(Config(game=GameSection(address="play.example.org:25565"))))
    assert payload["gameAddress"] == "play.example.org"


def test_authmes_rules_are_told_where_authme_is() -> None:
    authme = AuthMeConfig(
        name_rule=NameRule(min_length=4, max_length=12), password_rule=PasswordRule(min_length=8, max_length=64)
    )
    payload = ask(make_features(Config(), authme))
    assert payload["usernameRegex"] == "^(?=.{4,12}$)[a-zA-Z0-9_]*$"
    assert payload["authme"]["enabled"] is True
    assert payload["gates"] == ["authme"]
    assert payload["registration"]["passwordMinLength"] == 8
    assert payload["registration"]["passwordMaxLength"] == 64


def test_the_hosts_rules_replace_authmes() -> None:
    registration = RegistrationSection(
        username_regex="^[a-z]{3,9}$", password_regex="^.{12,}$", password="required", approval=False, open=False
    )
    payload = ask(make_features(Config(registration=registration), AuthMeConfig()))
    assert payload["usernameRegex"] == "^[a-z]{3,9}$"
    assert payload["registration"]["passwordRegex"] == payload["authme"]["passwordRegex"] == "^.{12,}$"
    assert payload["authme"]["requirePassword"] is True
    assert payload["registration"]["password"] == "required"
    assert payload["registration"]["approval"] is False
    assert payload["registration"]["open"] is False


@pytest.mark.parametrize("is_legacy", [False, True])
def test_it_is_made_once_and_again_when_something_in_it_changes(
    monkeypatch: pytest.MonkeyPatch, is_legacy: bool
) -> None:
    make = Mock(side_effect=PublicConfig.in_language)
    monkeypatch.setattr(PublicConfig, "in_language", lambda *given: make(*given))
    http = HttpSection(legacy_status=is_legacy)
    features = make_features(Config(http=http), AuthMeConfig())
    live = features.of_class(LiveConfig)
    with LiveApi(features) as api:

        def ask_twice(number: int) -> dict[str, Any]:
            first, second = (api.request("GET", "/api/config") for _time in range(2))
            assert first.content == second.content
            assert api.request("HEAD", "/api/config").headers["Content-Length"] == str(len(first.content))
            assert make.call_count == number
            payload: dict[str, Any] = first.json["config"]
            return payload

        assert ask_twice(1)["webServerPrefix"] == "Game server"
        live.apply(Config(http=http, server=ServerSection(name="Oakvale")))
        assert ask_twice(2)["webServerPrefix"] == "Oakvale"
        live.apply_authme(AuthMeConfig(password_rule=PasswordRule(min_length=8)))
        assert ask_twice(3)["registration"]["passwordMinLength"] == 8
        live.apply(Config(http=HttpSection(legacy_status=not is_legacy), server=ServerSection(name="Oakvale")))
        assert ("login" in ask_twice(4)) is not is_legacy


def test_the_list_of_domains_is_told_only_if_there_is_one() -> None:
    registration = RegistrationSection(email_domains=("example.org",), email_aliases=False)
    payload = ask(make_features(Config(registration=registration)))
    assert payload["emailDomainWhitelist"] == ["example.org"]
    assert payload["enableEmailDomainWhitelist"] is True
    assert payload["enableEmailAliasLimit"] is True


def test_how_long_an_approval_lasts_is_told_only_if_it_ends() -> None:
    payload = ask(make_features(Config(membership=MembershipSection(ends=timedelta(days=30)))))
    assert payload["memberFor"] == "30 days"
    assert "memberFor" not in ask(make_features(Config()))


def test_what_else_a_registration_needs() -> None:
    config = Config(
        registration=RegistrationSection(methods=("email", "captcha")),
        captcha=CaptchaSection(type="text", also_for=("login",)),
        questionnaire=QuestionnaireSection(pass_score=80),
        chat=ChatSection(platform="discord", required=True),
        bedrock=BedrockSection(enabled=True, prefix="*"),
    )
    payload = ask(make_features(config))
    assert payload["authMethods"] == ["email", "captcha"]
    assert payload["captcha"] == {
        "enabled": True,
        "emailEnabled": True,
        "type": "text",
        "withoutPicture": True,
        "requiredFor": ["register", "login"],
    }
    assert payload["questionnaire"] == {"enabled": False, "passScore": 80, "hasTextQuestions": False}
    assert payload["chat"] == payload["discord"] == {"enabled": True, "required": True, "platform": "discord"}
    assert payload["bedrock"]["prefix"] == "*"


@pytest.mark.parametrize("secret", ["mysql://companion:hunter2@db/companion"])
def test_no_secret_is_told(secret: str) -> None:
    payload = ask(make_features(Config(database=DatabaseSection(url=secret), chat=ChatSection(client_secret=secret))))
    assert "hunter2" not in str(payload)


# The languages there are, and those a host adds by putting files into a folder.


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
