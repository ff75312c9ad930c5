"""Findings about ways to play as another player: public holes of AuthMe's versions, and a proxy's unsigned logins.

The versions and their behaviour are those of `plugin_bridge/server/versions.py`, which names how each is known.
"""

from pathlib import Path

import pytest

from plugin_bridge.authme.config import read_authme_config
from plugin_bridge.server.versions import PUBLIC_HOLES
from regsvc.doctor.checkup import in_language
from regsvc.doctor.finding import FindingFields
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.authme.plugin_jars import AUTHME, write_jar
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase
from tests.support.each import assert_each

HOLE, UNSIGNED = "authme.known_hole", "authme.proxy_unsigned"
BUNGEECORD, VELOCITY, SECRET = "Hooks.bungeecord", "Hooks.velocity", "Hooks.proxySharedSecret"
UNKNOWN = "whether AuthMe has public holes: no jar beside its folder tells its version"


@pytest.fixture
def database_kind() -> DatabaseKind:
    """Servers of a network share a table on a database server."""
    return "mariadb"


@pytest.fixture
def survival(doctor_case: DoctorCase, tmp_path: Path) -> GameServer:
    """A second game server, on which everything is as it should be."""
    game = write_game_server(tmp_path / "survival")
    game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
    game.install_authme(doctor_case.table)
    game.install_plugin("6.0.1")
    for file in (game.properties_file, game.authme_config):
        file.chmod(0o600)
    doctor_case.change("game", server=[{"name": "survival", "directory": str(game.directory)}])
    return game


def found(doctor_case: DoctorCase, *kinds: str) -> list[FindingFields]:
    """The findings of these kinds."""
    return [finding for finding in doctor_case.findings() if finding.id in kinds]


def test_olivias_authme_lets_strangers_in(doctor_case: DoctorCase) -> None:
    plugins = doctor_case.game.directory / "plugins"
    doctor_case.game.install_plugin(None)
    write_jar(plugins, "AuthMe-6.0.0-b2734.jar", AUTHME.replace("5.6.0-beta2", "6.0.0-b2734"))
    doctor_case.game.change_authme({BUNGEECORD: True, SECRET: ""})
    hole, unsigned = found(doctor_case, HOLE, UNSIGNED)
    assert (hole.severity, hole.where) == ("broken", f"{plugins}/AuthMe….jar")
    assert hole.title.startswith("AuthMe 6.0.0-b2734 has a hole that was published on 2026-09-03: a client that joins")
    assert "6.0.1" in hole.do
    assert (unsigned.severity, unsigned.where) == ("broken", f"{doctor_case.game.authme_config}: {SECRET}")
    assert f"{BUNGEECORD} is true, and {SECRET} is empty" in unsigned.title
    assert "/authme reload" in unsigned.do
    assert doctor_case.examine().verdict == "broken"
    [told] = [one for one in in_language(doctor_case.examine(), "zh").findings if one.id == HOLE]
    assert "6.0.0-b2734 有一个于 2026-09-03 公开的漏洞：在某个玩家登录期间" in told.title

    doctor_case.game.change_authme({SECRET: "5f1c0e"})
    assert [finding.id for finding in found(doctor_case, HOLE, UNSIGNED)] == [HOLE]
    (plugins / "AuthMe-6.0.0-b2734.jar").unlink()
    doctor_case.game.install_plugin("6.0.1")
    for secret in ("5f1c0e", ""):  # without a secret it refuses what a proxy asks for
        doctor_case.game.change_authme({SECRET: secret})
        assert found(doctor_case, HOLE, UNSIGNED) == []


VERSIONS = [
    ("6.0.0", "broken", "AuthMe 6.0.0 has a hole", "Install AuthMe 6.0.1"),
    ("6.0.0-R1", "broken", "AuthMe 6.0.0-R1 has a hole", "Install AuthMe 6.0.1"),
    ("6.0.0-SNAPSHOT-b2700", "broken", "has a hole", "Install AuthMe 6.0.1"),
    ("6.0.1-SNAPSHOT-b2762", "risky", "which was built before 6.0.1, may have a hole", "Install AuthMe 6.0.1"),
    ("5.7.0", "risky", "AuthMe 5.7.0 is reported to have a hole", "what others report"),
    ("5.6.0-beta2", "risky", "AuthMe 5.6.0-beta2 is reported to have a hole", "what others report"),
    ("5.7.0-FORK-b53", "risky", "5.7.0-FORK-b53 is reported to have a hole", "the fork AuthMeReReloaded"),
    ("7.0-FORK", "risky", "7.0-FORK is reported to have a hole", "the fork AuthMeReReloaded"),
]


def test_each_version_is_told_of_as_surely_as_its_hole_is_known(doctor_case: DoctorCase) -> None:
    def check(case: tuple[str, str, str, str]) -> None:
        version, severity, title, do = case
        doctor_case.game.install_plugin(version)
        checkup = doctor_case.examine()
        [hole] = [finding for finding in checkup.findings if finding.id == HOLE]
        assert (hole.severity, title in hole.title, do in hole.do) == (severity, True, True), hole
        assert UNKNOWN not in checkup.not_examined

    assert_each(VERSIONS, check)
    for version in ("6.0.1", "6.0.1-b2801", "6.1.0-SNAPSHOT", "10.2"):
        doctor_case.game.install_plugin(version)
        assert found(doctor_case, HOLE) == []


