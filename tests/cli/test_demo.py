"""The demo (`make run`)."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from regsvc.config.loader import load_config
from tests.demo.__main__ import ALLOWLIST, AUTHME_TABLE, OPERATOR, OPERATOR_UUID, hint, prepare
from tests.demo.people import populate
from tests.support.authme.authme_database import SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.command_line import companion
from tests.support.quick_start import REPOSITORY


def test_the_operator_can_play_with_the_password_shown(tmp_path: Path) -> None:
    password = prepare(tmp_path)
    assert password
    game = tmp_path / "demo-server"
    plugin = AuthMeLike(AuthMeTable(SqliteFile(game / "plugins" / "AuthMe" / "authme.db")))
    assert plugin.login(OPERATOR, password)
    assert [entry["name"] for entry in json.loads((game / "ops.json").read_text())] == [OPERATOR]
    config = tomllib.loads((tmp_path / "demo.toml").read_text(encoding="utf-8"))
    assert config["game"]["directory"] == str(tmp_path / "demo-server")
    assert config["mail"]["backend"] == "log"
    authme = yaml.safe_load((tmp_path / "demo-server" / "plugins" / "AuthMe" / "config.yml").read_text())
    assert authme["DataSource"]["caching"] is False


def test_a_second_run_keeps_everything(tmp_path: Path) -> None:
    prepare(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert prepare(tmp_path) is None
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_start_that_broke_off_is_made_good(tmp_path: Path) -> None:
    unfinished = tmp_path / "demo-server" / "plugins" / "AuthMe" / "authme.new"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"half a file")
    assert prepare(tmp_path)


def test_it_says_what_to_open_at_the_port_it_is_served_on(tmp_path: Path) -> None:
    password = prepare(tmp_path)
    file = tmp_path / "demo.toml"  # also when the host has tried the public address in it
    text = file.read_text(encoding="utf-8").replace("[server]", '[server]\nbase_url = "https://play.willow.example"')
    file.write_text(text, encoding="utf-8")
    shown = hint(load_config(file, {"COMPANION_SERVER_PORT": "18080"}), password, "12.token")
    for path in ("/\n", "/application#token=12.token\n", "/admin\n", "/docs\n"):
        assert f"  http://127.0.0.1:18080{path}" in shown
    assert "8080" not in shown.replace("18080", "")


@pytest.mark.parametrize("gate", ["", ALLOWLIST])
def test_where_its_port_is_taken_it_prints_the_command_with_a_free_one(tmp_path: Path, gate: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "COMPANION_SERVER_PORT": str(port),
            **({"GATE": gate} if gate else {}),
        }
        command = [sys.executable, "-m", "tests.demo"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = re.search(r"COMPANION_SERVER_PORT=(\d+) make run(.*)\n\Z", done.stderr)
    assert said is not None, done.stdout + done.stderr
    assert done.returncode == 1
    assert said[2] == (f" GATE={gate}" if gate else "")
    assert int(said[1]) != port
    socket.create_server(("127.0.0.1", int(said[1]))).close()
    assert "password" not in done.stdout + done.stderr, "it is shown only once, and this run was no use"


def test_people_have_applied_and_olivia_has_decided(tmp_path: Path) -> None:
    """Two of them from one address, one in Chinese, one on a phone; nobody applies twice where a start broke off."""
    prepare(tmp_path)
    config = load_config(tmp_path / "demo.toml", {})
    application = populate(config)
    ours = SqliteFile(tmp_path / "demo-state" / "companion.db")
    statuses = "SELECT status, COUNT(*) AS people FROM regsvc_user GROUP BY status ORDER BY status"
    people = {row["status"]: row["people"] for row in ours.query(statuses)}
    assert people == {"approved": 3, "banned": 1, "pending": 7}
    assert populate(config) == application
    assert {row["status"]: row["people"] for row in ours.query(statuses)} == people
    [shared] = ours.query("SELECT registration_ip FROM regsvc_user GROUP BY registration_ip HAVING COUNT(*) > 1")
    assert shared["registration_ip"] == "203.0.113.40"
    plugin = AuthMeLike(AuthMeTable(SqliteFile(tmp_path / "demo-server" / "plugins" / "AuthMe" / "authme.db")))
    assert plugin.login("Oda_1987", "willow-by-the-river")
    assert ours.query("SELECT COUNT(*) AS mails FROM regsvc_outbox WHERE done_at IS NULL") == [{"mails": 0}]


def test_its_table_is_the_one_authme_makes(tmp_path: Path) -> None:
    real, demo = SqliteFile(tmp_path / "real.db"), SqliteFile(tmp_path / "demo.db")
    create_table(AuthMeTable(real))
    demo.execute(AUTHME_TABLE)
    columns = "SELECT * FROM pragma_table_info('authme')"
    assert demo.query(columns) == real.query(columns)


def test_without_authme_the_allowlist_lets_players_in(tmp_path: Path) -> None:
    """Olivia can decide at once, and is on the list herself as soon as it is compared."""
    password = prepare(tmp_path, ALLOWLIST)
    assert password
    assert prepare(tmp_path, ALLOWLIST) is None
    config, game = tmp_path / "demo.toml", tmp_path / "demo-server"
    assert not (game / "plugins").exists()
    checked = companion("check-config", "--config", str(config), directory=tmp_path)
    assert "approved users get in by: the game's allowlist" in checked.output
    assert companion("sync", "--config", str(config), directory=tmp_path).status == 0
    assert json.loads((game / "whitelist.json").read_text()) == [{"uuid": OPERATOR_UUID, "name": OPERATOR}]
    assert str(game / "whitelist.json") in hint(load_config(config, {}), password, "")
