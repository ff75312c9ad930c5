"""AuthMe's config.yml, broken one key at a time."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin_bridge.authme.players import lock_text
from regsvc.app.context import open_context
from regsvc.config.sections import ConfigError
from regsvc.database.location import keep_authme, read_authme
from tests.support.authme.authme_tables import insert_player
from tests.support.doctor_case import DoctorCase

GROUP_COLUMN = "ExternalBoardOptions.mySQLColumnGroup"
INACTIVE_GROUP = "ExternalBoardOptions.nonActivedUserGroup"


def test_its_config_cannot_be_used(doctor_case: DoctorCase) -> None:
    for text in ("DataSource: [", "just words", "DataSource:\n  mySQLTablename: 'a; DROP TABLE b'"):
        doctor_case.game.authme_config.write_text(text)
        checkup = doctor_case.examine()
        assert [finding.id for finding in checkup.findings] == ["authme.unusable"]
        assert "AuthMe’s config and its table: the config cannot be read" in checkup.not_examined


def test_its_table_is_on_a_database_that_is_not_supported(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.backend": "POSTGRESQL"})
    finding = doctor_case.only_finding("authme.unusable")
    assert (finding.severity, "AuthMe's backend is POSTGRESQL" in finding.title) == ("broken", True)
    doctor_case.game.install_plugin("5.4.0")
    doctor_case.game.change_authme({"DataSource.backend": "MARIADB", "DataSource.mySQLPassword": "another"})
    finding = doctor_case.only_finding("authme.unusable", beside="authme.known_hole")
    assert "AuthMe 5.4.0 has no backend MARIADB" in finding.title


def test_a_value_is_not_of_its_kind(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"Purge.useAutoPurge": "false", "settings.security.legacyHashes": "MD5"})
    first, second = doctor_case.findings()
    assert first.id == second.id == "authme.ignored_value"
    assert "Purge.useAutoPurge" in first.title + second.title
    assert "settings.security.legacyHashes" in first.title + second.title


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (
            lambda text: "# 数据库\n".encode("gbk") + text,
            "Line 1, column 3: it is not UTF-8, and AuthMe reads � there.",
        ),
        (lambda text: text + b"\nx: y\t# z\n", ": a tab, which AuthMe reads and other programs do not."),
        (lambda text: text + b"x: 1\nx: 2\n", ": the key is there twice, and AuthMe takes its last value."),
    ],
)
def test_its_file_is_odd(doctor_case: DoctorCase, change: Callable[[bytes], bytes], title: str) -> None:
    file = doctor_case.game.authme_config
    file.write_bytes(change(file.read_bytes()))
    finding = doctor_case.only_finding("authme.ignored_value")
    assert (title in finding.title, finding.severity, finding.where) == (True, "risky", str(file))


def test_its_config_cannot_be_used_any_more(doctor_case: DoctorCase) -> None:
    """The companion starts with the values from before, which AuthMe has too until its own next start."""
    file = doctor_case.game.authme_config
    doctor_case.start_once()
    config = doctor_case.read_config()
    keep_authme(config)
    [kept] = [path for path in config.server.state_dir.iterdir() if path.read_bytes() == file.read_bytes()]
    assert kept.stat().st_mode & 0o777 == 0o600
    before = read_authme(config)
    file.write_text("DataSource: [")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    keep_authme(config)  # nothing better to keep
    context = open_context(config)
    context.location.database.close()
    assert context.authme == before
    finding = doctor_case.only_finding("authme.unusable")
    assert finding.title.startswith(
        f"{file} is not valid YAML (line 1, column 14). So it is since 2023-11-14 22:13 UTC;"
    )
    kept.unlink()
    with pytest.raises(ConfigError, match="is not valid YAML"):
        open_context(config)


def test_caching_is_on(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True})
    finding = doctor_case.only_finding("authme.caching")
    assert finding.where == f"{doctor_case.game.authme_config}: DataSource.caching: false"
    doctor_case.game.change_authme({"settings.restrictions.kickNonRegistered": True})
    assert "kickNonRegistered" in doctor_case.only_finding("authme.caching").title


def test_players_register_in_the_game_too_or_are_guests(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"settings.registration.enabled": True})
    for approval in (True, False):
        doctor_case.change("registration", approval=approval)
        assert ("reviewed" in doctor_case.only_finding("authme.ingame_registration").title) == approval
    doctor_case.game.change_authme({"settings.registration.enabled": False, "settings.registration.force": False})
    assert "force: true" in doctor_case.only_finding("authme.registration_not_forced").where


def write_message(doctor_case: DoctorCase, language: str, key: str, text: str) -> Path:
    file = doctor_case.game.authme_directory / "messages" / f"messages_{language}.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"registration:\n  {key}: '{text}'\n", encoding="utf-8")
    return file


def test_strangers_are_kicked_without_an_address(doctor_case: DoctorCase) -> None:
    """AuthMe's own text names an example; it is in the language of its config, else in English."""
    doctor_case.game.change_authme(
        {"settings.restrictions.kickNonRegistered": True, "settings.messagesLanguage": "zhcn"}
    )
    assert doctor_case.findings() == []  # AuthMe has not written its texts yet
    english = write_message(doctor_case, "en", "reg_only", "&4Register at http://example.com!")
    finding = doctor_case.only_finding("authme.no_address")
    assert finding.where == f"{english}: registration.reg_only"
    assert "play.example.org" in finding.title
    assert "Register at%nl%https://play.example.org/register”" in finding.do
    write_message(doctor_case, "zhcn", "reg_only", "https://Play.example.org")
    assert doctor_case.findings() == []


