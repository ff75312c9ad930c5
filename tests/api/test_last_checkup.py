"""GET /api/admin/doctor: the problems of the installation, without a shell on the server."""

import time
from functools import partial
from typing import Any

import pytest

from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

MINUTE = 60_000
RCON_PASSWORD = "hunter2"
TOKEN = "scrape-4f0e55"


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    """One whose host has been careless."""
    stack = make_stack(config={"metrics": {"token": TOKEN}})
    stack.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
    return stack


def ask(stack: Stack, **query: str) -> dict[str, Any]:
    reply = stack.get("/api/admin/doctor", query, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def found(payload: dict[str, Any], kind: str) -> list[dict[str, str]]:
    """The findings of this kind."""
    return [finding for finding in payload["findings"] if finding["id"] == kind]


def test_a_finding_says_what_is_so_and_what_to_change_where(stack: Stack) -> None:
    stack.game.install_plugin("6.0.1")
    stack.game.change_authme({"DataSource.caching": True})
    payload = ask(stack, fresh="true")
    [caching] = found(payload, "authme.caching")
    assert caching == {
        "id": "authme.caching",
        "severity": "risky",
        "title": "DataSource.caching is true.",
        "why": caching["why"],
        "do": "Switch the cache off and restart the game server; /authme reload does not clear it.",
        "where": f"{stack.game.authme_config}: DataSource.caching: false",
    }
    assert "an old password" in caching["why"]
    assert payload["verdict"] == "risky"
    assert payload["notExamined"] == []
    assert abs(payload["checkedAt"] - time.time() * 1000) < MINUTE

    stack.game.change_authme({"DataSource.caching": False})
    assert found(ask(stack), "authme.caching") == [caching]  # it was looked at a moment ago
    again = ask(stack, fresh="true")
    assert found(again, "authme.caching") == []
    assert again["checkedAt"] > payload["checkedAt"]


def test_it_speaks_the_operators_language(stack: Stack) -> None:
    chinese = ask(stack, language="zh")
    [password] = found(chinese, "game.rcon_password")
    assert (chinese["language"], password["title"]) == ("zh", "远程控制台的密码少于 12 个字符。")
    english = ask(stack, language="fr")  # which the doctor does not speak
    [password] = found(english, "game.rcon_password")
    assert english["language"] == "en"
    assert password["title"] == "The password of the remote console has fewer than 12 characters."


def test_who_asks_at_the_same_time_is_told_the_same(stack: Stack) -> None:
    token = stack.olivia()
    replies = at_once([partial(stack.get, "/api/admin/doctor", token=token)] * 8)
    assert {reply.status for reply in replies} == {200}
    assert len({reply.json["checkedAt"] for reply in replies}) == 1


def test_it_knows_that_it_looks_at_the_companion_itself(stack: Stack) -> None:
    payload = ask(stack, fresh="true")
    assert not any(found(payload, kind) for kind in ("server.port_taken", "server.plain_http", "database.away"))


def test_no_secret_stands_in_it(stack: Stack) -> None:
    state_dir = stack.daemon.state_dir
    secrets = [(state_dir / name).read_text().strip() for name in ("installation.key", "signing.key")]
    payload = ask(stack, fresh="true")
    assert found(payload, "game.rcon_password")
    assert not [secret for secret in (RCON_PASSWORD, TOKEN, *secrets) if secret in str(payload)]


def test_it_is_for_admins(stack: Stack) -> None:
    bob = stack.approved("bob")
    assert_refused(stack.get("/api/admin/doctor"), 401, "unauthorized")
    assert_refused(stack.get("/api/admin/doctor", token=stack.user_token(bob)), 403, "forbidden")
    reply = stack.get("/api/admin/doctor", {"fresh": "perhaps"}, token=stack.olivia())
    assert_refused(reply, 422, "invalid_field", field="fresh")
