"""AuthMe's hash algorithms: the passwords that each accepts for a stored hash, from `known_hashes.toml`."""

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin_bridge.hashers import HASHERS, HashedPassword, find_hasher, is_hashable
from plugin_bridge.hashers.digests import whirlpool
from tests.bridge.known_hashes import NAME, RIGHT, WRONG, Known, of
from tests.support.each import assert_each

NAME_COUNTS = {"SMF", "CRAZYCRYPT1"}
SALT_IS_NOT_LOOKED_AT = {"SMF", "IPB4"}
LENIENT_ABOUT_HEX = {"PBKDF2"}
WITH_SALT_COLUMN = sorted(name for name, hasher in HASHERS.items() if hasher.needs_salt_column)

BCRYPTS = ["BCRYPT", "BCRYPT2Y", "XFBCRYPT", "IPB4", "PHPBB"]
"""All of these accept each other's hashes."""

UNREADABLE = [
    "",
    "$",
    "$$$$$",
    "::test",
    "test",
    "a:",
    "$SHA$Test$$$$",
    "$2y$7a$da641e404b982ed",
    "$2a$99$" + "a" * 53,
    "$2a$10$" + "!" * 53,
    "$2" + "\n" * 58,
    "$P$B",
    "$H$9" + "é" * 30,
    "$argon2i$v=19$$$",
    "$argon2i$v=19$m=64,t=1,p=1$a$a",
    "pbkdf2_sha256$1$s$",
    "pbkdf2$1$a$a",
    "pbkdf2$1$====$====",
    "!locked!JFNIQSQ",
    "é" * 60,
    "\ud800",
    "a" * 256,
    "a$" * 100_000,
]
TOO_LONG = "é" * 513  # 1026 bytes

anything = st.text(st.characters(), max_size=80)  # lone surrogates too


def takes(known: Known, password: str | None = None, *, name: str = NAME) -> bool:
    """Return whether the algorithm accepts the password (by default the known one) for the known hash."""
    right = known.password if password is None else password
    return HASHERS[known.algorithm].verify(right, known.stored, name)


def with_hash(known: Known, hash_: str) -> Known:
    return replace(known, stored=HashedPassword(hash_, known.stored.salt))


def with_salt(known: Known, salt: str | None) -> Known:
    return replace(known, stored=HashedPassword(known.stored.hash, salt))


# --- every algorithm ---


def test_there_are_thirty_two_and_each_is_well_known() -> None:
    assert len(HASHERS) == 32
    right, wrong = Counter(one.algorithm for one in RIGHT), Counter(one.algorithm for one in WRONG)
    assert set(right) == set(wrong) == set(HASHERS)
    assert min(right.values()) >= 4
    for algorithm in HASHERS:
        passwords = [one.password for one in of(algorithm)]
        assert any(not password.isascii() for password in passwords), algorithm
        assert any(password != password.strip() for password in passwords), algorithm
        assert any(len(password.encode()) > 72 for password in passwords), algorithm


def test_it_takes_the_right_password() -> None:
    def check(known: Known) -> None:
        assert takes(known)

    assert_each(RIGHT, check)


def test_it_does_not_take_what_only_looks_right() -> None:
    def check(known: Known) -> None:
        assert not takes(known)

    assert_each(WRONG, check)


@pytest.mark.parametrize("algorithm", HASHERS)
class TestEveryAlgorithm:
    def test_other_passwords_are_wrong(self, algorithm: str) -> None:
        known = of(algorithm)[1]  # with spaces
        password = known.password
        for other in ("", password.strip(), password.upper(), password[:-1], password + " ", password + "x"):
            assert not takes(known, other)

    def test_what_was_done_to_the_hash_is_seen(self, algorithm: str) -> None:
        known = of(algorithm)[1]
        text = known.stored.hash
        changed = ["", text[:-3] + "!!!", text + text]
        if algorithm not in LENIENT_ABOUT_HEX:
            changed += [text + " ", *({text.swapcase(), text.upper(), text.lower()} - {text})]
        if not algorithm.startswith("PBKDF2"):  # which looks neither at its tag nor at the length of its key
            changed += [text[:-1], " " + text, "\0" + text]
        for hash_ in changed:
            assert not takes(with_hash(known, hash_)), hash_

    def test_the_case_of_the_name_does_not_count(self, algorithm: str) -> None:
        known = of(algorithm)[1]
        assert takes(known, name="ALICE")
        assert takes(known, name="alice")
        assert takes(known, name="Bob") == (algorithm not in NAME_COUNTS)

    def test_an_unreadable_hash_is_a_wrong_password(self, algorithm: str) -> None:
        def check(stored: tuple[str, str | None]) -> None:
            assert not HASHERS[algorithm].verify("secret1", HashedPassword(*stored), NAME)

        assert_each(product(UNREADABLE, (None, "", "salt", "\ud800")), check)

    def test_an_overlong_password_is_never_hashed(self, algorithm: str) -> None:
        for password in (TOO_LONG, "a" * 1025, "\udc80"):
            assert not takes(of(algorithm)[0], password)


