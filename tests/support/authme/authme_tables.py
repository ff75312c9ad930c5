"""AuthMe's table in the shapes that real servers have, and exact dumps of it for comparisons.

Columns, types and defaults are those AuthMe 6.0 makes; an old table is one that a 5.3 made and later versions
opened: they add what is missing and leave the rest as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tests.support.authme.authme_database import AuthMeDatabase, Row


class TableShape(Enum):
    """Shapes that a host's table may have."""

    FRESH = "fresh"  # default config.yml
    FULL = "full"  # with the two columns a default leaves out: salt and uuid
    OLD = "old"  # made long ago and migrated: latin1, an e-mail that cannot be NULL
    GROUPED = "grouped"  # with a column of groups, which a forum's plugin made


OPTIONAL = ("salt", "uuid")

MARIADB_TYPES = {
    "id": "MEDIUMINT(8) UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY",
    "username": "VARCHAR(255) NOT NULL UNIQUE",
    "realname": "VARCHAR(255) NOT NULL",
    "password": "VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
    "salt": "VARCHAR(255) NULL",
    "ip": "VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NULL",
    "lastlogin": "BIGINT NULL",
    "x": "DOUBLE NOT NULL DEFAULT 0",
    "y": "DOUBLE NOT NULL DEFAULT 0",
    "z": "DOUBLE NOT NULL DEFAULT 0",
    "world": "VARCHAR(255) NOT NULL DEFAULT 'world'",
    "regdate": "BIGINT NOT NULL DEFAULT 0",
    "regip": "VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NULL",
    "yaw": "FLOAT NULL",
    "pitch": "FLOAT NULL",
    "email": "VARCHAR(255) NULL",
    "isLogged": "SMALLINT NOT NULL DEFAULT 0",
    "hasSession": "SMALLINT NOT NULL DEFAULT 0",
    "totp": "VARCHAR(32) NULL",
    "uuid": "VARCHAR(36) NULL",
    "premiumUUID": "VARCHAR(36) NULL",
    "usergroup": "INT NULL DEFAULT 0",
}

# "INTEGER AUTO_INCREMENT" is no alias of the rowid: id is NULL in every row.
SQLITE_TYPES = {
    "id": "INTEGER AUTO_INCREMENT",
    "username": "VARCHAR(255) NOT NULL UNIQUE",
    "realname": "VARCHAR(255) NOT NULL DEFAULT 'Player'",
    "password": "VARCHAR(255) NOT NULL DEFAULT ''",
    "salt": "VARCHAR(255)",
    "ip": "VARCHAR(40)",
    "lastlogin": "TIMESTAMP",
    "regip": "VARCHAR(40)",
    "regdate": "TIMESTAMP NOT NULL DEFAULT '0'",
    "x": "DOUBLE NOT NULL DEFAULT '0.0'",
    "y": "DOUBLE NOT NULL DEFAULT '0.0'",
    "z": "DOUBLE NOT NULL DEFAULT '0.0'",
    "world": "VARCHAR(255) NOT NULL DEFAULT 'world'",
    "yaw": "FLOAT",
    "pitch": "FLOAT",
    "email": "VARCHAR(255)",
    "isLogged": "INT NOT NULL DEFAULT '0'",
    "hasSession": "INT NOT NULL DEFAULT '0'",
    "totp": "VARCHAR(32)",
    "uuid": "VARCHAR(36)",
    "premiumUUID": "VARCHAR(36)",
    "usergroup": "INT DEFAULT 0",
}

OLD_EMAIL = "VARCHAR(255) NOT NULL DEFAULT 'your@email.com'"
OLD_MARIADB_PASSWORD = "VARCHAR(255) NOT NULL"
OLD_LAST = ("isLogged", "hasSession", "regdate", "regip", "yaw", "pitch", "totp", "premiumUUID")