def test_strangers_are_asked_to_register_without_an_address(doctor_case: DoctorCase) -> None:
    file = write_message(doctor_case, "en", "register_request", "&3Please register with /register")
    finding = doctor_case.only_finding("authme.no_address")
    assert finding.where == f"{file}: registration.register_request"
    assert "https://play.example.org/register?name=%username%" in finding.do
    doctor_case.game.change_authme({"settings.registration.force": False})
    assert [finding.id for finding in doctor_case.findings()] == ["authme.registration_not_forced"]


def test_authme_6_asks_strangers_for_a_password_in_vain(doctor_case: DoctorCase) -> None:
    """AuthMe 6 writes the keys itself; one that somebody took out is true."""
    write_message(doctor_case, "en", "register_request", "Please register")
    dialogs = "settings.registration.dialog"
    doctor_case.game.change_authme({f"{dialogs}.postJoin.enable": False, f"{dialogs}.showBody": True})
    finding = doctor_case.only_finding("authme.dialogs")
    assert f"({dialogs}.preJoin.enable)" in finding.title
    assert finding.where == f"{doctor_case.game.authme_config}: settings.restrictions.kickNonRegistered: true"

    doctor_case.game.change_authme({"settings.registration.enabled": True})
    assert [finding.id for finding in doctor_case.findings()] == ["authme.ingame_registration"]
    doctor_case.game.change_authme(
        {"settings.registration.enabled": False, "settings.restrictions.kickNonRegistered": True}
    )
    write_message(doctor_case, "en", "reg_only", "Register somewhere")
    assert doctor_case.only_finding("authme.no_address").where.endswith("registration.reg_only")
    write_message(doctor_case, "en", "reg_only", "Register at play.example.org")
    assert doctor_case.findings() == []


def test_the_dialogs_are_off(doctor_case: DoctorCase) -> None:
    dialogs = "settings.registration.dialog"
    doctor_case.game.change_authme({f"{dialogs}.{when}.enable": False for when in ("preJoin", "postJoin")})
    write_message(doctor_case, "en", "register_request", "Please register")
    assert doctor_case.only_finding("authme.no_address").where.endswith("registration.register_request")


