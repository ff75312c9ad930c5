"""Several daemons start on one database: all at once, by other addresses of it, and with other keys."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.command_line import companion, companion_here
from tests.support.daemon import READY, START_TIMEOUT, Daemon
from tests.support.peers.database_proxy import DatabaseProxy
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.watching import ask_until

EX_CONFIG = 78
KEYS = {"installation_key": "the installation key that all share", "signing_key": "the signing key that all share too"}


@pytest.fixture
def schema(database: Database, game_server: GameServer) -> MariaDBSchema:
    """AuthMe's empty table in an otherwise empty schema."""
    table = AuthMeTable(MariaDBSchema(database))
    game_server.authme_directory.mkdir(parents=True)
    create_table(table)
    game_server.install_authme(table)
    return MariaDBSchema(database)


class Daemons:
    """Daemons beside each other, each with a state directory of its own."""

    def __init__(self, directory: Path, game_dir: Path, running: ExitStack) -> None:
        self._directory = directory
        self._game_dir = game_dir
        self._running = running

    def make(self, name: str, config: Mapping[str, Mapping[str, Any]] | None = None) -> Daemon:
        given = config or {}
        sections: dict[str, Mapping[str, Any]] = {
            "game": {"directory": str(self._game_dir)},
            "mail": {"backend": "off"},
            "registration": {"methods": ["captcha"]},
            "updates": {"enabled": False},
            **given,
            "auth": {**KEYS, **given.get("auth", {})},
        }
        daemon = Daemon(self._directory / name, sections)
        self._running.callback(lambda: daemon.stop() if daemon.is_running else None)
        return daemon


@pytest.fixture
def daemons(tmp_path: Path, game_dir: Path, schema: MariaDBSchema) -> Iterator[Daemons]:
    with ExitStack() as running:
        yield Daemons(tmp_path, game_dir, running)


def test_three_daemons_start_at_once_on_an_empty_schema(daemons: Daemons, schema: MariaDBSchema) -> None:
    three = [daemons.make(name, {"server": {"instance": name}}) for name in ("first", "second", "third")]
    for daemon in three:
        daemon.spawn()
    for daemon in three:
        assert daemon.wait_for_output(READY, START_TIMEOUT), "\n".join(daemon.log)
        assert daemon.get("/health/ready").status == 200, "\n".join(daemon.log)
        assert (daemon.state_dir / "home.json").exists(), "although no key is kept there"
        assert json.loads(daemon.log[0])["instance"] == daemon.directory.name
        assert f'server_instance="{daemon.directory.name}"' in daemon.get("/metrics").text
    assert len(schema.query("SELECT installation_id FROM regsvc_installation")) == 1
    assert schema.query("SELECT name FROM regsvc_lease WHERE name = 'migration'") == []
    applied = [sum("migrating the database" in line for line in daemon.log) for daemon in three]
    assert sorted(applied)[:2] == [0, 0], "one of them has applied all migrations"


def test_another_address_of_the_same_database_is_the_same_installation(
    daemons: Daemons, schema: MariaDBSchema, game_server: GameServer
) -> None:
    daemon = daemons.make("first").start()
    daemon.stop()
    place = schema.database
    with DatabaseProxy(place.port) as proxy:
        game_server.change_authme({"DataSource.mySQLPort": proxy.port})
        daemon.start()
        assert daemon.wait_for_log("it is the same installation at")
        assert daemon.get("/health/ready").status == 200
        daemon.stop()
        daemon.log.clear()
        daemon.start()
        assert not [line for line in daemon.log if "same installation" in line], "it is recorded"
        daemon.stop()
    game_server.change_authme({"DataSource.mySQLPort": place.port})
    daemon.start()
    assert daemon.get("/health/ready").status == 200


def test_another_database_at_another_address_is_refused(
    daemons: Daemons, schema: MariaDBSchema, mariadb: MariaDBServer, game_server: GameServer
) -> None:
    daemon, stranger = daemons.make("first").start(), daemons.make("stranger")
    daemon.stop()
    with mariadb.fresh_database() as other:
        game_server.change_authme({"DataSource.mySQLDatabase": other.name})
        for _moment in ("without tables", "with those of another installation"):
            daemon.spawn()
            assert daemon.wait_for_end() == EX_CONFIG
            assert any("This installation lives in" in line for line in daemon.log)
            daemon.log.clear()
            if not stranger.state_dir.exists():
                stranger.start()
                stranger.stop()


