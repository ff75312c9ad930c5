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
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from plugin_bridge.hashers import HASHERS
from regsvc.cli.install.settings import is_free
from regsvc.cli.shipped_files import read_shipped
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.core.clock import epoch_ms, now
from tests.demo.people import populate

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
    restrictions:
        allowedNicknameCharacters: '[a-zA-Z0-9_.]*'
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

BANNER = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1200 400' preserveAspectRatio='xMidYMax slice'><linearGra"
    "dient id='s' x2='0' y2='1'><stop stop-color='#7cb8e0'/><stop offset='1' stop-color='#fdeecb'/></linearGradient"
    ">"
    "<path fill='url(#s)' d='M0 0h1200v400H0z'/><path fill='#fff3b8' d='M880 50h70v70h-70z'/>"
    "<path fill='#fff' opacity='.75' d='M180 70h120v20h40v20H140V90h40zM560 40h90v20h60v20H520V60h40z'/>"
    "<path fill='#9fc6a5' d='M0 400V160H160V120H200V160H240V200H280V160H440V120H480V80H720V120H760V160H840V200H1000"
    "V160H1040V120H1080V80H1200V400z'/>"
    "<path fill='#6ea97c' d='M0 400V280H30V250H180V280H240V250H270V280H330V310H360V280H420V250H450V220H570V250H600V"
    "280H660V310H690V280H720V310H840V280H870V310H960V280H1050V310H1140V280H1170V310H1200V400z'/>"
    "<path fill='#3f7d55' d='M0 400V340H60V360H80V340H120V360H200V340H240V320H260V340H300V360H340V340H400V320H440V3"
    "40H480V320H540V340H560V360H780V340H820V360H860V340H940V360H1120V340H1180V320H1200V400z'/>"
    "<path fill='#2b5c3f' d='M132 335v-48h16v48zM92 319v-48h16v-16h64v16h16v48h-16v-16h-16v16h-32v-16h-16v16zM414 3"
    "45v-36h12v36zM384 333v-36h12v-12h48v12h12v36h-12v-12h-12v12h-24v-12h-12v12zM691 340v-54h18v54zM646 322v-54h18v"
    "-18h72v18h18v54h-18v-18h-18v18h-36v-18h-18v18zM1003 345v-42h14v42zM968 331v-42h14v-14h56v14h14v42h-14v-14h-14v"
    "14h-28v-14h-14v14z'/>"
    "<path fill='#6fb3d2' d='M0 380h1200v20H0z'/></svg>"
)
LOGO = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='3' fill='#dff0e4'"
    "/><path fill='#7a5236' d='M7 8h2v6H7z'/><path fill='#2f7d55' d='M5 2h6v1h2v2h1v6h-2V8h-1v2H9V8H7v2H5V8H4v3H2V5"
    "h1V3h2z'/></svg>"
)
APPLICATION = "demo-application"
"""The file with the token of an application, whose page is worth a look."""
OPERATOR_ROW = "INSERT INTO authme (username, realname, password, regdate) VALUES (?, ?, ?, ?)"


def prepare(var: Path, gate: str = "authme") -> str | None:
    """Create what is missing under `var`, leaving existing files alone.

    With `gate` "allowlist", the game server has no AuthMe, and lets in who is on its allowlist. Return the operator's
    new password, or None if an earlier run created it.
    """
    _write_server(var, gate)
    return _create_operator(var, gate)


def _write_server(var: Path, gate: str) -> None:
    """Create the game server's folder and our config, without the operator's password."""
    game = var / "demo-server"
    authme = game / "plugins" / "AuthMe"
    (game if gate == ALLOWLIST else authme).mkdir(parents=True, exist_ok=True)
    operators = [{"uuid": OPERATOR_UUID, "name": OPERATOR, "level": 4, "bypassesPlayerLimit": False}]
    is_listed = "white-list=true\n" if gate == ALLOWLIST else ""
    _write_once(game / "server.properties", SERVER_PROPERTIES + is_listed)
    _write_once(game / "ops.json", json.dumps(operators, indent=2) + "\n")
    _write_once(var / "questionnaire.toml", read_shipped("conf/questionnaire.toml"))
    _write_once(var / "demo.toml", _config(var, game))
    if gate == ALLOWLIST:
        _write_once(game / "whitelist.json", "[]\n")
    else:
        _write_once(authme / "config.yml", AUTHME_CONFIG)


