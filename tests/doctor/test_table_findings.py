"""Findings about AuthMe's table as old versions and other programs leave it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from regsvc.doctor.facts import databases, player_table, readonly_db
from tests.support.authme.authme_database import DatabaseKind, MariaDBSchema
from tests.support.authme.authme_tables import TableShape, insert_player
from tests.support.doctor_case import DoctorCase

MILLISECONDS = 1_600_000_000_000
SECONDS = 1_600_000_000


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    kind: DatabaseKind = request.param
    return kind


on_mariadb = pytest.mark.parametrize("database_kind", ["mariadb"])
on_sqlite = pytest.mark.parametrize("database_kind", ["sqlite"])


def alter(doctor_case: DoctorCase, change: str) -> None:
    doctor_case.table.database.execute(f"ALTER TABLE {doctor_case.table.name} {change}")


def insert(doctor_case: DoctorCase, name: str, **values: object) -> None:
    row = {"username": name.lower(), "realname": name, "password": "x", "regdate": MILLISECONDS, **values}
    insert_player(doctor_case.table, **row)


def test_there_is_no_table_yet(doctor_case: DoctorCase) -> None:
    doctor_case.table.database.execute("DROP TABLE authme")
    assert "no table authme" in doctor_case.only_finding("table.missing").title


@on_mariadb
def test_the_table_is_locked(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readonly_db, "_LOCK_WAIT_TIMEOUT", "SET SESSION lock_wait_timeout = 0")
    schema = doctor_case.table.database
    assert isinstance(schema, MariaDBSchema)
    with schema.database.cursor() as cursor:
        cursor.execute("LOCK TABLES authme WRITE")
        finding = doctor_case.only_finding("table.missing")
        cursor.execute("UNLOCK TABLES")  # the connection is used again
    assert finding.title.startswith("AuthMe’s table authme cannot be read: Lock wait timeout")
    assert finding.do.startswith("Wait until nothing locks the table")


@on_sqlite
def test_the_file_is_no_database_or_is_not_there_yet(doctor_case: DoctorCase) -> None:
    file = doctor_case.game.authme_directory / "authme.db"
    file.write_bytes(b"somebody's shopping list\n" * 100)
    assert "not a database" in doctor_case.only_finding("table.missing").title
    file.unlink()
    assert "authme.db" in doctor_case.only_finding("table.missing").title


@on_sqlite
def test_a_file_that_another_program_locks_needs_no_backup(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()
    files = (doctor_case.game.authme_directory / "authme.db", doctor_case.state_dir / "companion.db")
    for file, id in zip(files, ("table.missing", "database.away"), strict=True):
        with closing(sqlite3.connect(file, isolation_level=None)) as editor:
            editor.execute("PRAGMA journal_mode = DELETE")
            editor.execute("BEGIN EXCLUSIVE")
            [finding] = [finding for finding in doctor_case.findings() if finding.id == id]
        assert finding.title.endswith("database is locked.")
        assert finding.do.startswith("End the program that locks the file")


def test_a_configured_column_is_missing(doctor_case: DoctorCase) -> None:
    """Without that of the names the rows are not looked at."""
    for key, column, usual in (("mySQLPlayerUUID", "uuid", ""), ("mySQLColumnPassword", "pass", "password")):
        doctor_case.game.change_authme({f"DataSource.{key}": column})
        assert doctor_case.only_finding("table.column_missing").where.endswith(f"DataSource.{key}: {column}")
        doctor_case.game.change_authme({f"DataSource.{key}": usual})
    doctor_case.game.change_authme({"DataSource.mySQLColumnName": "name"})
    checkup = doctor_case.examine()
    assert [finding.id for finding in checkup.findings] == ["table.column_missing"]
    assert any("rows of AuthMe’s table" in reason for reason in checkup.not_examined)


def test_columns_of_newer_versions_may_be_missing(doctor_case: DoctorCase) -> None:
    alter(doctor_case, "DROP COLUMN premiumUUID")
    alter(doctor_case, "DROP COLUMN totp")
    assert doctor_case.findings() == []


@on_mariadb
def test_a_column_must_be_filled_or_the_id_does_not_count_up(doctor_case: DoctorCase) -> None:
    alter(doctor_case, "ADD COLUMN forum_id INT NOT NULL")
    assert "forum_id" in doctor_case.only_finding("table.needs_more").title
    alter(doctor_case, "DROP COLUMN forum_id")
    alter(doctor_case, "MODIFY COLUMN id MEDIUMINT UNSIGNED NOT NULL")
    assert doctor_case.only_finding("table.needs_more").where.endswith("authme: id")


@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
@on_sqlite
def test_an_old_table_wants_an_email(doctor_case: DoctorCase) -> None:
    assert "your@email.com" in doctor_case.only_finding("table.email_required").title


@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
@on_mariadb
def test_an_old_table_is_latin1(doctor_case: DoctorCase) -> None:
    alter(doctor_case, "MODIFY COLUMN email VARCHAR(255) NULL")
    finding = doctor_case.only_finding("table.charset")
    assert "username (latin1), realname (latin1), email (latin1)" in finding.title
    doctor_case.table.database.execute(finding.where)
    assert doctor_case.findings() == []


@on_mariadb
def test_the_ids_end(doctor_case: DoctorCase) -> None:
    for next_id, severity, title in (
        (16_777_216, "broken", "The ids of the column id in AuthMe’s table are used up."),
        (15_099_496, "risky", "The column id in AuthMe’s table ends at 16777215, and the next id is 15099496."),
    ):
        alter(doctor_case, f"AUTO_INCREMENT = {next_id}")
        finding = doctor_case.only_finding("table.ids_end")
        assert (finding.severity, finding.title) == (severity, title)
    doctor_case.table.database.execute(finding.where)
    assert doctor_case.findings() == []
    alter(doctor_case, "MODIFY id MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 15000000")
    assert doctor_case.findings() == []


@on_mariadb
def test_the_table_is_not_innodb(doctor_case: DoctorCase) -> None:
    alter(doctor_case, "ENGINE = MyISAM")
    finding = doctor_case.only_finding("table.not_transactional")
    doctor_case.table.database.execute(finding.where)
    assert doctor_case.findings() == []


@on_mariadb
def test_the_collation_loses_accents(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"settings.restrictions.allowedNicknameCharacters": "[a-zA-Zéèêëô]*"})
    assert "utf8mb3_general_ci" in doctor_case.only_finding("table.collation").title
    alter(doctor_case, "MODIFY COLUMN username VARCHAR(255) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin NOT NULL")
    assert doctor_case.findings() == []


def test_a_name_is_in_mixed_case(doctor_case: DoctorCase) -> None:
    insert(doctor_case, "Alice", username="Alice")
    insert(doctor_case, "Bob")
    assert doctor_case.only_finding("table.mixed_case").title == "1 name is not in lower case in AuthMe’s table: Alice."


def test_java_has_lower_cased_names_as_in_turkish(doctor_case: DoctorCase) -> None:
    insert(doctor_case, "ISMAIL", username="ısmaıl")
    insert(doctor_case, "Bill")
    finding = doctor_case.only_finding("table.mixed_case")
    assert finding.title == "1 name in AuthMe’s table has ı in place of I, as Java writes it in Turkish: ısmaıl."
    assert "-Duser.language=en" in finding.do
    doctor_case.game.change_authme({"settings.restrictions.allowedNicknameCharacters": "[a-zA-Zığüşöç]*"})
    assert [it.id for it in doctor_case.findings()] != ["table.mixed_case"], "players may have it in their names"


def test_a_name_is_there_twice(doctor_case: DoctorCase) -> None:
    if doctor_case.table.database.kind == "mariadb":
        binary = "VARCHAR(255) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin NOT NULL"
        alter(doctor_case, f"MODIFY COLUMN username {binary}")
    insert(doctor_case, "Alice", username="Alice")
    insert(doctor_case, "Alice")
    told = doctor_case.only_finding("table.mixed_case").title
    assert told == "1 name appears in AuthMe’s table more than once, in different case: Alice."


def test_dates_are_in_seconds(doctor_case: DoctorCase) -> None:
    insert(doctor_case, "Alice", regdate=SECONDS)
    insert(doctor_case, "Bob", lastlogin=SECONDS)
    insert(doctor_case, "Carol", lastlogin=MILLISECONDS)
    assert doctor_case.only_finding("table.dates").title == "2 players have a time in seconds."


@pytest.mark.parametrize("dates", [{"regdate": 0}, {"regdate": SECONDS}, {"regdate": SECONDS, "lastlogin": SECONDS}])
def test_authme_would_purge_them(doctor_case: DoctorCase, dates: dict[str, object]) -> None:
    insert(doctor_case, "Alice", **dates)
    insert(doctor_case, "Bob", regdate=0, lastlogin=MILLISECONDS)
    doctor_case.game.change_authme({"Purge.useAutoPurge": True})
    finding = doctor_case.only_finding("table.dates")
    assert finding.title.startswith("1 player has no date that AuthMe can use")
    assert finding.where.endswith("Purge.useAutoPurge: false")


def test_dates_in_seconds_are_told_beside_the_purge(doctor_case: DoctorCase) -> None:
    insert(doctor_case, "Alice", regdate=0)
    insert(doctor_case, "Bob", regdate=SECONDS, lastlogin=MILLISECONDS)
    doctor_case.game.change_authme({"Purge.useAutoPurge": True})
    purged, in_seconds = doctor_case.findings()
    assert "it purges players after" in purged.title
    assert in_seconds.title == "1 player has a time in seconds."


def test_a_large_table_is_looked_at_quickly_or_not_at_all(
    doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_TIMEOUT", 60.0)
    monkeypatch.setattr(player_table, "_TIMEOUT", 0.0 if doctor_case.table.database.kind == "sqlite" else 1e-6)
    with many_rows(doctor_case):
        checkup = doctor_case.examine()
    assert checkup.findings == ()
    assert any("too many to count quickly" in reason for reason in checkup.not_examined)


@contextmanager
def many_rows(doctor_case: DoctorCase) -> Iterator[None]:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i, b.i"
    concatenated = (
        "CONCAT('p', a.i, '_', b.i)" if doctor_case.table.database.kind == "mariadb" else "'p' || a.i || '_' || b.i"
    )
    selected = numbers.replace("SELECT a.i, b.i", f"SELECT {concatenated}, 'P', 'x', {MILLISECONDS}")
    doctor_case.table.database.execute(
        f"INSERT INTO authme (username, realname, password, regdate) {selected} FROM n a, n b WHERE b.i <= 20"
    )
    yield


@on_sqlite
def test_every_page_of_a_file_is_looked_at(doctor_case: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (databases, player_table):
        monkeypatch.setattr(module, "_TIMEOUT", 60.0)  # also on a busy machine
    with many_rows(doctor_case):
        doctor_case.table.database.execute("UPDATE authme SET username = 'PX' WHERE username = 'p900_20'")
        assert "PX" in doctor_case.only_finding("table.mixed_case").title