def test_an_overlong_password_is_wrong_whatever_is_stored() -> None:
    stored = HashedPassword(hashlib.md5(TOO_LONG.encode()).hexdigest())
    assert not HASHERS["MD5"].verify(TOO_LONG, stored, NAME)
    assert is_hashable("é" * 512)
    assert not is_hashable(TOO_LONG)


@settings(max_examples=20, deadline=None)
@given(stored=anything, salt=st.none() | anything, password=anything, name=anything)
def test_no_stored_text_makes_an_algorithm_raise(stored: str, salt: str | None, password: str, name: str) -> None:
    for hasher in HASHERS.values():
        assert not hasher.verify(password, HashedPassword(stored, salt), name)


@settings(max_examples=20, deadline=None)
@given(known=st.sampled_from([one for one in RIGHT if len(one.password) > 20]), data=st.data())
def test_a_hash_with_a_hole_makes_no_algorithm_raise(known: Known, data: st.DataObject) -> None:
    text = known.stored.hash
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    for hasher in HASHERS.values():
        holed = HashedPassword(text[:start] + text[end:], known.stored.salt)
        assert hasher.verify(known.password, holed, NAME) in (True, False)


# --- salts in a column of their own ---


@pytest.mark.parametrize("algorithm", WITH_SALT_COLUMN)
class TestSeparateSalts:
    def test_where_the_salt_is_missing_no_password_is_right(self, algorithm: str) -> None:
        assert not any(takes(with_salt(known, None)) for known in of(algorithm))

    def test_the_salt_counts_to_the_letter(self, algorithm: str) -> None:
        known = of(algorithm)[1]
        salt = known.stored.salt
        assert salt
        for other in ("", salt + " ", salt[1:], "x" + salt, salt.swapcase() if salt.swapcase() != salt else "y"):
            assert takes(with_salt(known, other)) == (algorithm in SALT_IS_NOT_LOOKED_AT)


def test_an_empty_salt_is_a_salt() -> None:
    stored = HashedPassword(hashlib.sha512(b"secret1").hexdigest(), "")
    assert HASHERS["SALTEDSHA512"].verify("secret1", stored, NAME)


# --- features of some algorithms ---


@pytest.mark.parametrize("algorithm", BCRYPTS)
@pytest.mark.parametrize("version", ["2a", "2b", "2x", "2y"])
def test_every_bcrypt_takes_every_version(algorithm: str, version: str) -> None:
    known = of("BCRYPT")[1]
    stored = HashedPassword(f"${version}{known.stored.hash[3:]}", "any salt")
    assert HASHERS[algorithm].verify(known.password, stored, NAME)
    assert not HASHERS[algorithm].verify(known.password + "x", stored, NAME)


@pytest.mark.parametrize("algorithm", [*BCRYPTS, "WBB4"])
def test_of_a_password_bcrypt_takes_72_bytes_even_half_a_character(algorithm: str) -> None:
    known = next(one for one in of(algorithm) if len(one.password.encode()) > 72)
    same = known.password[:71] + "è"  # begins with the same byte as é
    assert takes(known, same)
    assert not takes(known, known.password[:71])
    assert not takes(known, known.password[:71] + "e")


@pytest.mark.parametrize("algorithm", ["PBKDF2DJANGO", "PHPFUSION"])
def test_any_six_characters_outside_ascii_are_any_other_six(algorithm: str) -> None:
    known = next(one for one in of(algorithm) if not one.password.isascii() and len(one.password) < 20)
    assert takes(known, "??????-???")
    assert takes(known, "日本日本日本-ñ€😀")
    assert not takes(known, "??????-????")


def test_phpbb_takes_all_that_phpbb_had_for_latin_letters() -> None:
    old = [one for one in of("PHPBB") if one.password == "Köln Straße"]
    assert {one.stored.hash[:3] for one in old} == {"$H$", "5f2"}
    for known in old:
        assert takes(known)
        assert not takes(known, "K?ln Stra?e")
    cyrillic = next(one for one in of("PHPBB") if one.password == "пароль")
    assert takes(cyrillic, "??????")


def test_wordpress_takes_both_tags() -> None:
    known = of("WORDPRESS")[1]
    assert known.stored.hash.startswith("$P$")
    assert takes(with_hash(known, "$H$" + known.stored.hash[3:]))


@pytest.mark.parametrize("salt", ["", "s", "any salt: é"])
def test_the_salt_inside_a_sha256_may_be_any_text(salt: str) -> None:
    inner = hashlib.sha256(b"secret1").hexdigest()
    stored = f"$SHA${salt}${hashlib.sha256((inner + salt).encode()).hexdigest()}"
    assert HASHERS["SHA256"].verify("secret1", HashedPassword(stored), NAME)


