"""AuthMe's configs that the companion cannot work with: it exits with 78 and says why, and never guesses."""

import pytest

from tests.support.authme.game_server import GameServer
from tests.support.command_line import companion, companion_here
from tests.support.daemon import Daemon

pytestmark = pytest.mark.parametrize("database_kind", ["sqlite"])

EX_CONFIG = 78
PASSWORD_HASH = "settings.security.passwordHash"
LEGACY_HASHES = "settings.security.legacyHashes"


def assert_refused(place: Daemon, words: str, *commands: str) -> None:
    """Assert that each command exits with 78 and a sentence with these words, without a traceback."""
    for command in commands:
        run = companion if command == "serve" else companion_here
        done = run(command, config=place.config_file)
        assert done.status == EX_CONFIG, done
        assert "Traceback" not in done.errors
        assert words in next(line for line in done.errors.splitlines() if line.startswith("companion: "))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DataSource.backend": "POSTGRESQL"}, "AuthMe's backend is POSTGRESQL"),
        ({PASSWORD_HASH: "BCRPYT"}, "passwordHash names 'BCRPYT'"),
        ({LEGACY_HASHES: ["NOCRYPT"]}, "legacyHashes has NOCRYPT"),
        ({"DataSource.mySQLTablename": "authme; DROP TABLE x"}, "mySQLTablename"),
    ],
)
def test_an_authme_that_we_cannot_work_with_is_refused(
    place: Daemon, game_server: GameServer, changes: dict[str, object], words: str
) -> None:
    game_server.change_authme(changes)
    assert_refused(place, words, "check-config", "serve")


@pytest.mark.parametrize(("version", "has_xauth"), [("5.7.0-FORK-b53", True), ("6.0.1", False), (None, False)])
def test_algorithms_are_those_of_the_installed_authme(
    place: Daemon, game_server: GameServer, version: str | None, has_xauth: bool
) -> None:
    game_server.install_plugin(version)
    game_server.change_authme({PASSWORD_HASH: "XAUTH"})
    if has_xauth:
        told = companion_here("check-config", config=place.config_file)
        assert (told.status, f"AuthMe: {game_server.authme_config}, XAUTH" in told.output) == (0, True), told
    else:
        assert_refused(place, "authme.password_hash" if version is None else "AuthMe 6.0.1", "check-config", "serve")
    game_server.change_authme({PASSWORD_HASH: "PBKDF2BASE64"})
    told = companion_here("check-config", config=place.config_file)
    assert told.status == (EX_CONFIG if has_xauth else 0), told  # no version has both
