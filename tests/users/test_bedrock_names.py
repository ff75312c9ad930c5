"""Players of the Bedrock edition are registered under the name that Floodgate gives them in the game."""

import pytest

from plugin_bridge.authme.rules import compile_pattern
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config, RegistrationSection
from regsvc.core.errors import InvalidField, InvalidUsername
from regsvc.users.credential_rules import BedrockNames, CredentialRules

PATTERN = compile_pattern("^[a-zA-Z0-9._-]{3,16}$")


def rules(prefix: str = ".", *, is_enabled: bool = True) -> CredentialRules:
    return CredentialRules(
        live=LiveConfig(Config(registration=RegistrationSection(reserved_names=(".Reserved",)))),
        bedrock=BedrockNames(is_enabled, prefix, PATTERN),
        operators=frozenset,
        has_authme=True,
    )


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Steve", ".Steve"),
        (".Steve", ".Steve"),
        ("Steve Smith", ".Steve_Smith"),
        (".Steve Smith", ".Steve_Smith"),
        ("SixteenLettersAB", ".SixteenLettersA"),
        ("x" * 15, "." + "x" * 15),
    ],
)
def test_a_gamertag_becomes_the_name_in_the_game(typed: str, name: str) -> None:
    assert rules().name_in_game(typed, "bedrock") == name
    rules().check_username(name, "bedrock")


def test_a_host_without_a_prefix_has_none() -> None:
    assert rules("").name_in_game("Steve Smith", "bedrock") == "Steve_Smith"


@pytest.mark.parametrize("typed", ["x" * 17, "Stev\u00e9", "Steve\n", "Steve;op", "a" * 65, "Steve\u202e"])
def test_what_is_no_gamertag_is_refused(typed: str) -> None:
    name = rules().name_in_game(typed, "bedrock")
    with pytest.raises(InvalidUsername):
        rules().check_username(name, "bedrock")


def test_names_of_the_java_edition_stay_as_they_are() -> None:
    assert rules().name_in_game("Steve Smith", "java") == "Steve Smith"
    with pytest.raises(InvalidUsername):
        rules().check_username(".Steve", "java")


def test_where_they_may_not_register_the_platform_is_refused() -> None:
    closed = rules(is_enabled=False)
    assert closed.name_in_game("Steve", "bedrock") == "Steve"
    with pytest.raises(InvalidField):
        closed.check_username("Steve", "bedrock")
