"""Files of any content in place of a config, or of one of the game or of a plugin: each is read, or refused by name.

A file is a real one with a few changes: bytes of other encodings, pieces of syntax, cuts. No refusal quotes it.
`COMPANION_FUZZ_REQUESTS` is the number of cases for each parser.
"""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, find_strangers_text, read_authme_config
from plugin_bridge.java_formats import FormatError, parse_json, parse_yaml
from plugin_bridge.server.allowlist import AllowlistFile, Entry
from plugin_bridge.server.files import (
    OpsFile,
    PropertiesFile,
    ServerFileError,
    examine_list,
    read_operators,
    read_server_properties,
)
from plugin_bridge.server.operators import LimboNotes
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.verifymc import VerifyMCSettings, read_verifymc
from regsvc.config.loader import load_config
from regsvc.config.sections import ConfigError
from regsvc.registration.questionnaire.questions import load_questionnaire

CASES = int(os.environ.get("COMPANION_FUZZ_REQUESTS", "25"))
SEED = int(os.environ.get("COMPANION_TEST_SEED", "1"))
SECRET = "s3cr3t-w0rd"
UUID = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
ROOT = Path(__file__).parents[2]
NAMED = (FormatError, AuthMeConfigError, ServerFileError, ConfigError, TransferProblem)

YAML = f"""\
# What type of database do you want to use?
DataSource:
    backend: MYSQL
    mySQLHost: '[::1]'
    mySQLPort: '3306'
    mySQLPassword: "{SECRET}"
    mySQLColumnSalt: ''
    mySQLUseSSL: false
settings:
    restrictions: {{minNicknameLength: 3, timeout: 0x1E, allowedNicknameCharacters: '[a-zA-Z0-9_]*'}}
    security:
        passwordHash: SHA256
        legacyHashes: &hashes
        - MD5
        unsafePasswords: [password, '12345', 1e3]
    text: >-
        folded
        text
more: *hashes
auth_methods: [email]
registration:
    reg_only: 'Register at\\nexample.org'
settings.bungeecord: true
proxies: {{velocity: {{enabled: true, online-mode: false}}}}
"""
LIST = f"""[
  {{"uuid": "{UUID}", "name": "Olivia", "level": 4, "bypassesPlayerLimit": false}},
  {{'uuid': 'x', name = "Bob"; "level" => 4.0}}, // ours
  null, ["\\u00e9"], {{"operator": true, "expiresOn": "2026-12-01 10:00:00 +0000"}}
]"""
PROPERTIES = f"""#Minecraft server properties
online-mode=false
motd=Hello\\: w\\u00e9rld \\
   and more
rcon.password={SECRET}
rcon.port : 25575
"""
USERS = (
    f'{{"{UUID}": {{"username": "Alice", "email": "a@example.org", "status": "approved", "regTime": 1700000000000}}}}'
)
PIECES: dict[str, str] = {
    ".yml": "\t| |\n|\r\n|\r|: |- |# | #|&a |*a|!|!!str |!!int |!!bool |!!timestamp |'|\"|[|]|{|}|,|? |"
    "%|@|~|yes|0o7|.inf|"
    "---|...|<<: |=|1:2|-|a.b: 1\n|\x00|\x07|\ufeff|\x85|\u2028|\\|\\ud83d|2026-02-31|'0'|{}|[]|9999999999",
    ".json": ",|;|:|=|=>|'|\"|[|]|{|}|//|/*|*/|#|\\|\\ud83d|\n|\f|null|True|NaN|-|01|1e999|\x00|\ufeff|)]}'\n",
    ".properties": "\\|\\\n|\\\r\n|\n|\r|=|:| |\t|\f|#|!|\\u00e9|\\u12|\\ud83d|\x00|\ufeff|99999999999|-1",
    ".toml": "\n|[|]|[[|]]|=|'|\"|'''|\"\"\"|#|.|,|{|}|\\|\\ud83d|\x00|\ufeff|true|1e999|-1|0x|1979-05-27|inf",
}
ENCODINGS = ("gbk", "cp1251", "latin-1", "utf-16", "utf-8-sig", "utf-32")


def read_messages(path: Path) -> None:
    config = replace(AuthMeConfig(source=path.parent.parent / "config.yml"), forces_registration=True)
    find_strangers_text(config)


def read_list(path: Path) -> None:
    assert read_operators(path).keys() == OpsFile(path).names()
    for operator in read_operators(path).values():
        operator.name.encode()  # it is stored
    examine_list(path)


def change_list(path: Path) -> None:
    """What can be read can be added to, and then has the entry."""
    file, added = AllowlistFile(path), Entry("5862580e-aa1b-3ba2-82db-40e501c08259", "Apple")
    try:
        parse_json(path.read_bytes())
    except FormatError as refusal:
        raise ServerFileError(str(refusal)) from refusal  # without the waits for a server that is still writing it
    file.change([added], [])
    assert added in file.read().entries
    file.close()


