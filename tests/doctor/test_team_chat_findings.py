"""Findings about the team's chats."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from regsvc.config.host_sections import TeamChat
from regsvc.core import clock
from regsvc.team_chat.discord import Discord
from regsvc.team_chat.service import name_conflict
from tests.support.doctor_case import DoctorCase
from tests.support.our_tables import ago
from tests.support.peers.discord import BOT, CHANNEL, GUILD, ROLE, TOKEN
from tests.support.peers.discord import Discord as DiscordPeer
from tests.support.peers.http_peer import HttpPeer


class OurAddress(HttpPeer):
    """Answers as the companion does to a request that nobody signed, or as another program."""

    status = 401

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(self.status)


@pytest.fixture
def peer() -> Iterator[DiscordPeer]:
    with DiscordPeer() as made:
        yield made


@pytest.fixture
def ours(peer: DiscordPeer) -> Iterator[OurAddress]:
    with OurAddress() as made:
        peer.endpoint = f"{made.address}/api/team-chat/discord"
        yield made


def problems(peer: DiscordPeer, ours: OurAddress, token: str = TOKEN, key: str = "", channel: str = CHANNEL) -> str:
    keys = {"platform": "discord", "token": token, "public_key": key or peer.public_key, "channel": channel}
    chat = TeamChat(**keys, api_url=peer.address)  # type: ignore[arg-type]
    return " | ".join(asyncio.run(Discord(chat, ours.address).find_problems(clock.now())))


def test_what_is_wrong_on_discord_is_told_with_what_to_do(peer: DiscordPeer, ours: OurAddress) -> None:
    assert problems(peer, ours) == ""
    assert "HTTP 401 Unauthorized: check the token" in problems(peer, ours, token="another")
    assert "public_key is another one" in problems(peer, ours, key="0" * 64)
    assert "HTTP 404 Not Found, code 10003: the bot does not see the channel" in problems(peer, ours, channel="1")
    peer.overwrites = [{"id": GUILD, "allow": "0", "deny": str(1 << 10)}, {"id": ROLE, "allow": "0", "deny": "2048"}]
    assert problems(peer, ours) == "the bot lacks in the channel: View Channel, Send Messages"
    peer.overwrites.append({"id": BOT, "allow": str(1 << 10 | 1 << 11), "deny": "0"})
    assert problems(peer, ours) == ""
    peer.clock_step = -600
    assert "this machine's clock is about 10 minutes ahead" in problems(peer, ours)


def test_clicks_that_do_not_reach_us(peer: DiscordPeer, ours: OurAddress) -> None:
    ours.status = 404
    assert "does not lead here from this machine (HTTP 404 Not Found): check your proxy" in problems(peer, ours)
    peer.endpoint = None
    assert f"enter {ours.address}/api/team-chat/discord at Discord" in problems(peer, ours)


def test_the_doctor_tells_it(doctor_case: DoctorCase) -> None:
    chat = {"platform": "discord", "token": TOKEN, "public_key": "0" * 64, "channel": CHANNEL}
    doctor_case.sections["team_chat"] = [chat]  # type: ignore[assignment]
    assert doctor_case.findings() == []
    doctor_case.change_host(find_chat_problems=lambda platform, now: [f"{platform.chat.name} is shut"])
    assert doctor_case.only_finding("team_chat.unusable").title == f"discord:{CHANNEL} is shut."


@pytest.mark.every_database
def test_another_program_uses_the_bot(doctor_case: DoctorCase) -> None:
    """As the daemon that met it has recorded; another bot is none of this chat's business."""
    chat = {"platform": "telegram", "token": "666:a", "channel": "-5"}
    doctor_case.sections["team_chat"] = [chat]  # type: ignore[assignment]
    doctor_case.change_host(find_chat_problems=lambda platform, now: [])
    doctor_case.start_once()
    keep, soon = "INSERT INTO regsvc_lease VALUES (?, 'another:1', ?)", ago(minutes=-10)
    doctor_case.our_database.execute(keep, (name_conflict("777:b"), soon))
    assert doctor_case.findings() == []
    doctor_case.our_database.execute(keep, (name_conflict("666:a"), soon))
    assert "the group -5 is also used" in doctor_case.only_finding("team_chat.shared_bot").title
    for past in (ago(seconds=1), ago(days=-1)):  # or from before the clock was set back
        doctor_case.our_database.execute("UPDATE regsvc_lease SET expires_at = ?", (past,))
        assert doctor_case.findings() == []
