"""What the scripts of existing front ends read, at each step of an operator's and a player's day."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.peers.minecraft_server import MinecraftServer
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack
from tests.support.watching import ask_until

pytestmark = pytest.mark.one_database("sqlite")

# The actions that their scripts have words for, as they are compiled.
WORDS = {"approve", "reject", "ban", "unban", "delete", "register", "login", "logout", "password_change"}
WORDS |= {"admin_access_denied", "email_update"}


@pytest.fixture(scope="module")
def game() -> Iterator[MinecraftServer]:
    with MinecraftServer() as server:
        yield server


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, game: MinecraftServer) -> Stack:
    return make_stack(
        config={
            "http": {"legacy_status": True},
            "game": {"address": game.address},
            "server": {"base_url": "https://play.example.org/companion"},
            "downloads.pack": {"name": "Pack", "url": "/files/pack.zip", "icon": "gamepad"},
            "downloads.client": {"name": "Client", "url": "https://files.example.org/client.zip", "icon": "monitor"},
        }
    )


@pytest.fixture(scope="module")
def plain(make_stack: MakeStack) -> Stack:
    """A host whose login needs no captcha."""
    return make_stack(config={"http": {"legacy_status": True, "status_limit": ["200 per minute"]}})


@pytest.fixture
def token(plain: Stack) -> str:
    """Olivia's, the one her browser has for everything."""
    return plain.user_token(Person(OPERATOR, "", OPERATORS_PASSWORD))


def users(stack: Stack, token: str, **query: str) -> list[dict[str, Any]]:
    reply = stack.get("/api/admin/users", {"page": "1", "size": "10", **query}, token=token)
    listed: list[dict[str, Any]] = reply.json["users"]
    return listed


# --- An operator reviews ---


@pytest.mark.parametrize(
    ("decision", "status"), [("approve", "approved"), ("reject", "rejected"), ("ban", "banned"), ("delete", None)]
)
def test_a_user_is_reviewed_by_id(plain: Stack, token: str, decision: str, status: str | None) -> None:
    alice = plain.pending("alice")
    [listed] = users(plain, token, status="pending", search=alice.name)
    assert listed["id"]
    body = {"userId": listed["id"], "action": decision, "reason": "because", "language": "en"}
    reply = plain.post(f"/api/admin/user/{decision}", body, token=token)
    assert (reply.status, reply.json["success"], bool(reply.json["message"])) == (200, True, True)
    assert plain.status(alice) == status


def test_one_name_of_three_is_enough_and_the_first_counts(plain: Stack, token: str) -> None:
    alice, bob = plain.pending("alice"), plain.pending("bob")
    body = {"username": alice.name, "uuid": bob.name, "userId": bob.name}
    assert plain.post("/api/admin/user/approve", body, token=token).json["username"] == alice.name
    both = {"userId": alice.name, "usernames": [bob.name]}
    assert_refused_as_200(plain.post("/api/admin/user/approve", both, token=token), "invalid_field")


def test_the_audit_log_is_in_words_they_know(plain: Stack, token: str) -> None:
    alice, bob = plain.approved("alice"), plain.pending("bob")
    plain.decides("reject", bob, reason="reject.has_account")
    plain.post("/api/logout", token=plain.user_token(alice))
    plain.get("/api/admin/users", token=plain.user_token(alice))
    plain.post("/api/login", {"username": alice.name, "password": "wrong"})
    plain.sync()
    body = {"currentPassword": alice.password, "newPassword": "another-secret"}
    plain.post("/api/user/password", body, token=plain.user_token(alice))

    audits = plain.get("/api/admin/audits", token=token).json["audits"]

    assert {entry["action"] for entry in audits} <= WORDS
    assert [entry["timestamp"] for entry in audits] == sorted((entry["timestamp"] for entry in audits), reverse=True)
    for entry in audits:
        assert all(isinstance(entry[name], str) for name in ("action", "operator", "target", "detail"))
    of_alice = {entry["action"] for entry in audits if alice.name in (entry["target"], entry["operator"])}
    assert of_alice == {"register", "approve", "login", "logout", "admin_access_denied", "password_change"}
    [rejected] = [entry for entry in audits if (entry["action"], entry["target"]) == ("reject", bob.name)]
    assert (rejected["operator"], rejected["detail"]) == (OPERATOR, "You already have an account here.")
    [approved] = [entry for entry in audits if (entry["action"], entry["target"]) == ("approve", alice.name)]
    assert approved["detail"] == ""


