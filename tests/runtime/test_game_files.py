"""Changes of the game server's files at run time: applied if possible, otherwise logged."""

import asyncio
import errno
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from unittest.mock import Mock

import pytest
import yaml

from plugin_bridge.authme.config import LEGACY_HASHES_KEY as LEGACY_HASHES
from plugin_bridge.authme.config import PASSWORD_HASH_KEY as PASSWORD_HASH
from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.config.live import LiveConfig
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.database.location import read_authme, read_password, resolve_location
from regsvc.runtime.reload import GameFileWatcher, PendingRestart
from tests.support.authme.game_server import GameServer, write_game_server

SETTINGS = """
DataSource:
    backend: SQLITE
    mySQLTablename: authme
    mySQLPassword: a-secret
settings:
    security:
        passwordHash: SHA256
        minPasswordLength: 5
"""

WAITING = (
    "AuthMe's config.yml has changed; these keys take effect after a restart of the companion"
    " (systemctl restart companion; its container, or its server in the panel): "
)


class Watching:
    """A watcher for a folder; `taken`: the applied configs, in order."""

    def __init__(
        self,
        game: GameServer,
        other_files: Mapping[str, PropertiesFile] = MappingProxyType({}),
        keys: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """`keys` of the config name further game servers, whose server.properties are `other_files`."""
        self.file = game.authme_config
        self.taken: list[AuthMeConfig] = []
        config: Config = load_config(None, {}, {"game.directory": str(game.directory), **keys})
        running = read_authme(config)
        self.live = LiveConfig(config, running)
        self.properties = PropertiesFile(game.properties_file)
        self.pending = PendingRestart()
        self.uuids = PlayerUuids(game.directory, self.properties)
        files = {"": self.properties, **other_files}
        self.others: list[object] = []
        self.watch = GameFileWatcher(config, running, files, self.uuids, self._take, self._take_others, self.pending)
        self.look()

    def look(self) -> None:
        """Look often enough that a file that is no longer being written is read."""
        for _look in range(2):
            if self.watch.look():
                asyncio.run(self.watch.apply())

    def waiting(self) -> list[str]:
        """The keys that wait for a restart."""
        return list(self.pending.keys)

    def write(self, text: str) -> None:
        """Replace the file by another one, like editors do."""
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.file)
        self.look()

    def _take_others(self, authmes: Iterable[object]) -> None:
        self.others = list(authmes)

    def _take(self, authme: AuthMeConfig) -> None:
        self.live.apply_authme(authme)
        self.taken.append(authme)


@pytest.fixture
def watching(game_server: GameServer, caplog: pytest.LogCaptureFixture) -> Watching:
    caplog.set_level(logging.INFO)
    game_server.authme_directory.mkdir(parents=True)
    game_server.authme_config.write_text(SETTINGS, encoding="utf-8")
    return Watching(game_server)


def test_nothing_is_told_while_nothing_changes(watching: Watching, caplog: pytest.LogCaptureFixture) -> None:
    watching.write("# AuthMe rewrites its comments at each start\n" + SETTINGS)
    assert (watching.taken, caplog.messages, watching.waiting()) == ([], [], [])


def test_rules_and_hashing_are_taken_over(watching: Watching, caplog: pytest.LogCaptureFixture) -> None:
    watching.write(SETTINGS.replace("SHA256", "BCRYPT").replace("Length: 5", "Length: 9"))
    [taken] = watching.taken
    assert (taken.password_hash, taken.password_rule.min_length) == ("BCRYPT", 9)
    assert caplog.messages == [
        "AuthMe's config.yml has changed; now in effect: settings.security.passwordHash, the rules for passwords"
    ]
    assert watching.waiting() == []


def test_keys_of_lists_and_groups_are_named(watching: Watching, caplog: pytest.LogCaptureFixture) -> None:
    names = "    unrestrictions: {UnrestrictedName: [bot]}\n    registration: {dialog: {showBody: true}}\n"
    watching.write(SETTINGS + names + "ExternalBoardOptions: {nonActivedUserGroup: 3}\n")
    assert [taken.unrestricted_names for taken in watching.taken] == [("bot",)]
    assert watching.waiting() == ["ExternalBoardOptions.nonActivedUserGroup"]
    applied = "settings.registration.dialog, settings.unrestrictions.UnrestrictedName"
    assert caplog.messages[-1] == f"AuthMe's config.yml has changed; now in effect: {applied}"


