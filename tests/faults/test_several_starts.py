"""Several daemons start on one database: all at once, by other addresses of it, and with other keys."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import GameServer
from tests.support.daemon import READY, START_TIMEOUT, Daemon
from tests.support.peers.mariadb import Database

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
    three = [daemons.make(name) for name in ("first", "second", "third")]
    for daemon in three:
        daemon.spawn()
    for daemon in three:
        assert daemon.wait_for_output(READY, START_TIMEOUT), "\n".join(daemon.log)
        assert daemon.get("/health/ready").status == 200, "\n".join(daemon.log)
        assert (daemon.state_dir / "home.json").exists(), "although no key is kept there"
    assert len(schema.query("SELECT installation_id FROM regsvc_installation")) == 1
    assert schema.query("SELECT name FROM regsvc_lease WHERE name = 'migration'") == []
    applied = [sum("migrating the database" in line for line in daemon.log) for daemon in three]
    assert sorted(applied)[:2] == [0, 0], "one of them has applied all migrations"
