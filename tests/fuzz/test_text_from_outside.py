"""Text from outside, whatever its bytes: wherever it comes in, it is text, and ends nothing but by name.

`tests/house_rules/test_text_from_outside.py` has every module where text comes in, and its test.
"""

import asyncio
import contextlib
import itertools
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nacl.signing import SigningKey

from plugin_bridge.server.rcon import RconAddress, find_allowed, is_surely_offline, one_line, open_rcon
from plugin_bridge.server.status_ping import ServerStatus, ServerUnreachable, fetch_status
from regsvc.accounts.chat.guild_roles import Guild, RolesUnknown
from regsvc.accounts.chat.provider import ChatProvider
from regsvc.allowlist.profiles import _read_profile
from regsvc.config.loader import load_config
from regsvc.config.sections import ChatSection, Config, MembershipSection, QuestionnaireSection
from regsvc.core import clock as real_clock
from regsvc.core.errors import ChatNotMember, ProviderUnavailable
from regsvc.core.http_response import NoResponse, Response
from regsvc.database.models import AuditEntry, SyncRecord, TeamChatMessage, User
from regsvc.doctor.checkup import as_text, examine, in_language
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import find_chat_problems
from regsvc.notifications.mail.http_backend import Brevo, HttpBackend, Mailgun, MailService, Resend
from regsvc.registration.questionnaire.scorer import TextAnswer, make_scorer
from regsvc.runtime.updates import UpdateFeed
from regsvc.team_chat.discord import Discord
from regsvc.team_chat.onebot import OneBotConnection
from regsvc.team_chat.telegram import Telegram
from tests.doctor.conftest import doctor_case
from tests.fuzz.test_chat_platform_shapes import (
    CONTENT,
    INTERACTION,
    MESSAGE,
    NAMED,
    ON_DISCORD,
    ON_TELEGRAM,
    UPDATES,
    AnyReply,
    errors_of,
    key,
    peer,
    services,
)
from tests.notifications.test_mail_backends import ALICE, letter
from tests.support.authme.authme_tables import column_types
from tests.support.authme.game_server import GameServer
from tests.support.doctor_case import DoctorCase
from tests.support.each import assert_each
from tests.support.foreign_text import HOSTILE, fill, in_json, require_line, require_text
from tests.support.manual_clock import ManualClock
from tests.support.peers.minecraft_server import Conversation, MinecraftServer, number
from tests.support.peers.rcon_server import RconServer
from tests.support.services import MakeServices, ServiceHarness

__all__ = ["doctor_case", "key", "peer", "services"]  # fixtures

MOMENT = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture(params=HOSTILE)
def raw(request: pytest.FixtureRequest) -> bytes:
    return HOSTILE[request.param]


def with_texts(document: Any, raw: bytes) -> bytes:
    """Return the JSON document with a further field in each of its objects, of these bytes and named by them."""

    def add(value: Any) -> Any:
        if isinstance(value, dict):
            return {"?": "?", **{name: add(member) for name, member in value.items()}}
        return [add(member) for member in value] if isinstance(value, list) else value

    return fill(add(document), raw)


# --- services that we call ---


@pytest.mark.parametrize("kind", [Resend, Mailgun, Brevo])
def test_refusals_of_mail_services(peer: AnyReply, raw: bytes, kind: Callable[[str, str], MailService]) -> None:
    backend = HttpBackend("a@example.org", kind(f"{peer.address}/", "key"), allows_private=True)
    for status in (400, 401, 403, 422, 429, 500):
        for body in (raw, in_json(raw), fill({"message": "?", "name": "?", "code": "?"}, raw)):
            peer.status, peer.replies = status, {"": body}
            with pytest.raises(NAMED) as failure:
                asyncio.run(backend.send(letter(), ALICE))
            require_line(str(failure.value))
            require_line(asyncio.run(backend.find_problem(timedelta(seconds=20))) or "")


