"""Findings about roles of the guild on Discord."""

import asyncio
from collections.abc import Iterator

import pytest

from regsvc.accounts.chat.guild_roles import Guild
from regsvc.config.loader import load_config
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import RunningDaemon
from tests.support.doctor_case import DoctorCase
from tests.support.peers.discord import GUILD, PLAYER, SUPPORTER, TOKEN, Discord


@pytest.fixture
def peer() -> Iterator[Discord]:
    with Discord() as made:
        made.members["1"] = set()
        yield made


def chat_of(peer: Discord, **changes: str) -> dict[str, object]:
    application = {"platform": "discord", "client_id": "1", "client_secret": "secret"}
    place = {"profile_url": f"{peer.address}/users/@me", "guild_id": GUILD, "bot_token": TOKEN}
    return {**application, **place, "give_role_id": PLAYER, **changes}


def problems(peer: Discord, role: str = SUPPORTER, **changes: str) -> str:
    given = {f"chat.{name}": value for name, value in chat_of(peer, **changes).items()}
    config = load_config(None, {}, {**given, "membership.role_ids": [role]})
    return " | ".join(asyncio.run(Guild(config, "https://play.example.org").find_problems()))


def test_what_keeps_roles_from_being_known_or_given_is_told(peer: Discord) -> None:
    assert problems(peer) == ""
    assert problems(peer, bot_token="another") == "Discord: HTTP 401 Unauthorized"
    assert problems(peer, guild_id="1") == "Discord: HTTP 404 Not Found, code 10004"
    assert "the guild has no role 77: check membership.role_ids" in problems(peer, role="77")
    assert "the guild has no role 78" in problems(peer, give_role_id="78")
    peer.bots_position = 3
    assert "the bot’s highest role is not above chat.give_role_id" in problems(peer)
    peer.bots_rights = 1 << 11
    assert "the bot lacks the right Manage Roles" in problems(peer)
    peer.bots_rights, peer.bots_position = 1 << 3, 4
    assert problems(peer) == ""
    peer.members.clear()
    assert problems(peer) == "the guild has no members but the bot"
    peer.stop()
    assert problems(peer) == "Discord: ConnectionRefusedError: Connection refused"


def test_a_large_guild_is_read(peer: Discord) -> None:
    peer.emojis = [{"id": str(number), "name": "e" * 32, "roles": []} for number in range(2000)]
    assert problems(peer) == ""


def test_the_doctor_tells_what_it_finds_and_what_the_daemon_met(doctor_case: DoctorCase, peer: Discord) -> None:
    doctor_case.sections["chat"] = chat_of(peer)
    assert doctor_case.findings() == []
    running = RunningDaemon("127.0.0.1:8080", is_companion=True, roles_problem="Discord: HTTP 500")
    assert Facts(doctor_case.read_config(), doctor_case.host, running).role_problems == ["Discord: HTTP 500"]
    doctor_case.change_host(find_role_problems=lambda guild: ["the bot has left"])
    assert doctor_case.only_finding("chat.roles_unknown").title == "the bot has left."
