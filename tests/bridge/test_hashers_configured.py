"""The configured password check: the configured algorithm, the legacy ones, and those that cannot be used."""

import pytest

from plugin_bridge.hashers import (
    HASHERS,
    HashedPassword,
    HashingConfig,
    PasswordHasher,
    UnusableAlgorithm,
    make_password_hasher,
)
from plugin_bridge.hashers.slow_hashes import bcrypt_hasher
from tests.bridge.known_hashes import NAME, of

OF_FORUMS = ["PHPBB", "WORDPRESS", "IPB4", "XFBCRYPT"]
DEPRECATED = ["MD5", "DOUBLEMD5", "SHA1", "SHA512", "WHIRLPOOL"]
SEPARATE = [name for name, hasher in HASHERS.items() if hasher.needs_salt_column]
PASSWORD = "correct horse"


def stored_as(algorithm: str) -> HashedPassword:
    return of(algorithm)[0].stored


class TestPasswordHasher:
    def test_the_configured_algorithm_needs_no_rehash(self) -> None:
        hasher = PasswordHasher(HASHERS["PBKDF2"], [HASHERS["SHA256"]])
        verdict = hasher.verify(PASSWORD, hasher.configured.hash(PASSWORD, NAME), NAME)
        assert verdict
        assert (hasher.configured.name, verdict.algorithm, verdict.needs_rehash) == ("PBKDF2", "PBKDF2", False)
        assert hasher.rehash(PASSWORD, verdict, NAME) is None

    def test_another_cost_is_no_reason_to_rehash(self) -> None:
        verdict = PasswordHasher(bcrypt_hasher("BCRYPT", 5)).verify(" two  spaces ", of("BCRYPT")[1].stored, NAME)
        assert verdict
        assert not verdict.needs_rehash

    def test_a_legacy_hash_is_made_anew_by_the_configured_algorithm(self) -> None:
        hasher = PasswordHasher(HASHERS["SALTEDSHA512"], [HASHERS["PBKDF2"], HASHERS["SHA256"]])
        verdict = hasher.verify(PASSWORD, stored_as("SHA256"), NAME)
        assert verdict
        assert (verdict.algorithm, verdict.needs_rehash) == ("SHA256", True)
        made = hasher.rehash(PASSWORD, verdict, NAME)
        assert made is not None
        assert HASHERS["SALTEDSHA512"].verify(PASSWORD, made, NAME)
        assert not hasher.verify(PASSWORD, made, NAME).needs_rehash

    def test_what_may_be_a_rehash(self) -> None:
        """A hash that got the form of new ones; not the other way, and not within one form."""
        ours, theirs = ([stored_as(name), HASHERS[name].hash("other", NAME)] for name in ("SALTEDSHA512", "SHA256"))
        hasher = PasswordHasher(HASHERS["SALTEDSHA512"], [HASHERS["SHA256"]])
        assert all(hasher.may_have_rehashed(before, after) for before in theirs for after in ours)
        assert not any(hasher.may_have_rehashed(before, after) for before in ours for after in (*ours, *theirs))
        assert not hasher.may_have_rehashed(*theirs)
        assert not PasswordHasher(HASHERS["SALTEDSHA512"]).may_have_rehashed(theirs[0], ours[0]), "there is none"

    def test_few_algorithms_cannot_be_told_apart(self) -> None:
        """Between those of a group, a rehash looks like another password."""
        alike = dict.fromkeys(("ROYALAUTH", "CRAZYCRYPT1"), 1) | dict.fromkeys(("DOUBLE_SHA512", "SALTEDSHA512"), 2)
        alike |= dict.fromkeys(("SALTED2MD5", "MYBB"), 3) | dict.fromkeys(("BCRYPT", "XFBCRYPT", "WBB4"), 4)
        alike |= dict.fromkeys(("BCRYPT2Y", "PHPBB"), 5)
        names = [name for name, hasher in HASHERS.items() if not hasher.is_deprecated]
        hashes = {name: HASHERS[name].hash(PASSWORD, NAME) for name in names}
        for new in names:
            hasher = PasswordHasher(HASHERS[new], [HASHERS["SHA256" if new == "PBKDF2" else "PBKDF2"]])
            for old in names:
                is_seen = new != old and alike.get(new, new) != alike.get(old, old)
                assert hasher.may_have_rehashed(hashes[old], hashes[new]) == is_seen, (old, new)

    def test_legacy_ones_are_asked_in_their_order(self) -> None:
        md5_too = HashedPassword(stored_as("MD5").hash)
        for first, second in (("MD5", "PHPBB"), ("PHPBB", "MD5")):
            hasher = PasswordHasher(HASHERS["SHA256"], [HASHERS[first], HASHERS[second]])
            assert hasher.algorithms == ("SHA256", first, second)
            assert hasher.verify(PASSWORD, md5_too, NAME).algorithm == first

    def test_a_hash_that_authme_throws_at_does_not_keep_the_legacy_ones_from_it(self) -> None:
        hasher = PasswordHasher(HASHERS["PBKDF2"], [HASHERS["PBKDF2DJANGO"]])
        assert hasher.verify(PASSWORD, stored_as("PBKDF2DJANGO"), NAME).algorithm == "PBKDF2DJANGO"

    def test_a_hash_of_an_algorithm_in_neither_list_is_a_wrong_password(self) -> None:
        hasher = PasswordHasher(HASHERS["PBKDF2"])
        verdict = hasher.verify(PASSWORD, stored_as("SHA256"), NAME)
        assert not verdict
        assert verdict.algorithm is None
        assert hasher.rehash(PASSWORD, verdict, NAME) is None

    def test_what_the_configured_algorithm_cannot_tell_apart_keeps_its_legacy_hash(self) -> None:
        cyrillic = of("SHA256")[2]
        hasher = PasswordHasher(HASHERS["PBKDF2DJANGO"], [HASHERS["SHA256"]])
        verdict = hasher.verify(cyrillic.password, cyrillic.stored, NAME)
        assert verdict.needs_rehash
        assert hasher.rehash(cyrillic.password, verdict, NAME) is None
        assert hasher.configured.is_ascii_only

    def test_an_unknown_name_is_always_a_wrong_password(self) -> None:
        assert not PasswordHasher(HASHERS["SHA256"]).verify_dummy(PASSWORD, "nobody")


