"""Findings about rules for names and passwords that differ between web and game, also for Bedrock players."""

from tests.support.doctor_case import DoctorCase

NAMES = "settings.restrictions.allowedNicknameCharacters"


def test_an_expression_that_cannot_be_used(doctor_case: DoctorCase) -> None:
    keys = ["allowedNicknameCharacters", "allowedPasswordCharacters"]
    doctor_case.game.change_authme({f"settings.restrictions.{key}": "[a-z" for key in keys})
    for finding, key in zip(doctor_case.findings(), keys, strict=True):
        assert finding.id == "rules.unusable_pattern"
        assert key in finding.title
        assert key in finding.where


def test_names_and_passwords_that_the_game_refuses(doctor_case: DoctorCase) -> None:
    doctor_case.change("registration", username_regex="[a-zA-Z0-9_-]{3,16}")
    assert "names with -, and" in doctor_case.only_finding("rules.differ").title
    doctor_case.change("registration", username_regex="[a-z0-9]{3,16}")
    assert doctor_case.findings() == []
    doctor_case.change("registration", password_regex=".{8,}")
    title = doctor_case.only_finding("rules.differ").title
    assert "with a space or é or ß" in title


def test_bedrock_names_that_authme_refuses(doctor_case: DoctorCase) -> None:
    doctor_case.change("bedrock", enabled=True)
    for changes, why in (
        ({}, "refuses the characters"),  # the default rule does not allow a dot
        ({NAMES: "[a-zA-Z0-9_.]*", "settings.restrictions.maxNicknameLength": 12}, "requires 3 to 12 characters"),
    ):
        doctor_case.game.change_authme(changes)
        finding = doctor_case.only_finding("bedrock.names")
        assert (finding.severity, why in finding.title) == ("broken", True)
    doctor_case.game.change_authme({NAMES: "[a-zA-Z0-9_.]*", "settings.restrictions.maxNicknameLength": 16})
    assert doctor_case.findings() == []


def test_a_bedrock_prefix_that_we_refuse(doctor_case: DoctorCase) -> None:
    doctor_case.change("bedrock", enabled=True, prefix="*")
    doctor_case.game.change_authme({NAMES: "[a-zA-Z0-9_*]*"})
    finding = doctor_case.only_finding("bedrock.names")
    assert (finding.severity, "*Steve" in finding.title) == ("broken", True)
    assert "username_regex" in finding.where
    doctor_case.change("bedrock", prefix="")
    finding = doctor_case.only_finding("bedrock.names")
    assert (finding.severity, finding.title) == ("risky", 'bedrock.prefix is "".')