@dataclass(frozen=True)
class AuthMeTable:
    """A table in a database. `renamed` maps AuthMe's default column names to those of this host.

    `collation` is that of the table on MariaDB, instead of the one of its character set.
    """

    database: AuthMeDatabase
    name: str = "authme"
    shape: TableShape = TableShape.FRESH
    renamed: Mapping[str, str] = field(default_factory=dict)
    collation: str = ""

    @property
    def has_salt(self) -> bool:
        return self.shape is TableShape.FULL

    @property
    def has_uuid(self) -> bool:
        return self.shape is TableShape.FULL

    def column(self, default_name: str) -> str:
        """The host's name of the column that AuthMe calls `default_name`."""
        return self.renamed.get(default_name, default_name)


def column_types(table: AuthMeTable) -> dict[str, str]:
    """Default column name → type, in the order of the real table."""
    types = dict(MARIADB_TYPES if table.database.kind == "mariadb" else SQLITE_TYPES)
    if table.shape is not TableShape.FULL:
        for name in OPTIONAL:
            del types[name]
    if table.shape is not TableShape.GROUPED:
        del types["usergroup"]
    if table.shape is TableShape.OLD:
        types["email"] = OLD_EMAIL
        if table.database.kind == "mariadb":
            types["password"] = OLD_MARIADB_PASSWORD
        # Columns that 5.3 did not have are at the end, in the order in which it was added.
        types |= {name: types.pop(name) for name in OLD_LAST}
    return types


def create_table(table: AuthMeTable) -> None:
    """Create the table as AuthMe does at its first start."""
    columns = [f"{table.column(name)} {kind}" for name, kind in column_types(table).items()]
    end = ""
    if table.database.kind == "mariadb":
        charset = "latin1" if table.shape is TableShape.OLD else "utf8mb3"
        letters = f"COLLATE = {table.collation}" if table.collation else f"CHARACTER SET = {charset}"
        end = f" ENGINE=InnoDB {letters}"
    else:
        columns.append(f"CONSTRAINT table_const_prim PRIMARY KEY ({table.column('id')})")
    table.database.execute(f"CREATE TABLE {table.name} ({', '.join(columns)}){end}")


def insert_player(table: AuthMeTable, **values: object) -> None:
    """Insert one row, given by default column names; other columns take their default."""
    columns = ", ".join(table.column(name) for name in values)
    marks = ", ".join("?" for _ in values)
    table.database.execute(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", tuple(values.values()))


def find_player(table: AuthMeTable, username: str) -> Row | None:
    """Return the row whose stored name is exactly `username`, by default column names, or None."""
    columns = ", ".join(f"{table.column(name)} AS {name}" for name in column_types(table))
    condition = f"{table.column('username')} = ?"
    if table.database.kind == "mariadb":
        condition = f"BINARY {condition}"
    rows = table.database.query(f"SELECT {columns} FROM {table.name} WHERE {condition}", (username,))
    return rows[0] if rows else None


def dump_table(table: AuthMeTable) -> list[Row]:
    """Return every row, each value as its exact bytes (and, on SQLite, its storage class).

    Ordered by insertion on SQLite and by id on MariaDB. Equal dumps mean equal tables.
    """
    types = column_types(table)
    if table.database.kind == "sqlite":
        values = [f"typeof({table.column(name)}) || ' ' || quote({table.column(name)})" for name in types]
        order = "rowid"
    else:
        values = [_mariadb_bytes(table.column(name), kind) for name, kind in types.items()]
        order = table.column("id")
    selected = ", ".join(f"{value} AS {name}" for value, name in zip(values, types, strict=True))
    return table.database.query(f"SELECT {selected} FROM {table.name} ORDER BY {order}")


def _mariadb_bytes(column: str, kind: str) -> str:
    # A FLOAT is printed with six digits; widened to a DOUBLE it shows all it holds.
    exact = f"CAST({column} AS DOUBLE)" if kind.startswith("FLOAT") else column
    return f"HEX(CAST({exact} AS BINARY))"
