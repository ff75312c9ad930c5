"""`companion upgrade-check` on databases of this version, of an older one, and of a newer one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from peewee import Database

from regsvc.config.loader import load_config
from regsvc.database.location import read_authme, resolve_location
from regsvc.database.migrator import list_migrations
from tests.support.command_line import Finished, companion, companion_here
from tests.support.daemon import Daemon

NEWEST = list_migrations()[-1].number


@contextmanager
def opened(place: Daemon) -> Iterator[Database]:
    """Our database, as another program sees it."""
    config = load_config(place.config_file, {})
    with closing(resolve_location(config, read_authme(config)).database) as database:
        database.connect()
        yield database


def check(place: Daemon) -> Finished:
    return companion_here("upgrade-check", config=place.config_file)


def applied(place: Daemon) -> list[int]:
    with opened(place) as database:
        return [number for (number,) in database.execute_sql("SELECT number FROM regsvc_migration ORDER BY number")]


def test_before_the_first_start_there_is_nothing_to_check(place: Daemon) -> None:
    done = check(place)
    assert done.status == 78
    assert str(place.state_dir) in done.errors
    assert not place.state_dir.exists()


def test_what_the_next_version_will_find(place: Daemon) -> None:
    assert companion("migrate", config=place.config_file).status == 0
    done = check(place)
    assert done.status == 0, done
    assert "Nothing will be migrated" in done.output
    assert ", 0 users" in done.output

    with opened(place) as database:
        database.execute_sql(f"DELETE FROM regsvc_migration WHERE number = {NEWEST}")
    before = applied(place)
    done = check(place)
    assert done.status == 3, done
    assert f"\n  {NEWEST}: " in done.output
    assert f"companion backup /var/backups/companion --config {place.config_file}" in done.output
    assert (".before-" in done.output) == (place.state_dir / "companion.db").exists()
    assert applied(place) == before

    with opened(place) as database:
        database.execute_sql(
            f"INSERT INTO regsvc_migration VALUES ({NEWEST + 1}, 'of_tomorrow', '2031-01-01 00:00:00.000')"
        )
    done = check(place)
    assert done.status == 4, done
    assert "restore the backup" in done.output

    with opened(place) as database:
        database.execute_sql(f"DELETE FROM regsvc_migration WHERE number <= {NEWEST}")
        database.execute_sql("UPDATE regsvc_migration SET number = 9")
    done = check(place)
    assert done.status == 78, done
    assert "from before commit 5980771 (its newest migration: 9)" in done.errors


def test_tables_that_differ_are_named(place: Daemon) -> None:
    assert companion("migrate", config=place.config_file).status == 0
    with opened(place) as database:
        database.execute_sql("DROP VIEW regsvc_v_users")
        database.execute_sql("CREATE INDEX hosts_own ON regsvc_user (last_login_at)")
    done = check(place)
    assert (done.status, "  The view regsvc_v_users is missing.\n" in done.output) == (0, True), done
    assert "`companion doctor` says what to do" in done.output
    assert "hosts_own" not in done.output
    with opened(place) as database:
        database.execute_sql("DELETE FROM regsvc_migration WHERE number = 113")
    done = check(place)
    assert (done.status, "  The view regsvc_v_users is missing.\nThe first start" in done.output) == (3, True), done
    assert companion("migrate", config=place.config_file).status == 0
    assert "The tables differ" not in check(place).output


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_the_copies_of_the_last_two_upgrades_are_kept(place: Daemon) -> None:
    assert companion("migrate", config=place.config_file).status == 0
    ours = [f"companion.db.before-{number:04}" for number in (9, 15, NEWEST - 1, NEWEST)]
    hosts_own = ["companion.db.before-9", "companion.db.before-0009.mine", "other.db.before-0009", "companion.db.bak"]
    for name in [*ours, *hosts_own]:
        (place.state_dir / name).write_bytes(b"x" * 1_200_000)
    told = check(place).output
    assert f"copy before the last upgrade, for going back: {place.state_dir / ours[3]}, 1.2 MB, 20" in told
    assert f"copy before an earlier one: {place.state_dir / ours[0]}" in told
    assert companion("users", "list", config=place.config_file).status == 0
    assert (place.state_dir / ours[0]).exists(), "a command proves nothing"
    place.start()
    left = {file.name for file in place.state_dir.iterdir() if not file.name.startswith(("companion.db-", "home"))}
    assert left >= {*ours[2:], *hosts_own}
    assert not left & {*ours[:2]}


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_an_upgrade_that_was_interrupted(place: Daemon) -> None:
    assert companion("migrate", config=place.config_file).status == 0
    with opened(place) as database:
        database.execute_sql(f"DELETE FROM regsvc_migration WHERE number = {NEWEST}")
        database.execute_sql(f"PRAGMA user_version = {NEWEST - 1}")
    told = check(place).output
    assert f"interrupted. The file from before it is {place.state_dir}/companion.db.before-{NEWEST - 1:04}," in told
    assert "is copied" not in told
