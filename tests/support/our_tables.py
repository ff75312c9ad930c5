"""Direct access to our own tables while the daemon runs: values that no route returns, and simulated time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tests.support.authme.authme_database import AuthMeDatabase, SqliteFile
from tests.support.stack import Person, Stack

TABLES = (
    "regsvc_user",
    "regsvc_sync_record",
    "regsvc_verification",
    "regsvc_link",
    "regsvc_outbox",
    "regsvc_rate_limit",
    "regsvc_audit",
    "regsvc_session",
    "regsvc_chat_request",
    "regsvc_chat_link",
    "regsvc_known_client",
    "regsvc_player_address",
    "regsvc_recovery_code",
    "regsvc_questionnaire_result",
)


def our_database(stack: Stack) -> AuthMeDatabase:
    """Return the database of the daemon's tables: AuthMe's on MariaDB, else a file of its own."""
    if stack.kind == "mariadb":
        return stack.table.database
    return SqliteFile(stack.daemon.state_dir / "companion.db")


@contextmanager
def our_busy(stack: Stack) -> Iterator[None]:
    """Hold a write transaction on our tables. SQLite only."""
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
    """Return a past time as our tables write it: `ago(minutes=6)`."""
    moment = datetime.now(UTC) - timedelta(**period)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def age_code(stack: Stack, email: str, **period: float) -> None:
    """Move the codes of this address into the past, as issued and mailed so long ago."""
    ours = our_database(stack)
    ours.execute("UPDATE regsvc_verification SET created_at = ? WHERE email_key = ?", (ago(**period), email))
    ours.execute(
        "UPDATE regsvc_verification SET handed_over_at = ? WHERE email_key = ? AND handed_over_at IS NOT NULL",
        (ago(**period), email),
    )


def tries_of(stack: Stack, email: str) -> int:
    """Return the number of tries of the newest registration code for this address."""
    [newest] = our_database(stack).query(
        "SELECT tries FROM regsvc_verification WHERE email_key = ? AND purpose = 'register' ORDER BY id DESC LIMIT 1",
        (email,),
    )
    return int(newest["tries"])


def count_rows(stack: Stack) -> Mapping[str, int]:
    """Return the number of rows of each of our tables."""
    ours = our_database(stack)
    return {table: int(ours.query(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]) for table in TABLES}


def everything_kept(stack: Stack, person: Person) -> str:
    """Return all that is stored, logged, and told of a user in the audit log, to search for secrets."""
    return "\n".join([everything_stored(stack), *stack.daemon.log, str(stack.audits(person))])


def everything_stored(stack: Stack) -> str:
    """Return every value of every row of ours as text, to search for secrets."""
    ours = our_database(stack)
    return "\n".join(str(list(row.values())) for table in TABLES for row in ours.query(f"SELECT * FROM {table}"))
