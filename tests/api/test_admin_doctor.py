"""What is wrong with this installation, as Olivia reads it without a shell on the server."""

import time
from functools import partial
from typing import Any

import pytest

from tests.support.refusals import assert_refused
from tests.support.stack import MakeVillage, Village
from tests.support.together import at_once

MINUTE = 60_000
RCON_PASSWORD = "hunter2"
TOKEN = "scrape-4f0e55"


@pytest.fixture(scope="module")
def village(make_village: MakeVillage) -> Village:
    """One whose host has been careless."""
    village = make_village(config={"metrics": {"token": TOKEN}})
    village.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
    return village


def ask(village: Village, **query: str) -> dict[str, Any]:
    reply = village.get("/api/admin/doctor", query, token=village.olivia())
    assert reply.status == 200, reply.text
    told: dict[str, Any] = reply.json
    return told


def found(told: dict[str, Any], kind: str) -> list[dict[str, str]]:
    """The findings of this kind."""
    return [finding for finding in told["findings"] if finding["id"] == kind]


def test_a_finding_says_what_is_so_and_what_to_change_where(village: Village) -> None:
    village.game.change_authme({"DataSource.caching": True})
    told = ask(village, fresh="true")
    [caching] = found(told, "authme.caching")
    assert caching == {
        "id": "authme.caching",
        "severity": "risky",
        "title": "DataSource.caching is true.",
        "why": caching["why"],
        "do": "Switch the cache off and restart the game server; /authme reload does not empty it.",
        "where": f"{village.game.authme_config}: DataSource.caching: false",
    }
    assert "An old password works" in caching["why"]
    assert told["verdict"] == "risky"
    assert told["notExamined"] == []
    assert abs(told["checkedAt"] - time.time() * 1000) < MINUTE

    village.game.change_authme({"DataSource.caching": False})
    assert found(ask(village), "authme.caching") == [caching]  # it was looked at a moment ago
    again = ask(village, fresh="true")
    assert found(again, "authme.caching") == []
    assert again["checkedAt"] > told["checkedAt"]


def test_who_asks_at_the_same_time_is_told_the_same(village: Village) -> None:
    token = village.olivia()
    replies = at_once([partial(village.get, "/api/admin/doctor", token=token)] * 8)
    assert {reply.status for reply in replies} == {200}
    assert len({reply.json["checkedAt"] for reply in replies}) == 1


def test_it_knows_that_it_looks_at_the_companion_itself(village: Village) -> None:
    told = ask(village, fresh="true")
    assert not any(found(told, kind) for kind in ("server.port_taken", "server.exposed", "database.away"))


def test_no_secret_stands_in_it(village: Village) -> None:
    state_dir = village.daemon.state_dir
    secrets = [(state_dir / name).read_text().strip() for name in ("installation.key", "signing.key")]
    told = ask(village, fresh="true")
    assert found(told, "game.rcon_password")
    assert not [secret for secret in (RCON_PASSWORD, TOKEN, *secrets) if secret in str(told)]


def test_it_is_for_admins(village: Village) -> None:
    bob = village.approved("bob")
    assert_refused(village.get("/api/admin/doctor"), 401, "unauthorized")
    assert_refused(village.get("/api/admin/doctor", token=village.user_token(bob)), 403, "forbidden")
    reply = village.get("/api/admin/doctor", {"fresh": "perhaps"}, token=village.olivia())
    assert_refused(reply, 422, "invalid_field", field="fresh")
