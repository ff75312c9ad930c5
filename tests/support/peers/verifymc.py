"""The folder and the tables of VerifyMC, as its versions write them."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.peers.mariadb import Database

REGISTERED = 1_735_689_600_000  # 2025-01-01, in milliseconds
TABLES = (
    "CREATE TABLE users (username VARCHAR(32) PRIMARY KEY, email VARCHAR(64), phone VARCHAR(32), status VARCHAR(16), "
    "password VARCHAR(255), regTime BIGINT, discord_id VARCHAR(64), questionnaire_score INT NULL, "
    "questionnaire_passed BOOLEAN NULL, questionnaire_review_summary TEXT NULL, questionnaire_scored_at BIGINT NULL)",
    "CREATE TABLE audits (id INT AUTO_INCREMENT PRIMARY KEY, action VARCHAR(32), operator VARCHAR(32), "
    "target VARCHAR(32), detail TEXT, timestamp BIGINT)",
)

Record = dict[str, Any]


def record(name: str, status: str = "approved", password: str | None = None, **others: object) -> Record:
    """Return a user as version 1.7 keeps them."""
    return {
        "username": name,
        "email": f"{name.lower()}@example.com",
        "phone": None,
        "status": status,
        "password": password,
        "regTime": REGISTERED,
        "discordId": None,
        "questionnaireScore": None,
        "questionnairePassed": None,
        "questionnaireReviewSummary": None,
        "questionnaireScoredAt": None,
        **others,
    }


def entry(action: str, target: str, detail: str = "", operator: str = "Olivia", at: int = REGISTERED) -> Record:
    """Return an entry of the audit log."""
    return {"action": action, "operator": operator, "target": target, "detail": detail, "timestamp": at}


def unsalted(password: str) -> str:
    """Return a hash as versions before 1.6 made them."""
    return sha256(password.encode()).hexdigest()


def write_folder(
    folder: Path, users: Sequence[Record], entries: Sequence[Record] = (), config: str = "auth_methods: [email]\n"
) -> Path:
    """Write the plugin's folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "users.json").write_text(json.dumps({user["username"].lower(): user for user in users}), "utf-8")
    (folder / "audits.json").write_text(json.dumps(entries), "utf-8")
    (folder / "config.yml").write_text(f"storage: file\n{config}", "utf-8")
    return folder


def write_tables(database: Database, users: Sequence[Record], entries: Sequence[Record]) -> None:
    """Create the plugin's tables with these rows."""
    with database.connect() as connection, connection.cursor() as cursor:
        for sql in TABLES:
            cursor.execute(sql)
        for table, rows in (("users", users), ("audits", entries)):
            for row in rows:
                _insert(cursor, table, row)
        connection.commit()


def _insert(cursor: Any, table: str, row: Mapping[str, Any]) -> None:
    names = {"discordId": "discord_id"} | {
        f"questionnaire{word}": f"questionnaire_{snake}"
        for word, snake in (
            ("Score", "score"),
            ("Passed", "passed"),
            ("ReviewSummary", "review_summary"),
            ("ScoredAt", "scored_at"),
        )
    }
    columns = ", ".join(names.get(name, name) for name in row)
    marks = ", ".join(["%s"] * len(row))
    cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))
