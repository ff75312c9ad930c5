"""Checks of what AuthMe allows: hash algorithms, names and passwords, names of Bedrock players."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import LEGACY_HASHES_KEY, PASSWORD_HASH_KEY, AuthMeConfig
from plugin_bridge.authme.rules import HostPattern, compile_java_pattern, compile_pattern
from plugin_bridge.hashers import (
    HASHERS,
    UNSUPPORTED,
    UnusableAlgorithm,
    find_hasher,
    find_unknown_algorithm,
    make_password_hasher,
)
from plugin_bridge.server.versions import REMOVED_ALGORITHMS
from regsvc.core.i18n import Sentence, join
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Severity, Symptom, check

_BETTER: Final = "BCRYPT, ARGON2 or PBKDF2"
_SETTING: Final = FixLocation(Source.AUTHME, f"{PASSWORD_HASH_KEY}: BCRYPT")
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
_NAME_KEY: Final = "settings.restrictions.allowedNicknameCharacters"
_LENGTH_KEY: Final = "settings.restrictions.maxNicknameLength"
_PASSWORD_KEY: Final = "settings.restrictions.allowedPasswordCharacters"  # noqa: S105 - a key of AuthMe's
_SUGGESTED_PATTERNS: Final = {_NAME_KEY: "[a-zA-Z0-9_]*", _PASSWORD_KEY: "[!-~]*"}
# Characters that hosts may allow besides letters and digits, tried one by one inside a name or a password.
_PROBE_CHARACTERS: Final = (*"""_-.+*~!?#$%&/\\|:;,'"`^<>=()[]{}@ """, "é", "ß", "ж", "字")
_LONGEST_BEDROCK_NAME: Final = 16  # Floodgate truncates prefix and name to this length


