"""Several companions beside one game server, whose database is a Galera cluster."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.authme.authme_database import MariaDBSchema, Row
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.cluster.galera import GaleraNode
from tests.support.daemon import Daemon
from tests.support.peers.smtp import MailServer
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Person, Stack
from tests.support.together import at_once

PERIOD = timedelta(seconds=2)
SHARED: dict[str, dict[str, Any]] = {
    "auth": {
        "installation_key": "the installation key of all companions",
        "signing_key": "the signing key that all companions have",
    },
    "sync": {"every": f"{PERIOD.seconds} seconds"},
    "log": {"level": "info"},
}
"""What all companions have in common."""


@dataclass(frozen=True)
class Place:
    """A game server with AuthMe and a mail server, on a schema of the cluster; no companion has started there."""

    directory: Path
    nodes: Sequence[GaleraNode]
    game: GameServer
    table: AuthMeTable
    smtp: MailServer

    def schema_at(self, node: GaleraNode) -> MariaDBSchema:
        """Return the schema as this node has it."""
        schema = self.table.database
        assert isinstance(schema, MariaDBSchema)
        return MariaDBSchema(replace(schema.database, port=node.port))

    def query(self, node: GaleraNode, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query as this node has them."""
        return self.schema_at(node).query(sql, values)

    def wait_for_replication(self) -> None:
        """Return once every node is a member and has applied what was committed anywhere before this call."""
        for node in self.nodes:
            node.wait_until_synced(len(self.nodes))
            node.run_as_root("SET SESSION wsrep_sync_wait = 1", "SELECT COUNT(*) FROM mysql.global_priv")


@contextmanager
def open_place(directory: Path, nodes: Sequence[GaleraNode]) -> Iterator[Place]:
    with ExitStack() as stack:
        game = write_game_server(directory / "game")
        schema = MariaDBSchema(stack.enter_context(nodes[0].fresh_database()))
        table = AuthMeTable(schema)
        create_table(table)
        game.install_authme(table)
        AuthMeLike(table).register(OPERATOR, OPERATORS_PASSWORD)
        smtp = MailServer()
        smtp.start()
        stack.callback(smtp.stop)
        place = Place(directory, nodes, game, table, smtp)
        place.wait_for_replication()
        yield place


class Companion(Stack):
    """One companion of several: what people do, they do here. `start` it first."""

    def __init__(
        self, place: Place, name: str, database_port: int, config: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Take the port of its node, or of a proxy in front of the nodes; `config` replaces `SHARED` key by key."""
        given = dict(config or {})
        sections = {section: {**SHARED.get(section, {}), **given.get(section, {})} for section in {*SHARED, *given}}
        super().__init__("mariadb", place.directory, config={**sections, "authme": {"port": database_port}})
        self.name = name
        self.game, self.table, self.smtp = place.game, place.table, place.smtp
        self.authme = AuthMeLike(place.table)
        self.daemon = Daemon(place.directory / name, self._sections())

    def newcomer(self, name: str = "alice") -> Person:
        """Return a person whose name is unused at the other companions, too."""
        return super().newcomer(f"{name}_{self.name}")


@contextmanager
def running(companions: Sequence[Companion], *, together: bool = False) -> Iterator[Sequence[Companion]]:
    """Start the companions one after the other, or together, and stop them at the end."""
    starts = [companion.daemon.start for companion in companions]
    try:
        if together:
            at_once(starts)
        else:
            for start in starts:
                start()
        yield companions
    finally:
        for companion in companions:
            companion.daemon.kill()


def at_their_nodes(place: Place, config: Mapping[str, Mapping[str, Any]] | None = None) -> list[Companion]:
    """Return a companion for each node, which uses no other node."""
    return [Companion(place, name, node.port, config) for name, node in zip("abc", place.nodes, strict=True)]