class TestMakePasswordHasher:
    def test_it_uses_the_configured_costs(self) -> None:
        made = {
            "BCRYPT": HashingConfig("BCRYPT", bcrypt_log2_rounds=4),
            "PBKDF2": HashingConfig("PBKDF2", pbkdf2_rounds=4128),
            "PBKDF2BASE64": HashingConfig("PBKDF2BASE64", pbkdf2_rounds=4128),
        }
        hashes = {
            name: make_password_hasher(config).configured.hash(PASSWORD, NAME).hash for name, config in made.items()
        }
        assert hashes["BCRYPT"].startswith("$2a$04$")
        assert hashes["PBKDF2"].startswith("pbkdf2_sha256$4128$")
        assert hashes["PBKDF2BASE64"].startswith("pbkdf2$4128$")
        salted = make_password_hasher(HashingConfig("SALTED2MD5", double_md5_salt_length=20, has_salt_column=True))
        assert len(salted.configured.hash(PASSWORD, NAME).salt or "") == 20

    @pytest.mark.parametrize(("algorithm", "rounds"), [("PBKDF2", 10_000), ("PBKDF2BASE64", 120_000)])
    def test_no_rounds_mean_the_algorithms_own(self, algorithm: str, rounds: int) -> None:
        for none in (0, -1):
            hasher = make_password_hasher(HashingConfig(algorithm, pbkdf2_rounds=none))
            assert f"${rounds}$" in hasher.configured.hash(PASSWORD, NAME).hash

    @pytest.mark.parametrize("algorithm", ["BCRYPT2Y", "PBKDF2DJANGO", "WBB4"])
    def test_others_have_no_costs_to_configure(self, algorithm: str) -> None:
        config = HashingConfig(algorithm, bcrypt_log2_rounds=4, pbkdf2_rounds=7)
        text = make_password_hasher(config).configured.hash(PASSWORD, NAME).hash
        assert text.startswith(("$2y$10$", "pbkdf2_sha256$24000$", "$2a$08$"))

    @pytest.mark.parametrize("algorithm", [name for name in HASHERS if name not in DEPRECATED])
    def test_every_algorithm_that_makes_hashes_can_be_configured(self, algorithm: str) -> None:
        hasher = make_password_hasher(HashingConfig(algorithm.lower(), bcrypt_log2_rounds=4, has_salt_column=True))
        assert hasher.configured.name == algorithm
        assert hasher.verify(PASSWORD, stored_as(algorithm), NAME).algorithm == algorithm
        assert hasher.configured.uses_forum_table == (algorithm in OF_FORUMS)

    @pytest.mark.parametrize("algorithm", OF_FORUMS)
    def test_a_forums_algorithm_is_told(self, algorithm: str, caplog: pytest.LogCaptureFixture) -> None:
        hasher = make_password_hasher(HashingConfig(algorithm, has_salt_column=True))
        assert hasher.verify(PASSWORD, stored_as(algorithm), NAME)
        assert f"settings.security.passwordHash is {algorithm}: the table belongs to a forum" in caplog.text

    def test_xenforo_is_refused_where_authme_reads_its_hash_from_another_table(self) -> None:
        with pytest.raises(UnusableAlgorithm, match=r"^settings\.security\.passwordHash is XFBCRYPT: .*locks.*\.$"):
            make_password_hasher(HashingConfig("XFBCRYPT", has_forum_extension=True))
        assert make_password_hasher(HashingConfig("XFBCRYPT")).configured.name == "XFBCRYPT"

    @pytest.mark.parametrize("algorithm", ["PHPBB", "WORDPRESS", "IPB4"])
    def test_forums_whose_hash_is_in_authmes_own_column_are_not(self, algorithm: str) -> None:
        config = HashingConfig(algorithm, has_salt_column=True, has_forum_extension=True)
        assert make_password_hasher(config).configured.name == algorithm

    def test_old_hashes_of_xenforo_are_verified_everywhere(self) -> None:
        """AuthMe chooses the extension by the configured algorithm alone."""
        config = HashingConfig("SHA256", legacy_hashes=("XFBCRYPT",), has_forum_extension=True)
        assert make_password_hasher(config).algorithms == ("SHA256", "XFBCRYPT")

    @pytest.mark.parametrize("algorithm", SEPARATE)
    def test_it_refuses_a_separate_salt_without_a_column(self, algorithm: str) -> None:
        with pytest.raises(UnusableAlgorithm, match=rf"passwordHash is {algorithm}: .* DataSource\.mySQLColumnSalt"):
            make_password_hasher(HashingConfig(algorithm))
        assert make_password_hasher(HashingConfig(algorithm, has_salt_column=True)).configured.needs_salt_column

    @pytest.mark.parametrize("algorithm", DEPRECATED)
    def test_it_refuses_to_make_what_authme_does_not_make(self, algorithm: str) -> None:
        with pytest.raises(
            UnusableAlgorithm, match=rf"passwordHash is {algorithm}: .* settings\.security\.legacyHashes"
        ):
            make_password_hasher(HashingConfig(algorithm))
        legacy = make_password_hasher(HashingConfig("SHA256", legacy_hashes=(algorithm,)))
        assert legacy.verify(PASSWORD, stored_as(algorithm), NAME).algorithm == algorithm

    @pytest.mark.parametrize("algorithm", ["TWO_FACTOR", "CUSTOM", "PLAINTEXT", "NOCRYPT", "two_factor"])
    def test_it_refuses_what_is_no_algorithm(self, algorithm: str) -> None:
        with pytest.raises(UnusableAlgorithm, match=rf"^settings\.security\.passwordHash is {algorithm}: .*\.$"):
            make_password_hasher(HashingConfig(algorithm, has_salt_column=True))

    @pytest.mark.parametrize("name", ["BCRPYT", "", "ARGON3"])
    def test_it_refuses_to_guess_what_an_unknown_name_means(self, name: str) -> None:
        for key, config in (
            ("passwordHash", HashingConfig(name)),
            ("legacyHashes", HashingConfig("SHA256", legacy_hashes=("MD5", name))),
        ):
            with pytest.raises(UnusableAlgorithm, match=rf"^settings\.security\.{key} names '{name}': .*remove it\.$"):
                make_password_hasher(config)

    def test_it_refuses_what_the_installed_authme_does_not_have(self) -> None:
        absent = {"XAUTH": "no such thing", "PBKDF2BASE64": "too old"}
        with pytest.raises(UnusableAlgorithm, match=r"^settings\.security\.passwordHash names XAUTH: no such thing\.$"):
            make_password_hasher(HashingConfig("XAUTH", absent=absent))
        with pytest.raises(UnusableAlgorithm, match=r"legacyHashes names PBKDF2BASE64: too old\.$"):
            make_password_hasher(HashingConfig("SHA256", legacy_hashes=("PBKDF2BASE64",), absent=absent))
        assert make_password_hasher(HashingConfig("XAUTH")).configured.name == "XAUTH"

    def test_it_refuses_nocrypt_among_the_legacy_ones_since_the_text_of_a_lock_would_be_a_password(self) -> None:
        with pytest.raises(UnusableAlgorithm, match=r"legacyHashes has NOCRYPT: .*banned players could log in.*\.$"):
            make_password_hasher(HashingConfig("SHA256", legacy_hashes=("MD5", "NOCRYPT")))

    @pytest.mark.parametrize(
        ("config", "key"),
        [
            (HashingConfig("BCRYPT", bcrypt_log2_rounds=3), "bCryptLog2Round"),
            (HashingConfig("BCRYPT", bcrypt_log2_rounds=17), "bCryptLog2Round"),
            (HashingConfig("PBKDF2", pbkdf2_rounds=10_000_001), "pbkdf2Rounds"),
            (HashingConfig("PBKDF2BASE64", pbkdf2_rounds=10_000_001), "pbkdf2Rounds"),
            (HashingConfig("SALTED2MD5", double_md5_salt_length=-1, has_salt_column=True), "doubleMD5SaltLength"),
            (HashingConfig("SALTED2MD5", double_md5_salt_length=256, has_salt_column=True), "doubleMD5SaltLength"),
        ],
    )
    def test_it_refuses_an_impossible_cost(self, config: HashingConfig, key: str) -> None:
        with pytest.raises(UnusableAlgorithm, match=key):
            make_password_hasher(config)

    def test_a_legacy_algorithm_that_cannot_be_used_is_left_out_and_told(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        legacy = ("CUSTOM", "SMF", "PBKDF2")
        hasher = make_password_hasher(HashingConfig("SHA256", legacy_hashes=legacy))
        assert hasher.algorithms == ("SHA256", "PBKDF2")
        assert "settings.security.legacyHashes has CUSTOM" in caplog.text
        assert "DataSource.mySQLColumnSalt" in caplog.text
