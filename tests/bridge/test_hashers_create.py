"""New hashes: in AuthMe's form, verified as AuthMe would (see `known_hashes.toml`), each with a salt of its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin_bridge.hashers import HASHERS, Hasher, UnhashablePassword, UnusableAlgorithm
from plugin_bridge.hashers.digests import salted2md5
from plugin_bridge.hashers.slow_hashes import bcrypt_hasher, pbkdf2, pbkdf2_base64, phpbb
from tests.bridge.hash_forms import FORMS

DEPRECATED = ["MD5", "DOUBLEMD5", "SHA1", "SHA512", "WHIRLPOOL"]
ASCII_ONLY = ["PBKDF2DJANGO", "PHPFUSION", "XAUTH"]
WITHOUT_RANDOM_SALT = ["CRAZYCRYPT1", "ROYALAUTH", "CMW"]
MAKERS = [name for name in HASHERS if name not in DEPRECATED]

CHEAP: dict[str, Hasher] = {name: HASHERS[name] for name in MAKERS} | {
    "BCRYPT": bcrypt_hasher("BCRYPT", 4),
    "BCRYPT2Y": bcrypt_hasher("BCRYPT2Y", 4, "$2y$"),
    "XFBCRYPT": bcrypt_hasher("XFBCRYPT", 4),
    "IPB4": bcrypt_hasher("IPB4", 4, needs_salt_column=True),
    "PHPBB": phpbb(4),
    "PBKDF2": pbkdf2(5),
    "PBKDF2BASE64": pbkdf2_base64(5),
}
SLOW = {"ARGON2", "WBB4", "WORDPRESS", "PBKDF2DJANGO"}
"""Their costs are fixed."""


# HMAC, inside PBKDF2, and bcrypt fill a short key up with zero bytes: "a" and "a\0" are the same password to them.
passwords = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100)


def significant(algorithm: str, password: str) -> bytes:
    """Return the part of a password that the algorithm distinguishes."""
    if algorithm in ASCII_ONLY:
        return password.encode("ascii", "replace")
    return password.encode()[:72] if FORMS[algorithm].hash.startswith(r"\$2") else password.encode()


def test_every_algorithm_has_a_form_or_is_deprecated() -> None:
    assert set(FORMS) == set(MAKERS)


@pytest.mark.parametrize("algorithm", MAKERS)
class TestEveryMaker:
    def test_the_form_is_authmes_and_the_salt_a_new_one(self, algorithm: str) -> None:
        first, second = (HASHERS[algorithm].hash("secret1", "Alice") for _number in range(2))
        assert FORMS[algorithm].fits(first)
        assert FORMS[algorithm].fits(second)
        assert (first.hash == second.hash) == (algorithm in [*WITHOUT_RANDOM_SALT, "SMF"])
        assert (first.salt is not None) == HASHERS[algorithm].needs_salt_column
        if first.salt is not None:
            assert first.salt != second.salt
        if algorithm == "IPB4":  # which writes the salt twice, and verifies with that in the hash
            assert first.salt == first.hash[7:29]

    def test_characters_outside_ascii_are_told_apart_or_refused(self, algorithm: str) -> None:
        password, other = "пароль-日本😀", "фароль-日本😀"
        if algorithm in ASCII_ONLY:
            with pytest.raises(UnhashablePassword, match=algorithm):
                HASHERS[algorithm].hash(password, "alice")
            return
        stored = CHEAP[algorithm].hash(password, "alice")
        assert CHEAP[algorithm].verify(password, stored, "Alice")
        assert not CHEAP[algorithm].verify(other, stored, "Alice")

    def test_what_cannot_be_hashed_is_refused(self, algorithm: str) -> None:
        for password in ("é" * 513, "\udc80"):
            with pytest.raises(UnhashablePassword):
                HASHERS[algorithm].hash(password, "alice")


def check_round_trip(algorithm: str, password: str, other: str) -> None:
    hasher = CHEAP[algorithm]
    if hasher.is_ascii_only and not password.isascii():
        with pytest.raises(UnhashablePassword):
            hasher.hash(password, "alice")
        return
    stored = hasher.hash(password, "alice")
    assert hasher.verify(password, stored, "Alice")
    is_same = significant(algorithm, password) == significant(algorithm, other)
    assert hasher.verify(other, stored, "Alice") == is_same


@settings(max_examples=15, deadline=None)
@given(password=passwords, other=passwords)
@pytest.mark.parametrize("algorithm", [name for name in MAKERS if name not in SLOW])
def test_what_it_makes_is_of_this_password_and_no_other(algorithm: str, password: str, other: str) -> None:
    check_round_trip(algorithm, password, other)


@settings(max_examples=3, deadline=None)
@given(password=passwords, other=passwords)
@pytest.mark.parametrize("algorithm", sorted(SLOW))
def test_what_a_slow_one_makes_is_of_this_password_and_no_other(algorithm: str, password: str, other: str) -> None:
    check_round_trip(algorithm, password, other)


@pytest.mark.parametrize("algorithm", DEPRECATED)
def test_what_authme_does_not_make_any_more_is_not_made(algorithm: str) -> None:
    with pytest.raises(UnusableAlgorithm, match=algorithm):
        HASHERS[algorithm].hash("secret1", "alice")


def test_xauth_makes_no_hash_that_has_no_place_for_its_salt() -> None:
    hasher = HASHERS["XAUTH"]
    assert hasher.verify("a" * 127, hasher.hash("a" * 127, "alice"), "alice")
    with pytest.raises(UnhashablePassword):
        hasher.hash("a" * 128, "alice")


@pytest.mark.parametrize("length", [0, 1, 7, 8, 255])
def test_salted2md5_makes_a_salt_as_long_as_it_is_told(length: int) -> None:
    stored = salted2md5(length).hash("secret1", "alice")
    assert len(stored.salt or "") == length
    assert HASHERS["SALTED2MD5"].verify("secret1", stored, "alice")


def test_a_name_in_the_hash_is_the_lower_case_one() -> None:
    for algorithm in ("SMF", "CRAZYCRYPT1"):
        stored = HASHERS[algorithm].hash("secret1", "ALICE")
        assert HASHERS[algorithm].verify("secret1", stored, "aLiCe")
        assert not HASHERS[algorithm].verify("secret1", stored, "bob")