def test_some_names_join_without_authme(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"settings.unrestrictions.UnrestrictedName": ["Bot", "npc"]})
    finding = doctor_case.only_finding("authme.unrestricted_names")
    assert finding.title == "AuthMe lets 2 names in without a password: bot, npc."
    doctor_case.game.change_authme({"settings.unrestrictions.UnrestrictedName": ["A", "B", "C", "D"]})
    assert doctor_case.only_finding("authme.unrestricted_names").title.endswith("a, b, c, …")


def test_sessions_and_premium_players_need_rcon(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"settings.sessions.enabled": True, "settings.enablePremium": True})
    assert doctor_case.findings() == []
    doctor_case.change("game", rcon=False)
    sessions, premium = doctor_case.findings()
    assert sessions.id == premium.id == "authme.logins_without_password"
    assert sessions.title == "settings.sessions.enabled is true, and RCON is off."
    assert premium.where == f"{doctor_case.game.authme_config}: settings.enablePremium: false"


def test_bedrock_players_need_no_password(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"3rdPartyFeature.features.bedrockAutoLogin": True})
    assert doctor_case.findings() == []  # it needs the hook, too
    doctor_case.game.change_authme({"Hooks.floodgate": True})
    finding = doctor_case.only_finding("authme.logins_without_password")
    assert finding.where.endswith("3rdPartyFeature.features.bedrockAutoLogin: false")
    doctor_case.change("game", on_ban="ban")
    assert doctor_case.findings() == []


def test_the_group_of_inactive_players_has_no_effect_on_sqlite(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({GROUP_COLUMN: "group_id", INACTIVE_GROUP: 3})
    assert "does not read on SQLite" in doctor_case.only_finding("authme.group").title
    doctor_case.game.change_authme({GROUP_COLUMN: "group_id", INACTIVE_GROUP: -1})
    assert "lets nobody log in" in doctor_case.only_finding("authme.group").title


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_the_group_of_inactive_players_keeps_players_out(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({GROUP_COLUMN: "group_id"})
    assert {finding.id for finding in doctor_case.findings()} == {"authme.group", "table.column_missing"}
    doctor_case.table.database.execute(f"ALTER TABLE {doctor_case.table.name} ADD COLUMN group_id INT NULL")
    assert "nonActivedUserGroup is not set" in doctor_case.only_finding("authme.group").title
    doctor_case.game.change_authme({INACTIVE_GROUP: 3})
    assert doctor_case.findings() == []

    doctor_case.table.database.execute(f"UPDATE {doctor_case.table.name} SET group_id = 3")
    locked = {"password": lock_text("x"), "regdate": 1_600_000_000_000, "group_id": 3}
    insert_player(doctor_case.table, username="bob", realname="Bob", **locked)
    title = doctor_case.only_finding("authme.group").title
    assert title == "1 player is in the group 3, in which AuthMe lets nobody log in: olivia."
    doctor_case.table.database.execute(f"UPDATE {doctor_case.table.name} SET group_id = NULL")
    assert doctor_case.findings() == []
    doctor_case.game.change_authme({INACTIVE_GROUP: 0})  # as which AuthMe reads NULL
    assert doctor_case.only_finding("authme.group").title.endswith("olivia.")


def test_another_address_of_the_host_is_as_good(doctor_case: DoctorCase) -> None:
    write_message(doctor_case, "en", "register_request", "Register at forum.example.net")
    for section, key, value in (
        ("server", "links", {"Forum": "https://forum.example.net/register"}),
        ("http", "allowed_origins", ["https://forum.example.net"]),
        ("server", "base_url", "http://127.0.0.1:8080"),
    ):
        doctor_case.only_finding("authme.no_address")
        doctor_case.change(section, **{key: value})
        assert "authme.no_address" not in {finding.id for finding in doctor_case.findings()}
        doctor_case.sections[section].pop(key)


def test_texts_that_cannot_be_read_are_left_alone(doctor_case: DoctorCase) -> None:
    for broken in ("registration: [", "reg_only: a text of AuthMe 5.3"):
        write_message(doctor_case, "en", "register_request", "").write_text(broken)
        assert doctor_case.findings() == []
