"""AuthMe's config.yml of real servers, in the form of each version, read with that version's meaning."""

from pathlib import Path
from typing import Any

import pytest

from plugin_bridge.authme.config import AuthMeConfig, Backend, read_authme_config

# Created by each version at its first start; comments, and keys that are not read, left out.
FRESH_54 = """
DataSource:
    backend: SQLITE
    caching: true
    mySQLHost: 127.0.0.1
    mySQLPort: '3306'
    mySQLUseSSL: true
    mySQLUsername: authme
    mySQLPassword: '12345'
    mySQLDatabase: authme
    mySQLTablename: authme
    mySQLColumnId: id
    mySQLColumnName: username
    mySQLRealName: realname
    mySQLColumnPassword: password
    mySQLColumnEmail: email
    mySQLColumnLogged: isLogged
    mySQLColumnHasSession: hasSession
    mySQLColumnIp: ip
    mySQLColumnLastLogin: lastlogin
    mySQLColumnRegisterDate: regdate
    mySQLColumnRegisterIp: regip
    mySQLlastlocX: x
    mySQLlastlocY: y
    mySQLlastlocZ: z
    mySQLlastlocWorld: world
    mySQLlastlocYaw: yaw
    mySQLlastlocPitch: pitch
    poolSize: 10
    maxLifetime: 1800
ExternalBoardOptions:
    mySQLColumnSalt: ''
    mySQLColumnGroup: ''
    nonActivedUserGroup: -1
    mySQLOtherUsernameColumns: []
    bCryptLog2Round: 10
settings:
    security:
        minPasswordLength: 5
        passwordMaxLength: 30
        passwordHash: SHA256
        legacyHashes: []
        doubleMD5SaltLength: 8
        pbkdf2Rounds: 10000
        unsafePasswords:
        - '123456'
        - password
    restrictions:
        allowedNicknameCharacters: '[a-zA-Z0-9_]*'
        allowedPasswordCharacters: '[!-~]*'
        minNicknameLength: 3
        maxNicknameLength: 16
    registration:
        enabled: true
        force: true
Email:
    mailSMTP: smtp.gmail.com
    mailPort: 465
    mailAccount: ''
    mailPassword: ''
"""
FRESH_56 = (
    FRESH_54.replace("mySQLColumnPassword: password\n", "mySQLColumnPassword: password\n    mySQLColumnSalt: ''\n")
    .replace("    mySQLColumnSalt: ''\n    mySQLColumnGroup", "    mySQLColumnGroup")
    .replace("mySQLUseSSL: true", "mySQLUseSSL: true\n    mySQLCheckServerCertificate: true")
    .replace("mySQLlastlocPitch: pitch", "mySQLlastlocPitch: pitch\n    mySQLtotpKey: totp\n    mySQLPlayerUUID: ''")
)
MYSQL_56 = (
    FRESH_56.replace("backend: SQLITE", "backend: MYSQL")
    .replace("127.0.0.1", "db.example.org")
    .replace("'3306'", "3307")
    .replace("mySQLPassword: '12345'", "mySQLPassword: '0123: #x'")
    .replace("caching: true", "caching: false")
    .replace("passwordHash: SHA256", "passwordHash: XAUTH")
)
FRESH_60 = FRESH_56.replace(
    "mySQLtotpKey: totp", "mySQLtotpKey: totp\n    mySQLColumnPremiumUUID: premiumUUID"
).replace("bCryptLog2Round: 10", "bCryptLog2Round: 12")
MARIADB_60 = (
    FRESH_60.replace("backend: SQLITE", "backend: MariaDB")
    .replace("mySQLTablename: authme", "mySQLTablename: players")
    .replace("mySQLColumnName: username", "mySQLColumnName: name")
    .replace("mySQLPlayerUUID: ''", "mySQLPlayerUUID: player_uuid")
    .replace("mySQLColumnPremiumUUID: premiumUUID", "mySQLColumnPremiumUUID: ''")
    .replace("passwordHash: SHA256", "passwordHash: pbkdf2base64")
    .replace("legacyHashes: []", "legacyHashes: [sha256, Whirlpool, BCRYPT]")
    .replace("pbkdf2Rounds: 10000", "pbkdf2Rounds: 20000")
    .replace("mailAccount: ''\n    mailPassword: ''", "mailAccount: game@example.org\n    mailPassword: mail-secret")
)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "5.4, fresh": (
        FRESH_54,
        {"backend": Backend.SQLITE, "caching": True, "bcrypt_log2_rounds": 10, "password_hash": "SHA256"},
    ),
    "5.6, fresh": (FRESH_56, {"columns.salt": "", "columns.uuid": "", "columns.premium_uuid": "premiumUUID"}),
    "5.6, MySQL with an algorithm of that time": (
        MYSQL_56,
        {
            "backend": Backend.MYSQL,
            "host": "db.example.org",
            "port": 3307,
            "password": "0123: #x",
            "caching": False,
            "password_hash": "XAUTH",
            "mail.is_set_up": False,
        },
    ),
    "6.0, fresh": (FRESH_60, {"bcrypt_log2_rounds": 12, "columns.totp": "totp", "legacy_hashes": ()}),
    "6.0, MariaDB with names of its own": (
        MARIADB_60,
        {
            "backend": Backend.MARIADB,
            "table": "players",
            "columns.username": "name",
            "columns.uuid": "player_uuid",
            "columns.premium_uuid": "",
            "password_hash": "PBKDF2BASE64",
            "legacy_hashes": ("SHA256", "WHIRLPOOL", "BCRYPT"),
            "pbkdf2_rounds": 20000,
            "mail.is_set_up": True,
        },
    ),
}


def value_at(config: AuthMeConfig, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("shape", SHAPES)
def test_every_version_is_read_as_it_is_meant(shape: str, tmp_path: Path) -> None:
    text, expected = SHAPES[shape]
    path = tmp_path / "config.yml"
    path.write_text(text, encoding="utf-8")
    config = read_authme_config(path)
    assert {name: value_at(config, name) for name in expected} == expected


def test_the_shapes_differ_where_the_versions_do() -> None:
    """The edits above found the text that they replace."""
    assert len({text for text, _expected in SHAPES.values()}) == len(SHAPES)
    assert "mySQLtotpKey" not in FRESH_54
    assert FRESH_56.count("mySQLColumnSalt") == FRESH_60.count("mySQLColumnSalt") == 1


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_whatever_editor_wrote_it(ending: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_bytes((mark + MARIADB_60.replace("\n", ending)).encode())
    assert read_authme_config(path).table == "players"
