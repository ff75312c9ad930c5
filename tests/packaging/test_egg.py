"""The egg for Pterodactyl and Pelican: its variables are keys, and the daemon starts from them as in a panel."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from regsvc.config.loader import load_config
from regsvc.core.exceptions import EX_CONFIG
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.host import Host
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.daemon import READY, START_TIMEOUT, Daemon
from tests.support.peers.mariadb import Database, MariaDBServer
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


def make_wheel(folder: Path, name: str, module: str) -> Path:
    """Write a wheel of version 1.0 with one module."""
    wheel, about = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel


def test_the_install_script_takes_what_was_released(egg: Any, tmp_path: Path) -> None:
    script, home, released = egg["scripts"]["installation"]["script"], tmp_path / "server", tmp_path / "released"
    assert "\r" not in script
    home.mkdir()
    released.mkdir()
    needed = make_wheel(released, "needed", "")
    wheel = make_wheel(released, "companion", "import needed\n")
    requirement = f"needed @ {needed.as_uri()} --hash=sha256:{hashlib.sha256(needed.read_bytes()).hexdigest()}\n"
    (released / "companion-1.0-requirements.txt").write_text(requirement)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "PACKAGE": wheel.as_uri()}
    command = ["bash", "-c", script.replace("/mnt/server", str(home))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--require-hashes" in script
    assert {"companion.py", "needed.py"} <= {file.name for file in (home / "app").iterdir()}
    assert (home / "state").is_dir()


def test_the_doctor_names_the_variables_of_the_panel(egg: Any) -> None:
    facts = Facts(load_config(None, panel_environment(egg, COMPANION_AUTHME_PASSWORD="secret")), Host())
    for location, told in (
        (FixLocation(Source.OURS, '[mail] backend = "smtp", host'), "COMPANION_MAIL_BACKEND=smtp, COMPANION_MAIL_HOST"),
        (FixLocation(Source.OURS, '[game] operators = ["NAME"]'), "COMPANION_GAME_OPERATORS=NAME"),
        (FixLocation(Source.AUTHME, "DataSource.mySQLPassword"), "COMPANION_AUTHME_PASSWORD"),
        (FixLocation(Source.AUTHME, "DataSource.caching: false"), "AuthMe’s config.yml: DataSource.caching: false"),
        (FixLocation(Source.MACHINE, "systemctl restart companion"), "this machine"),
    ):
        assert facts.describe(location) == told


def make_server(egg: Any, tmp_path: Path, database: Database, **filled_in: str) -> Daemon:
    """Return a server of a panel, with these values of its variables beside those of the database."""
    home, port = tmp_path / "container", free_port()
    home.mkdir()
    (home / "app").symlink_to(REPOSITORY)  # what the install script makes with pip
    environment = panel_environment(
        egg,
        SERVER_PORT=str(port),
        **{
            "COMPANION_AUTHME_HOST": database.host,
            "COMPANION_AUTHME_PORT": str(database.port),
            "COMPANION_AUTHME_DATABASE": database.name,
            "COMPANION_AUTHME_USER": database.user,
            "COMPANION_AUTHME_PASSWORD": database.password,
            **filled_in,
        },
    )
    # As the images for Python do: {{NAME}} in the start command becomes ${NAME}.
    startup = re.sub(r"\{\{(\w+)\}\}", r"${\1}", egg["startup"])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["env", "-i", "-C", str(home), f"PATH={path}", *(f"{name}={value}" for name, value in environment.items())]
    return Daemon(tmp_path / "unused", {"server": {"port": port}}, command=[*shell, "bash", "-c", startup])


def test_a_server_with_a_wrong_password_is_not_shown_as_running(
    egg: Any, tmp_path: Path, database: Database, mariadb: MariaDBServer
) -> None:
    create_table(AuthMeTable(MariaDBSchema(database)))
    mariadb.run_as_root("CREATE USER 'panel'@'%' IDENTIFIED BY 'right'")
    mariadb.run_as_root(f"GRANT ALL ON `{database.name}`.* TO 'panel'@'%'")
    login = {"COMPANION_AUTHME_USER": "panel", "COMPANION_AUTHME_PASSWORD": "misspelt"}
    daemon = make_server(egg, tmp_path, database, **login)
    daemon.spawn()
    try:
        assert daemon.wait_for_log("Check COMPANION_AUTHME_USER, COMPANION_AUTHME_PASSWORD", START_TIMEOUT)
        assert daemon.wait_for_end() == EX_CONFIG
        assert daemon.output == []
    finally:
        daemon.kill()
        mariadb.run_as_root("DROP USER 'panel'@'%'")
    assert "misspelt" not in "".join(daemon.log)


def test_a_server_of_the_panel_starts_and_stops(egg: Any, tmp_path: Path, database: Database) -> None:
    table = AuthMeTable(MariaDBSchema(database))
    create_table(table)
    AuthMeLike(table).register("Olivia", "olivias-secret")
    daemon = make_server(egg, tmp_path, database, COMPANION_GAME_OPERATORS="Olivia")
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
    assert (tmp_path / "container" / "state" / "installation.key").exists()