def test_another_game_servers_companion_does_not_take_the_database(
    daemons: Daemons, schema: MariaDBSchema, mariadb: MariaDBServer, tmp_path: Path
) -> None:
    """Many hosts have one database; their AuthMes differ by `mySQLTablename` alone."""
    AuthMeLike(AuthMeTable(schema)).register("Alice", "alices-secret")
    first = daemons.make("first").start()
    skyblock = write_game_server(tmp_path / "skyblock")
    theirs = AuthMeTable(schema, "authme_skyblock")
    create_table(theirs)
    skyblock.install_authme(theirs)
    AuthMeLike(theirs).register("Bob", "bobs-secret")
    game = {"game": {"directory": str(skyblock.directory)}}
    advice = f'database.url = "mysql://USER:PASSWORD@127.0.0.1:{schema.database.port}/NAME"'
    own_key = {"auth": {"installation_key": "the installation key of the second server"}}
    for second in (daemons.make("second", game | own_key), daemons.make("with a copied key", game)):
        second.spawn()
        assert second.wait_for_end() == EX_CONFIG
        assert "Another game server's companion uses this database" in second.log[-1]
        assert f"AuthMe table is {schema.database.name}.authme, ours is" in second.log[-1]
        assert advice in second.log[-1]
    known = companion_here("doctor", "--json", config=second.config_file).output
    assert "its AuthMe table is" in next(
        finding["title"] for finding in json.loads(known)["findings"] if finding["id"] == "database.elsewhere"
    )
    assert first.get("/health/ready").status == 200
    with mariadb.fresh_database() as own:
        second = daemons.make("second", game | own_key | {"database": {"url": own.url}}).start()
        assert [names_of(MariaDBSchema(place)) for place in (own, schema.database)] == [["Bob"], ["Alice"]]
        second.stop()


def names_of(schema: MariaDBSchema) -> list[str]:
    """Return the users, once the first sync run has adopted someone."""
    rows = ask_until(lambda: schema.query("SELECT username FROM regsvc_user"), bool)
    return [row["username"] for row in rows]


def test_a_renamed_table_of_authme_is_that_of_the_same_server(
    daemons: Daemons, schema: MariaDBSchema, game_server: GameServer
) -> None:
    AuthMeLike(AuthMeTable(schema)).register("Alice", "alices-secret")
    daemon = daemons.make("first").start()
    assert names_of(schema) == ["Alice"]
    daemon.stop()
    renamed = AuthMeTable(schema, "players")
    create_table(renamed)  # by AuthMe, which did not find its table under the new name
    game_server.install_authme(renamed)
    daemon.spawn()
    assert daemon.wait_for_end() == EX_CONFIG
    assert "give the old one another name, too" in daemon.log[-1]
    schema.execute("DROP TABLE players")
    schema.execute("RENAME TABLE authme TO players")
    daemon.start()
    assert daemon.wait_for_log(f"AuthMe's table was {schema.database.name}.authme until now, which is gone")
    daemon.stop()
    daemon.log.clear()
    daemon.start()
    assert not [line for line in daemon.log if "which is gone" in line], "it is recorded"
    assert names_of(schema) == ["Alice"]


def test_another_signing_key_is_told_at_the_start(daemons: Daemons) -> None:
    """Tokens of one daemon are refused by the other; nothing else would tell why."""
    daemons.make("first").start()
    other_key = "the signing key of the second one"
    second = daemons.make("second", {"auth": {"signing_key": other_key}}).start()
    assert second.wait_for_log("signs access tokens with another key")
    third = daemons.make("third", {"auth": {"previous_keys": [other_key]}}).start()
    assert not [line for line in third.log if "another key" in line], "it takes the tokens of the second"


def test_several_servers_need_a_proxy_in_front_of_them(daemons: Daemons, game_server: GameServer) -> None:
    def refusal_of(daemon: Daemon) -> str:
        told = companion("check-config", config=daemon.config_file)
        assert told.status == EX_CONFIG
        assert "secret-word" not in told.errors
        return told.errors

    for hosts in ("db1,db2", "db1:3306,db2:3306"):
        place = daemons.make("first", {"database": {"url": f"mysql://authme:secret-word@{hosts}/authme"}})
        assert "a database URL names one server: for several, put a proxy" in refusal_of(place)
    game_server.change_authme({"DataSource.mySQLHost": "db1,db2"})
    assert "mySQLHost names several servers (db1,db2). Put a proxy" in refusal_of(daemons.make("first"))