@pytest.mark.parametrize("version", [None, "unreleased"])
def test_an_unknown_version_is_not_taken_for_a_safe_one(doctor_case: DoctorCase, version: str | None) -> None:
    doctor_case.game.install_plugin(version)
    doctor_case.game.change_authme({BUNGEECORD: True, SECRET: ""})
    checkup = doctor_case.examine()
    assert checkup.not_examined == (UNKNOWN,)
    [unsigned] = found(doctor_case, HOLE, UNSIGNED)
    assert (unsigned.id, unsigned.severity) == (UNSIGNED, "risky")
    assert "AuthMe before 6.0.1" in unsigned.title


def test_an_authme_without_the_key_is_told_what_helps_there(doctor_case: DoctorCase) -> None:
    def check(case: tuple[str | None, str, str]) -> None:
        version, hook, secret = case
        doctor_case.game.install_plugin(version)
        other = {BUNGEECORD: VELOCITY, VELOCITY: BUNGEECORD}[hook]
        # a secret that somebody wrote into the config of an AuthMe that does not know the key protects nobody
        doctor_case.game.change_authme({hook: True, other: False, SECRET: secret or None})
        [unsigned] = found(doctor_case, UNSIGNED)
        assert (unsigned.severity, unsigned.where) == ("risky", f"{doctor_case.game.authme_config}: {hook}")
        assert f"{hook} is true, and this AuthMe, which has no {SECRET}" in unsigned.title
        assert "firewall" in unsigned.do
        assert "/authme reload" not in unsigned.do

    assert_each(
        [
            ("5.6.0-beta2", BUNGEECORD, ""),
            ("5.7.0", BUNGEECORD, "5f1c0e"),
            ("5.7.0-FORK-b53", VELOCITY, ""),
            (None, BUNGEECORD, ""),
        ],
        check,
    )
    doctor_case.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, server_ip="127.0.0.1")
    assert found(doctor_case, UNSIGNED) == []


def test_a_snapshot_may_take_logins_that_the_release_refuses(doctor_case: DoctorCase) -> None:
    doctor_case.game.install_plugin("6.0.1-SNAPSHOT")
    doctor_case.game.change_authme({BUNGEECORD: True, SECRET: " "})
    [unsigned] = found(doctor_case, UNSIGNED)
    assert (unsigned.severity, "before 6.0.1" in unsigned.title) == ("risky", True)


def test_without_a_proxy_nothing_is_said_of_one(doctor_case: DoctorCase) -> None:
    for version in ("5.6.0", "6.0.0"):
        doctor_case.game.install_plugin(version)
        doctor_case.game.change_authme({BUNGEECORD: False, SECRET: ""})
        assert found(doctor_case, UNSIGNED) == []


def test_every_server_of_the_network_is_looked_at(doctor_case: DoctorCase, survival: GameServer) -> None:
    for game in (doctor_case.game, survival):
        game.change_authme({BUNGEECORD: True, SECRET: "5f1c0e"})
    assert found(doctor_case, HOLE, UNSIGNED, "network.differs") == []

    survival.install_plugin("6.0.0")
    survival.change_authme({SECRET: ""})
    hole, unsigned = found(doctor_case, HOLE, UNSIGNED)
    assert hole.title.startswith("survival: AuthMe 6.0.0 has a hole")
    assert hole.where == f"{survival.directory}/plugins/AuthMe….jar"
    assert unsigned.title.startswith(f"survival: {BUNGEECORD} is true")
    assert unsigned.where == f"{survival.authme_config}: {SECRET}"

    doctor_case.game.install_plugin("5.6.0")
    assert [finding.title.partition(":")[0] for finding in found(doctor_case, HOLE)] == [
        "survival",  # broken ones come first
        "AuthMe 5.6.0 is reported to have a hole that was published on 2026-09-03",
    ]
    survival.install_plugin(None)
    assert UNKNOWN in doctor_case.examine().not_examined
    doctor_case.game.authme_config.write_text("DataSource: [", encoding="utf-8")
    survival.install_plugin("6.0.0")
    assert [finding.title.partition(":")[0] for finding in found(doctor_case, HOLE)] == ["survival"]


def test_every_public_hole_has_words_for_it(doctor_case: DoctorCase) -> None:
    """A hole without words would be a check that cannot run, which `DoctorCase.examine` refuses."""
    doctor_case.game.install_plugin("6.0.0-alpha")
    assert len(found(doctor_case, HOLE)) == len(PUBLIC_HOLES)


def test_the_secret_is_shown_nowhere(doctor_case: DoctorCase) -> None:
    doctor_case.game.install_plugin("6.0.0")
    doctor_case.game.change_authme({BUNGEECORD: True, SECRET: "hunter2"})
    assert "hunter2" not in str(doctor_case.examine())
    assert "hunter2" not in repr(read_authme_config(doctor_case.game.authme_config))
