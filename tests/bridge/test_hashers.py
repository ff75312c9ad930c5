"""AuthMe's hash algorithms. The known hashes come from formulas written here, not from the tested code."""

import base64
import hashlib
import logging

import argon2.low_level
import bcrypt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin_bridge.hashers import (
    HASHERS,
    Bcrypt,
    HashedPassword,
    HashingConfig,
    PasswordHasher,
    UnhashablePassword,
    UnusableHashing,
    find_hasher,
    is_hashable,
    make_password_hasher,
)

PASSWORDS = ["secret1", "two words ", "пароль-日本😀", "", "a" * 80, "a" * 71 + "é", 'p$ss:w"rd']
UNREADABLE = [
    "",
    "$",
    "$$$$$",
    "::test",
    "test",
    "$SHA$Test$$$$",
    "$2y$7a$da641e404b982ed",
    "$2a$99$" + "a" * 53,
    "$2a$10$" + "!" * 53,
    "$argon2i$v=19$$$",
    "pbkdf2_sha256$1$s$",
    "!locked!JFNIQSQ",
    "é" * 60,
    "\ud800",
    "a" * 256,
    "a$" * 100_000,
]
TOO_LONG = "é" * 513  # 1026 bytes


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def known_sha256(password: str) -> HashedPassword:
    salt = "0123456789abcdef"
    return HashedPassword("$SHA$" + salt + "$" + sha256_text(sha256_text(password) + salt))


def known_bcrypt(password: str, version: str = "2a") -> HashedPassword:
    salt = b"$2b$04$KBCwKxOzLha2MUDgW0PjXe"
    return HashedPassword(f"${version}$" + bcrypt.hashpw(password.encode()[:72], salt).decode()[4:])


def known_bcrypt2y(password: str) -> HashedPassword:
    return known_bcrypt(password, "2y")


def known_pbkdf2(password: str, rounds: int = 10_000, length: int = 64) -> HashedPassword:
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), b"0123456789abcdef", rounds, length)
    return HashedPassword(f"pbkdf2_sha256${rounds}$0123456789abcdef${key.hex().upper()}")


def known_argon2(
    password: str, kind: argon2.low_level.Type = argon2.low_level.Type.I, memory: int = 64
) -> HashedPassword:
    secret, salt = password.encode(), b"0123456789abcdef"
    return HashedPassword(argon2.low_level.hash_secret(secret, salt, 2, memory, 1, 32, kind).decode())


def known_salted_sha512(password: str) -> HashedPassword:
    salt = "f" * 32
    return HashedPassword(hashlib.sha512(password.encode() + salt.encode()).hexdigest(), salt)


KNOWN = {
    "SHA256": known_sha256,
    "BCRYPT": known_bcrypt,
    "BCRYPT2Y": known_bcrypt2y,
    "PBKDF2": known_pbkdf2,
    "ARGON2": known_argon2,
    "SALTEDSHA512": known_salted_sha512,
}
BOTH_BCRYPTS = ["BCRYPT", "BCRYPT2Y"]


def verify(algorithm: str, password: str, stored: HashedPassword | str) -> bool:
    if isinstance(stored, str):
        stored = HashedPassword(stored, "salt")
    return HASHERS[algorithm].verify(password, stored, "Alice")


def test_every_algorithm_has_known_hashes() -> None:
    assert KNOWN.keys() == HASHERS.keys()


