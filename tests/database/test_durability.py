"""Settings under which a commit can be lost. What they do is shown by tests/faults/test_power_loss.py."""

from datetime import timedelta
from pathlib import Path

import pytest

from regsvc.database.durability import describe_mount, find_lossy, read_lossy
from regsvc.database.engine import open_sqlite

MARIADB = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "innodb_flush_method": "O_DIRECT",
    "log_bin": "OFF",
    "sync_binlog": "0",
}
MYSQL = MARIADB | {"log_bin": "ON", "sync_binlog": "1", "Innodb_redo_log_enabled": "ON"}
OURS = {"journal_mode": "wal", "synchronous": "3", "file_system": "ext4", "mount_option": ""}


@pytest.mark.parametrize(
    "settings",
    [
        MARIADB,
        MYSQL,
        OURS,
        {},
        MARIADB | {"innodb_flush_log_at_trx_commit": "3", "log_bin": "ON"},
        MARIADB | {"log_bin": "ON", "binlog_storage_engine": "innodb"},
        MYSQL | {"innodb_doublewrite": "DETECT_AND_RECOVER", "innodb_flush_method": "fsync"},
        OURS | {"synchronous": "2"},
        OURS | {"journal_mode": "delete"},
    ],
)
def test_what_is_flushed_is_kept(settings: dict[str, str]) -> None:
    assert find_lossy(settings) == []


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (MARIADB | {"innodb_flush_log_at_trx_commit": "0"}, "innodb_flush_log_at_trx_commit=0"),
        (MYSQL | {"innodb_flush_log_at_trx_commit": "2"}, "innodb_flush_log_at_trx_commit=2"),
        (MARIADB | {"innodb_doublewrite": "OFF"}, "innodb_doublewrite=OFF"),
        (MARIADB | {"innodb_doublewrite": "fast"}, "innodb_doublewrite=fast"),
        (MYSQL | {"innodb_doublewrite": "DETECT_ONLY"}, "innodb_doublewrite=DETECT_ONLY"),
        (MARIADB | {"innodb_flush_method": "littlesync"}, "innodb_flush_method=littlesync"),
        (MYSQL | {"innodb_flush_method": "O_DIRECT_NO_FSYNC"}, "innodb_flush_method=O_DIRECT_NO_FSYNC"),
        (MARIADB | {"log_bin": "ON"}, "sync_binlog=0"),
        (MYSQL | {"sync_binlog": "100"}, "sync_binlog=100"),
        (MYSQL | {"Innodb_redo_log_enabled": "OFF"}, "innodb_redo_log_enabled=OFF"),
        (MARIADB | {"regsvc_user.engine": "Aria"}, "regsvc_user.engine=Aria"),
        (OURS | {"synchronous": "1"}, "synchronous=1"),
        (OURS | {"synchronous": "2", "journal_mode": "truncate"}, "synchronous=2"),
        (OURS | {"journal_mode": "memory"}, "journal_mode=memory"),
        (OURS | {"file_system": "nfs4"}, "file_system=nfs4"),
        (OURS | {"file_system": "tmpfs"}, "file_system=tmpfs"),
        (OURS | {"mount_option": "nobarrier"}, "mount_option=nobarrier"),
    ],
)
def test_each_setting_that_can_forget_is_named(settings: dict[str, str], found: str) -> None:
    assert [setting.found for setting in find_lossy(settings)] == [found]


def test_the_mount_that_covers_the_file_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw,nobarrier\n"
        "22 21 0:40 / /srv/game\\040data rw - nfs4 nas:/data rw,hard\n"
        "23 22 0:41 / /srv/game\\040data/state rw - tmpfs tmpfs rw\n"
        "24 22 8:2 / /srv/game\\040data/state rw - xfs /dev/sdb rw\n"
    )
    shown = {
        place: describe_mount(Path(place), mounts)
        for place in ("/srv/game/c.db", "/srv/game data/c.db", "/srv/game data/state/c.db")
    }
    assert shown == {
        "/srv/game/c.db": {"file_system": "ext4", "mount_option": "nobarrier"},
        "/srv/game data/c.db": {"file_system": "nfs4", "mount_option": ""},
        "/srv/game data/state/c.db": {"file_system": "xfs", "mount_option": ""},
    }
    assert describe_mount(tmp_path / "c.db", tmp_path / "none") == {}


def test_our_own_file_is_flushed_at_each_commit(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "companion.db", timedelta(seconds=1))
    with database.connection_context():
        assert {setting.found for setting in read_lossy(database)} <= {"file_system=tmpfs"}
        assert [*database.execute_sql("PRAGMA journal_mode")] == [("wal",)]
        database.execute_sql("PRAGMA synchronous = NORMAL")
        assert "synchronous=1" in {setting.found for setting in read_lossy(database)}
