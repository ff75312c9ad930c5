"""A look, and a hand, inside our own tables while the daemon runs: what no route tells, and time that has passed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tests.support.authme_database import AuthMeDatabase, SqliteFile
from tests.support.stack import Stack

TABLES = (
    "regsvc_user",
    "regsvc_player",
    "regsvc_verification",
    "regsvc_link",
    "regsvc_outbox",
    "regsvc_rate_limit",
    "regsvc_audit",
    "regsvc_session",
    "regsvc_chat_request",
    "regsvc_chat_link",
    "regsvc_known_client",
    "regsvc_questionnaire_result",
)


def our_database(stack: Stack) -> AuthMeDatabase:
    """Where the daemon keeps its tables: beside AuthMe's on MariaDB, else in a file of its own."""
    if stack.kind == "mariadb":
        return stack.table.database
    return SqliteFile(stack.daemon.state_dir / "companion.db")


@contextmanager
def our_busy(stack: Stack) -> Iterator[None]:
    """SQLite alone: somebody writes into our tables, and takes his time."""
    database = our_database(stack)
    assert isinstance(database, SqliteFile)
    connection = database.connect()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


def ago(**period: float) -> str:
    """A moment that has passed, as our tables write it: `ago(minutes=6)`."""
    moment = datetime.now(UTC) - timedelta(**period)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def age_code(stack: Stack, email: str, **period: float) -> None:
    """Let time pass for the codes of this address: they were asked for, and handed over, so long ago."""
    ours = our_database(stack)
    ours.execute("UPDATE regsvc_verification SET created_at = ? WHERE email_key = ?", (ago(**period), email))
    ours.execute(
        "UPDATE regsvc_verification SET handed_over_at = ? WHERE email_key = ? AND handed_over_at IS NOT NULL",
        (ago(**period), email),
    )


def tries_of(stack: Stack, email: str) -> int:
    """How many wrong tries the newest code for registering with this address has seen."""
    [newest] = our_database(stack).query(
        "SELECT tries FROM regsvc_verification WHERE email_key = ? AND purpose = 'register' ORDER BY id DESC LIMIT 1",
        (email,),
    )
    return int(newest["tries"])


def count_rows(stack: Stack) -> Mapping[str, int]:
    """How many rows each of our tables has."""
    ours = our_database(stack)
    return {table: int(ours.query(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]) for table in TABLES}


def everything_stored(stack: Stack) -> str:
    """Every value of every row of ours, as text: no secret may be in it."""
    ours = our_database(stack)
    return "\n".join(str(list(row.values())) for table in TABLES for row in ours.query(f"SELECT * FROM {table}"))
