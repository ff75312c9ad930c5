"""The allowlist's file, changed while a game server writes it, too."""

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomcrcon  # type: ignore[import-untyped]
import pytest

from plugin_bridge.server import allowlist
from plugin_bridge.server.allowlist import AllowlistConsole, AllowlistFile, Entry
from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.player_uuids import offline_uuid
from plugin_bridge.server.rcon import RconAddress, UnsafeName, find_allowed, open_rcon
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server

ALICE, BOB, CARLA = (Entry(offline_uuid(name), name) for name in ("Alice", "Bob", "Carla"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AllowlistServer]:
    with allowlist_server(tmp_path) as running:
        yield running


@pytest.fixture
def file(server: AllowlistServer) -> Iterator[AllowlistFile]:
    file = AllowlistFile(server.file)
    yield file
    file.close()


def reload(server: AllowlistServer) -> None:
    async def send() -> None:
        async with open_rcon(RconAddress("127.0.0.1", server.port, server.password)) as console:
            await console.execute("whitelist reload")

    asyncio.run(send())


def names_in(file: AllowlistFile) -> set[str]:
    return {entry.name for entry in file.read().entries}


def test_alice_gets_in_once_the_server_has_reloaded(server: AllowlistServer, file: AllowlistFile) -> None:
    file.change([ALICE], ())
    assert not server.may_join("Alice")
    reload(server)
    assert server.may_join("Alice")
    assert not server.may_join("alice")  # another player, to the game
    file.change([], [ALICE])
    reload(server)
    assert not server.may_join("Alice")


def test_entries_of_others_stay_as_they_are(server: AllowlistServer, file: AllowlistFile) -> None:
    """Unknown fields, entries that the game ignores, a UUID in capitals; last the one at which the game gives up."""
    written: list[Any] = [
        {"uuid": BOB.uuid.upper(), "name": "Bob", "note": "the builder ✓"},
        {"uuid": ALICE.uuid.replace("-", ""), "name": "Alice"},
        {"name": "nobody"},
        "a word",
    ]
    server.file.write_text("\ufeff" + json.dumps(written), encoding="utf-8")
    assert file.read().entries == (BOB,)
    file.change([ALICE], ())
    added = {"uuid": ALICE.uuid, "name": "Alice"}
    assert json.loads(server.file.read_text()) == [*written[:3], added, "a word"]
    file.change([], [BOB])
    assert json.loads(server.file.read_text()) == [*written[1:3], added, "a word"]


def test_a_list_that_a_host_typed_is_read_and_changed_as_the_game_reads_it(
    server: AllowlistServer, file: AllowlistFile
) -> None:
    """It would give up at the entry of no value behind the last comma: ours comes before that."""
    server.file.write_text(f"[ # the builders\n  {{'uuid': '{BOB.uuid}', name: Bob}},\n]")
    assert file.read().entries == (BOB,)
    file.change([ALICE], ())
    assert json.loads(server.file.read_text()) == [{"uuid": it.uuid, "name": it.name} for it in (BOB, ALICE)] + [None]


def test_owner_mode_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "shared.json", tmp_path / "whitelist.json"
    real.write_text("[]")
    real.chmod(0o640)
    link.symlink_to(real)
    if os.getuid() == 0:
        os.chown(real, 12345, 54321)
    before = real.stat()
    file = AllowlistFile(link)
    file.change([ALICE], ())
    file.close()
    after = real.stat()
    assert link.is_symlink()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared.json", "whitelist.json"]


def test_a_missing_file_is_an_empty_list(tmp_path: Path) -> None:
    file = AllowlistFile(tmp_path / "whitelist.json")
    assert (file.read().entries, file.read().stamp) == ((), None)
    file.change([ALICE], ())
    assert file.read().entries == (ALICE,)


@pytest.mark.parametrize("content", ["", "[", '{"uuid": 1}', '[{"uuid": "x"}', "\xff", "[" * 100_000])
def test_a_broken_file_is_refused_and_left_alone(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowlist, "_PAUSE", 0)
    path = tmp_path / "whitelist.json"
    path.write_text(content, encoding="latin-1")
    file = AllowlistFile(path)
    with pytest.raises(ServerFileError, match=r"whitelist\.json cannot be read"):
        file.read()
    with pytest.raises(ServerFileError):
        file.change([ALICE], ())
    assert path.read_text(encoding="latin-1") == content


@pytest.mark.parametrize(("code", "word"), [(errno.EROFS, "ReadWritePaths="), (errno.EACCES, "game server's user")])
def test_a_folder_that_we_may_not_write_is_told_with_the_remedy(
    tmp_path: Path, code: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd protects it from the daemon, or as another user's is."""

    def refuse(*_arguments: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(allowlist, "_write", refuse)
    with pytest.raises(ServerFileError, match=word):
        AllowlistFile(tmp_path / "whitelist.json").change([ALICE], [])


def test_what_the_server_writes_in_the_last_moment_is_kept(
    server: AllowlistServer, file: AllowlistFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the old file open when ours takes its place: what it wrote is in no file any more."""
    file.change([BOB, CARLA], ())
    reload(server)
    before_rename(monkeypatch, lambda: (server.type_add("dave"), server.type_remove("Carla")))
    file.change([ALICE], ())
    assert names_in(file) == {"Alice", "Bob", "Carla"}
    reload(server)
    assert file.settle()
    reload(server)
    assert not file.settle()
    assert names_in(file) == set(server.listed.values()) == {"Alice", "Bob", "dave"}


def before_rename(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, right before a file takes the place of another."""
    replace = Path.replace

    def act_and_replace(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        act()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", act_and_replace)


def test_two_writers_lose_nothing(server: AllowlistServer, file: AllowlistFile) -> None:
    """In 1,000 rounds the game and we add a player each, and remove an earlier one: all is as both wanted.

    The game is a few rounds behind at most: whom it adds and removes again while we settle one change may stay.
    """
    rounds, kept = 1000, 10
    turn, behind = threading.Semaphore(0), threading.Semaphore(kept // 2)

    def play() -> None:
        for number in range(rounds):
            turn.acquire()
            server.type_add(f"theirs_{number}")
            server.type_remove(f"theirs_{number - kept}")
            behind.release()

    typist = threading.Thread(target=play)
    typist.start()
    ours = [Entry(offline_uuid(f"ours_{number}"), f"ours_{number}") for number in range(rounds)]
    for number, entry in enumerate(ours):
        behind.acquire()
        turn.release()
        while not change_and_confirm(
            server, file, entry, ours[number - kept : number - kept + 1] if number >= kept else []
        ):
            pass
    typist.join()
    while file.settle():
        pass
    server.answer("whitelist reload")
    last = range(rounds)[-kept:]
    wanted = {f"ours_{number}" for number in last} | {f"theirs_{number}" for number in last}
    assert names_in(file) == set(server.listed.values()) == wanted


def change_and_confirm(server: AllowlistServer, file: AllowlistFile, add: Entry, remove: list[Entry]) -> bool:
    with suppress(ServerFileError):  # the game writes too often: again
        file.change([add], remove)
        server.answer("whitelist reload")
        while file.settle():
            server.answer("whitelist reload")
        entries = file.read().entries
        return add in entries and not set(remove) & set(entries)
    return False


def test_no_reader_sees_half_of_what_we_write(file: AllowlistFile) -> None:
    is_over, seen = threading.Event(), list[int]()

    def read() -> None:
        while not is_over.is_set():
            seen.append(len(json.loads(file.path.read_text())))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        file.change([Entry(offline_uuid(f"player_{number}"), f"player_{number}")], ())
        file.settle()
    is_over.set()
    reader.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 30


def test_a_server_that_dies_while_it_writes_keeps_nobody_waiting(
    server: AllowlistServer, file: AllowlistFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had written of the file that ours replaced is never completed."""
    monkeypatch.setattr(allowlist, "_PAUSE", 0)
    before_rename(monkeypatch, lambda: server.file.write_text("[{"))
    file.change([ALICE], ())
    assert not file.settle()
    file.change([BOB], ())
    assert names_in(file) == {"Alice", "Bob"}


def test_another_client_gets_the_same_answers_from_the_stand_in(server: AllowlistServer) -> None:
    """One that follows the game's documents proves the stand-in, and so what our own client is tested with."""
    commands = ["list", "add Steve_X", "add Steve_X", "list", "add bob", "remove bob", "remove bob", "list", "reload"]

    async def talk() -> list[str]:
        async with aiomcrcon.Client("127.0.0.1", server.port, server.password) as client:
            return [(await client.send_cmd(f"whitelist {command}"))[0] for command in commands]

    assert asyncio.run(talk()) == [
        "There are no whitelisted players",
        "Added steve_x to the whitelist",
        "Player is already whitelisted",
        "There are 1 whitelisted player(s): steve_x",
        "Added bob to the whitelist",
        "Removed bob from the whitelist",
        "Player is not whitelisted",
        "There are 1 whitelisted player(s): steve_x",
        "Reloaded the whitelist",
    ]
    assert json.loads(server.file.read_text()) == [{"uuid": offline_uuid("steve_x"), "name": "steve_x"}]


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("There are no whitelisted players", []),
        ("There are 2 whitelisted player(s): Alice, .Bob_1", ["Alice", ".Bob_1"]),
        ("§6There are 1 whitelisted players:§r Alice", ["Alice"]),
        ("There is 1 whitelisted player: Alice", ["Alice"]),
        ("There are 3 (out of 5 seen) whitelisted players:Alice, Bob and Carla", ["Alice", "Bob", "Carla"]),
        ("There are 1 (out of 5 seen) whitelisted players:\nAlice", ["Alice"]),
        ("[12:30] Es gibt 2 Spieler auf der Gästeliste: Alice, Bob", ["Alice", "Bob"]),
        ("There are 3 whitelisted player(s): Alice, Bo", None),
        ("There are 2 whitelisted player(s): Alice, see the log", None),
        ("Alice: Bob", None),
    ],
)
def test_names_are_read_from_any_whole_list(reply: str, names: list[str] | None) -> None:
    assert find_allowed(reply) == names


def test_a_list_in_many_packets_comes_whole(server: AllowlistServer) -> None:
    server.listed = {str(number): f"player_{number:09}" for number in range(9000)}
    console = AllowlistConsole(lambda: RconAddress("127.0.0.1", server.port, server.password))
    assert [entry.name for entry in console.read().entries] == list(server.listed.values())
    server.listed |= {str(number): f"player_{number:09}" for number in range(9000, 15000)}
    with pytest.raises(ServerFileError, match="too long"):
        console.read()


@pytest.mark.parametrize("name", ["@a", "*", "a b", "", "a\nstop", "a" * 17, "Müller", "a;b"])
def test_no_selector_reaches_the_console(server: AllowlistServer, name: str) -> None:
    console = AllowlistConsole(lambda: RconAddress("127.0.0.1", server.port, server.password))
    for add, remove in (([Entry("", name)], []), ([], [Entry("", name)])):
        with pytest.raises(UnsafeName):
            console.change(add, remove)
    assert server.commands == []
