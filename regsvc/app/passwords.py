"""Everything about passwords, wired."""

import dataclasses
import os
from dataclasses import dataclass

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.patterns import compile_pattern
from plugin_bridge.authme.rules import (
    DEFAULT_NAME_RULE,
    DEFAULT_PASSWORD_RULE,
    NameRule,
    PasswordRule,
    compile_java_pattern,
)
from plugin_bridge.hashers import PasswordHasher, UnusableAlgorithm, make_password_hasher
from regsvc.app.context import AppContext
from regsvc.auth.hashing import HashPool, PasswordHashing
from regsvc.config.sections import Config, ConfigError
from regsvc.users.name_rules import BedrockNames, InputRules


@dataclass(frozen=True)
class PasswordParts:
    """Everything about passwords: how they are hashed, where, and which ones are taken."""

    pool: HashPool
    hashing: PasswordHashing
    rules: InputRules
    names: NameRule
    password_rule: PasswordRule
    algorithms: frozenset[str]
    may_provision: bool
    """Whether AuthMe's table takes rows of ours; False where it is a forum's own table of users."""


def wire_passwords(context: AppContext) -> PasswordParts:
    config = context.config
    hasher = _hasher(context.authme)
    names, password_rule = _rules(config, context.authme, hasher)
    rules = InputRules(
        names=names,
        passwords=password_rule,
        bedrock=BedrockNames(
            config.bedrock.enabled, config.bedrock.prefix, compile_pattern(config.bedrock.username_regex)
        ),
        reserved_names=config.registration.reserved_names,
        operators=context.ops.names,
        password_mode=config.registration.password,
    )
    algorithms = frozenset(hasher.algorithms) if hasher else frozenset()
    pool = HashPool(_hash_threads(config), config.auth.max_waiting_hashes)
    may_provision = hasher is None or hasher.may_provision
    return PasswordParts(pool, PasswordHashing(hasher), rules, names, password_rule, algorithms, may_provision)


def apply_authme_config(parts: PasswordParts, config: Config, authme: AuthMeConfig) -> PasswordParts:
    """The same room with AuthMe's config as it is now. Raises `ConfigError`, and nothing has changed then."""
    hasher = _hasher(authme)
    names, password_rule = _rules(config, authme, hasher)
    if hasher is None:
        return parts
    parts.hashing.replace_hasher(hasher)
    parts.rules.take_over(names, password_rule)
    return dataclasses.replace(
        parts,
        names=names,
        password_rule=password_rule,
        algorithms=frozenset(hasher.algorithms),
        may_provision=hasher.may_provision,
    )


def _hash_threads(config: Config) -> int:
    return config.auth.max_concurrent_hashes or max(1, (os.cpu_count() or 2) - 1)


def _hasher(authme: AuthMeConfig | None) -> PasswordHasher | None:
    if authme is None:
        return None
    try:
        return make_password_hasher(authme.hashing)
    except UnusableAlgorithm as error:
        raise ConfigError([str(error)]) from error


def _rules(config: Config, authme: AuthMeConfig | None, hasher: PasswordHasher | None) -> tuple[NameRule, PasswordRule]:
    """AuthMe's own rules, or its defaults where there is none, with the patterns the host gives instead."""
    names = authme.name_rule if authme else DEFAULT_NAME_RULE
    passwords = authme.password_rule if authme else DEFAULT_PASSWORD_RULE
    given = config.registration
    if given.username_regex:
        pattern = compile_java_pattern(given.username_regex, "registration.username_regex")
        names = dataclasses.replace(names, pattern=pattern)
    if given.password_regex:
        pattern = compile_java_pattern(given.password_regex, "registration.password_regex")
        passwords = dataclasses.replace(passwords, pattern=pattern)
    if hasher is not None and hasher.is_ascii_only:
        passwords = dataclasses.replace(passwords, is_ascii_only=True)
    return names, passwords