def test_scores(peer: AnyReply, raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    config = QuestionnaireSection(scorer_url=peer.address, scorer_timeout=timedelta(seconds=20))
    scorer = make_scorer(config, "en")
    assert scorer is not None
    said = fill({"score": 3, "reason": "?"}, raw).decode("utf-8", "surrogateescape")
    whole = json.dumps({"choices": [{"message": {"content": said}}]}).encode("utf-8", "surrogateescape")
    for body, is_scored in (
        (raw, False),
        (fill({"choices": [{"message": {"content": "?"}}]}, raw), False),
        (whole, len(raw) < 1000),
        (with_texts({"choices": [{"message": {"content": '{"score": 3}'}}]}, raw), len(raw) < 1000),
    ):
        peer.replies = {"": body}
        score = asyncio.run(scorer.score(TextAnswer("Why?", "", 5, "Because.")))
        assert (score is not None) == is_scored, body
        if score is not None:
            require_line(score.reason)
    assert " at " not in caplog.text  # a traceback


def test_profiles_of_mojang(raw: bytes) -> None:
    profile = {"id": "4566e69fc90748ee8d71d7ba5aa00d20", "name": "Alice"}
    assert _read_profile(Response(200, {}, with_texts(profile, raw)), "Alice", MOMENT).uuid is not None
    for body in (raw, fill({**profile, "name": "?"}, raw), fill({**profile, "id": "?"}, raw)):
        with pytest.raises(NoResponse):
            _read_profile(Response(200, {}, body), "Alice", MOMENT)


def test_feeds_of_releases(peer: AnyReply, raw: bytes) -> None:
    feed = UpdateFeed(peer.address, timeout=timedelta(seconds=20))
    peer.replies = {"": with_texts({"tag_name": "v5.7.0", "html_url": "?"}, raw[:1000])}
    published = asyncio.run(feed.fetch())
    assert (published.version, published.page) == ("5.7.0", None)
    for body in (raw, fill({"tag_name": "?"}, raw), fill({"tag_name": "5.7.0", "?": "?"}, raw)[:-3]):
        peer.replies = {"": body}
        with pytest.raises(NoResponse) as failure:
            asyncio.run(feed.fetch())
        require_line(str(failure.value))


def test_profiles_of_chat_accounts(peer: AnyReply, raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    section = ChatSection(
        platform="discord",
        client_id="c",
        client_secret="s",
        redirect_url="https://play.example.org/api/chat/callback",
        token_url=f"{peer.address}/token",
        profile_url=f"{peer.address}/me",
        id_field="id",
        name_field="username",
        timeout=timedelta(seconds=20),
    )
    profile = {"id": "61", "username": "?", "discriminator": "?", "avatar": "?", "global_name": "?"}
    peer.replies = {
        "/token": with_texts({"access_token": "a", "token_type": "Bearer"}, raw[:1000]),
        "/me": fill(profile, raw[:1000]),
    }
    account = asyncio.run(ChatProvider(section).fetch_account("code", "v" * 43))
    assert account.id == "61"
    for name in (account.username, account.discriminator, account.avatar, account.global_name):
        require_line(name or "", 300)
    refused = {"error": "?", "error_description": "?"}
    for path, body in (("/token", raw), ("/me", raw), ("/token", fill(refused, raw)), ("/me", fill({"id": "?"}, raw))):
        peer.replies = {"/token": b'{"access_token": "a"}', "/me": b'{"id": "61"}', path: body}
        with pytest.raises((ProviderUnavailable, ChatNotMember)):
            asyncio.run(ChatProvider(section).fetch_account("code", "v" * 43))
    for record in caplog.records:
        require_line(record.getMessage())


# --- chat platforms ---


@pytest.mark.parametrize("valid", [ON_DISCORD, ON_TELEGRAM], ids=["discord", "telegram"])
def test_replies_of_chat_platforms(peer: AnyReply, raw: bytes, valid: dict[str, Any]) -> None:
    from regsvc.config.host_sections import TeamChat

    def make() -> Discord | Telegram:
        if valid is ON_DISCORD:
            chat = TeamChat(platform="discord", token="t", channel="41", public_key="00", api_url=peer.address)
            return Discord(chat, peer.address)
        return Telegram(TeamChat(platform="telegram", token="666:t", channel="-42", api_url=peer.address), peer.address)

    peer.replies = {path: with_texts(reply, raw[:500]) for path, reply in valid.items()}
    assert asyncio.run(make().post(CONTENT, 7)) in ("9", "5")
    refusals = (raw, fill({"ok": False, "error_code": 400, "description": "?", "message": "?", "code": 1}, raw))
    for status, body in [(status, body) for status in (200, 400, 403, 429, 500) for body in refusals]:
        peer.status, peer.replies = status, {"": body}
        with pytest.raises(NAMED) as failure:
            asyncio.run(make().post(CONTENT, 7))
        require_line(str(failure.value), 1000)
        for problem in find_chat_problems(make(), real_clock.now()):
            require_line(problem, 1000)


def test_roles_on_discord(peer: AnyReply, raw: bytes) -> None:
    chat = ChatSection(
        platform="discord", profile_url=f"{peer.address}/users/@me", guild_id="1", bot_token="t", give_role_id="8"
    )
    guild = Guild(Config(chat=chat, membership=MembershipSection(role_ids=("7",))), peer.address)
    roles = [
        {"id": "7", "permissions": "0"},
        {"id": "8", "position": 1},
        {"id": "9", "permissions": "8", "position": 2},
    ]
    whole = {
        "with_counts=true": {"roles": roles, "approximate_member_count": 5},
        "/guilds/1": {"roles": roles},
        "/users/@me": {"id": "2"},
        "/members/2": {"user": {"id": "2"}, "roles": ["9"]},
    }
    peer.replies = {path: with_texts(reply, raw[:500]) for path, reply in whole.items()}
    assert asyncio.run(guild.find_problems()) == []
    for body in (raw, fill({"message": "?", "code": "?", "roles": "?", "user": "?"}, raw), fill({"roles": ["?"]}, raw)):
        for status in (200, 401, 403, 404, 429, 500):
            peer.status, peer.replies = status, {"": body}
            with pytest.raises(RolesUnknown) as failure:
                asyncio.run(guild.find_roles("2"))
            require_line(str(failure.value), 1000)
            for problem in asyncio.run(guild.find_problems()):
                require_line(problem, 1000)


@dataclass
class OddRita:
    """Rita, whose names are no text, and who rejects Alice for a reason that is none, on any platform."""

    services: ServiceHarness
    peer: AnyReply
    key: SigningKey
    clock: ManualClock
    runner: asyncio.Runner

    def on_discord(self, raw: bytes, number: int) -> None:
        user = {"id": "61", "username": "?", "global_name": "?"}
        typed = {"custom_id": "reject:1:", "components": [{"type": 18, "component": {"type": 4, "value": "?"}}]}
        member = {"user": user, "roles": [], "nick": "?"}
        sent = {**INTERACTION, "id": str(number), "type": 5, "locale": "?", "member": member, "data": typed}
        body, timestamp = fill(sent, raw), str(int(self.clock().timestamp()))
        signature = self.key.sign(timestamp.encode() + body).signature.hex()
        discord = self.services.app.team_chat.discord
        assert discord is not None
        require_text(self.runner.run(discord.receive(signature, timestamp, body)))

    def on_telegram(self, raw: bytes, number: int) -> None:
        [telegram], raw = self.services.app.team_chat.telegram, raw[:4096]  # no message there is longer
        replies = {"sendMessage": {"ok": True, "result": {"message_id": 1}}, "answerCallbackQuery": {"ok": True}}
        sender = {"id": 61, "first_name": "?", "language_code": "?"}
        said = {**UPDATES[2]["message"], "from": sender, "date": int(self.clock().timestamp()), "text": "?"}
        click = {**UPDATES[3]["callback_query"], "from": sender, "data": "?"}
        updates = [{"update_id": number, "callback_query": click}, {"update_id": number + 1, "message": said}]
        self.peer.replies = {**replies, "getUpdates": fill({"ok": True, "result": updates}, raw)}
        self.runner.run(telegram._poll())
        assert telegram._offset == number + 2, "they would come again for ever"

    def on_onebot(self, raw: bytes, number: int) -> None:
        [onebot] = self.services.app.team_chat.onebot
        said = {**MESSAGE, "time": int(self.clock().timestamp()), "sender": {"nickname": "?", "card": "?"}}

        async def answer(text: str) -> None:
            echo = json.loads(text)["echo"]
            onebot.receive(connection, fill({"echo": echo, "status": "?", "retcode": "?", "wording": "?"}, raw))

        async def act() -> None:
            for place, message in enumerate(("?", [{"type": "text", "data": {"text": "?"}}], "reject 3 ?")):
                body = fill({**said, "message_id": number + place, "message": message}, raw)
                onebot.receive(connection, body.replace(b"reject 3 ?", b"reject 3 " + in_json(raw)[1:-1]))
            onebot.receive(connection, raw)
            while onebot._tasks:
                await asyncio.gather(*onebot._tasks)

        connection = OneBotConnection("10001", "universal", answer, lambda: None)
        onebot._open[:] = [connection]
        self.runner.run(act())


def test_what_people_do_on_chat_platforms(
    services: ServiceHarness, peer: AnyReply, key: SigningKey, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    discord = services.app.team_chat.discord
    assert discord is not None
    renderer, numbers = discord._receiver.decisions.renderer, itertools.count(1000, 10)

    def check(raw: bytes) -> None:
        for act in (rita.on_discord, rita.on_telegram, rita.on_onebot):
            version = renderer.version_of(services.user("Alice"))
            TeamChatMessage.update(is_open=True, version=version).execute()
            act(raw, next(numbers))
            assert services.user("Alice").status == "rejected", act
            require_text(services.user("Alice").reason)
            services.decide("reopen", "Alice")
            clock.advance(days=1)

    with asyncio.Runner() as runner:
        rita = OddRita(services, peer, key, clock, runner)
        assert_each(HOSTILE.values(), check)
    assert errors_of(caplog) == []


# --- the game server ---


def test_replies_of_the_console(raw: bytes) -> None:
    text = raw.replace(b"\0", b" ")[:4000]

    def answer(command: str) -> None:
        server.raw = struct.pack("<iii", len(text) + 10, 2, 0) + text + b"\0\0"

    async def ask() -> str:
        async with open_rcon(RconAddress("127.0.0.1", server.port, server.password)) as connection:
            return await connection.execute("list")

    server = RconServer()
    server.before = answer
    server.start()
    try:
        reply = asyncio.run(ask())
    finally:
        server.stop()
    require_text(reply)
    require_line(one_line(reply, 100), 100)
    assert find_allowed(reply) is None or isinstance(find_allowed(reply), list)
    assert not is_surely_offline("Alice", reply)


def test_the_status_of_a_game_server(raw: bytes) -> None:
    status = {
        "description": {"text": "?", "extra": ["?"]},
        "players": {"online": 1, "max": 2, "sample": [{"name": "?", "id": "?"}]},
        "version": {"name": "?", "protocol": 1},
    }
    body = fill(status, raw[: 32 * 1024])

    def answer(server: MinecraftServer, client: Conversation) -> None:
        client.send(0, number(len(body)) + body)

    with MinecraftServer(answer=answer) as server:
        found = asyncio.run(fetch_status("127.0.0.1", server.port, 20))
    assert isinstance(found, ServerStatus)
    require_text([found.motd, found.version, *(player.name for player in found.players)], 1000)
    assert found.online == 1
    body = raw[: 32 * 1024]
    with MinecraftServer(answer=answer) as server, pytest.raises(ServerUnreachable) as failure:
        asyncio.run(fetch_status("127.0.0.1", server.port, 20))
    require_line(str(failure.value))


UUID = "4566e69f-c907-48ee-8d71-d7ba5aa00d20"


def write_game_files(game: GameServer, raw: bytes) -> None:
    """Write every file of the game and of its plugins that is read, with these bytes wherever a text may stand."""
    entry = {"uuid": UUID, "name": "?", "level": 4}
    olivia = {"uuid": "?", "name": "Olivia", "level": 4, "?": "?"}
    for file in ("ops.json", "whitelist.json", "banned-players.json", "usercache.json"):
        (game.directory / file).write_bytes(fill([entry, olivia, "?", {"?": "?"}], raw))
    line = raw.replace(b"\\", b"")[:4096]
    properties = game.properties_file.read_bytes()
    game.properties_file.write_bytes(properties + b"motd=" + line + b"\n" + line + b"=" + line + b"\n\\ud800=\\ud800\n")
    for file in ("bukkit.yml", "spigot.yml", "paper.yml", "config/paper-global.yml", "config/paper-world-defaults.yml"):
        (game.directory / file).parent.mkdir(exist_ok=True)
        (game.directory / file).write_bytes(b"# " + line + b"\na: " + in_json(line) + b"\n")
    for folder in ("AuthMe", "DiscordSRV", "floodgate", "VerifyMC"):
        place = game.directory / "plugins" / folder
        place.mkdir(exist_ok=True)
        for file in ("linkedaccounts.json", "accounts.aof", "key.pem", "config.yml"):
            if (folder, file) != ("AuthMe", "config.yml"):
                (place / file).write_bytes(fill({"?": "?"}, raw))
    messages = game.authme_directory / "messages"
    messages.mkdir(exist_ok=True)
    (messages / "messages_en.yml").write_bytes(b"registration: {register_request: " + in_json(line) + b"}\n")
    limbo = game.authme_directory / "playerdata" / UUID
    limbo.mkdir(parents=True, exist_ok=True)
    (limbo / "data.json").write_bytes(fill({"operator": "?", "group": "?", "location": {"world": "?"}}, raw))
    (game.directory / "plugins" / "AuthMe.jar").unlink(missing_ok=True)
    description = b"name: AuthMe\nmain: fr.xephi.authme.AuthMe\nversion: " + in_json(line) + b"\n"
    with zipfile.ZipFile(game.directory / "plugins" / "AuthMe.jar", "w") as jar:
        jar.writestr("plugin.yml", description)
    with contextlib.suppress(OSError, ValueError):
        (game.directory / "plugins").joinpath(f"AuthMe-{os.fsdecode(line[:50].replace(b'/', b''))}.jar").write_bytes(
            raw
        )


@pytest.mark.every_database
def test_files_of_the_game_and_of_its_plugins(
    make_services: MakeServices, game_server: GameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The sync goes on, with the operators that can be read."""
    place = make_services()

    def check(raw: bytes) -> None:
        write_game_files(game_server, raw)
        name = f"Player{next(numbers)}"
        place.register(name)
        place.decide("approve", name)
        place.sync()
        assert place.row(name.lower())
        assert place.app.context.operators.level_of("Olivia") == 4

    numbers = itertools.count(1)
    assert_each(HOSTILE.values(), check)
    for record in caplog.records:
        require_text(record.getMessage())


@pytest.mark.one_database("sqlite")
def test_rows_of_authme(make_services: MakeServices) -> None:
    """SQLite keeps any bytes in any column, as text or not: other players are in sync all the same."""
    place = make_services()
    own = ("realname", "password", "salt", "ip", "lastlogin", "regip", "regdate", "world", "email", "totp", "uuid")
    columns = [column for column in own if column in column_types(place.table)]
    names = ", ".join(place.table.column(name) for name in ("username", *columns))
    number = itertools.count(1)

    def check(raw: bytes) -> None:
        raw, name = raw[:5000], f"Player{next(number)}"
        for written in (raw.decode("latin-1"), raw):
            typed = "CAST(CAST(? AS BLOB) AS TEXT)" if isinstance(written, str) else "?"
            for username, rest in ((f"p{next(number)}", [raw] * len(columns)), (raw, ["1"] * len(columns))):
                marks = ", ".join([typed] * (len(columns) + 1))
                values = [username.encode() if isinstance(username, str) else username, *rest]
                place.table.database.execute(
                    f"INSERT OR REPLACE INTO {place.table.name} ({names}) VALUES ({marks})", values
                )
        place.register(name)
        place.decide("approve", name)
        place.sync(allow_mass_changes=True)
        assert place.row(name.lower())
        assert place.plugin(name) == "synced"
        for row in [*User.select().dicts(), *SyncRecord.select().dicts(), *AuditEntry.select().dicts()]:
            # what AuthMe's row was is compared with it, byte for byte, and shown nowhere
            require_text({name: value for name, value in row.items() if not name.startswith("base_")}, 5000)

    assert_each(HOSTILE.values(), check)


def test_a_folder_of_any_name_is_told(doctor_case: DoctorCase) -> None:
    """What the doctor says is sent as JSON, too."""
    folder = Path(os.fsdecode(os.fsencode(doctor_case.directory) + b"/\xb5\xc7\xc2\xbc"))
    folder.mkdir()
    config = load_config(None, {}, {})
    config = replace(
        config, game=replace(config.game, directory=folder), server=replace(config.server, state_dir=folder)
    )
    facts = Facts(config, doctor_case.host)
    for language in ("en", "zh"):
        checkup = in_language(examine(facts), language)
        assert "\ufffd" in "".join(finding.title + finding.where for finding in checkup.findings)
        require_text([*checkup.not_examined, *map(msgspec.structs.asdict, checkup.findings)], 10_000)


def test_the_doctor_reads_all_of_it(doctor_case: DoctorCase) -> None:
    def check(raw: bytes) -> None:
        write_game_files(doctor_case.game, raw)
        checkup = doctor_case.examine()
        for language in ("en", "zh"):
            for finding in in_language(checkup, language).findings:
                require_text(msgspec.structs.asdict(finding), 10_000)
        as_text(checkup, {}, has_colours=False).encode()

    assert_each(HOSTILE.values(), check)
