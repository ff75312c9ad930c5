"""Fake folder of a game server: the files that a real one writes, as far as the companion reads them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import offline_uuid
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.plugin_jars import AUTHME as AUTHME_PLUGIN
from tests.support.authme.plugin_jars import write_jar
from tests.support.quick_yaml import parse_yaml_quickly

# AuthMe's default column name → the key of its config.yml that renames it.
COLUMN_KEYS = {
    "id": "mySQLColumnId",
    "username": "mySQLColumnName",
    "realname": "mySQLRealName",
    "password": "mySQLColumnPassword",
    "salt": "mySQLColumnSalt",
    "ip": "mySQLColumnIp",
    "lastlogin": "mySQLColumnLastLogin",
    "x": "mySQLlastlocX",
    "y": "mySQLlastlocY",
    "z": "mySQLlastlocZ",
    "world": "mySQLlastlocWorld",
    "regdate": "mySQLColumnRegisterDate",
    "regip": "mySQLColumnRegisterIp",
    "yaw": "mySQLlastlocYaw",
    "pitch": "mySQLlastlocPitch",
    "email": "mySQLColumnEmail",
    "isLogged": "mySQLColumnLogged",
    "hasSession": "mySQLColumnHasSession",
    "totp": "mySQLtotpKey",
    "uuid": "mySQLPlayerUUID",
    "premiumUUID": "mySQLColumnPremiumUUID",
}

FULL_OPERATOR_LEVEL = 4


@dataclass(frozen=True)
class GameServer:
    """The folder, and changes to it while the companion runs."""

    directory: Path

    @property
    def ops_file(self) -> Path:
        return self.directory / "ops.json"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def usercache_file(self) -> Path:
        return self.directory / "usercache.json"

    @property
    def authme_directory(self) -> Path:
        return self.directory / "plugins" / "AuthMe"

    @property
    def authme_config(self) -> Path:
        return self.authme_directory / "config.yml"

    def write_operators(self, *names: str, levels: Mapping[str, int] | None = None) -> None:
        """Replace ops.json; a level is 1 to 4, and 4 where `levels` does not say otherwise.

        A running server does not read the file, and its next change overwrites it: see `BukkitServer.op`.
        """
        levels = levels or {}
        entries = [
            {
                "uuid": offline_uuid(name),
                "name": name,
                "level": levels.get(name, FULL_OPERATOR_LEVEL),
                "bypassesPlayerLimit": False,
            }
            for name in names
        ]
        self.ops_file.write_text(json.dumps(entries, indent=2), encoding="utf-8")

    def operator_level(self) -> int:
        """Return the level that `/op` gives: `op-permission-level` of server.properties."""
        found = re.search(r"^op-permission-level=(\d+)$", self.properties_file.read_text("iso-8859-1"), re.MULTILINE)
        return int(found[1]) if found else FULL_OPERATOR_LEVEL

    def write_properties(self, **changes: object) -> None:
        """Replace server.properties; `rcon_port=25575` stands for the line `rcon.port=25575`."""
        properties = {
            "server-port": 25565,
            "motd": "A Minecraft Server",
            "online-mode": "false",
            "white-list": "false",
            "enable-rcon": "false",
            "rcon.port": 25575,
            "rcon.password": "",
        }
        names = {name.replace("-", "_").replace(".", "_"): name for name in properties}
        properties |= {names.get(name, name.replace("_", "-")): value for name, value in changes.items()}
        lines = ["#Minecraft server properties", *(f"{name}={value}" for name, value in properties.items())]
        self.properties_file.write_text("\n".join(lines) + "\n", encoding="iso-8859-1")

    def change_authme(self, changes: Mapping[str, object]) -> None:
        """Set keys of AuthMe's config.yml by their path: `{"settings.security.passwordHash": "BCRYPT"}`."""
        config: dict[str, Any] = parse_yaml_quickly(self.authme_config.read_text(encoding="utf-8"))
        for path, value in changes.items():
            _set(config, path, value)
        self._write_authme(config)

    def install_plugin(self, version: str | None) -> None:
        """Put AuthMe's jar of this version in the place of the one that is there; None: no jar."""
        (self.authme_directory.parent / "AuthMe.jar").unlink(missing_ok=True)
        if version is not None:
            description = AUTHME_PLUGIN.replace("5.6.0-beta2", version)
            write_jar(self.authme_directory.parent, "AuthMe.jar", description)

    def _write_authme(self, config: Mapping[str, Any]) -> None:
        # by libyaml, which takes a tenth of the time: thousands of tests write this file
        written = yaml.dump(dict(config), Dumper=yaml.CSafeDumper, allow_unicode=True)
        self.authme_config.write_text(written, encoding="utf-8")

    def install_authme(self, table: AuthMeTable, changes: Mapping[str, object] | None = None) -> None:
        """Write AuthMe's config.yml for this table; `changes` as in `change_authme`."""
        self.authme_directory.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {}
        for path, value in {**authme_defaults(table), **(changes or {})}.items():
            _set(config, path, value)
        self._write_authme(config)


def write_game_server(directory: Path, operators: Sequence[str] = ("Olivia",)) -> GameServer:
    """Write a folder without plugins; it is created if it does not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    server = GameServer(directory)
    server.write_properties()
    server.write_operators(*operators)
    return server


def authme_defaults(table: AuthMeTable) -> dict[str, object]:
    """Return config.yml of a host who shares the table with a website: path → value."""
    keys: dict[str, object] = {
        "DataSource.caching": False,
        "DataSource.mySQLTablename": table.name,
        "settings.security.passwordHash": "SHA256",
        "settings.security.legacyHashes": [],
        "ExternalBoardOptions.bCryptLog2Round": 4,
        "settings.registration.enabled": False,
    }
    keys |= _connection_keys(table.database)
    for name, key in COLUMN_KEYS.items():
        is_absent = (name == "salt" and not table.has_salt) or (name == "uuid" and not table.has_uuid)
        keys[f"DataSource.{key}"] = "" if is_absent else table.column(name)
    return keys


def _connection_keys(database: AuthMeDatabase) -> dict[str, object]:
    if isinstance(database, SqliteFile):
        return {"DataSource.backend": "SQLITE", "DataSource.mySQLDatabase": database.path.stem}
    assert isinstance(database, MariaDBSchema)
    return {
        "DataSource.backend": "MARIADB",
        "DataSource.mySQLHost": database.database.host,
        "DataSource.mySQLPort": str(database.database.port),
        "DataSource.mySQLDatabase": database.database.name,
        "DataSource.mySQLUsername": database.database.user,
        "DataSource.mySQLPassword": database.database.password,
        "DataSource.mySQLUseSSL": False,
    }


def _set(config: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    config[last] = value
