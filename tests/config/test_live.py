"""The config in force while the process runs: services read it at each use, and a failed change changes nothing."""

from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.rules import DEFAULT_NAME_RULE, NameRule, PasswordRule
from regsvc.auth.hashing import HashPool, PasswordHashing
from regsvc.config.live import LiveConfig, TeamSettings
from regsvc.config.sections import Config, ConfigError, RegistrationSection
from regsvc.core.clock import now
from regsvc.database.audit import Actor
from tests.support.meanwhile import meanwhile
from tests.support.services import ServiceHarness

SHA256 = AuthMeConfig(password_hash="SHA256")


def test_without_authme_its_defaults_apply() -> None:
    rules = LiveConfig(Config()).authme
    assert (rules.names, rules.algorithms, rules.may_provision) == (DEFAULT_NAME_RULE, frozenset(), True)


def test_the_current_config_is_replaced_whole() -> None:
    config = Config(registration=RegistrationSection(open=False))
    live = LiveConfig(config)
    before = live.current
    live.apply(replace(config, registration=RegistrationSection(open=True)))
    assert (before.registration.open, live.current.registration.open) == (False, True)


def test_a_config_and_a_setting_that_come_at_the_same_time_are_both_in_force() -> None:
    """SIGHUP lets the daemon look for both, on two threads."""
    live, reload = LiveConfig(Config()), Config(registration=RegistrationSection(username_regex="^[a-z]+$"))
    other = Thread(target=live.apply, args=(reload,))

    class Texts(dict[str, str]):
        def items(self) -> Any:
            if not other.ident:
                other.start()
                other.join(0.3)  # which is over at once if it does not wait for us
            return super().items()

    live.apply_settings(TeamSettings(announcements=Texts(en="Back soon")), now())
    other.join()
    assert live.announcement_for("en") == "Back soon"
    assert live.current.registration.username_regex == "^[a-z]+$"


@pytest.mark.every_database
def test_of_two_that_load_the_settings_the_later_is_in_force(services: ServiceHarness) -> None:
    """Olivia closes registration just when a job puts in force what it has read before."""
    settings, worker = services.app.settings, services.app.worker

    def close() -> None:
        worker.run_here(settings.set_registration, False, None, Actor("Olivia"))
        worker.close_here()

    other = Thread(target=close)

    def close_meanwhile() -> None:
        other.start()
        other.join(0.3)  # which is over at once if it does not wait for us

    with meanwhile(services.app.live, "apply_settings", close_meanwhile):
        worker.run_here(settings.load)
    other.join()
    worker.run_here(settings.follow)
    assert not services.app.live.current.registration.open


def test_rules_follow_authmes_config() -> None:
    live = LiveConfig(Config(), SHA256)
    before = live.authme
    live.apply_authme(replace(SHA256, name_rule=NameRule(min_length=5), caching=False))
    assert (before.names.min_length, live.authme.names.min_length) == (DEFAULT_NAME_RULE.min_length, 5)
    assert (before.is_cached, live.authme.is_cached) == (True, False)


def test_our_own_patterns_stay_in_place_of_authmes() -> None:
    config = Config(registration=RegistrationSection(username_regex="^[a-z]+$", password_regex="^.{9,}$"))
    live = LiveConfig(config, SHA256)
    live.apply_authme(replace(SHA256, password_rule=PasswordRule(min_length=6)))
    assert live.authme.names.validate("Alice") is not None
    assert (live.authme.passwords.regex, live.authme.passwords.min_length) == ("^.{9,}$", 6)


def test_a_config_that_cannot_be_used_changes_nothing() -> None:
    live = LiveConfig(Config(), SHA256)
    before = live.authme
    for unusable in (
        AuthMeConfig(password_hash="NO_SUCH_ALGORITHM"),
        AuthMeConfig(password_hash="XAUTH"),
        AuthMeConfig(password_hash="XAUTH", version="6.0.1"),
        AuthMeConfig(legacy_hashes=("NO_SUCH_ALGORITHM",)),
        AuthMeConfig(legacy_hashes=("NOCRYPT",), version="5.7.0-FORK-b53"),
    ):
        with pytest.raises(ConfigError):
            live.apply_authme(replace(unusable, name_rule=NameRule(min_length=5)))
        assert live.authme is before


def test_passwords_are_no_longer_than_authmes_algorithm_takes() -> None:
    rule = PasswordRule(max_length=200)
    assert LiveConfig(Config(), replace(SHA256, password_rule=rule)).authme.passwords.max_length == 200
    xauth = AuthMeConfig(password_hash="XAUTH", password_rule=rule, version="5.6.0")
    rules = LiveConfig(Config(), xauth).authme
    assert (rules.passwords.max_length, rules.passwords.is_ascii_only) == (127, True)


def test_passwords_are_hashed_with_the_current_algorithm() -> None:
    live, pool = LiveConfig(Config(), SHA256), HashPool(threads=1, max_waiting=0)
    hashing = PasswordHashing(live, pool)
    before = hashing.hash("a-good-password", "Alice")
    live.apply_authme(replace(SHA256, password_hash="PBKDF2"))
    after = hashing.hash("a-good-password", "Alice")
    pool.close()
    assert (before.algorithm, after.algorithm) == ("SHA256", "PBKDF2")
    assert all(hashing.verify("a-good-password", stored, "Alice") for stored in (before, after))