def test_another_table_waits_for_a_restart_and_is_told_once(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    other = SETTINGS.replace("mySQLTablename: authme", "mySQLTablename: players\n    mySQLColumnSalt: salt")
    other = other.replace("a-secret", "another-secret")
    watching.write(other)
    watching.look()
    watching.write(other.replace("Length: 5", "Length: 9"))
    assert {taken.table for taken in watching.taken} == {"authme"}
    assert not watching.taken[0].hashing.has_salt_column
    keys = ["DataSource.mySQLTablename", "DataSource.mySQLColumnSalt"]
    assert [message for message in caplog.messages if "restart" in message] == [WAITING + ", ".join(keys)]
    assert watching.waiting() == keys
    assert "another-secret" not in caplog.text
    watching.write(SETTINGS)
    assert watching.waiting() == []
    assert caplog.messages[-2] == "AuthMe's config.yml: the restart of the companion is not needed any more"


@pytest.mark.parametrize(
    ("security", "waiting"),
    [
        ("passwordHash: SALTEDSHA512\n        legacyHashes: [SHA256]", (PASSWORD_HASH, LEGACY_HASHES)),
        ("passwordHash: SHA256\n        legacyHashes: [SALTEDSHA512]", (LEGACY_HASHES,)),
    ],
)
def test_an_algorithm_waits_together_with_its_salt_column(
    watching: Watching, caplog: pytest.LogCaptureFixture, security: str, waiting: tuple[str, ...]
) -> None:
    both = SETTINGS.replace("mySQLTablename: authme", "mySQLTablename: authme\n    mySQLColumnSalt: salt")
    watching.write(both.replace("passwordHash: SHA256", security).replace("Length: 5", "Length: 9"))
    [taken] = watching.taken
    assert (taken.password_hash, taken.legacy_hashes, taken.password_rule.min_length) == ("SHA256", (), 9)
    assert watching.waiting() == ["DataSource.mySQLColumnSalt", *waiting]
    assert caplog.messages == [
        WAITING + ", ".join(watching.waiting()),
        "AuthMe's config.yml has changed; now in effect: the rules for passwords",
    ]
    watching.write(SETTINGS)
    assert watching.waiting() == []


def test_an_algorithm_that_needs_no_salt_column_does_not_wait_for_one(watching: Watching) -> None:
    both = SETTINGS.replace("mySQLTablename: authme", "mySQLTablename: authme\n    mySQLColumnSalt: salt")
    watching.write(both.replace("SHA256", "BCRYPT"))
    assert [taken.password_hash for taken in watching.taken] == ["BCRYPT"]
    assert watching.waiting() == ["DataSource.mySQLColumnSalt"]


def test_what_waits_is_told_even_if_the_rest_cannot_be_used(watching: Watching) -> None:
    watching.write(SETTINGS.replace("SHA256", "TWO_FACTOR").replace("Tablename: authme", "Tablename: players"))
    assert watching.waiting() == ["DataSource.mySQLTablename"]


def test_the_mail_account_waits_by_its_keys(watching: Watching, caplog: pytest.LogCaptureFixture) -> None:
    watching.write(SETTINGS + "Email:\n    mailAccount: a@example.org\n    mailPassword: mails-secret\n")
    assert watching.waiting() == ["Email.mailAccount", "Email.mailPassword"]
    assert "mails-secret" not in caplog.text


def test_a_file_that_is_being_written_is_not_read(watching: Watching) -> None:
    for length in range(20, len(SETTINGS), 20):
        watching.file.write_text(SETTINGS[:length], encoding="utf-8")
        assert not watching.watch.look()
    assert watching.taken == []


def test_a_file_that_cannot_be_opened_has_not_changed_and_is_read_later(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    text = SETTINGS.replace("Length: 5", "Length: 9")
    with pytest.MonkeyPatch.context() as patch:
        full = OSError(errno.EMFILE, "Too many open files")
        patch.setattr("plugin_bridge.authme.config.require_regular_file", Mock(side_effect=full))
        watching.write(text)
        watching.look()
    [told] = caplog.messages
    assert told.startswith("AuthMe's config.yml cannot be read; the old values stay: ")
    assert "Too many open files" in told
    watching.look()
    [taken] = watching.taken
    assert taken.password_rule.min_length == 9


@pytest.mark.parametrize("text", ["", "DataSource: [", "just words", "DataSource:\n  mySQLTablename: 'a b'"])
def test_a_broken_file_changes_nothing_and_is_told_once(
    watching: Watching, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    watching.write(text)
    watching.look()
    assert watching.taken == []
    [told] = caplog.messages
    assert "cannot be used; the old values stay" in told
    watching.write(SETTINGS.replace("Length: 5", "Length: 9"))
    assert len(watching.taken) == 1


def test_what_cannot_be_taken_over_is_told_and_tried_again_when_it_changes(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    rules = watching.live.authme
    watching.write(SETTINGS.replace("SHA256", "SALTEDSHA512"))
    assert "the old values stay: " in caplog.text
    assert watching.live.authme is rules
    watching.write(SETTINGS.replace("SHA256", "BCRYPT"))
    assert [taken.password_hash for taken in watching.taken] == ["BCRYPT"]


def test_an_algorithm_that_would_be_a_guess_is_not_taken_over_until_the_version_is_known(
    watching: Watching, game_server: GameServer, caplog: pytest.LogCaptureFixture
) -> None:
    rules = watching.live.authme
    for name, version in (("BCRPYT", None), ("XAUTH", None), ("XAUTH", "6.0.1"), ("NOCRYPT", "5.7.0-FORK-b53")):
        game_server.install_plugin(version)
        watching.write(SETTINGS.replace("SHA256", name))
        assert "cannot be used; the old values stay: " in caplog.messages[-1]
        assert name in caplog.messages[-1]
        assert (watching.live.authme, watching.taken) == (rules, [])
        watching.write(SETTINGS)
    watching.write(SETTINGS.replace("SHA256", "XAUTH"))
    assert watching.live.authme.algorithms == {"XAUTH"}


def test_a_file_that_goes_is_told(watching: Watching, caplog: pytest.LogCaptureFixture) -> None:
    watching.file.unlink()
    watching.look()
    assert watching.waiting() == ["whether there is an AuthMe"]
    assert f"{WAITING}whether there is an AuthMe" in caplog.text


def test_a_plugin_that_is_installed_later_is_told(game_server: GameServer, caplog: pytest.LogCaptureFixture) -> None:
    watching = Watching(game_server)
    game_server.authme_directory.mkdir(parents=True)
    watching.write(SETTINGS)
    assert watching.waiting() == ["whether there is an AuthMe"]
    assert watching.taken == []


def test_the_files_of_other_servers_are_followed_too(
    game_server: GameServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    survival = write_game_server(tmp_path / "survival")
    survival.authme_directory.mkdir(parents=True)
    survival.authme_config.write_text(SETTINGS, encoding="utf-8")
    servers = {"game.server.1.name": "survival", "game.server.1.directory": str(survival.directory)}
    watching = Watching(game_server, {"survival": PropertiesFile(survival.properties_file)}, servers)
    caplog.set_level(logging.INFO)
    survival.write_properties(enable_rcon="true", rcon_password="a-secret")
    survival.authme_config.write_text("DataSource: {caching: false}", encoding="utf-8")
    watching.look()
    assert caplog.messages == ["server.properties of survival has changed; now in effect: enable-rcon, rcon.password"]
    [other] = watching.others
    assert isinstance(other, AuthMeConfig)
    assert not other.caching


def test_the_servers_own_file_is_followed_by_name(
    watching: Watching, game_server: GameServer, caplog: pytest.LogCaptureFixture
) -> None:
    game_server.write_properties(enable_rcon="true", rcon_password="a-secret", online_mode="true")
    watching.look()
    assert caplog.messages == ["server.properties has changed; now in effect: online-mode, enable-rcon, rcon.password"]
    Path(game_server.properties_file).unlink()
    watching.look()
    watching.look()
    assert len(caplog.messages) == 2
    assert "a-secret" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "password"),
    [
        ({"mySQLPassword": "new-secret"}, "new-secret"),
        ({"mySQLPassword": "new-secret", "mySQLUsername": "other"}, None),
        ({"mySQLPassword": "new-secret", "mySQLDatabase": "other"}, None),
        ({"mySQLPassword": "new-secret", "backend": "SQLITE"}, None),
        ({"mySQLPassword": "new-secret", "mySQLTablename": "a b"}, None),
    ],
)
def test_only_a_password_of_our_login_to_our_database_is_taken_over(
    game_server: GameServer, changes: dict[str, object], password: str | None
) -> None:
    game_server.authme_directory.mkdir(parents=True)
    login = {"backend": "MYSQL", "mySQLPassword": "a-secret", "mySQLUsername": "authme", "mySQLDatabase": "game"}
    config = load_config(None, {}, {"game.directory": str(game_server.directory)})
    game_server.authme_config.write_text(yaml.dump({"DataSource": login}), encoding="utf-8")
    running = resolve_location(config, read_authme(config))
    game_server.authme_config.write_text(yaml.dump({"DataSource": login | changes}), encoding="utf-8")
    assert read_password(lambda: config, running) == password


def test_a_password_in_a_file_of_ours_is_read_anew(game_server: GameServer, tmp_path: Path) -> None:
    file = tmp_path / "password"
    keys = {"game.directory": str(game_server.directory), "authme.backend": "MYSQL", "authme.password_file": str(file)}
    file.touch(0o600)
    file.write_text("a-secret")
    config = load_config(None, {}, keys)
    running = resolve_location(config, read_authme(config))
    file.write_text("new-secret")
    assert read_password(lambda: load_config(None, {}, keys), running) == "new-secret"
    file.unlink()
    assert read_password(lambda: load_config(None, {}, keys), running) is None, "as while the host edits"
    ours = tmp_path / "companion.toml"
    ours.write_text("[server")
    assert read_password(lambda: load_config(ours, {}, keys), running) is None
