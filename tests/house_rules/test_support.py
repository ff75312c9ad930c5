"""The copies of our tables, what reads YAML and columns, and the stand-in for AuthMe behave like the real thing."""

import re
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from pymysql import connections
from pymysql.protocol import FieldDescriptorPacket

from plugin_bridge.authme.config import read_authme_config
from plugin_bridge.java_formats import FormatError, parse_yaml
from regsvc.database.engine import open_database
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models
from tests import conftest
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import Algorithm, AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape
from tests.support.authme.game_server import GameServer
from tests.support.manual_clock import ManualClock
from tests.support.migrated import fill_file, fill_schema
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.quick_yaml import quick_yaml


def test_a_test_file_that_cannot_be_imported_is_left_to_its_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker imports some files before: what is wrong with one must not end the worker."""
    imported = Mock(side_effect=[SyntaxError, pytest.skip.Exception(), *[None] * 1_000])
    monkeypatch.setattr(conftest, "import_module", imported)
    config = Mock(workerinput={"workerid": "gw1", "workercount": 3}, args_source=pytest.Config.ArgsSource.TESTPATHS)
    conftest.pytest_collection(Mock(config=config))
    assert imported.call_count > 2


@pytest.mark.parametrize(
    "content",
    [
        b"a: 1\nb: {c: [yes, 010, 1.5e3, ~]}\na: 3\n",
        "a.b: '\u6ce8'\na:\n  c: |\n    x\n".encode(),
        b"a: [&x 1, *x]\nb: x\t# y\n",
        b"? [c, d]\n: e\n<<: {f: 1}\n",
    ],
)
def test_yaml_is_read_quickly_as_the_program_reads_it(content: bytes) -> None:
    document = parse_yaml(content)
    with quick_yaml():
        assert parse_yaml(content) == document


@pytest.mark.parametrize("content", [b"a: [1", b"a: 1\n b: 2\n", b"a: *x\n", b"a: \x01\n", b"a: " + b"[" * 5_000])
def test_and_refused_in_its_words(content: bytes) -> None:
    with pytest.raises(FormatError) as first:
        parse_yaml(content)
    with quick_yaml(), pytest.raises(FormatError, match=f"^{re.escape(str(first.value))}$"):
        parse_yaml(content)


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_authmes_config_is_read_by_libyaml_alone(
    authme_table: AuthMeTable, game_server: GameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every test that starts a service or a process would take longer."""
    read = read_authme_config(game_server.authme_config)
    with quick_yaml(), monkeypatch.context() as patch:
        patch.setattr(yaml.scanner.Scanner, "check_token", Mock(side_effect=AssertionError("Python's own scanner")))
        assert read_authme_config(game_server.authme_config) == read


def test_columns_are_read_quickly_as_pymysql_does(mariadb: MariaDBServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> object:
        with closing(mariadb.connect_as_root()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM information_schema.columns WHERE table_schema = 'mysql' LIMIT 9")
            rows = cursor.fetchall()
            cursor.execute("SELECT 1, 1.5, 'a' AS b, NULL, NOW(6), X'00', '{}' AS `1`")
            return rows, cursor.fetchall()[0][:4], cursor.description

    assert vars(connections)["FieldDescriptorPacket"] is not FieldDescriptorPacket
    first, again = read(), read()
    monkeypatch.setattr(connections, "FieldDescriptorPacket", FieldDescriptorPacket)
    assert first == again == read()


every_shape = pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)


def test_a_copy_of_our_tables_is_what_the_migrator_makes(mariadb: MariaDBServer) -> None:
    with mariadb.fresh_database() as first, mariadb.fresh_database() as made, mariadb.fresh_database() as copied:
        fill_schema(first)  # the first one of a process may be no copy
        fill_schema(copied)
        ours = open_database(made.url, timedelta(seconds=5))
        bind_models(ours)
        with ours.connection_context():
            migrate(ours, ManualClock())
        assert len(told(made)) > 20
        assert told(copied) == told(made)


def test_so_is_a_copy_of_our_file(tmp_path: Path) -> None:
    fill_file(tmp_path / "copied.db")
    ours = open_database(f"sqlite:///{tmp_path / 'made.db'}", timedelta(seconds=5))
    bind_models(ours)
    with ours.connection_context():
        migrate(ours, ManualClock())
    made, copied = (SqliteFile(tmp_path / f"{name}.db") for name in ("made", "copied"))
    for question in ("SELECT type, name, sql FROM sqlite_master", "SELECT * FROM regsvc_migration"):
        assert copied.query(question) == made.query(question) != []
    assert copied.query("PRAGMA journal_mode") == [{"journal_mode": "wal"}]


def told(schema: Database) -> list[object]:
    """Everything the server says of a schema's tables, views and triggers, and the rows of the migrations."""
    with closing(schema.connect()) as connection, connection.cursor() as cursor:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        names = {name: "TABLE" for name, _kind in rows("SHOW FULL TABLES")}
        names |= {name: "TRIGGER" for name, *_rest in rows("SHOW TRIGGERS")}
        created = [(rows(f"SHOW CREATE {kind} `{name}`")[0])[:4] for name, kind in names.items()]
        return [*created, *rows("SELECT * FROM regsvc_migration")]


@every_shape
def test_alice_registers_plays_and_leaves(authme: AuthMeLike) -> None:
    assert authme.register("Alice", "s3cret", email="alice@example.org")
    assert not authme.register("ALICE", "other")
    assert not authme.login("Alice", "wrong")
    assert authme.login("Alice", "s3cret")
    assert authme.get("alice")["isLogged"] == 1
    assert authme.change_password("Alice", "s3cret", "n3wer")
    authme.quit("Alice")
    assert authme.login("Alice", "n3wer")
    assert authme.unregister("Alice", "n3wer")
    assert authme.find("Alice") is None


def test_an_outside_change_does_not_reach_who_is_online(authme: AuthMeLike) -> None:
    authme.register("Bob", "old-one")
    authme.login("Bob", "old-one")
    AuthMeLike(authme.table).set_password("Bob", "from-outside")
    assert authme.change_password("Bob", "old-one", "in-game")
    authme.quit("Bob")
    assert authme.login("Bob", "in-game")


@pytest.mark.parametrize("algorithm", ["SHA256", "BCRYPT", "SALTEDSHA512"])
@pytest.mark.parametrize("authme_shape", [TableShape.FULL])
def test_every_algorithm_of_ours_lets_its_own_player_in(authme_table: AuthMeTable, algorithm: Algorithm) -> None:
    plugin = AuthMeLike(authme_table, algorithm)
    plugin.register("Alice", "s3cret")
    assert plugin.login("Alice", "s3cret")
    assert not plugin.login("Alice", "S3cret")