def _create_operator(var: Path, gate: str) -> str | None:
    """Create the operator where there is none; return the password, or None."""
    if gate == ALLOWLIST:
        return None if (var / "demo-state").exists() else _create_user(var / "demo.toml")
    table = var / "demo-server" / "plugins" / "AuthMe" / "authme.db"
    return None if table.exists() else _make_table(table)


def main() -> None:
    """Prepare the demo, print how to use it and replace the process by `companion serve`."""
    gate = os.environ.get("GATE", "authme")
    if gate not in ("authme", ALLOWLIST):
        sys.exit(f"GATE={gate}: there are authme and {ALLOWLIST}")
    var = Path("var", "allowlist" if gate == ALLOWLIST else "").resolve()
    _write_server(var, gate)
    config = var / "demo.toml"
    loaded = load_config(config, os.environ)
    port = loaded.server.port
    if not is_free(port):  # before there is a password, which is shown only once
        other = next((other for other in range(port + 1, 65536) if is_free(other)), port)
        argument = f" GATE={gate}" if "GATE" in os.environ else ""
        sys.exit(f"Port {port} is taken by another program. Type: COMPANION_SERVER_PORT={other} make run{argument}")
    password = _create_operator(var, gate)
    application = var / APPLICATION
    if not application.exists():
        application.write_text(populate(loaded), encoding="utf-8")
    print(hint(loaded, password, application.read_text(encoding="utf-8")), flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "companion", "serve", "--config", str(config)])


def _write_once(file: Path, text: str) -> None:
    if not file.exists():
        file.write_text(text, encoding="utf-8")


def _config(var: Path, game: Path) -> str:
    # A JSON string is a TOML string.
    return f"""\
# The demo: all other keys have their defaults (see conf/companion.toml).
[server]
name = "Willow Valley"
description = "A quiet survival world by the river, for people who like to build together."
contact = "https://discord.gg/example"
announcement = "The new bridge opens on Saturday at 18:00. Bring lanterns!"
logo_url = {json.dumps(_picture(LOGO))}
banner_url = {json.dumps(_picture(BANNER))}
state_dir = {json.dumps(str(var / "demo-state"))}

[server.links]
Discord = "https://discord.gg/example"
Map = "https://map.willow.example"
Rules = "https://willow.example/rules"

[game]
directory = {json.dumps(str(game))}
address = "play.willow.example"

[bedrock]
enabled = true

[questionnaire]
file = "questionnaire.toml"
pass_score = 60

[mail]
backend = "log"
"""


def _picture(svg: str) -> str:
    return "data:image/svg+xml," + quote(svg, safe="=:/',")


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
        # earlier than our first start, as on a server that is there already: who registers later waits for review
        database.execute(OPERATOR_ROW, (OPERATOR.lower(), OPERATOR, stored, epoch_ms(now() - timedelta(days=30))))
    unfinished.rename(file)
    return password


def _create_user(config: Path) -> str:
    """Create the operator's account, where no AuthMe has it; return the password."""
    password = secrets.token_urlsafe(12)
    for command in (["migrate"], ["users", "create", OPERATOR, "--password-stdin"]):
        program = [sys.executable, "-m", "companion", *command, "--config", str(config)]
        subprocess.run(program, input=f"{password}\n", text=True, check=True)
    return password


def hint(config: Config, password: str | None, application: str) -> str:
    """Return what to open and what to try.

    `password` is None if an earlier run showed it; `application` is the token of one that waits for review.
    """
    address = config.address()  # where it can be tried at once, unlike server.base_url
    shown = password or "<the password from the first run>"
    first = (
        f"The operator is {OPERATOR}, the password {password} (shown only once)."
        if password
        else f"The operator is {OPERATOR}, with the password shown at the first run (if you lost it, delete "
        f"demo-server, demo-state and {APPLICATION} in {config.file.parent if config.file else 'var'})."
    )
    game = config.game.directory or Path()
    json_header = "-H 'Content-Type: application/json'"
    login = json.dumps({"username": OPERATOR, "password": shown})
    return f"""\
{first}
Config: {config.file}. Mails, with their codes, appear in the log below.

Approved players get in by {"AuthMe's table" if (game / "plugins").exists() else game / "whitelist.json"}.
Look at it as

  a player       {address}/
  an applicant   {address}/application#token={application}
  the operator   {address}/admin
  a developer    {address}/docs

or use the API:

  curl {address}/api/config
  curl {address}/api/verify/send {json_header} -d '{{"email": "alice@example.org"}}'
  curl {address}/api/admin/login {json_header} -d '{login}'
"""


if __name__ == "__main__":
    main()
