"""Findings about our database: unavailable, without rights, or the wrong one."""

import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regsvc.auth.keys import fingerprint as fingerprint_of
from regsvc.doctor.facts import databases
from regsvc.doctor.facts.player_table import PlayerTable, inspect_table
from regsvc.doctor.facts.readonly_db import ReadOnlyMySql
from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import companion
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase
from tests.support.peers.mariadb import Database, MariaDBServer
from tests.support.ports import free_port

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
MAKING = ("CREATE", "ALTER", "INDEX", "TRIGGER", "CREATE VIEW", "REFERENCES")


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "mariadb"


class Login:
    """A database login with the rights that a test grants."""

    name, password = "limited", "limited-password"

    def __init__(self, server: MariaDBServer, schema: str) -> None:
        self._server = server
        self._schema = schema

    def may(self, rights: str, table: str = "*", to: str = name) -> None:
        """Grant rights. `table`: one in AuthMe's schema; `to`: a role instead of the login."""
        self._server.run_as_root(f"GRANT {rights} ON `{self._schema}`.{table} TO {to}")


@pytest.fixture
def login(doctor_case: DoctorCase, mariadb: MariaDBServer, database: Database) -> Iterator[Login]:
    """Make AuthMe, and so the companion, use this login."""
    login = Login(mariadb, database.name)
    mariadb.run_as_root(f"CREATE USER '{login.name}'@'%' IDENTIFIED BY '{login.password}'")
    use(doctor_case, login.name, login.password)
    yield login
    mariadb.run_as_root(f"DROP USER '{login.name}'@'%'")


def use(doctor_case: DoctorCase, user: str, password: str) -> None:
    doctor_case.game.change_authme({"DataSource.mySQLUsername": user, "DataSource.mySQLPassword": password})


# --- unavailable ---