@pytest.mark.parametrize("algorithm", KNOWN)
class TestEveryAlgorithm:
    @pytest.mark.parametrize("password", PASSWORDS)
    def test_it_verifies_a_known_hash(self, algorithm: str, password: str) -> None:
        stored = KNOWN[algorithm](password)
        assert verify(algorithm, password, stored)
        assert not verify(algorithm, "x" + password, stored)

    def test_near_misses_are_wrong(self, algorithm: str) -> None:
        stored = KNOWN[algorithm]("Secret word")
        for wrong in ("secret word", "Secret wor", "Secret word ", "", "Secret\u00a0word"):
            assert not verify(algorithm, wrong, stored)

    def test_what_it_creates_verifies_for_any_case_of_the_name(self, algorithm: str) -> None:
        hasher = HASHERS[algorithm]
        stored = hasher.hash("пароль 1", "Alice")
        assert hasher.verify("пароль 1", stored, "ALICE")
        assert not hasher.verify("пароль 2", stored, "Alice")
        assert (stored.salt is not None) == hasher.needs_salt_column

    def test_each_hash_has_a_salt_of_its_own(self, algorithm: str) -> None:
        hasher = HASHERS[algorithm]
        assert hasher.hash("same", "alice") != hasher.hash("same", "bob")

    @pytest.mark.parametrize("stored", UNREADABLE)
    def test_an_unreadable_hash_is_a_wrong_password(self, algorithm: str, stored: str) -> None:
        assert not verify(algorithm, "secret1", stored)

    def test_an_overlong_password_is_never_hashed(self, algorithm: str) -> None:
        assert not verify(algorithm, TOO_LONG, KNOWN[algorithm](TOO_LONG))
        with pytest.raises(UnhashablePassword):
            HASHERS[algorithm].hash(TOO_LONG, "alice")

    def test_a_lone_surrogate_is_never_hashed(self, algorithm: str) -> None:
        assert not verify(algorithm, "\udc80", KNOWN[algorithm]("?"))
        with pytest.raises(UnhashablePassword):
            HASHERS[algorithm].hash("\udc80", "alice")


@pytest.mark.parametrize("algorithm", sorted(KNOWN.keys() - {"PBKDF2"}))
def test_another_case_of_the_stored_hash_is_another_hash(algorithm: str) -> None:
    stored = KNOWN[algorithm]("secret1")
    assert not verify(algorithm, "secret1", HashedPassword(stored.hash.swapcase(), stored.salt))


@settings(max_examples=200, deadline=None)
@given(stored=st.text(max_size=80), salt=st.none() | st.text(max_size=20), password=st.text(max_size=20))
def test_no_stored_text_makes_an_algorithm_raise(stored: str, salt: str | None, password: str) -> None:
    for hasher in HASHERS.values():
        assert not hasher.verify(password, HashedPassword(stored, salt), "alice")


class TestSha256:
    def test_the_form_is_authmes(self) -> None:
        empty, tag, salt, digest = HASHERS["SHA256"].hash("secret1", "alice").hash.split("$")
        assert (empty, tag, len(salt), len(digest)) == ("", "SHA", 16, 64)

    @pytest.mark.parametrize("salt", ["", "s", "any salt: é"])
    def test_a_salt_of_any_length_verifies(self, salt: str) -> None:
        assert verify("SHA256", "secret1", f"$SHA${salt}${sha256_text(sha256_text('secret1') + salt)}")

    def test_the_prefix_and_the_number_of_parts_count(self) -> None:
        stored = known_sha256("secret1").hash
        for wrong in (stored.lower(), stored + "$", stored + " ", stored + "$x", stored[1:], "x" + stored):
            assert not verify("SHA256", "secret1", wrong)


class TestBcrypt:
    @pytest.mark.parametrize("algorithm", BOTH_BCRYPTS)
    @pytest.mark.parametrize("version", ["2a", "2b", "2y", "2x"])
    def test_any_variant_verifies(self, algorithm: str, version: str) -> None:
        assert verify(algorithm, "secret1", known_bcrypt("secret1", version))

    @pytest.mark.parametrize("algorithm", BOTH_BCRYPTS)
    @pytest.mark.parametrize("version", ["2", "2c", "2A", "3a"])
    def test_other_versions_do_not(self, algorithm: str, version: str) -> None:
        assert not verify(algorithm, "secret1", known_bcrypt("secret1", version))

    def test_only_72_bytes_count(self) -> None:
        stored = HASHERS["BCRYPT2Y"].hash("a" * 71 + "é", "alice")
        assert verify("BCRYPT2Y", "a" * 71 + "éxyz", stored)
        assert not verify("BCRYPT2Y", "a" * 71, stored)

    def test_the_written_forms_are_authmes(self) -> None:
        assert Bcrypt(cost=4).hash("secret1", "alice").hash.startswith("$2a$04$")
        assert HASHERS["BCRYPT2Y"].hash("secret1", "alice").hash.startswith("$2y$10$")

    def test_a_cost_above_16_does_not_verify_and_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        stored = "$2a$17$" + known_bcrypt("secret1").hash[7:]
        assert not verify("BCRYPT", "secret1", stored)
        assert "cost 17" in caplog.text
        assert stored[7:] not in caplog.text


