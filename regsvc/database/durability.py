"""Settings under which a database can forget what it has committed: after a crash of it, or when the power fails."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from peewee import Database, SqliteDatabase

Query = Callable[[str], Iterable[Sequence[Any]]]
"""Runs a statement and returns its rows."""

_FILE_SYSTEM: Final = "file_system"
_MOUNT_OPTION: Final = "mount_option"
_MOUNTS: Final = Path("/proc/self/mountinfo")
_IN_MEMORY: Final = {"tmpfs", "ramfs"}
_NETWORK: Final = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ncpfs", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs"}
"""SQLite's WAL needs memory shared by all who use the file (sqlite.org/wal.html), and locks and flushes that hold."""
_NO_FLUSH: Final = {"nobarrier", "barrier=0", "volatile"}
"""The disk's cache is not flushed (ext4(5)); an overlay syncs nothing (the kernel's overlayfs.rst)."""


class Lossy(NamedTuple):
    """A setting under which a commit can be lost, and what it should be."""

    found: str
    better: str


# Read in the manuals: MariaDB's "InnoDB System Variables", "InnoDB Flush Method" and "Binary Log Group Commit and
# InnoDB Flushing Performance", sections 17.14 and 19.1.6.4 of MySQL 8.4. Values in lower case.
_SAFE: Final[Mapping[str, tuple[str, ...]]] = {
    "innodb_flush_log_at_trx_commit": ("1", "3"),  # 3 is MariaDB's
    "innodb_doublewrite": ("on", "1", "detect_and_recover"),  # without it half a page can be written
    "innodb_redo_log_enabled": ("on",),  # a status of MySQL's: ALTER INSTANCE DISABLE INNODB REDO_LOG
    "journal_mode": ("wal", "delete", "truncate", "persist"),
    "synchronous": ("3", "2"),
}
_UNFLUSHED_METHODS: Final = {"nosync", "littlesync", "o_direct_no_fsync"}
_VARIABLES: Final = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_doublewrite',"
    " 'innodb_flush_method', 'log_bin', 'sync_binlog', 'binlog_storage_engine')"
)
_REDO_LOG: Final = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'"
_ENGINES: Final = (
    "SELECT CONCAT(table_name, '.engine'), engine FROM information_schema.tables WHERE table_schema = DATABASE()"
    " AND LEFT(table_name, 7) = 'regsvc_' AND engine <> 'InnoDB' ORDER BY table_name"
)


def find_lossy(settings: Mapping[str, str]) -> list[Lossy]:
    """Return which of these settings let a commit be lost; one that is not there, or unknown, is none."""
    values = {name.lower(): str(value) for name, value in settings.items()}
    lossy = [
        Lossy(f"{name}={values[name]}", f"{name}={safe[0].upper()}")
        for name, safe in _SAFE.items()
        if values.get(name, safe[0]).lower() not in safe
    ]
    if values.get("innodb_flush_method", "").lower() in _UNFLUSHED_METHODS:
        lossy.append(Lossy(f"innodb_flush_method={values['innodb_flush_method']}", "innodb_flush_method=O_DIRECT"))
    if _needs_binlog(values) and values.get("sync_binlog", "1") != "1":
        lossy.append(Lossy(f"sync_binlog={values['sync_binlog']}", "sync_binlog=1"))
    if values.get("synchronous") == "2" and values.get("journal_mode", "wal").lower() != "wal":
        lossy.append(Lossy("synchronous=2", "synchronous=3"))  # the folder is not flushed (sqlite.org/pragma.html)
    for name, value in values.items():
        if name.endswith(".engine") and value.lower() != "innodb":
            lossy.append(Lossy(f"{name}={value}", "ENGINE=InnoDB"))
    if values.get(_FILE_SYSTEM) in _IN_MEMORY | _NETWORK:
        lossy.append(Lossy(f"{_FILE_SYSTEM}={values[_FILE_SYSTEM]}", "a disk of this machine"))
    if option := values.get(_MOUNT_OPTION):
        lossy.append(Lossy(f"{_MOUNT_OPTION}={option}", "a disk that is flushed"))
    return lossy


def _needs_binlog(values: Mapping[str, str]) -> bool:
    """Return whether recovery asks the binary log which prepared transactions are committed.

    InnoDB flushes only its preparation then: what the log has lost is rolled back. Not with 3, which flushes again, nor
    where the log is in InnoDB.
    """
    is_flushed = values.get("innodb_flush_log_at_trx_commit") == "3" or values.get("binlog_storage_engine", "") != ""
    return values.get("log_bin", "").lower() in ("on", "1") and not is_flushed


def read_lossy(database: Database) -> tuple[Lossy, ...]:
    """Return the settings of an open database under which a commit can be lost. Blocking."""
    execute: Callable[[str], Any] = database.execute_sql

    def query(statement: str) -> list[Sequence[Any]]:
        return list(execute(statement).fetchall())

    if not isinstance(database, SqliteDatabase):
        return read_lossy_of_server(query)
    pragmas = {name: str(query(f"PRAGMA {name}")[0][0]) for name in ("journal_mode", "synchronous")}
    return tuple(find_lossy(pragmas | describe_mount(Path(database.database))))


def read_lossy_of_server(query: Query) -> tuple[Lossy, ...]:
    """Return the settings of a server and of our tables on it under which a commit can be lost. Blocking."""
    rows = [row for statement in (_VARIABLES, _REDO_LOG, _ENGINES) for row in query(statement)]
    return tuple(find_lossy({str(name): str(value) for name, value in rows}))


def describe_mount(file: Path, mounts: Path = _MOUNTS) -> dict[str, str]:
    """Return the file system that the file is on, as a setting; nothing where that cannot be read. Blocking."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        folder = file.resolve().parent
    except OSError:
        return {}
    found: tuple[int, str, str] = (-1, "", "")
    for line in lines:  # proc_pid_mountinfo(5): what is mounted later covers what was there
        before, _dash, after = line.partition(" - ")
        place = Path(re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), before.split(" ")[4]))
        if folder.is_relative_to(place) and len(place.parts) >= found[0]:
            kind, _source, options = after.split(" ", 2)
            found = (len(place.parts), kind, options)
    lossy = _NO_FLUSH & set(found[2].split(","))
    return {_FILE_SYSTEM: found[1], _MOUNT_OPTION: ",".join(sorted(lossy))}
