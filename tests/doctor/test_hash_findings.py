"""Findings about hash algorithms that AuthMe should not use."""

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.doctor_case import DoctorCase
from tests.support.each import assert_each

PASSWORD_HASH = "settings.security.passwordHash"
LEGACY_HASHES = "settings.security.legacyHashes"
ROUNDS = "ExternalBoardOptions.bCryptLog2Round"
FORK = "5.7.0-FORK-b53"

IMPOSSIBLE = [
    ("legacyHashes", "BCRPYT", None),
    ("passwordHash", "XAUTH", None),
    ("passwordHash", "BCRPYT", "6.0.1"),
    ("passwordHash", "XAUTH", "6.0.1"),
    ("legacyHashes", "WHIRLPOOL", "5.7.0"),
    ("passwordHash", "SALTEDSHA256", "5.6.0"),
]


def test_good_algorithms_are_not_spoken_of(doctor_case: DoctorCase) -> None:
    def check(name: str) -> None:
        doctor_case.game.change_authme({PASSWORD_HASH: name, ROUNDS: 12})
        assert doctor_case.findings() == []

    assert_each(["SHA256", "BCRYPT", "BCRYPT2Y", "PBKDF2", "PBKDF2BASE64", "ARGON2", "WBB4"], check)


def test_an_algorithm_that_would_be_a_guess(doctor_case: DoctorCase) -> None:
    def check(case: tuple[str, str, str | None]) -> None:
        key, name, version = case
        doctor_case.game.install_plugin(version)
        named = {PASSWORD_HASH: name} if key == "passwordHash" else {LEGACY_HASHES: [name]}
        doctor_case.game.change_authme({PASSWORD_HASH: "SHA256", LEGACY_HASHES: [], **named})
        finding = next(finding for finding in doctor_case.findings() if finding.id == "hash.impossible")
        assert finding.severity == "broken"
        assert f"settings.security.{key} names " in finding.title
        assert name in finding.title

    assert_each(IMPOSSIBLE, check)


def test_an_algorithm_that_the_next_version_does_not_have(doctor_case: DoctorCase) -> None:
    def check(version: str) -> None:
        doctor_case.game.install_plugin(version)
        doctor_case.game.change_authme({PASSWORD_HASH: "XAUTH", LEGACY_HASHES: ["WHIRLPOOL"]})
        finding = doctor_case.only_finding("hash.weak", beside="authme.known_hole")
        assert "XAUTH" in finding.title
        assert "legacyHashes" in finding.do
        doctor_case.game.change_authme({PASSWORD_HASH: "BCRYPT", ROUNDS: 12})
        doctor_case.only_finding("authme.known_hole")

    assert_each(["5.6.0-beta2", FORK], check)


def test_a_host_may_say_what_no_jar_says(doctor_case: DoctorCase) -> None:
    doctor_case.game.install_plugin(None)
    doctor_case.game.change_authme({PASSWORD_HASH: "XAUTH"})
    doctor_case.change("authme", password_hash="XAUTH")
    doctor_case.only_finding("hash.weak")


def test_passwords_that_are_not_hashed_would_open_locks(doctor_case: DoctorCase) -> None:
    doctor_case.game.install_plugin(FORK)
    for named in ({PASSWORD_HASH: "NOCRYPT"}, {PASSWORD_HASH: "SHA256", LEGACY_HASHES: ["NOCRYPT"]}):
        doctor_case.game.change_authme(named)
        finding = doctor_case.only_finding("hash.impossible", beside="authme.known_hole")
        assert finding.severity == "broken"
        words = "NOCRYPT: the column then holds the passwords themselves, and banned players could log in"
        assert words in finding.title


def test_an_algorithm_that_nobody_else_has(doctor_case: DoctorCase) -> None:
    def check(name: str) -> None:
        doctor_case.game.change_authme({PASSWORD_HASH: name})
        finding = doctor_case.only_finding("hash.impossible")
        assert (finding.severity, name in finding.title) == ("broken", True)

    assert_each(["TWO_FACTOR", "CUSTOM", "PLAINTEXT"], check)


def test_a_cost_out_of_bounds(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({PASSWORD_HASH: "BCRYPT", ROUNDS: 31})
    finding = doctor_case.only_finding("hash.impossible")
    assert "bCryptLog2Round" in finding.title
    assert finding.where.endswith(f": {ROUNDS}: 12")


def test_a_salt_without_a_column(doctor_case: DoctorCase) -> None:
    for name in ("SALTEDSHA512", "SALTEDSHA256", "DOUBLE_SHA512"):
        doctor_case.game.change_authme({PASSWORD_HASH: name})
        assert doctor_case.only_finding("hash.no_salt_column").where.endswith("DataSource.mySQLColumnSalt: salt")


@pytest.mark.parametrize("database_kind", ["sqlite", "mariadb"])
def test_xenforos_algorithm(doctor_case: DoctorCase, database_kind: DatabaseKind) -> None:
    doctor_case.game.change_authme({PASSWORD_HASH: "XFBCRYPT", LEGACY_HASHES: ["SHA256"]})
    finding = doctor_case.only_finding("hash.forum" if database_kind == "sqlite" else "hash.impossible")
    assert "XFBCRYPT" in finding.title
    if database_kind == "mariadb":
        assert "locks would keep no banned, rejected or pending player out of the game" in finding.title
    doctor_case.game.change_authme({PASSWORD_HASH: "SHA256", LEGACY_HASHES: ["XFBCRYPT"]})
    assert doctor_case.findings() == []


def test_a_weak_algorithm_or_a_forums(doctor_case: DoctorCase) -> None:
    def check(name: str) -> None:
        doctor_case.game.change_authme({PASSWORD_HASH: name})
        finding = doctor_case.only_finding("hash.weak", beside="authme.known_hole")
        assert name in finding.title
        assert "legacyHashes" in finding.do

    assert_each(["CMW", "ROYALAUTH", "CRAZYCRYPT1", "JOOMLA", "MD5VB"], check)
    doctor_case.game.install_plugin("5.6.0-beta2")
    assert_each(["MD5", "sha1", "SHA512", "DOUBLEMD5", "WHIRLPOOL"], check)  # which AuthMe no longer makes
    for name in ("PHPBB", "WORDPRESS"):
        doctor_case.game.change_authme({PASSWORD_HASH: name})
        assert name in doctor_case.only_finding("hash.forum", beside="authme.known_hole").title


def test_a_cheap_one(doctor_case: DoctorCase) -> None:
    rounds = "settings.security.pbkdf2Rounds"
    for name, key, value in (("BCRYPT", ROUNDS, 5), ("PBKDF2", rounds, 1000), ("PBKDF2BASE64", rounds, 1)):
        doctor_case.game.change_authme({PASSWORD_HASH: name, key: value})
        finding = doctor_case.only_finding("hash.weak")
        assert finding.title == f"{key} is {value}."
        assert f": {key}: 1" in finding.where


def test_characters_that_are_all_one(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({PASSWORD_HASH: "PBKDF2DJANGO"})
    assert doctor_case.findings() == []
    doctor_case.game.change_authme({"settings.restrictions.allowedPasswordCharacters": ".*"})
    assert "PBKDF2DJANGO" in doctor_case.only_finding("hash.weak").title


def test_old_hashes_that_nothing_verifies(doctor_case: DoctorCase) -> None:
    for name in ("TWO_FACTOR", "SALTEDSHA512"):
        doctor_case.game.change_authme({LEGACY_HASHES: ["MD5", name]})
        assert name in doctor_case.only_finding("hash.legacy_unusable").title