def test_all_entries_come_at_once_and_a_page_in_our_own_words(plain: Stack, token: str) -> None:
    bob = plain.pending("bob")
    for number in range(21):
        plain.decides("ban", bob, reason=f"reason {number}")
    assert len(plain.get("/api/admin/audits", token=token).json["audits"]) > 20
    assert_refused_as_200(plain.get("/api/admin/audits", {"action": "logn"}, token=token), "invalid_field")
    for action in ("login", "admin.logged_in"):
        audits = plain.get("/api/admin/audits", {"action": action}, token=token).json["audits"]
        assert {entry["action"] for entry in audits} == {"login"}
    assert plain.get("/api/admin/audits", {"action": "sync.run"}, token=token).json["audits"] == []
    page = plain.get("/api/admin/audits", {"page": "1", "size": "5"}, token=token).json
    assert len(page["audits"]) == page["pagination"]["pageSize"] == 5
    assert {entry["action"] for entry in page["audits"]} == {"user.banned"}


# --- What a page shows ---


def test_the_players_online_have_names_and_heads(plain: Stack, stack: Stack, token: str) -> None:
    olivia = stack.olivia()
    path = "/api/server/status"
    data = ask_until(lambda: stack.get(path, token=olivia).json["data"], lambda data: data["checkedAt"] is not None)
    assert data["players"] == {
        "online": 2,
        "max": 20,
        "list": [
            {"name": "Alice", "uuid": "4566e69f-c907-48ee-8d71-d7ba5aa00d20"},
            {"name": "Bob", "uuid": "7125ba8b-1c86-4508-b92b-b5c042ccfe2b"},
        ],
    }
    assert "list" not in stack.get(path).json["data"]["players"]
    assert plain.get(path, token=token).json["data"]["players"]["list"] == []


def test_downloads_open_and_have_the_icons_they_name(stack: Stack) -> None:
    files = {file["id"]: file for file in stack.get("/api/downloads").json["resources"]}
    assert files["pack"]["url"] == "https://play.example.org/companion/files/pack.zip"
    assert files["client"]["url"] == "https://files.example.org/client.zip"
    assert (files["pack"]["icon"], files["client"]["icon"]) == ("gamepad", "monitor")


def test_the_config_is_all_their_form_checks(stack: Stack) -> None:
    config = stack.get("/api/config").json["config"]
    for section in ("authme", "registration"):
        regex = config[section]["passwordRegex"]
        assert regex == "^(?=.{5,30}$)[!-~]*$"
        assert [bool(re.search(regex, text)) for text in ("abcd", "abcde", "a" * 30, "a" * 31, "a b c")] == [
            *(False, True, True, False, False)
        ]


def test_a_captcha_is_announced_where_the_registration_checks_it(make_stack: MakeStack) -> None:
    elsewhere = make_stack(config={"http": {"legacy_status": True}, "captcha": {"also_for": ["login"]}})
    captcha = elsewhere.get("/api/config").json["config"]["captcha"]
    assert (captcha["enabled"], captcha["requiredFor"]) == (False, ["login"])
    elsewhere.restart_with({"registration": {"methods": ["email", "captcha"], "password_regex": "[a-z]+|[0-9]+"}})
    config = elsewhere.get("/api/config").json["config"]
    assert config["captcha"]["enabled"] is True
    regex = config["authme"]["passwordRegex"]
    assert [bool(re.search(regex, text)) for text in ("abc", "abcdef", "123456", "1234")] == [False, True, True, False]


def test_a_token_is_only_sent_to_our_own_port(stack: Stack, plain: Stack) -> None:
    """Without `wsPort`, front ends connect to the port after their own, with the token in the address."""
    assert stack.get("/api/config").json["config"]["wsPort"] == 443
    assert plain.get("/api/config").json["config"]["wsPort"] == urlsplit(plain.daemon.base_url).port


# --- A token of another time ---


@pytest.mark.parametrize(
    "path", ["/api/config", "/api/version", "/api/downloads", "/api/captcha", "/api/server/status"]
)
def test_a_bad_token_on_a_public_route_counts_as_none(plain: Stack, path: str) -> None:
    reply = plain.get(path, token="of-the-old-plugin")
    assert (reply.status, reply.json["success"]) == (200, True)


def test_a_bad_token_is_told_where_the_page_asks(plain: Stack, token: str) -> None:
    plain.post("/api/logout", token=token)
    assert_refused(plain.get("/api/user/status", {"username": OPERATOR}, token=token), 401, "unauthorized")
    body = {"username": "Alice", "password": "wrong"}
    assert_refused_as_200(plain.post("/api/login", body, token=token), "bad_credentials")
