"""Wiring of password hashing and of the rules for names and passwords."""

import os
from dataclasses import dataclass

from plugin_bridge.authme.patterns import compile_pattern
from regsvc.app.context import AppContext
from regsvc.auth.hashing import HashPool, PasswordHashing
from regsvc.config.live import LiveConfig
from regsvc.users.credential_rules import BedrockNames, CredentialRules


@dataclass(frozen=True)
class PasswordParts:
    """Hashing, its thread pool, and the rules for names and passwords."""

    pool: HashPool
    hashing: PasswordHashing
    rules: CredentialRules


def wire_passwords(context: AppContext, live: LiveConfig) -> PasswordParts:
    auth, bedrock = context.config.auth, context.config.bedrock
    threads = auth.max_concurrent_hashes or max(1, (os.cpu_count() or 2) - 1)
    pool = HashPool(threads, auth.max_waiting_hashes)
    bedrock_names = BedrockNames(bedrock.enabled, bedrock.prefix, compile_pattern(bedrock.username_regex))
    return PasswordParts(pool, PasswordHashing(live, pool), CredentialRules(live, bedrock_names, context.ops.names))
