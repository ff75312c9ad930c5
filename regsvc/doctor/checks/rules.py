"""Checks of the rules for names and passwords that differ between the web and the game."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.rules import HostPattern, compile_java_pattern, compile_pattern
from regsvc.core.i18n.sentences import Sentence, join
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, Symptom, check

_NAME_KEY: Final = "settings.restrictions.allowedNicknameCharacters"
_LENGTH_KEY: Final = "settings.restrictions.maxNicknameLength"
_PASSWORD_KEY: Final = "settings.restrictions.allowedPasswordCharacters"  # noqa: S105 - a key of AuthMe's
_SUGGESTED_PATTERNS: Final = {_NAME_KEY: "[a-zA-Z0-9_]*", _PASSWORD_KEY: "[!-~]*"}
# Characters that hosts may allow besides letters and digits, tried one by one inside a name or a password.
_PROBE_CHARACTERS: Final = (*"""_-.+*~!?#$%&/\\|:;,'"`^<>=()[]{}@ """, "é", "ß", "ж", "字")
_LONGEST_BEDROCK_NAME: Final = 16  # Floodgate truncates prefix and name to this length


@check(
    "rules.unusable_pattern",
    Severity.RISKY,
    means="A regular expression in AuthMe's config is invalid, or uses features that only Java supports.",
    why="The web then allows every password, and the names of AuthMe's default; AuthMe allows everything if it is "
    "invalid there, too.",
    do="Use a simple one: one repeated set of characters.",
    where=FixLocation(Source.AUTHME, ", ".join(f"{key}: '{pattern}'" for key, pattern in _SUGGESTED_PATTERNS.items())),
)
def pattern_is_unusable(facts: Facts) -> Iterator[Symptom]:
    authme = facts.authme
    for key, pattern in ((_NAME_KEY, authme.name_rule.pattern), (_PASSWORD_KEY, authme.password_rule.pattern)):
        if pattern.is_substitute:
            where = facts.describe(FixLocation(Source.AUTHME, f"{key}: '{_SUGGESTED_PATTERNS[key]}'"))
            yield Symptom(Sentence("{key} cannot be used as a regular expression.", key=key), where=where)


@check(
    "rules.names",
    Severity.RISKY,
    means="registration.username_regex accepts names that AuthMe refuses.",
    why="Players can register and be approved, but are kicked when they join.",
    do='Set it to "" to use AuthMe\'s own rule, or allow these names in AuthMe.',
    where=FixLocation(Source.OURS, '[registration] username_regex = ""'),
)
def names_differ(facts: Facts) -> Iterator[Sentence]:
    ours = facts.config.registration.username_regex
    refused = _accepted_only_by_us(ours, facts.authme.name_rule.pattern)
    if refused:
        yield Sentence(
            "registration.username_regex accepts names with {characters}, and AuthMe's {key} does not.",
            characters=refused,
            key=_NAME_KEY,
        )


@check(
    "rules.passwords",
    Severity.RISKY,
    means="registration.password_regex accepts passwords that AuthMe refuses.",
    why="Such a password, set on the web, works in the game, but cannot be set there.",
    do='Set it to "" to use AuthMe\'s own rule, or allow these passwords in AuthMe.',
    where=FixLocation(Source.OURS, '[registration] password_regex = ""'),
)
def passwords_differ(facts: Facts) -> Iterator[Sentence]:
    ours = facts.config.registration.password_regex
    refused = _accepted_only_by_us(ours, facts.authme.password_rule.pattern)
    if refused:
        yield Sentence(
            "registration.password_regex accepts passwords with {characters}, and AuthMe's {key} does not.",
            characters=refused,
            key=_PASSWORD_KEY,
        )


@check(
    "bedrock.refused_by_authme",
    Severity.BROKEN,
    means="Bedrock players can register, but AuthMe's name rule refuses Floodgate's prefix or longest names.",
    why="They can register and be approved, but are kicked when they join.",
    do="Allow the prefix and 16 characters, and reload AuthMe.",
    where=FixLocation(
        Source.AUTHME,
        Sentence("{names}: '[a-zA-Z0-9_.]*' (with your prefix), {length}: 16", names=_NAME_KEY, length=_LENGTH_KEY),
    ),
)
def bedrock_names_are_refused(facts: Facts) -> Iterator[Sentence]:
    bedrock, rule = facts.config.bedrock, facts.authme.name_rule
    if not bedrock.enabled:
        return
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


@check(
    "bedrock.refused_by_us",
    Severity.BROKEN,
    means="Bedrock registration is enabled, but bedrock.username_regex refuses Floodgate's prefix.",
    why="Bedrock players cannot register.",
    do="Allow the prefix.",
    where=FixLocation(Source.OURS, Sentence('[bedrock] username_regex = "^[a-zA-Z0-9._-]{3,16}$" (with your prefix)')),
)
def bedrock_prefix_is_refused(facts: Facts) -> Iterator[Sentence]:
    bedrock = facts.config.bedrock
    if bedrock.enabled and not compile_pattern(bedrock.username_regex).matches(f"{bedrock.prefix}Steve"):
        yield Sentence("bedrock.username_regex does not accept the name {name}.", name=f"{bedrock.prefix}Steve")


@check(
    "bedrock.no_prefix",
    Severity.RISKY,
    means="Bedrock players can register, and their names have no prefix.",
    why="A Java player can take the name of a Bedrock player, and vice versa.",
    do="Set a prefix that no Java name can have, in Floodgate's config.yml (username-prefix) and here.",
    where=FixLocation(Source.OURS, '[bedrock] prefix = "."'),
)
def bedrock_has_no_prefix(facts: Facts) -> Iterator[Sentence]:
    if facts.config.bedrock.enabled and not facts.config.bedrock.prefix:
        yield Sentence('bedrock.prefix is "".')


CHECKS: Final[tuple[Check, ...]] = (
    *(pattern_is_unusable, names_differ, passwords_differ),
    *(bedrock_names_are_refused, bedrock_prefix_is_refused, bedrock_has_no_prefix),
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
