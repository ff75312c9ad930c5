"""AuthMe's table as old versions, other programs and time have left it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.authme_database import DatabaseKind
from tests.support.authme_tables import TableShape, insert_player
from tests.support.doctor_case import Clinic

MILLISECONDS = 1_600_000_000_000
SECONDS = 1_600_000_000


@pytest.fixture(params=["sqlite", "mariadb"])
def database_kind(request: pytest.FixtureRequest) -> DatabaseKind:
    kind: DatabaseKind = request.param
    return kind


on_mariadb = pytest.mark.parametrize("database_kind", ["mariadb"])
on_sqlite = pytest.mark.parametrize("database_kind", ["sqlite"])


def alter(clinic: Clinic, change: str) -> None:
    clinic.table.database.execute(f"ALTER TABLE {clinic.table.name} {change}")


def insert(clinic: Clinic, name: str, **values: object) -> None:
    row = {"username": name.lower(), "realname": name, "password": "x", "regdate": MILLISECONDS, **values}
    insert_player(clinic.table, **row)


def test_there_is_no_table_yet(clinic: Clinic) -> None:
    clinic.table.database.execute("DROP TABLE authme")
    assert "no table authme" in clinic.only_finding("table.missing").title


@on_sqlite
def test_there_is_no_file_yet(clinic: Clinic) -> None:
    (clinic.game.authme_directory / "authme.db").unlink()
    assert "authme.db" in clinic.only_finding("table.missing").title


@on_sqlite
def test_the_file_is_no_database(clinic: Clinic) -> None:
    (clinic.game.authme_directory / "authme.db").write_bytes(b"somebody's shopping list\n" * 100)
    assert "not a database" in clinic.only_finding("table.unreadable").title


def test_a_configured_column_is_missing(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.mySQLPlayerUUID": "uuid"})
    finding = clinic.only_finding("table.column_missing")
    assert finding.where.endswith("DataSource.mySQLPlayerUUID: uuid")


def test_even_the_password_may_be_missing(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.mySQLColumnPassword": "pass"})
    assert clinic.only_finding("table.column_missing").where.endswith("DataSource.mySQLColumnPassword: pass")


def test_without_names_the_rows_are_not_looked_at(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.mySQLColumnName": "name"})
    checkup = clinic.examine()
    assert [finding.id for finding in checkup.findings] == ["table.column_missing"]
    assert any("rows of AuthMe's table" in reason for reason in checkup.not_examined)


def test_columns_of_newer_versions_may_be_missing(clinic: Clinic) -> None:
    alter(clinic, "DROP COLUMN premiumUUID")
    alter(clinic, "DROP COLUMN totp")
    assert clinic.findings() == []


@on_mariadb
def test_a_column_must_be_filled(clinic: Clinic) -> None:
    alter(clinic, "ADD COLUMN forum_id INT NOT NULL")
    assert "forum_id" in clinic.only_finding("table.needs_more").title


@on_mariadb
def test_the_id_does_not_count_up(clinic: Clinic) -> None:
    alter(clinic, "MODIFY COLUMN id MEDIUMINT UNSIGNED NOT NULL")
    assert clinic.only_finding("table.needs_more").where.endswith("authme: id")


@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
@on_sqlite
def test_an_old_table_wants_an_email(clinic: Clinic) -> None:
    assert "your@email.com" in clinic.only_finding("table.email_required").title


@pytest.mark.parametrize("authme_shape", [TableShape.OLD])
@on_mariadb
def test_an_old_table_is_latin1(clinic: Clinic) -> None:
    alter(clinic, "MODIFY COLUMN email VARCHAR(255) NULL")
    finding = clinic.only_finding("table.charset")
    assert "username (latin1), realname (latin1), email (latin1)" in finding.title
    clinic.table.database.execute(finding.where)
    assert clinic.findings() == []


@on_mariadb
def test_the_ids_end(clinic: Clinic) -> None:
    for next_id, kind, title in (
        (16_777_216, "table.ids_used_up", "The numbers of the column id in AuthMe's table are used up."),
        (15_099_496, "table.ids_end", "The column id in AuthMe's table ends at 16777215, and stands at 15099496."),
    ):
        alter(clinic, f"AUTO_INCREMENT = {next_id}")
        finding = clinic.only_finding(kind)
        assert finding.title == title
    clinic.table.database.execute(finding.where)
    assert clinic.findings() == []
    alter(clinic, "MODIFY id MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 15000000")
    assert clinic.findings() == []


@on_mariadb
def test_the_table_is_not_innodb(clinic: Clinic) -> None:
    alter(clinic, "ENGINE = MyISAM")
    finding = clinic.only_finding("table.not_transactional")
    clinic.table.database.execute(finding.where)
    assert clinic.findings() == []


@on_mariadb
def test_the_collation_loses_accents(clinic: Clinic) -> None:
    clinic.game.change_authme({"settings.restrictions.allowedNicknameCharacters": "[a-zA-Zéèêëô]*"})
    assert "utf8mb3_general_ci" in clinic.only_finding("table.collation").title
    alter(clinic, "MODIFY COLUMN username VARCHAR(255) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin NOT NULL")
    assert clinic.findings() == []


def test_a_name_is_in_mixed_case(clinic: Clinic) -> None:
    insert(clinic, "Alice", username="Alice")
    insert(clinic, "Bob")
    assert clinic.only_finding("table.mixed_case").title == "1 name is not in lower case in AuthMe's table: Alice."


def test_a_name_is_there_twice(clinic: Clinic) -> None:
    if clinic.table.database.kind == "mariadb":
        binary = "VARCHAR(255) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin NOT NULL"
        alter(clinic, f"MODIFY COLUMN username {binary}")
    insert(clinic, "Alice", username="Alice")
    insert(clinic, "Alice")
    told = clinic.only_finding("table.same_name_twice").title
    assert told == "1 name stands in AuthMe's table more than once, in different case: Alice."


def test_dates_are_in_seconds(clinic: Clinic) -> None:
    insert(clinic, "Alice", regdate=SECONDS)
    insert(clinic, "Bob", lastlogin=SECONDS)
    insert(clinic, "Carol", lastlogin=MILLISECONDS)
    assert clinic.only_finding("table.dates_in_seconds").title == "2 players have a time in seconds."


@pytest.mark.parametrize("dates", [{"regdate": 0}, {"regdate": SECONDS}, {"regdate": SECONDS, "lastlogin": SECONDS}])
def test_authme_would_purge_them(clinic: Clinic, dates: dict[str, object]) -> None:
    insert(clinic, "Alice", **dates)
    insert(clinic, "Bob", regdate=0, lastlogin=MILLISECONDS)
    clinic.game.change_authme({"Purge.useAutoPurge": True})
    finding = clinic.only_finding("table.purge")
    assert finding.title.startswith("1 player has no date that AuthMe can use")
    assert finding.where.endswith("Purge.useAutoPurge: false")


def test_dates_in_seconds_are_told_beside_the_purge(clinic: Clinic) -> None:
    insert(clinic, "Alice", regdate=0)
    insert(clinic, "Bob", regdate=SECONDS, lastlogin=MILLISECONDS)
    clinic.game.change_authme({"Purge.useAutoPurge": True})
    assert {finding.id for finding in clinic.findings()} == {"table.purge", "table.dates_in_seconds"}


def test_a_large_table_is_looked_at_quickly_or_not_at_all(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "regsvc.doctor.facts.player_rows._PATIENCE", 0.0 if clinic.table.database.kind == "sqlite" else 1e-6
    )
    with many_rows(clinic):
        checkup = clinic.examine()
    assert checkup.findings == ()
    assert any("too many for a quick look" in reason for reason in checkup.not_examined)


@contextmanager
def many_rows(clinic: Clinic) -> Iterator[None]:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i, b.i"
    concatenated = (
        "CONCAT('p', a.i, '_', b.i)" if clinic.table.database.kind == "mariadb" else "'p' || a.i || '_' || b.i"
    )
    selected = numbers.replace("SELECT a.i, b.i", f"SELECT {concatenated}, 'P', 'x', {MILLISECONDS}")
    clinic.table.database.execute(
        f"INSERT INTO authme (username, realname, password, regdate) {selected} FROM n a, n b WHERE b.i <= 20"
    )
    yield


@on_sqlite
def test_every_page_of_a_file_is_looked_at(clinic: Clinic) -> None:
    with many_rows(clinic):
        clinic.table.database.execute("UPDATE authme SET username = 'PX' WHERE username = 'p900_20'")
        assert "PX" in clinic.only_finding("table.mixed_case").title
