"""Changes of AuthMe's config that the running process cannot apply: told, shown, and in effect after a restart."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import companion
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack
from tests.support.watching import TIMEOUT, scrape

SALT_COLUMN = "DataSource.mySQLColumnSalt"
PASSWORD_HASH = "settings.security.passwordHash"
LEGACY_HASHES = "settings.security.legacyHashes"
WAITING = "(systemctl restart companion; its container, or its server in the panel): "
LENGTH_OF_SHA512 = 128
FINDING = "config.restart_needed"


def restart_needed(stack: Stack) -> list[str]:
    reply = stack.get("/health/ready")
    assert (reply.status, reply.json["status"]) == (200, "ready")
    keys: list[str] = reply.json["restartNeeded"]
    assert scrape(stack.daemon).of("companion_restart_needed") == bool(keys)
    return keys


def findings(stack: Stack) -> list[str]:
    """The titles of the doctor's finding, which operators and the command read alike."""
    reply = stack.get("/api/admin/doctor", {"fresh": "true"}, token=stack.olivia())
    of_daemon = [finding["title"] for finding in reply.json["findings"] if finding["id"] == FINDING]
    told = json.loads(companion("doctor", "--json", config=stack.daemon.config_file).output)
    assert [finding["title"] for finding in told["findings"] if finding["id"] == FINDING] == of_daemon
    return of_daemon


def test_a_salt_column_and_its_algorithm_wait_together_and_take_effect_after_a_restart(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path) as stack:
        assert restart_needed(stack) == []
        before = {SALT_COLUMN: "", PASSWORD_HASH: "SHA256", LEGACY_HASHES: []}
        after = {SALT_COLUMN: "salt", PASSWORD_HASH: "SALTEDSHA512", LEGACY_HASHES: ["SHA256"]}
        keys = [SALT_COLUMN, PASSWORD_HASH, LEGACY_HASHES]

        stack.game.change_authme(after)

        assert stack.daemon.wait_for_log(f"{WAITING}{', '.join(keys)}", TIMEOUT)
        assert not [line for line in stack.daemon.log if f"{SALT_COLUMN} is empty" in line]
        assert restart_needed(stack) == keys
        assert findings(stack) == [f"Changed, and not yet in effect: {', '.join(keys)}."]
        bob = stack.approved()
        assert stack.authme.get(bob.name)["password"].startswith("$SHA$")  # which AuthMe accepts as a legacy hash

        stack.game.change_authme(before)
        assert stack.daemon.wait_for_log("the restart of the companion is not needed any more", TIMEOUT)
        assert (restart_needed(stack), findings(stack)) == ([], [])

        stack.table.database.execute(f"ALTER TABLE {stack.table.name} ADD COLUMN salt VARCHAR(255)")  # as AuthMe does
        stack.daemon.log.clear()
        stack.game.change_authme(after)
        assert stack.daemon.wait_for_log(WAITING, TIMEOUT)
        assert restart_needed(stack) == keys
        stack.daemon.stop()
        stack.daemon.start()
        assert restart_needed(stack) == []
        carol = stack.approved("carol")
        assert len(stack.authme.get(carol.name)["password"]) == LENGTH_OF_SHA512
        assert stack.login(carol).status == 200


def test_xenforo_is_not_taken_over_while_the_daemon_runs(mariadb: MariaDBServer, tmp_path: Path) -> None:
    with Stack("mariadb", tmp_path, mariadb) as stack:
        stack.game.change_authme({PASSWORD_HASH: "XFBCRYPT"})
        assert stack.daemon.wait_for_log(f"config.yml: {PASSWORD_HASH} is XFBCRYPT", TIMEOUT)
        bob = stack.approved()
        assert stack.authme.login(bob.name, bob.password)
        assert restart_needed(stack) == [], "a restart would not help"


@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_xenforo_is_refused_at_the_start(mariadb: MariaDBServer, tmp_path: Path, command: str) -> None:
    with Stack("mariadb", tmp_path, mariadb) as stack:
        stack.daemon.stop()
        stack.game.change_authme({PASSWORD_HASH: "XFBCRYPT"})
        told = companion(command, config=stack.daemon.config_file)
        assert told.status == 78
        assert f"{PASSWORD_HASH} is XFBCRYPT" in told.errors
        assert "locks would keep no banned, rejected or pending player out of the game" in told.errors


def test_xenforo_is_accepted_on_sqlite_where_the_lock_holds(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path) as stack:
        stack.daemon.stop()
        stack.game.change_authme({PASSWORD_HASH: "XFBCRYPT", LEGACY_HASHES: ["SHA256"]})
        stack.daemon.start()
        bob = stack.newcomer("bob")
        stack.authme.register(bob.name, bob.password, bob.email)
        stack.sync()
        assert stack.authme.get(bob.name)["password"].startswith("!locked!")
        stack.decides("approve", bob)
        assert stack.authme.login(bob.name, bob.password)
        stack.decides("ban", bob)
        assert not stack.authme.login(bob.name, bob.password)