class TestPbkdf2:
    @pytest.mark.parametrize("length", [20, 32, 64])
    def test_the_key_may_have_any_length_and_case(self, length: int) -> None:
        stored = known_pbkdf2("secret1", rounds=7, length=length).hash
        assert verify("PBKDF2", "secret1", stored)
        assert verify("PBKDF2", "secret1", stored.lower())
        assert verify("PBKDF2", "secret1", stored + "$")
        assert verify("PBKDF2", "secret1", stored.replace("pbkdf2_sha256", "whatever"))

    def test_what_java_cannot_read_does_not_verify(self) -> None:
        stored = known_pbkdf2("secret1", rounds=1).hash
        for rounds in ("ten", "0", "-1", " 1", "1_0", "", "²", "9" * 200):
            assert not verify("PBKDF2", "secret1", stored.replace("$1$", f"${rounds}$"))
        assert not verify("PBKDF2", "secret1", stored[:-1])

    def test_a_django_hash_does_not_verify(self) -> None:
        key = hashlib.pbkdf2_hmac("sha256", b"secret1", b"salt", 10)
        assert not verify("PBKDF2", "secret1", f"pbkdf2_sha256$10$salt${base64.b64encode(key).decode()}")

    def test_too_many_rounds_do_not_verify_and_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        stored = known_pbkdf2("secret1", rounds=1).hash.replace("$1$", "$10000001$")
        assert not verify("PBKDF2", "secret1", stored)
        assert "10000001 rounds" in caplog.text
        assert stored[-64:] not in caplog.text

    def test_the_written_form_is_authmes(self) -> None:
        tag, rounds, salt, key = HASHERS["PBKDF2"].hash("secret1", "alice").hash.split("$")
        assert (tag, rounds, len(salt), len(key)) == ("pbkdf2_sha256", "10000", 16, 128)
        assert key == key.upper()


class TestArgon2:
    def test_the_written_form_is_authmes(self) -> None:
        stored = HASHERS["ARGON2"].hash("secret1", "alice").hash
        assert stored.startswith("$argon2i$v=19$m=65536,t=2,p=1$")
        assert len(stored) == 96

    @pytest.mark.parametrize("kind", [argon2.low_level.Type.D, argon2.low_level.Type.ID])
    def test_other_kinds_of_argon2_do_not_verify(self, kind: argon2.low_level.Type) -> None:
        assert not verify("ARGON2", "secret1", known_argon2("secret1", kind))

    def test_the_order_of_parameters_and_the_version_do_not_count(self) -> None:
        stored = known_argon2("secret1").hash
        assert verify("ARGON2", "secret1", stored.replace("m=64,t=2,p=1", "p=1,m=64,t=2"))
        assert verify("ARGON2", "secret1", stored.replace("v=19", "v=16"))
        assert not verify("ARGON2", "secret1", stored.replace("$v=19", ""))

    @pytest.mark.parametrize("costs", ["m=64,t=2", "m=64,t=2,m=64", "m=64,t=2,x=1", "m=64,t=0,p=1", "m=1,t=2,p=1"])
    def test_impossible_parameters_do_not_verify(self, costs: str) -> None:
        assert not verify("ARGON2", "secret1", known_argon2("secret1").hash.replace("m=64,t=2,p=1", costs))

    @pytest.mark.parametrize(
        "costs", ["m=1048577,t=1,p=1", "m=1048576,t=17,p=1", "m=64,t=9999999999,p=1", "m=64,t=2,p=65"]
    )
    def test_too_high_costs_do_not_verify_and_are_logged(self, costs: str, caplog: pytest.LogCaptureFixture) -> None:
        stored = known_argon2("secret1").hash
        assert not verify("ARGON2", "secret1", stored.replace("m=64,t=2,p=1", costs))
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert stored[-43:] not in caplog.text


class TestSaltedSha512:
    def test_without_a_salt_it_is_wrong(self) -> None:
        digest = hashlib.sha512(b"secret1").hexdigest()
        assert not verify("SALTEDSHA512", "secret1", HashedPassword(digest, None))
        assert verify("SALTEDSHA512", "secret1", HashedPassword(digest, ""))

    def test_the_case_of_the_salt_counts(self) -> None:
        stored = known_salted_sha512("secret1")
        assert not verify("SALTEDSHA512", "secret1", HashedPassword(stored.hash, "F" * 32))


