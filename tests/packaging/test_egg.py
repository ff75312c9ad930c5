"""The egg for Pterodactyl and Pelican: its variables are keys, and the daemon starts from them as in a panel."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regsvc.config.loader import load_config
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.daemon import READY, Daemon
from tests.support.peers.mariadb import Database
from tests.support.ports import free_port
from tests.support.quick_start import REPOSITORY

EGG = REPOSITORY / "packaging" / "egg" / "companion.json"
INSTALLATION = {"PACKAGE"}  # for the install script alone


@pytest.fixture(scope="module")
def egg() -> Any:
    return json.loads(EGG.read_text(encoding="utf-8"))


def panel_environment(egg: Any, **filled_in: str) -> dict[str, str]:
    """Return what a server's process gets: every variable, empty ones too."""
    variables = {variable["env_variable"]: variable["default_value"] for variable in egg["variables"]}
    assert filled_in.keys() <= variables.keys() | {"SERVER_PORT"}
    return variables | filled_in


def test_it_is_an_egg(egg: Any) -> None:
    assert egg["meta"]["version"] == "PTDL_v2"
    assert json.loads(egg["config"]["startup"]) == {"done": READY.strip()}
    for variable in egg["variables"]:
        assert set(variable) == {
            *("name", "description", "env_variable", "default_value"),
            *("user_viewable", "user_editable", "rules", "field_type"),
        }
        assert variable["rules"].split("|")[0] in ("required", "nullable")
        may_be_empty = variable["rules"].startswith("nullable") or variable["user_editable"]
        assert variable["default_value"] or may_be_empty or variable["env_variable"] in INSTALLATION
        allowed = re.search(r"in:([^|]+)", variable["rules"])
        assert allowed is None or variable["default_value"] in allowed[1].split(",")


def test_every_variable_is_a_key(egg: Any) -> None:
    environment = panel_environment(egg)
    assert all(name.startswith("COMPANION_") for name in environment.keys() - INSTALLATION)
    config = load_config(None, environment)
    assert (config.server.host, config.authme.backend, config.authme.port) == ("0.0.0.0", "MARIADB", 3306)


def test_the_install_script_is_sound(egg: Any) -> None:
    script = egg["scripts"]["installation"]["script"]
    assert "\r" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_server_of_the_panel_starts_and_stops(egg: Any, tmp_path: Path, database: Database) -> None:
    table = AuthMeTable(MariaDBSchema(database))
    create_table(table)
    AuthMeLike(table).register("Olivia", "olivias-secret")
    home, port = tmp_path / "container", free_port()
    home.mkdir()
    (home / "app").symlink_to(REPOSITORY)  # what the install script makes with pip
    environment = panel_environment(
        egg,
        SERVER_PORT=str(port),
        COMPANION_AUTHME_HOST=database.host,
        COMPANION_AUTHME_PORT=str(database.port),
        COMPANION_AUTHME_DATABASE=database.name,
        COMPANION_AUTHME_USER=database.user,
        COMPANION_AUTHME_PASSWORD=database.password,
        COMPANION_GAME_OPERATORS="Olivia",
    )
    # As the images for Python do: {{NAME}} in the start command becomes ${NAME}.
    startup = re.sub(r"\{\{(\w+)\}\}", r"${\1}", egg["startup"])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["env", "-i", "-C", str(home), f"PATH={path}", *(f"{name}={value}" for name, value in environment.items())]
    daemon = Daemon(tmp_path / "unused", {"server": {"port": port}}, command=[*shell, "bash", "-c", startup])

    daemon.start()
    try:
        login = {"username": "Olivia", "password": "olivias-secret"}
        token = daemon.post("/api/admin/login", login).json["token"]
        assert daemon.post("/api/admin/sync", token=token).status == 200
        assert daemon.get("/health/ready").json["bridge"] == "up"
    finally:
        assert egg["config"]["stop"] == "^C"
        daemon.send(signal.SIGINT)
        assert daemon.wait_for_end() == 0
    assert (home / "state" / "installation.key").exists()
