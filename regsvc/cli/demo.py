"""`make run`: a demo game server under `var/`, ready to try out.

The only place where this program creates AuthMe's table, since the demo has no AuthMe to do it.
"""

import json
import os
import secrets
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from plugin_bridge.hashers import HASHERS
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.core.clock import epoch_ms, now

OPERATOR = "Olivia"
OPERATOR_UUID = "353162d4-f7e5-3838-896a-8d4e4f07ca40"  # the UUID of this name in offline mode

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

# Columns, types and defaults as AuthMe 6.0 creates them on SQLite.
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
ALLOWLIST = "allowlist"
OPERATOR_ROW = "INSERT INTO authme (username, realname, password, regdate) VALUES (?, ?, ?, ?)"


def prepare(var: Path, gate: str = "authme") -> str | None:
    """Create what is missing under `var`, leaving existing files alone.

    With `gate` "allowlist", the game server has no AuthMe, and lets in who is on its allowlist. Return the operator's
    new password, or None if an earlier run created it.
    """
    game = var / "demo-server"
    authme = game / "plugins" / "AuthMe"
    (game if gate == ALLOWLIST else authme).mkdir(parents=True, exist_ok=True)
    operators = [{"uuid": OPERATOR_UUID, "name": OPERATOR, "level": 4, "bypassesPlayerLimit": False}]
    is_listed = "white-list=true\n" if gate == ALLOWLIST else ""
    _write_once(game / "server.properties", SERVER_PROPERTIES + is_listed)
    _write_once(game / "ops.json", json.dumps(operators, indent=2) + "\n")
    _write_once(var / "demo.toml", _config(var, game))
    if gate == ALLOWLIST:
        _write_once(game / "whitelist.json", "[]\n")
        return None if (var / "demo-state").exists() else _create_operator(var / "demo.toml")
    _write_once(authme / "config.yml", AUTHME_CONFIG)
    table = authme / "authme.db"
    return None if table.exists() else _make_table(table)


def main() -> None:
    """Prepare the demo, print how to use it and replace the process by `companion serve`."""
    gate = os.environ.get("GATE", "authme")
    if gate not in ("authme", ALLOWLIST):
        sys.exit(f"GATE={gate}: there are authme and {ALLOWLIST}")
    var = Path("var", "allowlist" if gate == ALLOWLIST else "").resolve()
    password = prepare(var, gate)
    config = var / "demo.toml"
    print(hint(load_config(config, os.environ), password), flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "companion", "serve", "--config", str(config)])  # noqa: S606


def _write_once(file: Path, text: str) -> None:
    if not file.exists():
        file.write_text(text, encoding="utf-8")


def _config(var: Path, game: Path) -> str:
    # A JSON string is a TOML string.
    return f"""\
# The demo: all other keys have their defaults (see conf/companion.toml).
[server]
name = "Demo server"
state_dir = {json.dumps(str(var / "demo-state"))}

[game]
directory = {json.dumps(str(game))}

[mail]
backend = "log"
"""


def _make_table(file: Path) -> str:
    """Create the table with the operator's row; return the password.

    It is created under another name first, so that an interrupted start leaves no table with an unknown password.
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


def _create_operator(config: Path) -> str:
    """Create the operator's account, where no AuthMe has it; return the password."""
    password = secrets.token_urlsafe(12)
    for command in (["migrate"], ["users", "create", OPERATOR, "--password-stdin"]):
        program = [sys.executable, "-m", "companion", *command, "--config", str(config)]
        subprocess.run(program, input=f"{password}\n", text=True, check=True)  # noqa: S603 - ourselves
    return password


def hint(config: Config, password: str | None) -> str:
    """Return what to open and what to try; `password` is None if an earlier run showed it."""
    address = config.address()  # where it can be tried at once, unlike server.base_url
    shown = password or "<the password from the first run>"
    first = (
        f"The operator is {OPERATOR}, the password {password} (shown only once)."
        if password
        else f"The operator is {OPERATOR}, with the password shown at the first run "
        f"(if you lost it, delete demo-server and demo-state in {config.file.parent if config.file else 'var'})."
    )
    game = config.game.directory or Path()
    json_header = "-H 'Content-Type: application/json'"
    login = json.dumps({"username": OPERATOR, "password": shown})
    return f"""\
{first}
Config: {config.file}. Mails, with their codes, appear in the log below.

Approved players get in by {"AuthMe's table" if (game / "plugins").exists() else game / "whitelist.json"}.
Open {address}/ to register as a player, and {address}/admin to decide as {OPERATOR}. The API:

  curl {address}/api/config
  curl {address}/api/verify/send {json_header} -d '{{"email": "alice@example.org"}}'
  curl {address}/api/admin/login {json_header} -d '{login}'
"""


if __name__ == "__main__":
    main()
