"""Comparison of AuthMe's running config with its file: what applies at once, and what needs a restart."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from plugin_bridge.authme.config import (
    DIALOGS_KEY,
    LEGACY_HASHES_KEY,
    PASSWORD_HASH_KEY,
    AuthMeConfig,
    ColumnNames,
    MailAccount,
)
from plugin_bridge.hashers import find_hasher

_NEEDS_RESTART = frozenset(
    {
        *("source", "backend", "host", "port", "user", "database", "table", "columns", "mail"),
        *("use_ssl", "check_server_certificate", "mariadb_ssl_mode", "allow_public_key_retrieval", "unactivated_group"),
    }
)
"""Fields that say where the table is and what its columns are called: for other data everything must be reopened."""

_ALGORITHMS = frozenset({"password_hash", "legacy_hashes"})
_RECORDS = {"columns": ColumnNames, "mail": MailAccount}
"""Fields whose values have keys of their own."""

_LABELS = {
    "source": "its path",
    "backend": "DataSource.backend",
    "port": "DataSource.mySQLPort",
    "password": "DataSource.mySQLPassword (as soon as the database refuses the one in use)",
    "password_hash": PASSWORD_HASH_KEY,
    "legacy_hashes": LEGACY_HASHES_KEY,
    "password_rule": "the rules for passwords",
    "name_rule": "the rules for names",
    "dialogs": DIALOGS_KEY,
    "prompt_seconds": "settings.restrictions.timeout or loginTimeout",
    "unrestricted_names": "settings.unrestrictions.UnrestrictedName",
}
"""Labels for fields that have no single key in config.yml."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`config` is the running one with all values that may change now; the tuples name keys that differ, no values.

    `applied` keys are in `config`; `waiting` keys take effect at the next start.
    """

    config: AuthMeConfig
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def plan_change(running: AuthMeConfig, read: AuthMeConfig) -> ConfigChange:
    """Return the running config with the changes of `read` that may be applied at once, and the keys that differ."""
    differing = [
        part.name
        for part in fields(AuthMeConfig)
        if part.compare and getattr(running, part.name) != getattr(read, part.name)
    ]
    needs_restart = _NEEDS_RESTART | (_ALGORITHMS if _needs_waiting_salt_column(running, read) else frozenset())
    live = [name for name in differing if name not in needs_restart]
    waiting = [key for name in differing if name in needs_restart for key in _keys_of(name, running, read)]
    always = {part.name for part in fields(AuthMeConfig) if not part.compare}
    config = replace(running, **{name: getattr(read, name) for name in (*live, *always)})
    return ConfigChange(config, tuple(key for name in live for key in _keys_of(name, running, read)), tuple(waiting))


def _needs_waiting_salt_column(running: AuthMeConfig, read: AuthMeConfig) -> bool:
    """Return whether the algorithms of `read` need a salt column that `running` does not have."""
    if running.columns.salt or not read.columns.salt:
        return False
    hashers = [find_hasher(name) for name in (read.password_hash, *read.legacy_hashes)]
    return any(hasher is not None and hasher.needs_salt_column for hasher in hashers)


def _keys_of(name: str, running: AuthMeConfig, read: AuthMeConfig) -> list[str]:
    """Return the keys of a field in config.yml, or its label."""
    if name in _RECORDS:
        before, after = getattr(running, name), getattr(read, name)
        return [
            str(part.metadata["key"])
            for part in fields(_RECORDS[name])
            if getattr(before, part.name) != getattr(after, part.name)
        ]
    if name in _LABELS:
        return [_LABELS[name]]
    return [str(part.metadata["key"]) for part in fields(AuthMeConfig) if part.name == name]
