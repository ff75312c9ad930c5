"""AuthMe's config.yml, broken one key at a time."""

import pytest

from tests.support.doctor_case import Clinic


def test_there_is_no_authme(clinic: Clinic) -> None:
    clinic.game.authme_config.unlink()
    clinic.game.write_properties(enable_rcon="true", rcon_password="a long one, 5f1c0e", online_mode="true")
    finding = clinic.only_finding("authme.none")
    assert str(clinic.game.authme_config) in finding.title
    clinic.change("authme", enabled=False)
    assert clinic.findings() == []


@pytest.mark.parametrize("text", ["DataSource: [", "just words", "DataSource:\n  mySQLTablename: 'a; DROP TABLE b'"])
def test_its_config_cannot_be_used(clinic: Clinic, text: str) -> None:
    clinic.game.authme_config.write_text(text)
    checkup = clinic.examine()
    assert [finding.id for finding in checkup.findings] == ["authme.unusable"]
    assert "AuthMe's config and its table: the config cannot be read" in checkup.not_examined


def test_its_table_is_on_postgresql(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.backend": "POSTGRESQL"})
    assert clinic.only_finding("authme.postgresql").severity == "broken"


def test_a_value_is_not_of_its_kind(clinic: Clinic) -> None:
    clinic.game.change_authme({"Purge.useAutoPurge": "false", "DataSource.backend": "ORACLE"})
    first, second = clinic.findings()
    assert first.id == second.id == "authme.ignored_value"
    assert "Purge.useAutoPurge" in first.title + second.title
    assert "DataSource.backend, ORACLE," in first.title + second.title


def test_caching_is_on(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.caching": True})
    finding = clinic.only_finding("authme.caching")
    assert finding.where == f"{clinic.game.authme_config}: DataSource.caching: false"


def test_caching_is_on_and_strangers_are_kicked(clinic: Clinic) -> None:
    clinic.game.change_authme({"DataSource.caching": True, "settings.restrictions.kickNonRegistered": True})
    assert "kickNonRegistered" in clinic.only_finding("authme.caching").title


@pytest.mark.parametrize("approval", [True, False])
def test_players_register_in_the_game_too(clinic: Clinic, approval: bool) -> None:
    clinic.game.change_authme({"settings.registration.enabled": True})
    clinic.change("registration", approval=approval)
    assert ("reviewed" in clinic.only_finding("authme.ingame_registration").title) == approval


def test_guests_may_play(clinic: Clinic) -> None:
    clinic.game.change_authme({"settings.registration.force": False})
    assert "force: true" in clinic.only_finding("authme.registration_not_forced").where
