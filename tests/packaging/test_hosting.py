"""What docs/hosting.md and the example for Ansible tell hosts of many servers, done for real."""

import re
from typing import Any

import pytest
import yaml

from regsvc import __version__
from regsvc.cli import command_line
from regsvc.cli.shipped_files import read_shipped
from regsvc.config.sections import Config
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, create_table
from tests.support.authme.game_server import GameServer
from tests.support.doctor_case import NOT_DURABLE
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.quick_start import REPOSITORY
from tests.support.stack import GENEROUS
from tests.support.watching import ask_until

ANSIBLE = REPOSITORY / "packaging" / "ansible"
LOGIN = ("mc_survival", "a long password")


def granted_rights(text: str) -> list[str]:
    found = re.search(r"GRANT ([A-Z ,]+?)\s+ON", text)
    assert found is not None
    return sorted(found[1].split(", "))


@pytest.fixture
def hosted(mariadb: MariaDBServer) -> Any:
    """The database and the login of the documentation, with the rights that it grants and no others."""
    example = re.search(r"```sql\n(.*?)```", read_shipped("docs/hosting.md"), re.DOTALL)
    assert example is not None
    statements = example[1].replace("@'localhost'", "@'%'").split(";")
    mariadb.run_as_root(*filter(str.strip, statements))
    yield Database(mariadb.port, "mc_survival", user=LOGIN[0], password=LOGIN[1])
    mariadb.run_as_root("DROP DATABASE mc_survival", f"DROP USER '{LOGIN[0]}'@'%'")


def test_the_documented_grant_is_enough_and_so_are_the_documented_connections(
    hosted: Database, mariadb: MariaDBServer, game_server: GameServer, daemon: Any
) -> None:
    table = AuthMeTable(MariaDBSchema(hosted))
    create_table(table)
    game_server.authme_directory.mkdir(parents=True)
    game_server.install_authme(table)
    authme = AuthMeLike(table)
    for name in ("Olivia", "Bob"):
        authme.register(name, f"{name.lower()}s-secret")
    served = daemon({"auth": GENEROUS["auth"], "http": GENEROUS["http"]}).start()

    token = served.post("/api/admin/login", {"username": "Olivia", "password": "olivias-secret"}).json["token"]
    assert served.post("/api/admin/sync", token=token).status == 200
    assert served.post("/api/admin/user/ban", {"username": "Bob"}, token=token).status == 200
    findings = served.get("/api/admin/doctor", token=token).json["findings"]
    ours = {found["id"] for found in findings if found["id"].startswith(("database.", "table."))}
    assert ours <= {NOT_DURABLE}, "the tests' server flushes no commit, for their speed"
    for _request in range(20):
        served.get("/api/admin/users", token=token)
    count = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'mc_survival'"
    threads = Config().database.threads
    # those that the doctor has closed end a moment later
    ask_until(lambda: int(str(mariadb.ask_as_root(count)[0][0])), lambda connections: connections <= threads + 2)
    text = " ".join(read_shipped("docs/hosting.md").split())
    assert f"{threads + 2} with the default of {threads} threads" in text


def test_the_playbook_grants_what_the_documentation_grants() -> None:
    tasks = (ANSIBLE / "roles" / "companion" / "tasks" / "server.yml").read_text(encoding="utf-8")
    assert granted_rights(tasks) == granted_rights(read_shipped("docs/hosting.md"))


def test_the_playbook_is_made_of_tasks_and_of_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(ANSIBLE.rglob("*.yml"))
    documents = {file.relative_to(ANSIBLE).as_posix(): yaml.safe_load(file.read_text("utf-8")) for file in files}
    tasks = [task for name, document in documents.items() if "/tasks/" in name for task in document]
    assert tasks
    assert all(task["name"] for task in tasks)
    included = {task[key] for task in tasks for key in task if key.endswith("include_tasks")}
    assert all(f"roles/companion/tasks/{name}" in documents for name in included)
    install = next(task["ansible.builtin.command"]["argv"] for task in tasks if task["name"] == "Set up the companion")
    options = {word.split("=")[0] for word in install[2:]}
    with pytest.raises(SystemExit):
        command_line.parse(["install", "--help"])
    assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    variables = set(re.findall(r"\bcompanion_[a-z_]+", "".join(file.read_text("utf-8") for file in files)))
    registered = {task["register"] for task in tasks if "register" in task}
    host_variables = documents["hosts.yml"]["game_hosts"]
    assert host_variables["vars"]["companion_version"] == __version__
    set_somewhere = {
        *documents["roles/companion/defaults/main.yml"],
        *host_variables["vars"],
        *host_variables["hosts"]["node1.example.org"],
    }
    assert {name for name in variables if name not in registered} <= set_somewhere


def test_what_the_playbook_is_told_about_passwords_is_not_logged() -> None:
    files = sorted((ANSIBLE / "roles/companion/tasks").glob("*.yml"))
    tasks = [task for file in files for task in yaml.safe_load(file.read_text("utf-8"))]
    confidential = [task for task in tasks if re.search("companion_[a-z]*_password", str(task))]
    assert len(confidential) == 2
    assert all(task["no_log"] for task in confidential)
