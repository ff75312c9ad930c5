"""The image and the compose file: what they say, and the daemon started from exactly that."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from regsvc.cli.shipped_files import list_shipped
from regsvc.config.loader import load_config
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import write_game_server
from tests.support.container import Image, container_command
from tests.support.daemon import Daemon
from tests.support.ports import free_port
from tests.support.quick_start import REPOSITORY
from tests.support.sandbox import USER_ID, require_sandbox

COMPOSE = REPOSITORY / "packaging" / "container" / "compose.yaml"


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


def check_health(image: Image, environment: Mapping[str, str]) -> int:
    """Run the image's health check, with the interpreter of the tests, and return its exit status."""
    assert image.health_check[0] == "python3"
    command = [sys.executable, *image.health_check[1:]]
    return subprocess.run(
        command, env={**image.environment, **environment}, check=False, capture_output=True
    ).returncode


def test_a_container_starts_from_the_image_and_two_volumes_alone(tmp_path: Path) -> None:
    require_sandbox("CONTAINER")
    image = Image.read()
    game = write_game_server(tmp_path / "game")
    game.authme_directory.mkdir(parents=True)
    table = AuthMeTable(SqliteFile(game.authme_directory / "authme.db"))
    create_table(table)
    game.install_authme(table)
    authme, state = AuthMeLike(table), tmp_path / "state"
    authme.register("Olivia", "olivias-secret")
    state.mkdir(mode=0o700)
    for path in (game.directory, *game.directory.rglob("*"), state):
        os.chown(path, USER_ID, USER_ID)
    port = free_port()
    environment = {"COMPANION_SERVER_PORT": str(port), "COMPANION_UPDATES_ENABLED": "false"}
    volumes = {"/state": state, "/game:ro": game.directory, "/game/plugins/AuthMe": game.authme_directory}
    command = container_command(image, tmp_path / "scratch", volumes, **environment)
    daemon = Daemon(tmp_path / "unused", {"server": {"port": port}}, command=command)

    assert check_health(image, environment) != 0
    daemon.start()
    try:
        assert check_health(image, environment) == 0
        login = {"username": "Olivia", "password": "olivias-secret"}
        token = daemon.post("/api/admin/login", login).json["token"]
        assert daemon.post("/api/admin/sync", token=token).status == 200
        assert daemon.get("/health/ready").json["bridge"] == "up"
        assert daemon.get("/api/admin/user", {"username": "Olivia"}, token=token).status == 200
    finally:
        daemon.stop()  # SIGTERM, and the exit status is 0
    assert image.stop_signal == "SIGTERM"
    files = [state, *state.iterdir(), game.authme_directory / "authme.db"]
    assert {file.name for file in files} >= {"companion.db", "installation.key"}
    assert {file.stat().st_uid for file in files} == {USER_ID}


def test_every_variable_of_image_and_compose_file_is_a_key(tmp_path: Path, compose: Any) -> None:
    environment = Image.read().environment | compose["services"]["companion"]["environment"]
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-the-host\n")
    secret.chmod(0o400)
    for name, value in environment.items():
        if value.startswith("/run/secrets/"):
            assert value.removeprefix("/run/secrets/") in compose["services"]["companion"]["secrets"]
            environment[name] = str(secret)
    environment["COMPANION_GAME_DIRECTORY"] = str(tmp_path)
    authme = tmp_path / "plugins" / "AuthMe"
    authme.mkdir(parents=True)
    (authme / "config.yml").write_text("DataSource: {backend: MYSQL}\n")
    config = load_config(None, environment)
    assert config.warnings == ()
    assert (config.server.host, config.mail.backend) == ("0.0.0.0", "smtp")
    assert config.authme.password == "a-secret-of-the-host"


def test_the_compose_file_hangs_together(compose: Any) -> None:
    services = compose["services"]
    image = Image.read()
    for service in services.values():
        assert set(service["secrets"]) <= set(compose["secrets"])
        named = [volume.split(":")[0] for volume in service["volumes"] if not volume.startswith(("$", "/", "."))]
        assert set(named) <= set(compose["volumes"])
    companion = services["companion"]
    assert companion["depends_on"] == {"mariadb": {"condition": "service_healthy"}}
    assert companion["environment"]["COMPANION_AUTHME_HOST"] in services
    assert (COMPOSE.parent / companion["build"]["context"]).resolve() == REPOSITORY
    mounted = {volume.split(":")[-1 if not volume.endswith(":ro") else -2] for volume in companion["volumes"]}
    assert mounted == {*image.volumes, image.environment["COMPANION_GAME_DIRECTORY"]}
    [port] = companion["ports"]
    assert port.endswith(f":{image.environment['COMPANION_SERVER_PORT']}")
    network = compose["networks"]["companion"]["ipam"]["config"][0]
    assert companion["environment"]["COMPANION_HTTP_TRUSTED_PROXIES"] == network["gateway"]


def test_the_build_gets_every_file_that_is_installed() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    program = {"companion.py", "plugin_bridge", "pyproject.toml", "regsvc", "requirements.lock", "setup.py"}
    assert program | {name.split("/")[0] for name in list_shipped()} <= kept
    assert all((REPOSITORY / name).exists() for name in kept)
