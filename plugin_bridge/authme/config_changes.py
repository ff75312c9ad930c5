"""What has changed in AuthMe's config while the daemon runs: what can be taken over at once, and what cannot."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from plugin_bridge.authme.config import LEGACY_HASHES_KEY, PASSWORD_HASH_KEY, AuthMeConfig, ColumnNames

_WAIT_FOR_RESTART = frozenset(
    {
        *("source", "backend", "host", "port", "user", "password", "database", "table", "columns", "mail"),
        *("use_ssl", "check_server_certificate", "allow_public_key_retrieval"),
    }
)
"""Where the table is and what its columns are called: other data, for which everything is opened anew."""

_PLACES = {
    "source": "its place",
    "backend": "DataSource.backend",
    "port": "DataSource.mySQLPort",
    "password_hash": PASSWORD_HASH_KEY,
    "legacy_hashes": LEGACY_HASHES_KEY,
    "password_rule": "the rules for passwords",
    "name_rule": "the rules for names",
    "mail": "its mail account",
}
"""For fields that stand at no single key."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`config` is the running one with what may change; `applied` and `waiting` name the keys that differ, no value."""

    config: AuthMeConfig
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def plan_change(running: AuthMeConfig, read: AuthMeConfig) -> ConfigChange:
    """What of the config as read now goes into the running one."""
    differing = [
        part.name
        for part in fields(AuthMeConfig)
        if part.compare and getattr(running, part.name) != getattr(read, part.name)
    ]
    live = [name for name in differing if name not in _WAIT_FOR_RESTART]
    waiting = [place for name in differing if name in _WAIT_FOR_RESTART for place in _places_of(name, running, read)]
    config = replace(running, **{name: getattr(read, name) for name in live}, ignored=read.ignored)
    return ConfigChange(
        config, tuple(place for name in live for place in _places_of(name, running, read)), tuple(waiting)
    )


def _places_of(name: str, running: AuthMeConfig, read: AuthMeConfig) -> list[str]:
    """How the keys of a field are called in config.yml."""
    if name == "columns":
        return [
            str(part.metadata["key"])
            for part in fields(ColumnNames)
            if getattr(running.columns, part.name) != getattr(read.columns, part.name)
        ]
    if name in _PLACES:
        return [_PLACES[name]]
    return [str(part.metadata["key"]) for part in fields(AuthMeConfig) if part.name == name]
