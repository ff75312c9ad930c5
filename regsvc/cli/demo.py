"""`make run`: a made-up game server under `var/` that a newcomer can play with at once.

The one place where this program makes AuthMe's table: here there is no AuthMe that could do it.
"""

import json
import os
import secrets
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from plugin_bridge.hashers import HASHERS
from regsvc.core.clock import epoch_ms, now

OPERATOR = "Olivia"
OPERATOR_UUID = "353162d4-f7e5-3838-896a-8d4e4f07ca40"  # what an offline-mode server gives this name
BASE_URL = "http://127.0.0.1:8080"

SERVER_PROPERTIES = """\
#Minecraft server properties
motd=A demo server
server-port=25565
online-mode=false
enable-rcon=false
"""

AUTHME_CONFIG = """\
DataSource:
    backend: SQLITE
    caching: false
    mySQLDatabase: authme
    mySQLTablename: authme
settings:
    registration:
        enabled: false
    security:
        passwordHash: SHA256
"""

# Columns, types and defaults as AuthMe 6.0 makes them on SQLite.
AUTHME_TABLE = """\
CREATE TABLE authme (
    id INTEGER AUTO_INCREMENT,
    username VARCHAR(255) NOT NULL UNIQUE,
    realname VARCHAR(255) NOT NULL DEFAULT 'Player',
    password VARCHAR(255) NOT NULL DEFAULT '',
    ip VARCHAR(40),
    lastlogin TIMESTAMP,
    regip VARCHAR(40),
    regdate TIMESTAMP NOT NULL DEFAULT '0',
    x DOUBLE NOT NULL DEFAULT '0.0',
    y DOUBLE NOT NULL DEFAULT '0.0',
    z DOUBLE NOT NULL DEFAULT '0.0',
    world VARCHAR(255) NOT NULL DEFAULT 'world',
    yaw FLOAT,
    pitch FLOAT,
    email VARCHAR(255),
    isLogged INT NOT NULL DEFAULT '0',
    hasSession INT NOT NULL DEFAULT '0',
    totp VARCHAR(32),
    premiumUUID VARCHAR(36),
    CONSTRAINT table_const_prim PRIMARY KEY (id)
)
"""
OPERATOR_ROW = "INSERT INTO authme (username, realname, password, regdate) VALUES (?, ?, ?, ?)"


def prepare(var: Path) -> str | None:
    """Makes what is missing under `var` and leaves what is there as it is.

    Comes back with the operator's new password, or None when the operator has one from an earlier run.
    """
    game = var / "demo-server"
    authme = game / "plugins" / "AuthMe"
    authme.mkdir(parents=True, exist_ok=True)
    operators = [{"uuid": OPERATOR_UUID, "name": OPERATOR, "level": 4, "bypassesPlayerLimit": False}]
    _write_once(game / "server.properties", SERVER_PROPERTIES)
    _write_once(game / "ops.json", json.dumps(operators, indent=2) + "\n")
    _write_once(authme / "config.yml", AUTHME_CONFIG)
    _write_once(var / "demo.toml", _config(var, game))
    table = authme / "authme.db"
    return None if table.exists() else _make_table(table)


def main() -> None:
    """Prepares the demo, says how to play with it and becomes `companion serve`."""
    var = Path("var").resolve()
    password = prepare(var)
    config = var / "demo.toml"
    print(_hint(config, password), flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "companion", "serve", "--config", str(config)])  # noqa: S606


def _write_once(file: Path, text: str) -> None:
    if not file.exists():
        file.write_text(text, encoding="utf-8")


def _config(var: Path, game: Path) -> str:
    # A JSON string is a TOML string.
    return f"""\
# The demo: everything else is at its default (conf/companion.toml lists it).
[server]
name = "Demo server"
state_dir = {json.dumps(str(var))}

[game]
directory = {json.dumps(str(game))}

[mail]
backend = "log"
"""


def _make_table(file: Path) -> str:
    """The table with the operator's row; comes back with the password.

    Made under another name first: an interrupted start leaves no table whose password nobody was told.
    """
    password = secrets.token_urlsafe(12)
    stored = HASHERS["SHA256"].hash(password, OPERATOR).hash
    unfinished = file.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as database:
        database.execute(AUTHME_TABLE)
        database.execute(OPERATOR_ROW, (OPERATOR.lower(), OPERATOR, stored, epoch_ms(now())))
    unfinished.rename(file)
    return password


def _hint(config: Path, password: str | None) -> str:
    shown = password or "<the password of the first run>"
    first = (
        f"The operator is {OPERATOR}, the password {password} (shown this once)."
        if password
        else f"The operator is {OPERATOR}, with the password shown at the first run (forgotten? delete var/)."
    )
    json_header = "-H 'Content-Type: application/json'"
    login = json.dumps({"username": OPERATOR, "password": shown})
    return f"""\
{first}
Config: {config}. Mails, with their codes, appear below in the log. Try:

  curl {BASE_URL}/api/config
  curl {BASE_URL}/api/verify/send {json_header} -d '{{"email": "alice@example.org"}}'
  curl {BASE_URL}/api/admin/login {json_header} -d '{login}'
"""


if __name__ == "__main__":
    main()
