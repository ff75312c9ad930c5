"""The statements that MariaDB executed, from its general log."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.peers.mariadb import AUTHME, MariaDBServer

NOT_COUNTED = re.compile(r"\s*(BEGIN|START TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """One statement. `is_counted` is False for BEGIN, COMMIT, SAVEPOINT, SET and the like."""

    connection: int
    sql: str

    @property
    def is_counted(self) -> bool:
        return NOT_COUNTED.match(self.sql) is None


def statements_of(server: MariaDBServer, work: Callable[[], object]) -> list[Statement]:
    """Return what AuthMe's login sent to the server while `work` ran, in order."""
    server.run_as_root(
        "SET GLOBAL log_output = 'TABLE'", "TRUNCATE TABLE mysql.general_log", "SET GLOBAL general_log = ON"
    )
    try:
        work()
    finally:
        server.run_as_root("SET GLOBAL general_log = OFF")
    rows = server.ask_as_root(
        "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log "
        f"WHERE command_type IN ('Query', 'Execute') AND user_host LIKE '%{AUTHME[0]}%'"
    )
    return [Statement(int(str(thread)), " ".join(str(sql).split())) for thread, sql in rows]
