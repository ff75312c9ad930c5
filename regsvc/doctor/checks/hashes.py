"""Checks of AuthMe's hash algorithms: unusable, weak and cheap ones."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import LEGACY_HASHES_KEY, PASSWORD_HASH_KEY, AuthMeConfig
from plugin_bridge.hashers import (
    HASHERS,
    UNSUPPORTED,
    UnusableAlgorithm,
    find_hasher,
    find_unknown_algorithm,
    make_password_hasher,
)
from plugin_bridge.server.versions import REMOVED_ALGORITHMS
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, Symptom, check

_BETTER: Final = "BCRYPT, ARGON2 or PBKDF2"
_SETTING: Final = FixLocation(Source.AUTHME, f"{PASSWORD_HASH_KEY}: BCRYPT")
_MIGRATE_HASHES: Final = (
    f"Choose {_BETTER} and add the old one to {LEGACY_HASHES_KEY}: passwords stay valid, "
    "and each is rehashed at its next use."
)
# One or two rounds of MD5 or SHA-1, or no individual salt: a graphics card tries billions of these per second.
_WEAK: Final = frozenset(
    {
        *("CMW", "ROYALAUTH", "SMF", "CRAZYCRYPT1", "PHPFUSION"),
        *("SALTED2MD5", "MYBB", "IPB3", "WBB3", "JOOMLA", "MD5VB"),
    }
)
_FEWEST_BCRYPT_ROUNDS: Final = 10
_FEWEST_PBKDF2_ROUNDS: Final = 10_000
_BCRYPT_KEY: Final = "ExternalBoardOptions.bCryptLog2Round"
_PBKDF2_KEY: Final = "settings.security.pbkdf2Rounds"
# Defaults of AuthMe's config.
_DEFAULTS: Final = {_BCRYPT_KEY: 12, _PBKDF2_KEY: 10_000, "settings.security.doubleMD5SaltLength": 8}
_PBKDF2: Final = frozenset({"PBKDF2", "PBKDF2BASE64"})


@check(
    "hash.unknown",
    Severity.BROKEN,
    means="The keys passwordHash or legacyHashes name an algorithm that the companion does not know, or that the "
    "installed version of AuthMe does not have, or may not have.",
    why="The companion does not start (exit status 78): with another algorithm than AuthMe's, passwords set on the web "
    "would not work in the game.",
    do=f"Choose one that AuthMe has, such as {_BETTER}, or follow the finding.",
    where=_SETTING,
)
def algorithm_is_unknown(facts: Facts) -> Iterator[Sentence]:
    reason = find_unknown_algorithm(facts.authme.hashing)
    if reason is not None:
        yield _cannot_hash(reason)


@check(
    "hash.deprecated",
    Severity.RISKY,
    means="AuthMe no longer creates hashes with the configured algorithm: MD5, SHA1, SHA512, DOUBLEMD5, WHIRLPOOL, and "
    "from version 5.7 on XAUTH.",
    why="AuthMe rewrites its config at start and uses SHA256. Unsalted hashes can be looked up in public tables, and "
    "those of XAUTH and WHIRLPOOL are lost with an upgrade to 5.7 or newer.",
    do=_MIGRATE_HASHES,
    where=_SETTING,
)
def algorithm_is_deprecated(facts: Facts) -> Iterator[Sentence]:
    for name in _ignored(facts.authme, PASSWORD_HASH_KEY):
        if name:
            yield _algorithm_is(name)
    if facts.authme.password_hash in REMOVED_ALGORITHMS and find_unknown_algorithm(facts.authme.hashing) is None:
        yield _algorithm_is(facts.authme.password_hash)


@check(
    "hash.impossible",
    Severity.BROKEN,
    means="The companion cannot hash as AuthMe is configured: TWO_FACTOR, CUSTOM, PLAINTEXT, NOCRYPT (as a "
    "legacy algorithm, too), XFBCRYPT on MySQL or MariaDB, or a cost out of range.",
    why="The companion does not start (exit status 78): passwords and locks it wrote would not work in the game.",
    do=f"Choose {_BETTER}, with a normal cost.",
    where=_SETTING,
)
def algorithm_is_impossible(facts: Facts) -> Iterator[Symptom]:
    reason = _unusable_reason(facts.authme)
    if reason is None:
        return
    title = _cannot_hash(reason)
    key = reason.partition(" ")[0]
    if key in _DEFAULTS:
        yield Symptom(title, do=Sentence("Go back to AuthMe's default."), where=_at(facts, key))
    elif find_hasher(facts.authme.password_hash) is not None:
        # a forum's: another algorithm in its table would keep the forum's users out
        yield Symptom(
            title, do=Sentence("Give AuthMe a table of its own, and choose {algorithms}.", algorithms=_BETTER)
        )
    else:
        yield Symptom(title)


@check(
    "hash.no_salt_column",
    Severity.BROKEN,
    means="The algorithm stores its salt in a separate column, and DataSource.mySQLColumnSalt is empty.",
    why="AuthMe discards the salt, so passwords set this way can never be verified.",
    do=f"Name a column, which AuthMe adds when the game server starts; or choose {_BETTER}, which need none.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLColumnSalt: salt"),
)
def salt_has_no_column(facts: Facts) -> Iterator[Sentence]:
    hasher = find_hasher(facts.authme.password_hash)
    if hasher is not None and hasher.needs_salt_column and not facts.authme.columns.salt:
        yield Sentence(
            "{key} is {algorithm}, and there is no salt column.", key=PASSWORD_HASH_KEY, algorithm=hasher.name
        )


@check(
    "hash.forum",
    Severity.RISKY,
    means="The algorithm belongs to a forum (PHPBB, WORDPRESS, IPB4; XFBCRYPT on SQLite), and so does AuthMe's table.",
    why="Passwords are verified, but players cannot be added: a forum user needs more rows than we can write.",
    do="Let players register in the forum, or give AuthMe a separate table and another algorithm.",
    where=_SETTING,
)
def algorithm_is_of_a_forum(facts: Facts) -> Iterator[Sentence]:
    hasher = find_hasher(facts.authme.password_hash)
    if hasher is not None and hasher.uses_forum_table and _unusable_reason(facts.authme) is None:
        yield _algorithm_is(hasher.name)


@check(
    "hash.weak",
    Severity.RISKY,
    means="The algorithm is weak: a few rounds of MD5 or SHA-1, or no salt.",
    why="An attacker with a copy of the table recovers most passwords within hours.",
    do=_MIGRATE_HASHES,
    where=_SETTING,
)
def algorithm_is_weak(facts: Facts) -> Iterator[Sentence]:
    if facts.authme.password_hash in _WEAK:
        yield _algorithm_is(facts.authme.password_hash)


@check(
    "hash.cheap",
    Severity.RISKY,
    means="The algorithm is good, but its cost is too low.",
    why="The cost is what slows down an attacker with a copy of the table.",
    do="Raise it to AuthMe's default. Existing hashes keep their cost until the password changes.",
    where=FixLocation(Source.AUTHME, ", ".join(f"{key}: {_DEFAULTS[key]}" for key in (_BCRYPT_KEY, _PBKDF2_KEY))),
)
def algorithm_is_cheap(facts: Facts) -> Iterator[Symptom]:
    authme = facts.authme
    if (
        find_hasher(authme.password_hash) is HASHERS["BCRYPT"]
        and 4 <= authme.bcrypt_log2_rounds < _FEWEST_BCRYPT_ROUNDS
    ):
        yield _cost_is(facts, _BCRYPT_KEY, authme.bcrypt_log2_rounds)
    if authme.password_hash in _PBKDF2 and 0 < authme.pbkdf2_rounds < _FEWEST_PBKDF2_ROUNDS:
        yield _cost_is(facts, _PBKDF2_KEY, authme.pbkdf2_rounds)


@check(
    "hash.ascii_only",
    Severity.RISKY,
    means="The algorithm confuses non-ASCII characters with others, and AuthMe allows them in passwords.",
    why="Any six Cyrillic letters may be the same password as any other six, or Ł the same as A. The web refuses such "
    "passwords.",
    do="Allow ASCII only, or choose another algorithm.",
    where=FixLocation(Source.AUTHME, "settings.restrictions.allowedPasswordCharacters: '[!-~]*'"),
)
def algorithm_is_ascii_only(facts: Facts) -> Iterator[Sentence]:
    authme = facts.authme
    hasher = find_hasher(authme.password_hash)
    if hasher is not None and hasher.is_ascii_only and authme.password_rule.pattern.matches("пароль"):
        yield Sentence(
            "{key} is {algorithm}, and allowedPasswordCharacters allows more than ASCII.",
            key=PASSWORD_HASH_KEY,
            algorithm=hasher.name,
        )


@check(
    "hash.legacy_unusable",
    Severity.RISKY,
    means="The key legacyHashes names an algorithm that cannot be used for verification.",
    why="Players with such hashes cannot log in.",
    do="Remove it. An algorithm with a separate salt needs DataSource.mySQLColumnSalt.",
    where=FixLocation(Source.AUTHME, LEGACY_HASHES_KEY),
)
def legacy_is_unusable(facts: Facts) -> Iterator[Sentence]:
    for name in facts.authme.legacy_hashes:
        hasher = find_hasher(name)
        if name in UNSUPPORTED and name != "NOCRYPT":
            yield Sentence(
                "{key} contains {name}, which the companion cannot verify.", key=LEGACY_HASHES_KEY, name=name
            )
        elif hasher is not None and hasher.needs_salt_column and not facts.authme.columns.salt:
            yield Sentence("{key} contains {name}, and there is no salt column.", key=LEGACY_HASHES_KEY, name=name)


CHECKS: Final[tuple[Check, ...]] = (
    *(algorithm_is_unknown, algorithm_is_deprecated, algorithm_is_impossible, salt_has_no_column),
    *(algorithm_is_of_a_forum, algorithm_is_weak, algorithm_is_cheap, algorithm_is_ascii_only, legacy_is_unusable),
)


def _cannot_hash(reason: str) -> Sentence:
    return Sentence("Passwords cannot be hashed as AuthMe is configured: {reason}", reason=reason)


def _algorithm_is(name: str) -> Sentence:
    return Sentence("{key} is {name}.", key=PASSWORD_HASH_KEY, name=name)


def _cost_is(facts: Facts, key: str, cost: int) -> Symptom:
    return Symptom(Sentence("{key} is {cost}.", key=key, cost=cost), where=_at(facts, key))


def _at(facts: Facts, key: str) -> str:
    """Describe a key of `_DEFAULTS` with its default value."""
    return facts.describe(FixLocation(Source.AUTHME, f"{key}: {_DEFAULTS[key]}"))


def _ignored(authme: AuthMeConfig, key: str) -> list[str]:
    """Return the values of this key that AuthMe ignores; "" for those that are not text."""
    return [ignored.written for ignored in authme.ignored if ignored.key == key]


def _unusable_reason(authme: AuthMeConfig) -> str | None:
    """Return why AuthMe's hashing is unusable, though known, or None. Hashes nothing, since that may take seconds."""
    hasher = find_hasher(authme.password_hash)
    if find_unknown_algorithm(authme.hashing) is not None:
        return None
    try:
        if hasher is None or "NOCRYPT" in authme.legacy_hashes:
            make_password_hasher(authme.hashing)  # raises before it hashes
        else:
            hasher.with_parameters(authme.hashing)
    except UnusableAlgorithm as error:
        return str(error)
    return None
