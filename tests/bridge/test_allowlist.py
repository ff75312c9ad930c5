"""The allowlist's file, changed while a game server writes it, too."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from plugin_bridge.server import allowlist
from plugin_bridge.server.allowlist import AllowlistFile, Entry
from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.player_uuids import offline_uuid
from plugin_bridge.server.rcon import RconAddress, open_rcon
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
    """Unknown fields, entries that the game ignores, a UUID without dashes in capitals."""
    written: list[Any] = [
        {"uuid": BOB.uuid.replace("-", "").upper(), "name": "Bob", "note": "the builder ✓"},
        {"name": "nobody"},
        "a word",
    ]
    server.file.write_text("\ufeff" + json.dumps(written), encoding="utf-8")
    assert file.read().entries == (BOB,)
    file.change([ALICE], ())
    assert json.loads(server.file.read_text()) == [*written, {"uuid": ALICE.uuid, "name": "Alice"}]
    file.change([], [BOB])
    assert json.loads(server.file.read_text()) == [*written[1:], {"uuid": ALICE.uuid, "name": "Alice"}]


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


def test_two_writers_lose_nothing_and_no_reader_sees_half_of_ours(server: AllowlistServer, file: AllowlistFile) -> None:
    """The game adds 300 players while we add 300; with a reload after each of ours, all are on the list in the end."""
    rounds = 300
    done = threading.Event()

    def play() -> None:
        for number in range(rounds):
            server.type_add(f"theirs_{number}")
        done.set()

    typist = threading.Thread(target=play)
    typist.start()
    listed = set[str]()
    missing = [Entry(offline_uuid(f"ours_{number}"), f"ours_{number}") for number in range(rounds)]
    while missing:
        with suppress(ServerFileError):  # the game writes too often: later
            file.change(missing[:5], ())
            reload(server)
            while file.settle():
                reload(server)
            listed = {entry.uuid for entry in file.read().entries}
        missing = [entry for entry in missing if entry.uuid not in listed]
    typist.join()
    assert done.is_set()
    assert {entry.uuid for entry in file.read().entries} == server.listed.keys()
    assert len(server.listed) == 2 * rounds