@check(
    "hash.impossible",
    Severity.BROKEN,
    means="The companion cannot hash as AuthMe is configured: passwordHash or legacyHashes name an algorithm that it "
    "does not know, or that the installed version of AuthMe does not have, or may not have; TWO_FACTOR, CUSTOM, "
    "PLAINTEXT, NOCRYPT (as a legacy algorithm, too); XFBCRYPT on MySQL or MariaDB; or a cost out of range.",
    why="The companion does not start (exit status 78): passwords and locks it wrote would not work in the game.",
    do=f"Choose {_BETTER}, with a normal cost.",
    where=_SETTING,
)
def algorithm_is_impossible(facts: Facts) -> Iterator[Symptom]:
    unknown = find_unknown_algorithm(facts.authme.hashing)
    reason = unknown or _unusable_reason(facts.authme)
    if reason is None:
        return
    title = Sentence("Passwords cannot be hashed as AuthMe is configured: {reason}", reason=reason)
    if unknown is not None:
        do = Sentence("Choose one that AuthMe has, such as {algorithms}, or follow the finding.", algorithms=_BETTER)
        yield Symptom(title, do)
        return
    key = reason.partition(" ")[0]
    if key in _DEFAULTS:
        yield Symptom(title, do=Sentence("Go back to AuthMe’s default."), where=_at(key))
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
    means="The algorithm belongs to a forum (PHPBB, WORDPRESS, IPB4; XFBCRYPT on SQLite), and so does AuthMe’s table.",
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
    means="The algorithm is weak: AuthMe no longer creates hashes with it (MD5, SHA1, SHA512, DOUBLEMD5, WHIRLPOOL, "
    "and from version 5.7 on XAUTH); it is a few rounds of MD5 or SHA-1, or without a salt; its cost is too low; or it "
    "confuses non-ASCII characters, which AuthMe allows in passwords.",
    why="An attacker with a copy of the table recovers most passwords within hours.",
    do=f"Choose {_BETTER} and add the old one to {LEGACY_HASHES_KEY}: passwords stay valid, and each is rehashed at "
    "its next use.",
    where=_SETTING,
)
def algorithm_is_weak(facts: Facts) -> Iterator[Sentence | Symptom]:
    authme, name = facts.authme, facts.authme.password_hash
    hasher = find_hasher(name)
    removed = [ignored.written for ignored in authme.ignored if ignored.key == PASSWORD_HASH_KEY and ignored.written]
    if name in REMOVED_ALGORITHMS and find_unknown_algorithm(authme.hashing) is None:
        removed.append(name)
    for algorithm in removed:
        yield Sentence(
            "{key} is {algorithm}: AuthMe rewrites its config at start and uses SHA256, and the hashes of XAUTH and "
            "WHIRLPOOL are lost with an upgrade to 5.7 or newer.",
            key=PASSWORD_HASH_KEY,
            algorithm=algorithm,
        )
    if name in _WEAK:
        yield _algorithm_is(name)
    costs = (
        (hasher is HASHERS["BCRYPT"], _BCRYPT_KEY, authme.bcrypt_log2_rounds, range(4, _FEWEST_BCRYPT_ROUNDS)),
        (name in _PBKDF2, _PBKDF2_KEY, authme.pbkdf2_rounds, range(1, _FEWEST_PBKDF2_ROUNDS)),
    )
    for is_used, key, cost, too_low in costs:
        if is_used and cost in too_low:
            yield Symptom(
                Sentence("{key} is {cost}.", key=key, cost=cost),
                Sentence("Raise it to AuthMe’s default. Existing hashes keep their cost until the password changes."),
                _at(key),
            )
    if hasher is not None and hasher.is_ascii_only and authme.password_rule.pattern.matches("пароль"):
        yield Symptom(
            Sentence(
                "{key} is {algorithm}, for which any six Cyrillic letters may be the same password as any other six, "
                "or Ł the same as A, and allowedPasswordCharacters allows them.",
                key=PASSWORD_HASH_KEY,
                algorithm=hasher.name,
            ),
            Sentence("Allow ASCII only, or choose another algorithm."),
            FixLocation(Source.AUTHME, f"{_PASSWORD_KEY}: '{_SUGGESTED_PATTERNS[_PASSWORD_KEY]}'"),
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


def _algorithm_is(name: str) -> Sentence:
    return Sentence("{key} is {name}.", key=PASSWORD_HASH_KEY, name=name)


def _at(key: str) -> FixLocation:
    """Return the place of a key of `_DEFAULTS`, with its default value."""
    return FixLocation(Source.AUTHME, f"{key}: {_DEFAULTS[key]}")


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


@check(
    "rules.unusable_pattern",
    Severity.RISKY,
    means="A regular expression in AuthMe’s config is invalid, or uses features that only Java supports.",
    why="The web then allows every password, and the names of AuthMe’s default; AuthMe allows everything if it is "
    "invalid there, too.",
    do="Use a simple one: one repeated set of characters.",
    where=FixLocation(Source.AUTHME, ", ".join(f"{key}: '{pattern}'" for key, pattern in _SUGGESTED_PATTERNS.items())),
)
def pattern_is_unusable(facts: Facts) -> Iterator[Symptom]:
    authme = facts.authme
    for key, pattern in ((_NAME_KEY, authme.name_rule.pattern), (_PASSWORD_KEY, authme.password_rule.pattern)):
        if pattern.is_substitute:
            where = FixLocation(Source.AUTHME, f"{key}: '{_SUGGESTED_PATTERNS[key]}'")
            yield Symptom(Sentence("{key} cannot be used as a regular expression.", key=key), where=where)


@check(
    "rules.differ",
    Severity.RISKY,
    means="registration.username_regex or password_regex accepts names or passwords that AuthMe refuses.",
    why="Players with such a name can register and be approved, but are kicked when they join. Such a password, set on "
    "the web, works in the game, but cannot be set there.",
    do='Set it to "" to use AuthMe’s own rule, or allow them in AuthMe.',
    where=FixLocation(Source.OURS, '[registration] username_regex = "", password_regex = ""'),
)
def rules_differ(facts: Facts) -> Iterator[Sentence]:
    ours, authme = facts.config.registration, facts.authme
    refused = _accepted_only_by_us(ours.username_regex, authme.name_rule.pattern)
    if refused:
        yield Sentence(
            "registration.username_regex accepts names with {characters}, and AuthMe’s {key} does not.",
            characters=refused,
            key=_NAME_KEY,
        )
    refused = _accepted_only_by_us(ours.password_regex, authme.password_rule.pattern)
    if refused:
        yield Sentence(
            "registration.password_regex accepts passwords with {characters}, and AuthMe’s {key} does not.",
            characters=refused,
            key=_PASSWORD_KEY,
        )


@check(
    "bedrock.names",
    Severity.BROKEN,
    means="Bedrock players can register, but bedrock.username_regex or AuthMe’s name rule refuses Floodgate’s prefix "
    "or longest names; or, only risky, their names have no prefix.",
    why="They cannot register, or they can and are kicked when they join. Without a prefix, a Java player can take "
    "the name of a Bedrock player, and vice versa.",
    do="Allow the prefix and 16 characters, and reload AuthMe.",
    where=FixLocation(
        Source.AUTHME,
        Sentence("{names}: '[a-zA-Z0-9_.]*' (with your prefix), {length}: 16", names=_NAME_KEY, length=_LENGTH_KEY),
    ),
)
def bedrock_names_are_refused(facts: Facts) -> Iterator[Sentence | Symptom]:
    bedrock = facts.config.bedrock
    if not bedrock.enabled:
        return
    if not bedrock.prefix:
        yield Symptom(
            Sentence('bedrock.prefix is "".'),
            Sentence("Set a prefix that no Java name can have, in Floodgate’s config.yml (username-prefix) and here."),
            FixLocation(Source.OURS, '[bedrock] prefix = "."'),
            Severity.RISKY,
        )
    name = f"{bedrock.prefix}Steve"
    if not compile_pattern(bedrock.username_regex).matches(name):
        key = Sentence('[bedrock] username_regex = "^[a-zA-Z0-9._-]{3,16}$" (with your prefix)')
        yield Symptom(
            Sentence("bedrock.username_regex does not accept the name {name}.", name=name),
            Sentence("Allow the prefix."),
            FixLocation(Source.OURS, key),
        )
    rule = facts.authme.name_rule
    name = f"{bedrock.prefix}Steve_the_Second"[:_LONGEST_BEDROCK_NAME]
    fault = rule.validate(name)
    if fault == "forbidden_characters":
        yield Sentence(
            "Bedrock players have names such as {name}, but AuthMe refuses the characters ({key} is {pattern}).",
            name=name,
            key=_NAME_KEY,
            pattern=rule.pattern.text,
        )
    elif fault is not None:
        yield Sentence(
            "Bedrock players have names such as {name}, but AuthMe requires {min} to {max} characters.",
            name=name,
            min=rule.min_length,
            max=rule.max_length,
        )


def _accepted_only_by_us(ours: str, theirs: HostPattern) -> Sentence | None:
    """Return the characters that only our expression accepts; None if there are none, or if we have no expression."""
    if not ours:
        return None
    pattern = compile_java_pattern(ours, "ours", theirs)
    words = {character: f"abcd12{character}345" for character in _PROBE_CHARACTERS}
    refused = [name for name, word in words.items() if pattern.matches(word) and not theirs.matches(word)]
    named = [Sentence("a space") if one == " " else Sentence("{character}", character=one) for one in refused]
    return join(named, "{first} or {next}") if named else None