class TestPasswordHasher:
    def test_the_configured_algorithm_needs_no_rehash(self) -> None:
        hasher = PasswordHasher(HASHERS["PBKDF2"], [HASHERS["SHA256"]])
        verdict = hasher.verify("secret1", hasher.hash("secret1", "alice"), "alice")
        assert verdict
        assert (hasher.algorithm, verdict.algorithm, verdict.needs_rehash) == ("PBKDF2", "PBKDF2", False)

    def test_a_legacy_hash_verifies_and_wants_to_be_rehashed(self) -> None:
        hasher = PasswordHasher(HASHERS["PBKDF2"], [HASHERS["BCRYPT"], HASHERS["SHA256"]])
        verdict = hasher.verify("secret1", known_sha256("secret1"), "alice")
        assert verdict
        assert (verdict.algorithm, verdict.needs_rehash) == ("SHA256", True)

    def test_a_hash_of_an_algorithm_in_neither_list_is_a_wrong_password(self) -> None:
        verdict = PasswordHasher(HASHERS["PBKDF2"]).verify("secret1", known_sha256("secret1"), "alice")
        assert not verdict
        assert verdict.algorithm is None

    def test_an_unknown_name_is_always_a_wrong_password(self) -> None:
        assert not PasswordHasher(HASHERS["SHA256"]).verify_nobody("secret1", "nobody")


class TestMakePasswordHasher:
    def test_it_uses_the_configured_costs(self) -> None:
        bcrypt_hasher = make_password_hasher(HashingConfig("BCRYPT", bcrypt_log2_rounds=4))
        assert bcrypt_hasher.hash("secret1", "alice").hash.startswith("$2a$04$")
        pbkdf2_hasher = make_password_hasher(HashingConfig("PBKDF2", pbkdf2_rounds=4128))
        assert "$4128$" in pbkdf2_hasher.hash("secret1", "alice").hash

    def test_no_rounds_mean_the_default(self) -> None:
        hasher = make_password_hasher(HashingConfig("PBKDF2", pbkdf2_rounds=0))
        assert "$10000$" in hasher.hash("secret1", "alice").hash

    def test_bcrypt2y_keeps_its_fixed_cost(self) -> None:
        hasher = make_password_hasher(HashingConfig("BCRYPT2Y", bcrypt_log2_rounds=4))
        assert hasher.hash("secret1", "alice").hash.startswith("$2y$10$")

    def test_it_refuses_a_separate_salt_without_a_column(self) -> None:
        with pytest.raises(UnusableHashing, match="mySQLColumnSalt"):
            make_password_hasher(HashingConfig("SALTEDSHA512"))
        assert make_password_hasher(HashingConfig("SALTEDSHA512", has_salt_column=True)).needs_salt_column

    @pytest.mark.parametrize(
        "config",
        [HashingConfig("TWO_FACTOR"), HashingConfig("CUSTOM"), HashingConfig("PLAINTEXT"), HashingConfig("X")]
        + [HashingConfig("BCRYPT", bcrypt_log2_rounds=cost) for cost in (3, 17)]
        + [HashingConfig("PBKDF2", pbkdf2_rounds=10_000_001)],
    )
    def test_it_refuses_what_cannot_work(self, config: HashingConfig) -> None:
        with pytest.raises(UnusableHashing):
            make_password_hasher(config)

    def test_an_unavailable_legacy_algorithm_is_left_out(self, caplog: pytest.LogCaptureFixture) -> None:
        hasher = make_password_hasher(HashingConfig("SHA256", legacy_hashes=("CUSTOM", "PBKDF2")))
        assert hasher.verify("secret1", known_pbkdf2("secret1"), "alice").algorithm == "PBKDF2"
        assert "CUSTOM" in caplog.text


def test_an_algorithm_is_found_by_name_in_any_case() -> None:
    assert find_hasher("bcrypt2y") is HASHERS["BCRYPT2Y"]
    assert find_hasher("WHIRLPOOL") is None


def test_a_hashed_password_does_not_show_its_secrets() -> None:
    assert repr(HashedPassword("the hash", "the salt")) == "HashedPassword()"


def test_the_longest_password_is_counted_in_bytes() -> None:
    assert is_hashable("é" * 512)
    assert not is_hashable(TOO_LONG)
