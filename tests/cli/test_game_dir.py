"""`companion serve --game-dir DIR` and nothing else: no config file, everything from the game server's own files."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_database import AuthMeDatabase, DatabaseKind, MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, create_table, find_player
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.command_line import companion
from tests.support.daemon import Daemon
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.ports import free_port
from tests.support.watching import ask_until, scrape

OLIVIAS = "olivias-secret"
ALICES = "alices-secret"


class BareDaemon(Daemon):
    """Started with the game server's folder in place of a config file.

    The environment says what a test must: a free port, mail into a folder, and no look at the internet.
    """

    OPTION = "--game-dir"

    def __init__(self, directory: Path, game: GameServer, **keys: str) -> None:
        """`keys` are of the config, as environment variables name them."""
        port = free_port()
        environment = {
            "COMPANION_SERVER_PORT": str(port),
            "COMPANION_MAIL_BACKEND": "folder",
            "COMPANION_MAIL_FOLDER": str(directory / "mail"),
            "COMPANION_UPDATES_ENABLED": "false",
            "COMPANION_GAME_PROFILES": "false",
            **{f"COMPANION_{name.upper()}": value for name, value in keys.items()},
        }
        super().__init__(directory, {"server": {"port": port}}, environment)
        self.config_file.unlink()
        self.config_file = game.directory


@dataclass
class Place:
    """A game server with a daemon beside it."""

    game: GameServer
    table: AuthMeTable
    authme: AuthMeLike
    daemon: BareDaemon

    def register(self, name: str, password: str) -> Any:
        address = f"{name.lower()}@example.org"
        assert self.daemon.post("/api/verify/send", {"email": address}).status == 200
        body = {"username": name, "email": address, "code": self.code_for(address), "password": password}
        return self.daemon.post("/api/register", body)

    def code_for(self, address: str) -> str:
        def find_code() -> str | None:
            for letter in sorted((self.daemon.directory / "mail").glob("*.eml")):
                text = letter.read_text(encoding="utf-8")
                code = re.search(r"^\s*(\d{6})\s*$", text, re.MULTILINE)
                if address in text and code is not None:
                    return code[1]
            return None

        return str(ask_until(find_code, lambda code: code is not None))

    def approve(self, name: str) -> None:
        reply = self.daemon.post("/api/admin/login", {"username": "Olivia", "password": OLIVIAS})
        assert reply.status == 200, reply.text
        approval = {"username": name}
        assert self.daemon.post("/api/admin/user/approve", approval, token=reply.json["token"]).status == 200

    def row(self, name: str) -> Any:
        """Wait until it exists."""
        return ask_until(lambda: find_player(self.table, name.lower()), lambda row: row is not None)


@pytest.fixture
def console() -> Iterator[RconServer]:
    with rcon_server() as running:
        yield running


MakePlace = Callable[..., Place]


@pytest.fixture
def make_place(
    request: pytest.FixtureRequest, database_kind: DatabaseKind, tmp_path: Path, console: RconServer
) -> Iterator[MakePlace]:
    places: list[Place] = []

    def make(**authme: object) -> Place:
        game = write_game_server(tmp_path / "game")
        game.write_properties(**console.properties)
        game.authme_directory.mkdir(parents=True)
        database: AuthMeDatabase = SqliteFile(game.authme_directory / "accounts.db")
        if database_kind == "mariadb":
            server: MariaDBServer = request.getfixturevalue("mariadb")
            database = MariaDBSchema(places_of.enter_context(server.fresh_database()))
        table = AuthMeTable(database, "players", TableShape.FULL, {"username": "name", "regdate": "since"})
        create_table(table)
        game.install_authme(table, {name.replace("__", "."): value for name, value in authme.items()})
        plugin = AuthMeLike(table)
        plugin.register("Olivia", OLIVIAS)
        place = Place(game, table, plugin, BareDaemon(tmp_path / "daemon", game))
        place.daemon.start()
        places.append(place)
        return place

    with ExitStack() as places_of:
        yield make
        for place in places:
            place.daemon.stop()


def test_a_folder_is_enough_to_register_approve_and_play(make_place: MakePlace, console: RconServer) -> None:
    place = make_place()
    console.online = {"Notch"}
    assert place.register("Notch", ALICES).status == 201
    place.approve("Notch")
    row = place.row("Notch")
    assert (row["realname"], row["uuid"]) == ("Notch", "b50ad385-829d-3141-a216-7e7d7539ba7f")
    assert console.wait_for("kick")[0].startswith("kick Notch ")
    assert place.authme.login("Notch", ALICES)
    assert place.daemon.post("/api/login", {"username": "Notch", "password": ALICES}).status == 200
    assert (place.daemon.directory / "var").is_dir()


def test_rules_and_algorithm_are_authmes(make_place: MakePlace) -> None:
    place = make_place(
        settings__security__passwordHash="BCRYPT",
        settings__security__legacyHashes=["SHA256"],
        settings__security__minPasswordLength=12,
        settings__restrictions__allowedNicknameCharacters="[A-Z][a-z]*",
    )
    config = place.daemon.get("/api/config").json["config"]
    assert config["registration"]["passwordMinLength"] == 12
    assert config["usernameRegex"].endswith("[A-Z][a-z]*$")
    assert place.register("Alice", "short").code == "invalid_password"
    assert place.register("Bob", "a-much-longer-one").status == 201
    place.approve("Bob")
    assert place.row("Bob")["password"].startswith("$2a$04$")
    assert place.authme.login("Bob", "a-much-longer-one")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_changes_of_authmes_config_are_followed_while_we_run(make_place: MakePlace) -> None:
    place = make_place()
    security = {"passwordHash": "BCRYPT", "legacyHashes": ["SHA256"], "minPasswordLength": 9}
    place.game.change_authme({f"settings.security.{key}": value for key, value in security.items()})
    assert place.daemon.wait_for_log("settings.security.legacyHashes, the rules for passwords")
    assert place.daemon.get("/api/config").json["config"]["registration"]["passwordMinLength"] == 9
    assert place.register("Alice", "12345678").code == "invalid_password"
    assert place.register("Bob", "bobs-new-secret").status == 201
    place.approve("Bob")
    assert place.row("Bob")["password"].startswith("$2a$04$")
    assert scrape(place.daemon).of("companion_restart_needed") == 0


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_another_table_waits_for_a_restart_and_the_old_one_goes_on(make_place: MakePlace) -> None:
    place = make_place()
    place.game.change_authme({"DataSource.mySQLTablename": "elsewhere"})
    assert place.daemon.wait_for_log("its server in the panel): DataSource.mySQLTablename")
    assert scrape(place.daemon).of("companion_restart_needed") == 1
    assert place.register("Alice", ALICES).status == 201
    place.approve("Alice")
    assert place.row("Alice")["realname"] == "Alice"


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_an_operator_of_the_moment_is_one(make_place: MakePlace) -> None:
    place = make_place()
    place.game.write_operators("Mo")
    body = {"username": "Olivia", "password": OLIVIAS}
    assert place.daemon.post("/api/admin/login", body).code == "not_operator"


def test_where_nothing_lets_players_in_it_is_said_everywhere(tmp_path: Path) -> None:
    """In the log at the start, by check-config and by the doctor; `companion install` says it before it writes."""
    game = write_game_server(tmp_path / "game")
    told = f"Approvals let nobody in: there is no AuthMe ({game.authme_config}), and white-list is not true"
    daemon = BareDaemon(tmp_path / "daemon", game)
    daemon.start()
    try:
        assert daemon.wait_for_log(told)
        for command in ("check-config", "doctor"):
            done = companion(command, "--game-dir", str(game.directory), directory=daemon.directory)
            assert told in " ".join((done.output + done.errors).split())
    finally:
        daemon.stop()
    game.write_properties(white_list="true")
    done = companion("check-config", "--game-dir", str(game.directory), directory=daemon.directory)
    assert "approved users get in by: the game's allowlist" in done.output
    assert "approves them (allowlist.on_added)" in done.output
    assert "let nobody in" not in done.output + done.errors