@pytest.mark.parametrize("salt", ["s", "any $alt é"])
def test_the_salt_inside_a_joomla_may_be_any_text_but_none(salt: str) -> None:
    stored = f"{hashlib.md5(('secret1' + salt).encode()).hexdigest()}:{salt}"
    assert HASHERS["JOOMLA"].verify("secret1", HashedPassword(stored), NAME)


@pytest.mark.parametrize("length", [20, 32, 64])
def test_a_pbkdf2_key_may_have_any_length_and_case(length: int) -> None:
    key = hashlib.pbkdf2_hmac("sha256", b"secret1", b"salt", 7, length).hex()
    for stored in (
        f"pbkdf2_sha256$7$salt${key}",
        f"pbkdf2_sha256$7$salt${key.upper()}",
        f"pbkdf2_sha256$007$salt${key}",
        f"whatever$7$salt${key}$$",
    ):
        assert HASHERS["PBKDF2"].verify("secret1", HashedPassword(stored), NAME)


def test_white_space_in_the_key_of_pbkdf2_is_ignored_and_no_other_is() -> None:
    known = of("PBKDF2")[1]
    tag, rounds, salt, key = known.stored.hash.split("$")
    for white in (" ", "\t", "\r\n", " \n \t"):
        for spaced in (key + white, white + key, key[:2] + white + key[2:5] + white + key[5:]):
            assert takes(with_hash(known, "$".join([tag, rounds, salt, spaced])))
    for other in ("\x0b", "\x0c", "\u00a0", "\u2003", "\0", "_"):
        assert not takes(with_hash(known, known.stored.hash + other))
    for parts in ([tag, rounds, salt, " "], [tag, rounds, salt, key, " "], [tag, rounds + " ", salt, key]):
        assert not takes(with_hash(known, "$".join(parts)))
    for algorithm in ("PBKDF2BASE64", "PBKDF2DJANGO"):
        known = of(algorithm)[1]
        assert not takes(with_hash(known, known.stored.hash + "\n"))


@pytest.mark.parametrize("rounds", ["ten", "0", "-1", "+1", " 1", "1_0", "", "²", "9" * 200])
def test_pbkdf2_rounds_are_a_plain_number(rounds: str) -> None:
    key = hashlib.pbkdf2_hmac("sha256", b"secret1", b"salt", 1, 32).hex()
    assert not HASHERS["PBKDF2"].verify("secret1", HashedPassword(f"pbkdf2_sha256${rounds}$salt${key}"), NAME)


@pytest.mark.parametrize("algorithm", ["PBKDF2BASE64", "PBKDF2DJANGO"])
def test_the_padding_of_base64_may_be_left_out(algorithm: str) -> None:
    known = of(algorithm)[1]
    assert known.stored.hash.endswith("=")
    assert takes(with_hash(known, known.stored.hash.replace("=", "")))
    assert takes(with_hash(known, known.stored.hash + "$"))
    assert not takes(with_hash(known, known.stored.hash + "="))


def test_argon2_minds_neither_the_order_of_the_costs_nor_the_version() -> None:
    known = next(one for one in of("ARGON2") if "$m=256,t=2,p=1$" in one.stored.hash)
    text = known.stored.hash
    assert takes(with_hash(known, text.replace("m=256,t=2,p=1", "p=1,m=256,t=2")))
    assert takes(with_hash(known, text.replace("v=19", "v=16")))


WHIRLPOOLS = {
    "": "19fa61d75522a4669b44e39c1d2e1726c530232130d407f89afee0964997f7a7"
    "3e83be698b288febcf88e3e03c4f0757ea8964e59b63d93708b138cc42a66eb3",
    "abc": "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c"
    "7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
    "1234567890" * 8: "466ef18babb0154d25b9d38a6414f5c08784372bccb204d6549c4afadb601429"
    "4d5bd8df2a6c44e538cd047b2681a51a2c60481e88c5a20b2c2a80cf3a9a083b",
}
"""Test vectors of ISO/IEC 10118-3: of no block, one and two."""


@pytest.mark.parametrize("text", WHIRLPOOLS)
def test_whirlpool_is_that_of_the_standard(text: str) -> None:
    assert whirlpool(text) == WHIRLPOOLS[text]
    assert HASHERS["WHIRLPOOL"].verify(text, HashedPassword(WHIRLPOOLS[text].upper()), NAME)


def test_letters_whose_low_bytes_are_the_same_are_one_to_xauth() -> None:
    known = next(one for one in of("XAUTH") if one.password == "Köln")
    assert takes(known, "\u014böln")  # a K with another high byte
    assert not takes(known, "Koln")


def test_an_algorithm_is_found_by_name_in_any_case() -> None:
    assert find_hasher("bcrypt2y") is HASHERS["BCRYPT2Y"]
    for none in ("NOCRYPT", "TWO_FACTOR", "CUSTOM", "PLAINTEXT", ""):
        assert find_hasher(none) is None


def test_a_hashed_password_does_not_show_its_secrets() -> None:
    assert repr(HashedPassword("the hash", "the salt")) == "HashedPassword()"