def read_uuids(path: Path) -> None:
    uuids = PlayerUuids(path.parent, PropertiesFile(None))
    assert [uuids.find_joined("Olivia", family) for family in ("offline", "online", None)]


def read_forwarding(path: Path) -> None:
    assert PlayerUuids(path.parent, PropertiesFile(path.with_name("server.properties"))).family is None


def read_note(path: Path) -> None:
    LimboNotes(path.parents[2], AuthMeConfig()).find(UUID)


def read_users(path: Path) -> None:
    read_verifymc(str(path.parent), VerifyMCSettings())


PARSERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "YAML": ("any.yml", YAML, lambda path: parse_yaml(path.read_bytes())),
    "AuthMe's config": ("config.yml", YAML, read_authme_config),
    "AuthMe's messages": ("messages/messages_en.yml", YAML, read_messages),
    "AuthMe's notes": (f"playerdata/{UUID}/data.json", '{"operator": true, "location": {}}', read_note),
    "Spigot's config": ("spigot.yml", YAML, read_forwarding),
    "VerifyMC's config": ("config.yml", YAML, read_users),
    "VerifyMC's users": ("users.json", USERS, read_users),
    "ops.json": ("ops.json", LIST, read_list),
    "whitelist.json": ("whitelist.json", LIST, change_list),
    "usercache.json": ("usercache.json", LIST, read_uuids),
    "server.properties": ("server.properties", PROPERTIES, read_server_properties),
    "companion.toml": (
        "companion.toml",
        (ROOT / "conf/companion.toml").read_text("utf-8"),
        lambda path: load_config(path, {}),
    ),
    "questionnaire.toml": (
        "questionnaire.toml",
        (ROOT / "conf/questionnaire.toml").read_text("utf-8"),
        lambda path: load_questionnaire(path, 0),
    ),
}


def change(content: bytes, chance: random.Random, pieces: list[bytes]) -> bytes:
    """Return the content with a few changes at random places."""
    changed = bytearray(content)
    for _change in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(20):
            case 0:
                del changed[at:]
            case 1:
                changed[:] = bytes(changed).decode(errors="replace").encode(chance.choice(ENCODINGS), "replace")
            case 2 | 3 | 4:
                del changed[at : at + chance.randrange(1, 6)]
            case 5 | 6:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 7 | 8:
                changed[at:at] = changed[at : at + chance.randrange(1, 40)]
            case _:
                changed[at:at] = chance.choice(pieces)
    return bytes(changed)


@pytest.mark.parametrize("name", PARSERS)
def test_a_file_of_any_content_is_read_or_refused_by_name(name: str, tmp_path: Path) -> None:
    place, original, read = PARSERS[name]
    chance = random.Random(f"{SEED} {name}")
    pieces = [piece.encode() for piece in PIECES[Path(place).suffix].split("|")]
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "VerifyMC's config":
        (tmp_path / "users.json").write_text(USERS)
    for number in range(CASES):
        content = change(original.encode(), chance, pieces)
        path.write_bytes(content)
        try:
            refusal = refusal_of(read, path)
        except Exception as error:
            raise AssertionError(f"case {number}: {content!r}") from error
        assert refusal != "", (number, content)
        assert refusal is None or SECRET not in refusal, (number, content)


def refusal_of(read: Callable[[Path], object], path: Path) -> str | None:
    """The sentence with which the file is refused; None if it is read."""
    try:
        read(path)
    except NAMED as refusal:
        return str(refusal)
    return None


HARMLESS: dict[str, Callable[[str], bytes]] = {
    "a comment in GBK": lambda text: "# 数据库\n".encode("gbk") + text.encode(),
    "a comment in Windows-1251": lambda text: text.encode() + "# база\n".encode("cp1251"),
    "a comment in Latin-1": lambda text: text.replace("# What", "# Größe").encode("latin-1"),
    "tabs behind values": lambda text: text.replace("MYSQL\n", "MYSQL\t# x\n").replace("false\n", "false\t\n").encode(),
    "Windows line ends": lambda text: text.replace("\n", "\r\n").encode(),
    "old Mac line ends": lambda text: text.replace("\n", "\r").encode(),
    "a byte order mark": lambda text: text.encode("utf-8-sig"),
    "a key twice": lambda text: text.replace("    backend: MYSQL\n", "    backend: H2\n    backend: MYSQL\n").encode(),
    "marks of a document": lambda text: f"%YAML 1.1\n---\n{text}...\n".encode(),
    "tables in braces": lambda text: f"{text}x: {{a: 1,\tb: 2}}\n".encode(),
    "keys of other kinds": lambda text: f"{text}1: a\ntrue: b\n? [a, b]\n: c\n".encode(),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_what_changes_nothing_for_authme_changes_nothing_here(way: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(YAML, encoding="utf-8")
    original = read_authme_config(path)
    assert (original.host, original.password, original.prompt_seconds) == ("::1", SECRET, 30)
    path.write_bytes(HARMLESS[way](YAML))
    assert read_authme_config(path) == original