def test_nobody_listens(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.mySQLPort": str(free_port())})
    checkup = doctor_case.examine()
    [finding] = checkup.findings
    keys = "DataSource.mySQLHost, DataSource.mySQLPort"
    assert (finding.id, finding.where) == ("database.away", f"{doctor_case.game.authme_config}: {keys}")
    assert len(checkup.not_examined) == 2


def test_the_password_is_wrong(doctor_case: DoctorCase) -> None:
    use(doctor_case, "authme", "not-the-password")
    finding = doctor_case.only_finding("database.away")
    assert "Access denied" in finding.title
    assert "not-the-password" not in str(finding)


def test_a_database_that_does_not_answer_is_not_waited_for(
    doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        doctor_case.game.change_authme({"DataSource.mySQLPort": str(silent.getsockname()[1])})
        assert "in time" in doctor_case.only_finding("database.away").title


def test_a_database_that_goes_away_while_it_is_looked_at_is_away(
    doctor_case: DoctorCase, mariadb: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not lack AuthMe's table."""

    def cut_off(database: ReadOnlyMySql, schema: str, table: str) -> PlayerTable | None:
        mariadb.run_as_root(f"KILL {database.value('SELECT CONNECTION_ID() AS id')}")
        return inspect_table(database, schema, table)

    doctor_case.start_once()
    monkeypatch.setattr(databases, "inspect_table", cut_off)
    doctor_case.only_finding("database.away")


@pytest.mark.parametrize("database_kind", ["sqlite", "mariadb"])
def test_a_database_that_is_being_migrated_is_not_away(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    soon = f"{datetime.now(UTC) + timedelta(minutes=4):%Y-%m-%d %H:%M:%S}.000"
    doctor_case.our_database.execute("INSERT INTO regsvc_lease VALUES ('migration', 'another:1', ?)", (soon,))
    doctor_case.our_database.execute("ALTER TABLE regsvc_installation RENAME TO regsvc_half_way")
    checkup = doctor_case.examine()
    assert checkup.findings == ()
    [reason] = checkup.not_examined
    assert "migrating" in reason
    doctor_case.our_database.execute("UPDATE regsvc_lease SET expires_at = '2999-01-01'")  # the clock was set back
    doctor_case.only_finding("database.away")


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_our_own_file_is_damaged(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    (doctor_case.state_dir / "companion.db").write_bytes(b"somebody's shopping list\n" * 100)
    assert "not a database" in doctor_case.only_finding("database.away").title


def test_the_server_takes_no_changes(doctor_case: DoctorCase, mariadb: MariaDBServer) -> None:
    mariadb.run_as_root("SET GLOBAL read_only = 1")
    try:
        doctor_case.only_finding("database.read_only")
    finally:
        mariadb.run_as_root("SET GLOBAL read_only = 0")


# --- rights ---


@pytest.fixture
def own_schema(doctor_case: DoctorCase, mariadb: MariaDBServer, login: Login) -> Iterator[Database]:
    """Put our tables into a separate schema, in which the limited login has all rights."""
    with mariadb.fresh_database() as ours:
        mariadb.run_as_root(f"GRANT ALL ON `{ours.name}`.* TO '{login.name}'@'%'")
        doctor_case.change("database", url=f"mysql://{login.name}:{login.password}@{ours.host}:{ours.port}/{ours.name}")
        yield ours


def test_a_right_on_authmes_table_is_missing(
    doctor_case: DoctorCase, login: Login, own_schema: Database, mariadb: MariaDBServer, database: Database
) -> None:
    """The grant that is proposed helps."""
    table = f"`{database.name}`.`authme`"
    finding = doctor_case.only_finding("table.rights")
    assert "SELECT, INSERT, UPDATE, DELETE" in finding.title
    mariadb.run_as_root(finding.where)
    assert doctor_case.findings() == []
    for lacking in ROWS:
        mariadb.run_as_root(f"REVOKE {lacking} ON {table} FROM 'limited'@'%'")
        finding = doctor_case.only_finding("table.rights")
        assert finding.where == f"GRANT {lacking} ON {table} TO 'limited'@'%';"
        mariadb.run_as_root(finding.where)


def test_a_role_has_the_rights(
    doctor_case: DoctorCase, login: Login, own_schema: Database, mariadb: MariaDBServer
) -> None:
    mariadb.run_as_root("CREATE ROLE table_owners")
    try:
        login.may(", ".join(ROWS), "authme", to="table_owners")
        mariadb.run_as_root("GRANT table_owners TO limited", "SET DEFAULT ROLE table_owners FOR limited")
        assert doctor_case.findings() == []
    finally:
        mariadb.run_as_root("DROP ROLE table_owners")


@pytest.mark.parametrize("is_started", [False, True], ids=["before the first start", "after it"])
def test_a_right_on_our_own_tables_is_missing(
    doctor_case: DoctorCase, login: Login, mariadb: MariaDBServer, database: Database, is_started: bool
) -> None:
    login.may(", ".join(ROWS), "authme")
    if is_started:
        use(doctor_case, "authme", "authme-password")
        doctor_case.start_once()
        use(doctor_case, login.name, login.password)
    login.may(", ".join((*ROWS, *MAKING)))
    for lacking in ("CREATE", "ALTER", "INDEX", "DELETE", "SELECT"):
        mariadb.run_as_root(f"REVOKE {lacking} ON `{database.name}`.* FROM 'limited'@'%'")
        finding = doctor_case.only_finding("database.rights")
        assert finding.title == f"Our login may not {lacking} in our schema."
        mariadb.run_as_root(finding.where)
        assert doctor_case.findings() == []


def test_we_may_not_make_triggers(doctor_case: DoctorCase, login: Login, mariadb: MariaDBServer) -> None:
    login.may(", ".join(right for right in (*ROWS, *MAKING, "DROP") if right != "TRIGGER"))
    assert doctor_case.only_finding("database.no_triggers").severity == "risky"
    doctor_case.start_once()
    assert doctor_case.only_finding("database.no_triggers").where.startswith("GRANT TRIGGER ON ")


def test_a_view_that_we_might_not_replace(doctor_case: DoctorCase, login: Login) -> None:
    login.may(", ".join((*ROWS, *MAKING)))
    doctor_case.start_once()
    finding = doctor_case.only_finding("database.schema_differs")
    views = [f"The view regsvc_v_{name} is another one than ours." for name in ("review_queue", "users")]
    assert (finding.severity, finding.title) == ("risky", " ".join(views))
    login.may("DROP")
    doctor_case.our_database.execute("DELETE FROM regsvc_migration WHERE number = 113")
    doctor_case.start_once()
    assert doctor_case.findings() == []


@pytest.mark.parametrize("database_kind", ["sqlite", "mariadb"])
def test_tables_that_are_not_as_this_version_makes_them(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    ours = doctor_case.our_database
    on = "" if ours.kind == "sqlite" else "ON regsvc_user"
    ours.execute("CREATE INDEX hosts_own ON regsvc_user (last_login_at)")
    assert doctor_case.findings() == []
    ours.execute(f"DROP INDEX regsvc_user_role {on}")
    ours.execute("CREATE INDEX regsvc_user_role ON regsvc_user (role)")
    finding = doctor_case.only_finding("database.schema_differs")
    assert finding.severity == "risky"
    assert finding.title == ("The index regsvc_user_role of regsvc_user is (role), and should be (role, applied_role).")
    assert "number = 113, and restart" in finding.do
    for view in ("users", "outbox", "recent_audit", "questions", "sync_drift", "review_queue"):
        ours.execute(f"DROP VIEW regsvc_v_{view}")
    ours.execute("DROP TABLE regsvc_reader")
    finding = doctor_case.only_finding("database.schema_differs")
    assert finding.severity == "broken"
    assert finding.title.endswith(" is missing. And 3 more.")
    ours.execute("DELETE FROM regsvc_migration WHERE number = 113")
    assert doctor_case.findings() == [], "the next start repairs them"
    doctor_case.start_once()
    assert doctor_case.findings() == []


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_we_may_not_write_authmes_file(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    file = doctor_case.game.authme_directory / "authme.db"
    monkeypatch.setattr("os.access", lambda path, mode: path != file.parent)
    finding = doctor_case.only_finding("table.rights")
    assert finding.where == str(file.parent)


# --- which installation it belongs to ---


def test_a_newer_version_was_here(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    doctor_case.our_database.execute(
        "INSERT INTO regsvc_migration (number, name, applied_at) VALUES (9000, 'of_tomorrow', '2031-01-01 00:00:00')"
    )
    assert "9000" in doctor_case.only_finding("database.too_new").title


def test_the_config_leads_elsewhere(doctor_case: DoctorCase, tmp_path: Path) -> None:
    doctor_case.start_once()
    doctor_case.change("database", url=f"sqlite:///{tmp_path / 'other.db'}")
    doctor_case.change("authme", enabled=False)
    doctor_case.game.write_properties(
        enable_rcon="true", rcon_password=RCON_PASSWORD, online_mode="true", white_list="true"
    )
    assert "lives in mysql:" in doctor_case.only_finding("database.elsewhere").title


def test_the_folder_of_the_game_is_not_mounted_yet(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    doctor_case.game.directory.rename(doctor_case.game.directory.with_suffix(".unmounted"))
    [title] = [str(finding.title) for finding in doctor_case.findings() if finding.id == "database.elsewhere"]
    assert f"{doctor_case.game.directory} is missing (not mounted yet?)" in title
    assert "migrate" not in title


def test_our_tables_cannot_be_on_another_server_than_authmes(doctor_case: DoctorCase) -> None:
    doctor_case.change("database", url=f"mysql://me:s3cret-of-ours@127.0.0.1:{free_port()}/ours")
    finding = doctor_case.only_finding("database.elsewhere")
    assert "another server" in finding.title
    assert "s3cret-of-ours" not in str(finding)


def test_everything_was_moved_away(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    for location, word in (("moved to: sqlite:x", "was moved to: sqlite:x"), ("copying to: here", "interrupted")):
        doctor_case.our_database.execute("UPDATE regsvc_installation SET home = ?", (location,))
        assert word in doctor_case.only_finding("database.elsewhere").title


def test_a_second_companion_has_a_key_of_its_own(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    (doctor_case.state_dir / "installation.key").write_text("another installation's key, long enough\n")
    finding = doctor_case.only_finding("database.other_key")
    assert (finding.severity, "not the one" in finding.title) == ("broken", True)
    (doctor_case.state_dir / "installation.key").unlink()
    assert "is missing" in doctor_case.only_finding("database.other_key").title


def test_a_second_companion_signs_tokens_with_another_key(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    for fingerprint in (None, fingerprint_of((doctor_case.state_dir / "signing.key").read_text().strip().encode())):
        doctor_case.our_database.execute("UPDATE regsvc_installation SET signing_key_fingerprint = ?", (fingerprint,))
        assert doctor_case.findings() == []
    doctor_case.our_database.execute("UPDATE regsvc_installation SET signing_key_fingerprint = '0123456789abcdef'")
    finding = doctor_case.only_finding("database.other_key")
    assert (finding.severity, "another key" in finding.title) == ("risky", True)


def test_another_address_leads_to_the_same_database(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    file = doctor_case.state_dir / "home.json"
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "home": state["home"].replace("127.0.0.1", "db.example.org")}))
    assert doctor_case.findings() == []
    file.write_text(json.dumps({"home": "mysql:db.example.org:3306/x", "installation_id": "another"}))
    assert "another installation" in doctor_case.only_finding("database.elsewhere").title


# --- the connection ---


def test_the_clocks_differ(doctor_case: DoctorCase) -> None:
    for difference in (timedelta(minutes=-1), timedelta(minutes=1)):
        doctor_case.change_host(now=lambda difference=difference: datetime.now(UTC) + difference)
        finding = doctor_case.only_finding("machine.clock")
        assert (finding.severity, "ahead of" in finding.title) == ("risky", difference < timedelta())


def test_the_password_is_authmes_default(doctor_case: DoctorCase, mariadb: MariaDBServer) -> None:
    mariadb.run_as_root("CREATE USER careless@'%' IDENTIFIED BY '12345'", "GRANT ALL ON *.* TO careless@'%'")
    try:
        use(doctor_case, "careless", "12345")
        assert "12345" not in str(doctor_case.only_finding("database.default_password"))
    finally:
        mariadb.run_as_root("DROP USER careless@'%'")


def test_the_connection_is_not_encrypted(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    # the name leads to this machine, and the companion cannot know that
    monkeypatch.setattr(socket, "getaddrinfo", partial(_everywhere_is_here, socket.getaddrinfo))
    doctor_case.game.change_authme({"DataSource.mySQLHost": "db.example.org"})
    assert "db.example.org" in doctor_case.only_finding("database.unencrypted").title
    # with TLS the connection fails, since this server has no certificate
    doctor_case.game.change_authme({"DataSource.mySQLUseSSL": True})
    doctor_case.only_finding("database.away")


def _everywhere_is_here(look_up: Callable[..., Any], host: str, *rest: Any, **named: Any) -> Any:
    return look_up("127.0.0.1", *rest, **named)


def test_the_database_can_forget_what_it_has_committed(doctor_case: DoctorCase, mariadb: MariaDBServer) -> None:
    """Each setting is named with a better one, by all that look before and after an installation begins."""
    doctor_case.start_once()
    doctor_case.our_database.execute("ALTER TABLE regsvc_setting ENGINE=MyISAM")
    findings = [each for each in doctor_case.examine_durability().findings if each.id == "database.not_durable"]
    advice = {each.title: each.where for each in findings}
    assert advice["A commit can be lost with innodb_flush_log_at_trx_commit=2."] == "innodb_flush_log_at_trx_commit=1"
    assert advice["A commit can be lost with regsvc_setting.engine=MyISAM."] == "ENGINE=InnoDB"
    for command in ("check-config", "upgrade-check"):
        told = companion(command, config=doctor_case.config_file)
        assert told.status == 0, told
        for setting in ("innodb_flush_log_at_trx_commit=2", "innodb_doublewrite=OFF", "regsvc_setting.engine=MyISAM"):
            assert f"warning: the database can lose a commit with {setting} (database.not_durable)" in told.output
    doctor_case.game.change_authme({"DataSource.mySQLPort": str(free_port())})
    doctor_case.read_config()
    told = companion("check-config", config=doctor_case.config_file)
    assert (told.status, "unknown: whether the database keeps what it commits" in told.output) == (0, True)
