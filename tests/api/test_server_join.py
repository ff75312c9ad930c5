"""GET /api/server/join: what players need to join."""

from typing import Any

import pytest

from regsvc.config.host_sections import GameSection, ServerSection
from regsvc.config.sections import BedrockSection, Config
from regsvc.core.text import draw_qr_code
from tests.support.live_api import LiveApi, make_features


def ask(config: Config) -> dict[str, Any]:
    with LiveApi(make_features(config)) as api:
        payload: dict[str, Any] = api.request("GET", "/api/server/join").json["data"]
    return payload


def config_of(address: str, bedrock: str = "", *, is_on: bool = True) -> Config:
    return Config(
        server=ServerSection(name="Oakvale | best"),
        game=GameSection(address=address, versions="1.20 to 1.21.4"),
        bedrock=BedrockSection(enabled=is_on, address=bedrock),
    )


def test_where_both_editions_join() -> None:
    link = "minecraft:?addExternalServer=Oakvale%20%20%20best|play.example.org:19132"
    assert ask(config_of("play.example.org:25565")) == {
        "address": "play.example.org",
        "versions": "1.20 to 1.21.4",
        "bedrock": {"host": "play.example.org", "port": 19132, "link": link, "qrCode": draw_qr_code(link)},
    }


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        ("bedrock.example.org", "bedrock.example.org", 19132),
        ("bedrock.example.org:19133", "bedrock.example.org", 19133),
        ("[2001:db8::1]:19133", "2001:db8::1", 19133),
    ],
)
def test_bedrock_may_have_an_address_of_its_own(written: str, host: str, port: int) -> None:
    bedrock = ask(config_of("play.example.org", written))["bedrock"]
    assert (bedrock["host"], bedrock["port"]) == (host, port)
    assert bedrock["link"].endswith(f"|{written if ':' in written else f'{written}:19132'}")


def test_without_bedrock_there_is_no_code() -> None:
    assert ask(config_of("play.example.org", is_on=False))["bedrock"] is None


@pytest.mark.parametrize("address", ["", "127.0.0.1:25570"])
def test_an_address_that_players_cannot_use_is_not_told(address: str) -> None:
    payload = ask(config_of(address))
    assert (payload["address"], payload["bedrock"]) == (None, None)


def test_a_host_who_says_nothing() -> None:
    assert ask(Config()) == {"address": None, "versions": None, "bedrock": None}
